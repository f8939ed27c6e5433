//! The program: command line, configuration, and what wires the crates together.

mod accounts;
pub mod cli;
pub mod config;
mod contexts;
pub mod demo_server;
mod exports;
#[cfg(test)]
mod generated;
pub mod home;
mod lineage;
mod log;
pub mod offline;
mod online;
mod policies;
pub mod private_file;
mod providers;
mod replay_file;
mod report;
mod signing;
pub mod snippets;
pub mod tokens;
mod up;
mod wiring;

use std::{io, io::Write as _, process::ExitCode};

use clap::Parser as _;

use cli::{Cli, Exit, Style, Verb};
use offline::{Screen, Trouble};

/// Reads the command line, carries out its verb, and says what went wrong on standard error.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = run(&cli);
    match outcome {
        Ok(exit) => exit.into(),
        Err(trouble) => {
            let _ = writeln!(io::stderr(), "portcullis: {}", trouble.message);
            trouble.exit.into()
        }
    }
}

fn run(cli: &Cli) -> Result<Exit, Trouble> {
    // A demo server runs with a cleared environment, so it cannot know a home, and needs none.
    let home = match &cli.verb {
        Verb::DemoServer(_) | Verb::Completions(_) => home::Home::at(".".as_ref()),
        _ => home::Home::find(cli.home.as_deref())?,
    };
    let mut out = io::stdout().lock();
    let mut screen = Screen { out: &mut out, style: Style::of_stdout(cli.color), json: cli.json };
    if let Verb::Up(args) = &cli.verb {
        log::to_stderr();
        return up::run(args, &home, &mut screen);
    }
    if let Some(exit) = online::through_gate(cli, &home, &mut screen)? {
        return Ok(exit);
    }
    if let Some(outcome) = offline::run(cli, &home, &mut screen) {
        let exit = outcome?;
        if exit == Exit::Done && offline::wants_reload(&cli.verb) {
            online::reload_if_running(&home)?;
        }
        return Ok(exit);
    }
    online::run(cli, &home, &mut screen)
}
