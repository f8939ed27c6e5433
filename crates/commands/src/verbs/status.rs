//! What a running gate is doing: status, servers, tools.

use std::time::Duration;

use api::ask;
use home::Home;
use serde_json::json;
use terminal::{Exit, Screen, Trouble, sheet::REDRAW, style::tame};

use crate::{
    args, files,
    line::{Line, reason},
    render,
};

const REFRESH: Duration = Duration::from_millis(500);

/// The home's file, as far as the gate that runs there has taken it on.
pub fn explain_config(home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let awaiting_restart = match Line::as_operator(home) {
        Ok(mut line) => line.ask(ask::Status)?.awaiting_restart,
        Err(_) => Vec::new(),
    };
    let (raw, _) = files::of_home(home)?;
    crate::verbs::config::explain(&raw, &awaiting_restart, screen)
}

/// Tells a running gate to read its files again; says so when none runs, and what is wrong when it refuses.
pub fn reload_if_running(home: &Home) -> Result<(), Trouble> {
    let Ok(mut line) = Line::as_operator(home) else {
        return Ok(());
    };
    line.ask(ask::Reload).map(drop)
}

pub fn status(args: &args::Status, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
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

pub fn list(home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let servers = match Line::as_operator(home) {
        Ok(mut line) => line.ask(ask::Servers)?,
        // Without a gate the file still says what there is.
        Err(trouble) if trouble.exit == Exit::NotRunning => {
            let (_, resolved): (_, config::Resolved) = files::of_home(home)?;
            super::servers::edit::configured(&resolved)
        }
        Err(trouble) => return Err(trouble),
    };
    screen.show(&servers, &render::servers(&servers, screen.style))?;
    Ok(Exit::Done)
}

pub fn retry(id: &str, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let mut line = Line::as_operator(home)?;
    line.ask_for(ask::RetryServer, id, &api::Nothing {})?;
    screen.show(
        &json!({ "server": id, "retrying": true }),
        &format!("Trying {id} again now.\n"),
    )?;
    Ok(Exit::Done)
}

pub fn reinstall(
    args: &args::Reinstall,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    let mut line = Line::as_operator(home)?;
    let why = api::Reasoned {
        reason: reason(args.reason.as_deref())?,
    };
    let answer = line.ask_for(ask::ReinstallServer, &args.id, &why)?;
    screen.show(&answer, &format!("{}\n", tame(&answer.detail)))?;
    Ok(Exit::Done)
}

pub fn tools(
    args: &args::ToolsList,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    let mut line = Line::as_operator(home)?;
    let mut tools = line.ask(ask::Tools)?;
    if let Some(server) = &args.server {
        super::decide::known_server(&mut line, server)?;
        tools.retain(|tool| tool.server == *server);
    }
    screen.show(&tools, &render::tools(&tools, screen.style))?;
    Ok(Exit::Done)
}
