//! The life of the process: read what the jail will hide, enter the jail, serve.

use std::{
    fs::{self, Permissions},
    io::{self, Write},
    os::{
        fd::AsFd,
        unix::{
            fs::{FileTypeExt, PermissionsExt},
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    process::ExitCode,
};

use sandbox::{
    escape::{Aims, probe_escape},
    handover::Receiver,
    jail::{self, Outcome, Report, Spec},
};
use tracing_subscriber::EnvFilter;
use wire::write::{Object, quote};

use crate::{
    aggregator, args::Args, clerk, convert, courier, descriptor::Kind, desk, input::Input,
    net::Net, output::Sink, web,
};

/// Runs the worker; the exit code is 0 after `shutdown` or the end of its input.
#[must_use]
pub fn main() -> ExitCode {
    sandbox::allocator::give_back_long_pieces();
    let outcome = Args::read(std::env::args()).and_then(|args| match args {
        Args::Probe(aims) => probe(&aims),
        Args::Jailer => Ok(sandbox::jailer::run()),
        Args::Idle => Ok(ExitCode::SUCCESS),
        Args::Aggregator {
            total_bytes,
            ca_files,
        } => work(Role::Aggregator, total_bytes, &ca_files),
        Args::Courier {
            total_bytes,
            ca_files,
        } => work(Role::Courier, total_bytes, &ca_files),
        Args::Clerk {
            total_bytes,
            ca_files,
        } => work(Role::Clerk, total_bytes, &ca_files),
        Args::Web {
            total_bytes,
            ca_files,
        } => work(Role::Web, total_bytes, &ca_files),
        Args::Convert => convert::run(),
    });
    outcome.unwrap_or_else(|problem| {
        // If standard error is gone there is nobody left to tell.
        let _ = writeln!(io::stderr().lock(), "portcullis-worker: {problem}");
        ExitCode::from(2)
    })
}

#[derive(Clone, Copy)]
enum Role {
    Aggregator,
    Courier,
    Clerk,
    Web,
}

fn work(role: Role, total_bytes: usize, ca_files: &[PathBuf]) -> Result<ExitCode, String> {
    start_log();
    let (net, warnings) = Net::read(ca_files)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let ends = Kind::of(io::stdin().as_fd())
        .and_then(|input| Ok((input, Kind::of(io::stdout().as_fd())?)));
    let (input, output) =
        ends.map_err(|error| format!("standard input and output must be open: {error}"))?;
    let report = enter();
    let ends = (input, output);
    serve(role, net, total_bytes, &report, ends)
        .map_err(|error| format!("the worker cannot go on: {error}"))?;
    Ok(ExitCode::SUCCESS)
}

fn start_log() {
    let filter =
        EnvFilter::try_from_env("PORTCULLIS_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    // Somebody else's log is fine too; it can only be set once.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(false)
        .try_init();
}

/// From here on the kernel refuses us everything but pipes and internet sockets.
fn enter() -> Report {
    let report = jail::enter(&Spec::new("portcullis-work"));
    for measure in report.refused() {
        tracing::warn!("confinement: {measure}");
    }
    report
}

fn serve(
    role: Role,
    net: Net,
    total_bytes: usize,
    report: &Report,
    (input, output): (Kind, Kind),
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    let _inside = runtime.enter();
    let (confinement, input, sink) = (
        confinement(report),
        Input::stdin(input)?,
        Sink::stdout(output)?,
    );
    let outcome = match role {
        Role::Aggregator => {
            let receiver = Receiver::inherited().ok();
            runtime.block_on(aggregator::run(aggregator::Start {
                net,
                total_bytes,
                confinement,
                receiver,
                input,
                sink,
            }))
        }
        Role::Courier | Role::Clerk | Role::Web => {
            let start = desk::Start {
                net,
                total_bytes,
                confinement,
                input,
                sink,
            };
            match role {
                Role::Clerk => runtime.block_on(clerk::run(start)),
                Role::Web => runtime.block_on(web::run(start)),
                _ => runtime.block_on(courier::run(start)),
            }
        }
    };
    // Tasks that still wait for an upstream are not waited for.
    runtime.shutdown_background();
    outcome
}

/// `{"applied":[…],"refused":[…]}`
fn confinement(report: &Report) -> Vec<u8> {
    let mut applied = Vec::new();
    let mut refused = Vec::new();
    for measure in report.measures() {
        let list = match &measure.outcome {
            Outcome::Applied(_) => &mut applied,
            Outcome::Refused(_) => &mut refused,
        };
        list.push(if list.is_empty() { b'[' } else { b',' });
        quote(list, &measure.to_string());
    }
    let mut out = Object::new();
    for (key, mut list) in [("applied", applied), ("refused", refused)] {
        if list.is_empty() {
            list.push(b'[');
        }
        list.push(b']');
        out.raw(key, &list);
    }
    out.finish()
}

/// Makes sure there is a socket to aim at that anybody could connect to, since only then is it the jail that refuses.
fn offer(socket: &Path) {
    // If it exists and is alive it serves as it is; what a probe before us left behind is replaced.
    if UnixStream::connect(socket).is_ok() {
        return;
    }
    if fs::symlink_metadata(socket).is_ok_and(|found| found.file_type().is_socket()) {
        let _ = fs::remove_file(socket);
    }
    if let Ok(listener) = UnixListener::bind(socket) {
        let _ = fs::set_permissions(socket, Permissions::from_mode(0o777));
        // The jail closes every descriptor but the standard ones; our input is not needed, so the listener lives on there.
        let _ = rustix::stdio::dup2_stdin(&listener);
    }
}

/// Enters the jail and tries to get out of it. Fails unless every attempt was refused.
fn probe(aims: &Aims) -> Result<ExitCode, String> {
    offer(&aims.socket);
    let report = jail::enter(&Spec::new("portcullis-work"));
    let findings = probe_escape(aims);
    let held = findings.iter().all(sandbox::escape::Finding::held);
    let mut text = format!("{report}\n\n");
    for finding in &findings {
        text.push_str(&format!("{finding}\n"));
    }
    text.push_str(if held && report.is_complete() {
        "\nevery attempt was refused\n"
    } else {
        "\nTHE JAIL IS NOT COMPLETE\n"
    });
    io::stdout()
        .lock()
        .write_all(text.as_bytes())
        .map_err(|error| format!("standard output: {error}"))?;
    Ok(if held {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
