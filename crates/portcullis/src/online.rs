//! Verbs that talk to a running gate, over its line door: the same door and the same call path that clients use.

use std::time::Duration;

use api::ask;
use serde_json::{Value, json};

use crate::{
    cli::{Exit, args, render, terminal::REDRAW},
    home::Home,
    offline::{self, Screen, Trouble},
};

pub(crate) mod audit_verbs;
pub(crate) mod call;
pub(crate) mod connect;
pub(crate) mod decide;
pub(crate) mod demo;
pub(crate) mod doctor;
mod line;
pub(crate) mod lineage;
mod result;
pub(crate) mod sandbox;
pub(crate) mod seal;
pub(crate) mod servers;
pub(crate) mod task;

pub(crate) use line::Line;

const REFRESH: Duration = Duration::from_millis(500);

/// The home's file, as far as the gate that runs there has taken it on.
pub(crate) fn explain_config(home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let awaiting_restart = match Line::as_operator(home) {
        Ok(mut line) => line.ask(ask::Status)?.awaiting_restart,
        Err(_) => Vec::new(),
    };
    offline::explain(&home.config_file(), &awaiting_restart, screen)
}

/// Tells a running gate to read its files again; says so when none runs, and what is wrong when it refuses.
pub(crate) fn reload_if_running(home: &Home) -> Result<(), Trouble> {
    let Ok(mut line) = Line::as_operator(home) else {
        return Ok(());
    };
    line.ask(ask::Reload).map(drop)
}

pub(crate) fn status(
    args: &args::Status,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    let mut line = Line::as_operator(home)?;
    loop {
        let view = line.ask(ask::Status)?;
        if !args.watch {
            screen.show(&view, &render::status(&view, screen.style))?;
            return Ok(Exit::Done);
        }
        let text = render::status(&view, screen.style);
        if screen.json {
            let document = serde_json::to_string(&view).map_err(Trouble::failed)?;
            writeln!(screen.out, "{document}")?;
        } else {
            screen
                .out
                .write_all(format!("{REDRAW}{}", first_rows(&text)).as_bytes())?;
        }
        screen.out.flush()?;
        std::thread::sleep(REFRESH);
    }
}

/// As much as the terminal shows at once: what scrolls away first would be what matters most.
fn first_rows(text: &str) -> String {
    let rows =
        rustix::termios::tcgetwinsize(std::io::stdout()).map_or(0, |size| usize::from(size.ws_row));
    match rows.checked_sub(1) {
        None | Some(0) => text.to_owned(),
        Some(rows) => text
            .lines()
            .take(rows)
            .map(|line| format!("{line}\n"))
            .collect(),
    }
}

pub(crate) fn list(home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let servers = match Line::as_operator(home) {
        Ok(mut line) => line.ask(ask::Servers)?,
        // Without a gate the file still says what there is.
        Err(trouble) if trouble.exit == Exit::NotRunning => {
            let (_, resolved): (_, config::Resolved) = offline::load(&home.config_file())?;
            offline::configured(&resolved)
        }
        Err(trouble) => return Err(trouble),
    };
    screen.show(&servers, &render::servers(&servers, screen.style))?;
    Ok(Exit::Done)
}

pub(crate) fn retry(id: &str, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let mut line = Line::as_operator(home)?;
    line.ask_for(ask::RetryServer, id, &api::Nothing {})?;
    screen.show(
        &json!({ "server": id, "retrying": true }),
        &format!("Trying {id} again now.\n"),
    )?;
    Ok(Exit::Done)
}

pub(crate) fn tools(
    args: &args::ToolsList,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    let mut line = Line::as_operator(home)?;
    let mut tools = line.ask(ask::Tools)?;
    if let Some(server) = &args.server {
        decide::known_server(&mut line, server)?;
        tools.retain(|tool| tool.server == *server);
    }
    screen.show(&tools, &render::tools(&tools, screen.style))?;
    Ok(Exit::Done)
}

/// Reads a text field.
fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
