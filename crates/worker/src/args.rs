//! The command line.

use std::path::PathBuf;

/// What the worker was asked to be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Args {
    pub(crate) mode: Mode,
    pub(crate) total_bytes: usize,
    pub(crate) ca_files: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Aggregator,
    /// Try to break out of the jail and say what happened.
    Probe,
}

pub(crate) const USAGE: &str = "usage: portcullis-worker --role aggregator [--total-bytes N] [--ca-file PEM]...
       portcullis-worker --probe

Speaks a line protocol on standard input and output; started by portcullis, not by hand.";

impl Args {
    pub(crate) fn read(args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut mode = None;
        let mut read = Self { mode: Mode::Aggregator, total_bytes: wire::worker::TOTAL_LIMIT, ca_files: Vec::new() };
        let mut args = args.skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value\n{USAGE}"));
            match &*arg {
                "--role" => match &*value()? {
                    "aggregator" => mode = Some(Mode::Aggregator),
                    other => return Err(format!("there is no role `{other}`; the roles are: aggregator")),
                },
                "--probe" => mode = Some(Mode::Probe),
                "--total-bytes" => {
                    let text = value()?;
                    read.total_bytes =
                        text.parse().map_err(|_| format!("--total-bytes must be a number of bytes, not `{text}`"))?;
                }
                "--ca-file" => read.ca_files.push(value()?.into()),
                other => return Err(format!("unknown argument `{other}`\n{USAGE}")),
            }
        }
        read.mode = mode.ok_or_else(|| format!("what to do is missing\n{USAGE}"))?;
        Ok(read)
    }
}
