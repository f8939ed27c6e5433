//! `portcullis sandbox`: what runs in jails, what each sees, and its end.

use api::ask;
use home::Home;
use terminal::{Exit, Screen, Trouble, style::tame};

use crate::{
    args,
    line::{Line, reason},
    render,
};

pub fn run(verb: &args::Sandbox, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let mut line = Line::as_operator(home)?;
    match verb {
        args::Sandbox::List => {
            let jails = line.ask(ask::Jails)?;
            screen.show(&jails, &render::jails(&jails, screen.style))?;
        }
        args::Sandbox::Show(args) => {
            let jails = line.ask(ask::Jails)?;
            let jail = jails.iter().find(|jail| jail.id == args.id);
            let jail = jail.ok_or_else(|| {
                Trouble::failed(format!(
                    "nothing runs in a jail `{}`; `portcullis sandbox list` shows what does",
                    args.id
                ))
            })?;
            let mut text = format!("{} ({})\n", tame(&jail.id), tame(&jail.program));
            for part in jail.confined.split("; ") {
                text.push_str(&format!("  {}\n", tame(part)));
            }
            screen.show(jail, &text)?;
        }
        args::Sandbox::Kill(args) => {
            let why = api::Reasoned {
                reason: reason(args.reason.as_deref())?,
            };
            let answer = line.ask_for(ask::EndJail, &args.id, &why)?;
            screen.show(&answer, &format!("{}\n", tame(&answer.detail)))?;
        }
    }
    Ok(Exit::Done)
}
