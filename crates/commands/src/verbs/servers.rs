//! `servers add|classify|show` with a running gate: a person sees what a server offers before any of it is approved.
//!
//! **Invariant: what a verb classifies was shown first.** Tests
//! `without_a_person_nothing_is_approved_and_what_is_odd_is_said`,
//! `what_was_classified_without_a_gate_waits_for_a_person`, `only_what_a_person_was_shown_is_approved`.

pub mod adding;
pub mod edit;
pub(super) mod login;

use std::{
    collections::BTreeMap,
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    thread,
    time::{Duration, Instant},
};

use api::ask;
use gateway::settings::{ServerSpec, Text, Transport};
use home::Home;
use serde_json::{Value, json};
use terminal::{Exit, Screen, Trouble, style::tame};

use crate::{
    args,
    files::{self},
    line::Line,
    render,
};

/// Programs that are fetched before they start take their time; the gate itself goes on after this.
const PATIENCE: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(150);
/// Failed attempts after which a person is told; the gate goes on trying.
const ATTEMPTS: u32 = 2;

/// Adds a server. Its entry is written without a classification first, so that nothing of it is approved or called before a person
/// has answered.
pub(super) fn add(
    args: &args::Add,
    line: &mut Line,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    adding::refuse_sentence(args.command.as_deref())?;
    let doubts = adding::doubts(args.command.as_deref(), &adding::values(args), home);
    edit::change(
        home,
        &args.id,
        |text| config::edit::add_server(text, &edit::new_server(args, None)),
        || Ok(()),
    )?;
    line.ask(ask::Reload)?;
    doubts.iter().for_each(|doubt| screen.warn(doubt));
    let (id, file) = (&args.id, home.config_file());
    let server = if args.no_wait {
        None
    } else {
        Some(first_connection(line, id, screen)?)
    };
    let is_connected = server
        .as_ref()
        .is_some_and(|server| server.state == api::ServerState::Connected);
    let review = line.ask_for(ask::Definitions, id, &api::Nothing {})?;
    let mut text = format!("Server {id} added in {}.\n", file.display());
    if let Some(server) = server.as_ref().filter(|_| !is_connected) {
        text.push_str(&not_connected(server));
    }
    if is_connected {
        text.push_str(&format!("\n{}", render::offer(&review, screen.style)));
    }
    let question = args
        .open_world
        .is_none()
        .then(|| open_world_question(id, &review));
    let Some(level) = args.classification else {
        text.push_str(&format!(
            "\nNone of its tools can be called yet: portcullis servers classify {id} LEVEL\n"
        ));
        let document = json!({ "server": id, "done": "added", "file": file, "state": state(server.as_ref()), "review": review });
        screen.show(&document, &text)?;
        return Ok(exit_of(args, is_connected));
    };
    // On a terminal the question comes after what it is about.
    if !screen.json {
        screen.out.write_all(text.as_bytes())?;
        screen.out.flush()?;
    }
    if let Some(question) = question.filter(|_| is_connected && !args.yes)
        && let Some(is_open) = answer_of(&question)?
    {
        edit::change(
            home,
            id,
            |text| config::edit::set_open_world(text, id, Some(is_open)),
            || Ok(()),
        )?;
        line.ask(ask::Reload)?;
    }
    let approves = is_connected
        && approved(
            args.yes,
            &format!("Approve this, and let callers use it as {level}?"),
        )?;
    let seen = if approves {
        review.waiting()
    } else {
        BTreeMap::new()
    };
    let answer = classify_as(line, id, level, None, &seen)?;
    let ending = ending(id, approves, answer.approved.unwrap_or_default());
    let document = json!({
        "server": id, "done": "added", "file": file, "state": state(server.as_ref()), "approved": answer.approved,
        "waiting": if approves { 0 } else { review.waiting().len() }, "review": review,
    });
    screen.show(&document, &ending)?;
    Ok(exit_of(args, is_connected))
}

/// Asked once, when a server is added.
fn open_world_question(id: &str, review: &api::Review) -> String {
    let suggested = if review.open_world_suggested {
        "yes"
    } else {
        "no"
    };
    format!(
        "Can strangers write what {id} returns, as they write mail, pages and issues? An agent that has read such words asks before it acts.\n\
         Suggested: {suggested}, {}. Without an answer they can.",
        tame(&review.open_world_suggested_why)
    )
}

/// A person's yes or no; without a terminal, or with neither, none.
fn answer_of(question: &str) -> Result<Option<bool>, Trouble> {
    if !can_ask() {
        return Ok(None);
    }
    let mut terminal = io::stderr().lock();
    write!(terminal, "\n{question} [y/n] ")?;
    terminal.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Some(true),
        "n" | "no" => Some(false),
        _ => None,
    })
}

fn state(server: Option<&api::Server>) -> &'static str {
    server.map_or("connecting", |server| server.state.as_str())
}

fn exit_of(args: &args::Add, is_connected: bool) -> Exit {
    if args.no_wait || is_connected {
        Exit::Done
    } else {
        Exit::Upstream
    }
}

fn ending(id: &str, approves: bool, count: u64) -> String {
    match (approves, count) {
        (true, 1) => {
            "One definition is approved as it was shown. Its tools can be called now.\n".to_owned()
        }
        (true, count) => format!(
            "{count} definitions are approved as they were shown. Its tools can be called now.\n"
        ),
        (false, _) => format!(
            "\nNothing is approved yet, so none of its tools can be called. Look, then approve:\n  portcullis servers review {id}\n  \
             portcullis servers approve {id}\n"
        ),
    }
}

fn classify_as(
    line: &mut Line,
    id: &str,
    level: vocab::Level,
    reason: Option<&str>,
    seen: &BTreeMap<String, String>,
) -> Result<api::ServerChange, Trouble> {
    let classify = api::Classify {
        level: Some(level.as_str().to_owned()),
        seen: Some(seen.clone()),
        reason: crate::line::reason(reason)?,
    };
    line.ask_for(ask::ClassifyServer, id, &classify)
}

/// Sets the level of a server. The first time on a terminal, what it offers is shown and asked about.
pub(super) fn classify(
    args: &args::Classify,
    line: &mut Line,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    let id = &args.id;
    let review = line.ask_for(ask::Definitions, id, &api::Nothing {})?;
    let is_first =
        review.classification.is_none() && review.definitions.iter().all(|one| one.state == "new");
    let mut classify = api::Classify {
        level: Some(args.level.as_str().to_owned()),
        seen: None,
        reason: crate::line::reason(args.reason.as_deref())?,
    };
    if is_first && !review.definitions.is_empty() && can_ask() && !args.yes {
        screen
            .out
            .write_all(render::offer(&review, screen.style).as_bytes())?;
        screen.out.flush()?;
        let approves = approved(
            false,
            &format!("Approve this, and let callers use it as {}?", args.level),
        )?;
        if !approves {
            return Err(Trouble::failed("nothing was changed"));
        }
        classify.seen = Some(review.waiting());
    }
    let changed = line.ask_for(ask::ClassifyServer, id, &classify)?;
    let approved = changed.approved.unwrap_or_default();
    let file = home.config_file();
    let mut text = format!("Server {id} classified in {}.\n", file.display());
    if approved > 0 {
        text.push_str(&format!("{approved} definitions are approved as it shows them now: portcullis servers review {id}\n"));
    } else if is_first {
        text.push_str(&format!("It has shown nothing yet. What it shows waits for you: portcullis servers review {id}\n"));
    }
    screen.show(
        &json!({ "server": id, "done": "classified", "file": file, "approved": approved }),
        &text,
    )?;
    Ok(Exit::Done)
}

fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// A person's yes; without a terminal only the option counts.
fn approved(yes: bool, question: &str) -> Result<bool, Trouble> {
    if yes || !can_ask() {
        return Ok(yes);
    }
    let mut terminal = io::stderr().lock();
    write!(terminal, "\n{question} [y/N] ")?;
    terminal.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(
        answer.trim().to_ascii_lowercase().as_str(),
        "y" | "yes"
    ))
}

fn one(line: &mut Line, id: &str) -> Result<api::Server, Trouble> {
    let servers = line.ask(ask::Servers)?;
    servers
        .into_iter()
        .find(|server| server.id == id)
        .ok_or_else(|| Trouble::usage(format!("there is no server `{id}`")))
}

/// Waits until it is known whether the server can be reached, and shows that something is waited for.
fn first_connection(
    line: &mut Line,
    id: &str,
    screen: &Screen<'_>,
) -> Result<api::Server, Trouble> {
    let spins = io::stderr().is_terminal() && !screen.json;
    let begun = Instant::now();
    let mut wheel = ['-', '\\', '|', '/'].into_iter().cycle();
    let server = loop {
        let server = one(line, id)?;
        let is_over = match server.state {
            api::ServerState::Connected
            | api::ServerState::Failed
            | api::ServerState::Disabled
            | api::ServerState::Blocked
            | api::ServerState::Skipped => true,
            api::ServerState::Disconnected => server.attempt >= ATTEMPTS || is_hopeless(&server),
            api::ServerState::Connecting | api::ServerState::Unknown => false,
        };
        if is_over || begun.elapsed() >= PATIENCE {
            break server;
        }
        if spins {
            let _ = write!(
                io::stderr(),
                "\r{} connecting to {id} … {} s",
                wheel.next().unwrap_or('-'),
                begun.elapsed().as_secs()
            );
        }
        thread::sleep(LOOK);
    };
    if spins {
        let _ = write!(io::stderr(), "\r{}\r", " ".repeat(40 + id.len()));
    }
    Ok(server)
}

/// Trying again will not help.
fn is_hopeless(server: &api::Server) -> bool {
    let error = server.last_error.as_deref().unwrap_or_default();
    error.contains("not found") || error.contains("does not exist")
}

fn not_connected(server: &api::Server) -> String {
    let id = tame(&server.id);
    let error = server
        .last_error
        .as_deref()
        .map_or_else(|| "it has not answered yet".to_owned(), render::visible);
    let said = server.stderr.as_deref().unwrap_or_default();
    let lines: Vec<String> = said
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| format!("  {}\n", render::visible(line)))
        .collect();
    let last: String = lines
        .iter()
        .skip(lines.len().saturating_sub(10))
        .map(String::as_str)
        .collect();
    format!(
        "It is not connected: {error}\n{last}{}The gate goes on trying. See, change or try it again:\n  portcullis servers show {id}\n  \
         portcullis servers edit {id} …\n  portcullis servers retry {id}\n",
        render::hint(said)
    )
}

/// Everything about one server; without a gate, what the file has.
pub fn show(id: &str, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let (_, resolved) = files::of_home(home)?;
    let (server, review) = match Line::as_operator(home) {
        Ok(mut line) => {
            crate::verbs::decide::known_server(&mut line, id)?;
            (
                one(&mut line, id)?,
                Some(line.ask_for(ask::Definitions, id, &api::Nothing {})?),
            )
        }
        Err(trouble) if trouble.exit == Exit::NotRunning => {
            let known = edit::configured(&resolved)
                .into_iter()
                .find(|server| server.id == id);
            let ids = resolved.servers.iter().map(|server| server.id.as_str());
            (
                known.ok_or_else(|| Trouble::usage(config::edit::EditError::unknown(id, ids)))?,
                None,
            )
        }
        Err(trouble) => return Err(trouble),
    };
    let entry = resolved.server(id).map(entry).unwrap_or_default();
    let text = render::server(&server, &entry, review.as_ref(), screen.style);
    let said: serde_json::Map<String, Value> = entry
        .into_iter()
        .map(|(name, value)| (name, value.into()))
        .collect();
    screen.show(
        &json!({ "server": server, "entry": said, "definitions": review }),
        &text,
    )?;
    Ok(Exit::Done)
}

/// How a server is reached. References are shown, values are not.
fn entry(server: &ServerSpec) -> Vec<(String, String)> {
    let shown = |values: &BTreeMap<String, Text>| {
        let each = values.iter().map(|(name, text)| match text {
            Text::Secret(reference) => format!("{name}={reference}"),
            Text::Literal(_) => format!("{name}=…"),
        });
        each.collect::<Vec<_>>().join(", ")
    };
    let mut rows = Vec::new();
    let mut add = |name: &str, value: String| {
        if !value.is_empty() {
            rows.push((name.to_owned(), value));
        }
    };
    match &server.transport {
        Transport::Stdio {
            command,
            args,
            env,
            cwd,
            jail,
        } => {
            add("command", command.clone());
            add("arguments", args.join(" "));
            add("variables", shown(env));
            if let Some(cwd) = cwd {
                add("directory", cwd.display().to_string());
            }
            add(
                "jail",
                jail.as_ref()
                    .map_or("none", |jail| jail.profile.as_str())
                    .to_owned(),
            );
        }
        Transport::Http {
            url,
            headers,
            bearer,
            ..
        } => {
            add("address", url.clone());
            if let Some(Text::Secret(reference)) = bearer {
                add("bearer", reference.clone());
            }
            add("headers", shown(headers));
        }
        Transport::Nothing => {}
    }
    rows
}
