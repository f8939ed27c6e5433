//! `portcullis doctor`: what this machine can do for the gate, and what is wrong.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
};

use home::Home;
use serde_json::json;
use terminal::{
    Exit, Screen, Trouble,
    style::{Paint, tame},
};

use crate::{line::Line, render};

/// One thing looked at.
struct Finding {
    good: bool,
    what: String,
    detail: String,
}

fn finding(good: bool, what: impl Into<String>, detail: impl Into<String>) -> Finding {
    Finding {
        good,
        what: what.into(),
        detail: detail.into(),
    }
}

pub fn run(home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let mut findings = kernel();
    findings.push(worker());
    findings.push(jails());
    findings.push(connections());
    findings.extend(configuration(home));
    findings.extend(gate(home));
    let document: Vec<_> =
        findings.iter().map(|finding| json!({ "good": finding.good, "what": finding.what, "detail": finding.detail })).collect();
    let mut text = String::new();
    for finding in &findings {
        let (word, paint) = if finding.good {
            ("ok  ", Paint::Green)
        } else {
            ("WARN", Paint::Yellow)
        };
        text.push_str(&format!(
            "{} {:<28} {}\n",
            screen.style.paint(word, paint),
            finding.what,
            finding.detail
        ));
    }
    screen.show(&document, &text)?;
    Ok(if findings.iter().all(|finding| finding.good) {
        Exit::Done
    } else {
        Exit::Failed
    })
}

/// What the kernel offers to confine the worker with.
fn kernel() -> Vec<Finding> {
    sandbox::jail::probe()
        .into_iter()
        .map(|capability| finding(capability.available, capability.name, capability.detail))
        .collect()
}

/// Which walls stdio servers get here, what those leave open, and what to do about it.
fn jails() -> Finding {
    const WHAT: &str = "jails of stdio servers";
    let program = match home::worker::program() {
        Ok(program) => program,
        Err(error) => return finding(false, WHAT, error),
    };
    let jailer = sandbox::jailer::Jailer::worker(program);
    let probe = sandbox::jailer::probe(&jailer, &["--role", "idle"]);
    let rung = probe.rung().map_or("none", sandbox::jailer::Rung::as_str);
    let lacks = probe
        .tried
        .iter()
        .filter_map(|(_, outcome)| outcome.as_ref().ok())
        .flat_map(|report| report.refused().map(ToString::to_string));
    let wrong: Vec<String> = probe
        .leaves_open()
        .into_iter()
        .chain(probe.repair())
        .chain(lacks)
        .collect();
    let detail = std::iter::once(rung.to_owned()).chain(wrong.iter().cloned());
    finding(
        wrong.is_empty(),
        WHAT,
        detail.collect::<Vec<_>>().join("; "),
    )
}

/// Fewer are worth a word: a handful of busy clients takes as many.
const FEW_CONNECTIONS: usize = 64;

/// How many clients the system lets a gate have at once.
fn connections() -> Finding {
    let descriptors = sandbox::descriptors::raise();
    let (strangers, callers) =
        server::connections(usize::try_from(descriptors).unwrap_or(usize::MAX));
    let detail = format!(
        "{descriptors} descriptors allow {callers} connections of callers and {strangers} of strangers{}",
        if callers < FEW_CONNECTIONS {
            "; raise the hard limit (`ulimit -Hn`, `LimitNOFILE=`) for more"
        } else {
            ""
        }
    );
    finding(callers >= FEW_CONNECTIONS, "open connections", detail)
}

fn worker() -> Finding {
    let program = std::env::current_exe().map(|own| own.with_file_name("portcullis-worker"));
    match program {
        Ok(program) if program.is_file() => {
            finding(true, "worker program", program.display().to_string())
        }
        Ok(program) => finding(
            false,
            "worker program",
            format!(
                "{} is missing; `cargo build --release` makes it",
                program.display()
            ),
        ),
        Err(error) => finding(false, "worker program", error.to_string()),
    }
}

fn configuration(home: &Home) -> Vec<Finding> {
    let file = home.config_file();
    match home::layers::load(home) {
        Ok((_, resolved)) => {
            let servers = finding(
                true,
                "configuration",
                format!("{} ({} servers)", file.display(), resolved.servers.len()),
            );
            let mut findings = vec![servers, policies(&resolved)];
            findings.extend(web(&resolved));
            findings.extend(guesses(home, &resolved));
            findings
        }
        Err(config::LoadError::Read { .. }) if !file.exists() => {
            vec![finding(
                true,
                "configuration",
                format!(
                    "{} is not there yet; `portcullis up` makes it",
                    file.display()
                ),
            )]
        }
        Err(error) => vec![finding(false, "configuration", error.to_string())],
    }
}

/// Whether pages can be made into text here, and what an operator opened.
fn web(resolved: &config::Resolved) -> Option<Finding> {
    const WHAT: &str = "tools for the web";
    let web = resolved.web.as_ref()?;
    let engines: Vec<&str> = web
        .engines
        .iter()
        .map(|engine| engine.kind.as_str())
        .collect();
    let opened = match web.hosts.as_slice() {
        [] => "nothing inside is open".to_owned(),
        hosts => format!("open inside: {}", hosts.join(", ")),
    };
    Some(match converted() {
        Ok(()) => finding(
            true,
            WHAT,
            format!(
                "pages become text; engines: {}; {opened}",
                engines.join(", ")
            ),
        ),
        Err(why) => finding(false, WHAT, format!("no page becomes text: {why}")),
    })
}

/// Has a converter make text of a small page.
fn converted() -> Result<(), String> {
    let program = home::worker::program()?;
    let started = sandbox::jail::Worker::new(program)
        .args(["--role", "convert"])
        .spawn();
    let started = started.map_err(|error| error.to_string())?;
    let mut said = String::new();
    let talk = || {
        let mut input = File::from(started.stdin);
        input.write_all(b"{\"mode\":\"markdown\"}\n<h1>Head</h1>")?;
        drop(input);
        File::from(started.stdout).read_to_string(&mut said)
    };
    talk().map_err(|error: io::Error| error.to_string())?;
    match said.contains("# Head") {
        true => Ok(()),
        false => Err("the converter said nothing of use".to_owned()),
    }
}

/// What an earlier version guessed and nobody has decided.
fn guesses(home: &Home, resolved: &config::Resolved) -> Vec<Finding> {
    let Ok(pins) = gateway::Pins::open(home.lock_file()) else {
        return Vec::new();
    };
    let undecided = pins.undecided(&resolved.servers).into_iter();
    undecided
        .map(|one| {
            finding(
                false,
                "a guess to decide",
                format!("{}: {}", one.what, one.decide),
            )
        })
        .collect()
}

fn policies(resolved: &config::Resolved) -> Finding {
    match config::bundle::load(&resolved.bundle) {
        Ok(bundle) => finding(
            true,
            "policies",
            format!("{} ({} policies)", bundle.version(), bundle.policy_count()),
        ),
        Err(error) => finding(false, "policies", error.to_string()),
    }
}

/// What a running gate says of itself.
fn gate(home: &Home) -> Vec<Finding> {
    let status = Line::as_operator(home).and_then(|mut line| line.ask(api::ask::Status));
    let status = match status {
        Ok(status) => status,
        Err(trouble) if trouble.exit == Exit::NotRunning => {
            return vec![finding(true, "gate", "not running")];
        }
        Err(trouble) => return vec![finding(false, "gate", trouble.message)],
    };
    let mut findings = vec![finding(
        true,
        "gate",
        format!("{} (pid {})", status.url, status.pid),
    )];
    findings.extend(status.worker.confinement.iter().map(|measure| {
        finding(
            measure.applied,
            format!("worker: {}", measure.name),
            measure.detail.clone(),
        )
    }));
    if let Some(broken) = &status.ledger.broken {
        findings.push(finding(
            false,
            "ledger",
            format!("cannot record, so nothing is done: {broken}"),
        ));
    }
    if status.pending_approvals > 0 {
        findings.push(finding(
            true,
            "approvals",
            format!(
                "{} wait for a person: portcullis approvals list",
                status.pending_approvals
            ),
        ));
    }
    for issuer in status.oauth.iter().flat_map(|oauth| &oauth.issuers) {
        let detail = issuer
            .last_error
            .as_deref()
            .map_or_else(|| format!("{} keys", issuer.keys), tame);
        findings.push(finding(
            issuer.last_error.is_none(),
            format!("tokens of {}", tame(&issuer.issuer)),
            detail,
        ));
    }
    findings.extend(status.servers.iter().map(server));
    findings
}

fn server(server: &api::Server) -> Finding {
    let what = format!("server {}", tame(&server.id));
    match (&server.blocked, &server.last_error) {
        (Some(reason), _) => finding(true, what, format!("blocked: {}", tame(reason))),
        (None, Some(error)) => finding(false, what, tame(error)),
        (None, None) if server.quarantined > 0 => {
            let detail = format!(
                "{} definitions wait for a person: portcullis servers review {}",
                server.quarantined,
                tame(&server.id)
            );
            finding(false, what, detail)
        }
        (None, None) => match render::login_trouble(server) {
            Some(trouble) => finding(false, what, trouble),
            None => finding(true, what, server.state.as_str()),
        },
    }
}
