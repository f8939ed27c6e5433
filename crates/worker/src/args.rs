//! The command line.

use std::path::PathBuf;

use sandbox::escape::Aims;

/// What the worker was asked to be.
#[derive(Debug)]
pub(crate) enum Args {
    Aggregator {
        total_bytes: usize,
        ca_files: Vec<PathBuf>,
    },
    /// Carries what sinks send.
    Courier {
        total_bytes: usize,
        ca_files: Vec<PathBuf>,
    },
    /// Makes the requests of one server's login.
    Clerk {
        total_bytes: usize,
        ca_files: Vec<PathBuf>,
    },
    /// Fetches what agents ask for.
    Web {
        total_bytes: usize,
        ca_files: Vec<PathBuf>,
    },
    /// Makes one page into text.
    Convert,
    /// Builds a jail around itself and becomes the program in it.
    Jailer,
    /// Nothing: what a jail that is only built to see whether it can be executes.
    Idle,
    /// Try to break out of the jail and say what happened.
    Probe(Aims),
}

const USAGE: &str =
    "usage: portcullis-worker --role aggregator|courier|clerk|web [--total-bytes N] [--ca-file PEM]...
       portcullis-worker --role convert
       portcullis-worker --role jailer
       portcullis-worker --probe [--ledger FILE] [--directory DIR] [--socket FILE]

Speaks a line protocol on standard input and output; started by portcullis, not by hand.";

impl Args {
    pub(crate) fn read(args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut args = args.skip(1);
        match args.next().as_deref() {
            Some("--probe") => read_probe(args),
            Some("--role") => match args.next().as_deref() {
                Some("aggregator") => {
                    read_role(args).map(|(total_bytes, ca_files)| Args::Aggregator {
                        total_bytes,
                        ca_files,
                    })
                }
                Some("courier") => read_role(args).map(|(total_bytes, ca_files)| Args::Courier {
                    total_bytes,
                    ca_files,
                }),
                Some("clerk") => read_role(args).map(|(total_bytes, ca_files)| Args::Clerk {
                    total_bytes,
                    ca_files,
                }),
                Some("web") => read_role(args).map(|(total_bytes, ca_files)| Args::Web {
                    total_bytes,
                    ca_files,
                }),
                Some("convert") => Ok(Args::Convert),
                Some("jailer") => Ok(Args::Jailer),
                Some("idle") => Ok(Args::Idle),
                Some(other) => Err(format!(
                    "there is no role `{other}`; the roles are: aggregator, courier, clerk, web, convert, jailer"
                )),
                None => Err(format!("--role needs a value\n{USAGE}")),
            },
            Some(other) => Err(format!("unknown argument `{other}`\n{USAGE}")),
            None => Err(format!("what to do is missing\n{USAGE}")),
        }
    }
}

fn read_role(mut args: impl Iterator<Item = String>) -> Result<(usize, Vec<PathBuf>), String> {
    let (mut total_bytes, mut ca_files) = (wire::worker::TOTAL_LIMIT, Vec::new());
    while let Some(arg) = args.next() {
        let mut value = || {
            args.next()
                .ok_or_else(|| format!("{arg} needs a value\n{USAGE}"))
        };
        match &*arg {
            "--total-bytes" => {
                let text = value()?;
                total_bytes = text.parse().map_err(|_| {
                    format!("--total-bytes must be a number of bytes, not `{text}`")
                })?;
            }
            "--ca-file" => ca_files.push(value()?.into()),
            other => return Err(format!("unknown argument `{other}`\n{USAGE}")),
        }
    }
    Ok((total_bytes, ca_files))
}

fn read_probe(mut args: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut aims = Aims {
        socket: std::env::temp_dir().join("portcullis-probe.sock"),
        ..Aims::at_parent()
    };
    while let Some(arg) = args.next() {
        let mut value = || {
            args.next()
                .ok_or_else(|| format!("{arg} needs a value\n{USAGE}"))
        };
        match &*arg {
            "--ledger" => aims.ledger = value()?.into(),
            "--directory" => aims.directory = value()?.into(),
            "--socket" => aims.socket = value()?.into(),
            other => return Err(format!("unknown argument `{other}`\n{USAGE}")),
        }
    }
    Ok(Args::Probe(aims))
}
