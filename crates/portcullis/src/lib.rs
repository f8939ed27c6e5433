//! The program: the gate as a process, and what wires the crates together.

mod demo;
pub mod demo_server;
mod exports;
#[cfg(test)]
mod generated;
mod log;
mod notify;
mod providers;
#[cfg(test)]
mod tools_page;
mod up;
mod wiring;

use std::{
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
};

use clap::Parser as _;
use commands::{Cli, Program, Verb, args};
use home::Home;
use terminal::{
    Exit, Screen, Style, Trouble,
    sheet::{Out, Sheet, harmless},
};

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
        Verb::DemoServer(_) | Verb::Completions(_) => Home::at(".".as_ref()),
        _ => Home::find(cli.home.as_deref()).map_err(Trouble::failed)?,
    };
    let mut screen = Screen {
        out,
        style: Style::of_stdout(cli.color),
        json: cli.json,
    };
    commands::run(cli, &home, &mut screen, &Itself)
}

/// This program, as the command line asks for it.
struct Itself;

impl Program for Itself {
    fn up(
        &self,
        cli: &Cli,
        args: &args::Up,
        home: &Home,
        screen: &mut Screen<'_>,
    ) -> Result<Exit, Trouble> {
        log::to_stderr(cli.color);
        up::run(args, home, screen)
    }

    fn demo(
        &self,
        args: &args::Demo,
        home: &Home,
        screen: &mut Screen<'_>,
    ) -> Result<Exit, Trouble> {
        demo::run(args, home, screen)
    }

    fn demo_server(&self, name: args::DemoName, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
        let demo = match name {
            args::DemoName::Notes => demo_server::Demo::Notes,
            args::DemoName::Web => demo_server::Demo::Web,
        };
        demo_server::serve(demo, io::stdin().lock(), &mut *screen.out)?;
        Ok(Exit::Done)
    }
}
