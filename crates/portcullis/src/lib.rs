//! The program: command line, configuration, and what wires the crates together.

mod accounts;
mod chosen_credential;
pub mod cli;
pub mod demo_server;
mod exports;
mod from_files;
#[cfg(test)]
mod generated;
mod holding;
pub mod home;
mod log;
pub mod offline;
mod online;
mod out_file;
pub mod private_file;
mod providers;
mod replay_file;
mod report;
mod signing;
pub mod snippets;
pub mod tokens;
#[cfg(test)]
mod tools_page;
mod up;
mod verbs;
mod wiring;

use std::{
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
};

use clap::Parser as _;

use cli::{
    Cli, Exit, Style, Verb,
    terminal::{Out, Sheet, harmless},
};
use offline::{Screen, Trouble};

/// Reads the command line, carries out its verb, and says what went wrong.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misread(&error),
    };
    let stdout = io::stdout().lock();
    let is_program = !stdout.is_terminal();
    let outcome = match &cli.verb {
        // Its output is a protocol's and nobody's to look at.
        Verb::DemoServer(_) => run(&cli, &mut { stdout }),
        Verb::Up(_) => {
            let mut out = Out::new(stdout, cli.json, Style::of_stdout(cli.color).color)
                .read_by_a_program(is_program)
                .outliving_its_reader();
            run(&cli, &mut out)
        }
        _ => {
            let redraws = matches!(&cli.verb, Verb::Status(args) if args.watch);
            let out = Out::new(stdout, cli.json, Style::of_stdout(cli.color).color);
            let mut out = out.read_by_a_program(is_program).redrawing(redraws);
            match run(&cli, &mut out) {
                // Whoever reads what we write has seen enough.
                Err(_) if out.is_closed() => Ok(Exit::Done),
                outcome => outcome,
            }
        }
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(trouble) => {
            complain(
                &trouble,
                cli.json && !matches!(cli.verb, Verb::Connect(_) | Verb::DemoServer(_)),
            );
            trouble.exit.into()
        }
    }
}

/// What went wrong: in words on standard error, and with `--json` as a document on standard output too.
fn complain(trouble: &Trouble, json: bool) {
    // Where nobody listens there is nobody to tell.
    let _ = writeln!(
        io::stderr(),
        "portcullis: {}",
        harmless(&trouble.message, false)
    );
    if json {
        let Trouble {
            exit,
            message,
            origin,
        } = trouble;
        let mut error = origin.clone().unwrap_or_default();
        error.insert("message".to_owned(), message.as_str().into());
        error.insert("exit_code".to_owned(), exit.code().into());
        error.insert("meaning".to_owned(), exit.meaning().into());
        let _ = writeln!(
            Out::new(io::stdout(), true, false),
            "{:#}",
            serde_json::json!({ "error": error })
        );
    }
}

/// A command line that is not one; or one that asks for help, which clap gives.
fn misread(error: &clap::Error) -> ExitCode {
    if error.use_stderr() && std::env::args_os().any(|arg| arg == "--json") {
        let text = error.render().to_string();
        complain(
            &Trouble::usage(text.trim_start_matches("error: ").trim_end()),
            true,
        );
        return Exit::Usage.into();
    }
    let _ = error.print();
    u8::try_from(error.exit_code()).map_or(Exit::Usage.into(), ExitCode::from)
}

fn run(cli: &Cli, out: &mut dyn Sheet) -> Result<Exit, Trouble> {
    // A demo server runs with a cleared environment, so it cannot know a home, and needs none.
    let home = match &cli.verb {
        Verb::DemoServer(_) | Verb::Completions(_) => home::Home::at(".".as_ref()),
        _ => home::Home::find(cli.home.as_deref())?,
    };
    let mut screen = Screen {
        out,
        style: Style::of_stdout(cli.color),
        json: cli.json,
    };
    verbs::run(cli, &home, &mut screen)
}
