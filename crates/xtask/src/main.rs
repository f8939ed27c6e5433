//! What developers run: the gate (`check`), the house rules (`tidy`), the measurements (`bench`), the protocol suite (`conformance`).
//!
//! Nothing here ships. One command decides whether a change is good, and it is the same command everywhere.

mod bench;
mod campaign;
mod check;
mod codegen;
mod conformance;
mod package;
mod tidy;
mod tools;

use std::{fmt::Display, io::Write, process::ExitCode};

use anyhow::{Result, bail};

/// The verbs and what each does; documentation may only name these.
const VERBS: &[(&str, &str)] = &[
    (
        "check",
        "everything that must hold before a change is merged; --fast for the inner loop",
    ),
    (
        "tidy",
        "the rules no compiler checks: who links what, which crate holds which power, docs that name what exists",
    ),
    (
        "deny",
        "dependencies: licences, sources, duplicates, and advisories where the database is at hand",
    ),
    (
        "bench",
        "direct, floor and gate side by side; --quick for half a minute",
    ),
    (
        "conformance",
        "the official MCP conformance suite; --help for what against",
    ),
    (
        "campaign",
        "what is too large for every change; without a name, the list",
    ),
    (
        "codegen",
        "writes what is generated and shipped; --check only compares",
    ),
    (
        "package",
        "a Debian package of the programs, their manual and the service",
    ),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (verb, rest) = arguments
        .split_first()
        .map_or(("", [].as_slice()), |(verb, rest)| (verb.as_str(), rest));
    match dispatch(verb, rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(format_args!("xtask {verb}: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn dispatch(verb: &str, arguments: &[String]) -> Result<()> {
    match verb {
        "check" => check::run(arguments),
        "tidy" => tidy::run(&tools::process::root()?).map(drop),
        "deny" => check::deny::run().map(drop),
        "bench" => bench::run(arguments),
        "conformance" => conformance::run(arguments),
        "campaign" => campaign::run(arguments),
        "codegen" => codegen::run(arguments),
        "package" => package::run(arguments),
        _ => {
            say("usage: cargo xtask VERB");
            for (verb, what) in VERBS {
                say(format_args!("  {verb:12} {what}"));
            }
            bail!("`{verb}` is not a verb");
        }
    }
}

/// Writes one line to stdout. A closed terminal is no reason to fail.
pub(crate) fn say(line: impl Display) {
    let mut stdout = std::io::stdout().lock();
    let _closed = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

/// Writes one line to stderr.
pub(crate) fn complain(line: impl Display) {
    let mut stderr = std::io::stderr().lock();
    let _closed = writeln!(stderr, "{line}");
}
