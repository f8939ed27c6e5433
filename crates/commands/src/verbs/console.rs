//! `portcullis console`: a person's way into the console, from the machine it runs on.
//!
//! The code is in no argument list and in no address that a browser sends: a file that only this user can read leads to it, and stands behind
//! the `#` there.

use std::{
    fs,
    process::{Command, Stdio},
};

use api::ask;
use home::{Home, private_file};
use terminal::{Exit, Screen, Trouble, style::tame};

use crate::{args, line::Line};

pub fn run(args: &args::Console, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let mut line = Line::as_operator(home)?;
    if args.visits {
        let visits = line.ask(ask::Visits)?;
        screen.show(&visits, &listed(&visits))?;
        return Ok(Exit::Done);
    }
    if let Some(id) = &args.end {
        let ended = line.ask_for(ask::EndVisit, id, &api::Reasoned::default())?;
        screen.show(&ended, &format!("{}\n", tame(&ended.detail)))?;
        return Ok(Exit::Done);
    }
    let wanted = api::ConsoleCodeWanted { role: args.role };
    let given = line.ask_for(ask::ConsoleCode, "", &wanted)?;
    if args.code {
        screen.show(&given, &format!("{}\n", given.code))?;
        return Ok(Exit::Done);
    }
    let opened = open(home, &given)?;
    let seconds = given.expires_in_ms / 1000;
    let mut text = if opened {
        format!("The console opens in your browser: {}\n", given.url)
    } else {
        format!(
            "Open {} in a browser on this machine.\n\nCode, for {seconds} seconds: {}\n",
            given.url, given.code
        )
    };
    if opened {
        text.push_str(
            "If nothing opens, run `portcullis console --code` and type the code there.\n",
        );
    } else {
        let (host, port) = place(&given.url);
        text.push_str(&format!(
            "\nFrom another machine: ssh -L {port}:127.0.0.1:{port} THIS_MACHINE, then the same address there.\n\
             If the browser does not find the name (Safari), add this line to /etc/hosts: 127.0.0.1 {host}\n"
        ));
    }
    screen.show(&given, &text)?;
    Ok(Exit::Done)
}

fn listed(visits: &[api::Visit]) -> String {
    if visits.is_empty() {
        return "Nobody is at the console.\n".to_owned();
    }
    let lines = visits.iter().map(|visit| {
        let confirms = if visit.signs { "signs" } else { "types codes" };
        format!(
            "{}  {}  {}  {confirms}\n",
            visit.id,
            tame(&visit.name),
            visit.role
        )
    });
    lines.collect()
}

/// Host and port of an address that ends with a slash.
fn place(url: &str) -> (&str, &str) {
    let place = url.trim_start_matches("http://").trim_end_matches('/');
    place.rsplit_once(':').unwrap_or((place, "7878"))
}

/// Leads the person's browser to the login. False if there is no browser here.
fn open(home: &Home, given: &api::ConsoleCode) -> Result<bool, Trouble> {
    let Some(program) = browser() else {
        return Ok(false);
    };
    let file = home.run.join("console.html");
    let page = format!(
        "<!DOCTYPE html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
         <meta http-equiv=\"refresh\" content=\"0;url={}login#{}\">\n",
        given.url, given.code
    );
    let _ = fs::remove_file(&file);
    private_file::create(&file, page.as_bytes()).map_err(Trouble::failed)?;
    let mut words = program.split_whitespace();
    let Some(name) = words.next() else {
        return Ok(false);
    };
    let mut command = Command::new(name);
    command
        .args(words)
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Ok(command.spawn().is_ok())
}

/// The program that opens files for this person, if there is a screen.
fn browser() -> Option<String> {
    let chosen = std::env::var("BROWSER").ok();
    if let Some(chosen) = chosen.filter(|chosen| !chosen.trim().is_empty()) {
        return Some(chosen);
    }
    let has_screen = ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some());
    match () {
        () if cfg!(target_os = "macos") => Some("open".to_owned()),
        () if has_screen => Some("xdg-open".to_owned()),
        () => None,
    }
}
