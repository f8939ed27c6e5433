//! `portcullis task`: brings a person's words to the gate, over the operator's line.

mod hook;

use std::io::{self, Read};

use api::ask;
use home::Home;
use terminal::{Exit, Screen, Trouble, style::tame};

use crate::{args, line::Line};

pub fn run(verb: &args::Task, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    match verb {
        args::Task::Begin(args) => begin(args, home, screen),
        args::Task::Hook(args) => hook::run(args, home, &mut io::stdin().lock()),
    }
}

fn begin(args: &args::TaskBegin, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let text = match args.text.as_str() {
        "-" => {
            let mut text = String::new();
            let most = u64::try_from(api::MAX_TASK).unwrap_or(u64::MAX) + 1;
            io::stdin().lock().take(most).read_to_string(&mut text)?;
            text
        }
        text => text.to_owned(),
    };
    let task = api::Task {
        caller: args.caller.clone(),
        text,
        continues: args.continues,
        at_least: None,
    };
    let mut line = Line::as_operator(home)?;
    let begun = line.ask_for(ask::BeginTask, "", &task)?;
    let what = if args.continues {
        "goes on with what was said"
    } else {
        "begins a conversation"
    };
    let text = format!(
        "{} {what}; its label is {}.\n",
        tame(&args.caller),
        begun.label.as_deref().unwrap_or("not shown")
    );
    screen.show(&begun, &text)?;
    Ok(Exit::Done)
}
