//! What a server offers, for a person who is about to say yes to it; and everything that is known about one server.

use terminal::style::{Cell, Paint, Style, cell, cut, painted, table, tame};

use crate::render::{decide::fact, visible};

/// Definitions that are listed one by one; a server with more is looked at with `servers review`.
const MOST: usize = 40;
/// Suspicions that are listed.
const MOST_SUSPICIONS: usize = 20;

/// An effect, and whether a person decided it or it is guessed: `read, guessed`.
#[must_use]
pub(super) fn effect(effect: &str, from: &str) -> String {
    match (effect, from) {
        ("", _) => "-".to_owned(),
        (effect, "entry") => format!("{effect}, decided"),
        (effect, "lock" | "name") => format!("{effect}, guessed"),
        (effect, _) => effect.to_owned(),
    }
}

/// Whether strangers can write what it returns, and why that is thought.
#[must_use]
pub(super) fn open_world(is_open: bool, why: &str) -> String {
    let answer = if is_open { "yes" } else { "no" };
    if why.is_empty() {
        answer.to_owned()
    } else {
        format!("{answer} ({})", tame(why))
    }
}

/// What a server offers: its tools, what is guessed about them, and what is odd.
#[must_use]
pub fn offer(review: &api::Review, style: Style) -> String {
    let id = tame(&review.server);
    let of_kind = |kind: &str| {
        review
            .definitions
            .iter()
            .filter(|one| one.kind == kind && one.state != "gone")
            .count()
    };
    let count =
        |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let mut out = format!(
        "{id} offers {}, {} and {}{}.\n",
        count(of_kind("tool"), "tool"),
        count(of_kind("prompt"), "prompt"),
        count(of_kind("template"), "resource template"),
        if of_kind("instructions") > 0 {
            ", and gives instructions to clients"
        } else {
            ""
        }
    );
    let shown: Vec<&api::Definition> = review
        .definitions
        .iter()
        .filter(|one| one.state != "gone")
        .collect();
    if !shown.is_empty() {
        let rows: Vec<Vec<Cell>> = shown.iter().take(MOST).map(|one| row(one)).collect();
        out.push_str(&format!(
            "\n{}",
            table(&["NAME", "KIND", "EFFECT", "DESCRIPTION"], &rows, style)
        ));
    }
    if shown.len() > MOST {
        out.push_str(&format!(
            "… and {} more: portcullis servers review {id}\n",
            shown.len() - MOST
        ));
    }
    out.push('\n');
    out.push_str(&fact(
        "open world",
        &open_world(review.open_world, &review.open_world_why),
        style,
    ));
    out.push_str(&suspicions(&shown, style));
    let is_guessed = shown
        .iter()
        .any(|one| matches!(one.effect_from.as_str(), "lock" | "name"));
    if is_guessed {
        out.push_str(&format!(
            "\nA consequential tool may change something; an agent that has read a stranger's words must ask you before it calls one.\n\
             Correct a guess:  portcullis servers set {id} effect TOOL=read\n"
        ));
    }
    if !review.open_world_why.starts_with("decided") {
        out.push_str(&format!(
            "Say whether strangers can write what it returns, as they write mail, pages and issues:  portcullis servers set {id} open-world true|false\n\
             Suggested is {}: {}.\n",
            review.open_world_suggested,
            tame(&review.open_world_suggested_why)
        ));
    }
    out
}

fn row(one: &api::Definition) -> Vec<Cell> {
    let effect = match one.effect.as_deref() {
        Some(word) => cell(effect(word, &one.effect_from)),
        None => cell("-"),
    };
    let name = if one.suspicions.is_empty() {
        painted(&one.name, Paint::Bold)
    } else {
        painted(&one.name, Paint::Red)
    };
    vec![
        name,
        cell(&one.kind),
        effect,
        cell(one.description.as_deref().unwrap_or_default()),
    ]
}

fn suspicions(shown: &[&api::Definition], style: Style) -> String {
    let all: Vec<String> = shown
        .iter()
        .flat_map(|one| {
            one.suspicions
                .iter()
                .map(|what| format!("{} {} {}", one.kind, tame(&one.name), visible(what)))
        })
        .collect();
    if all.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "\n{}\n",
        style.paint("LOOK AT THIS BEFORE YOU APPROVE", Paint::Red)
    );
    out.extend(
        all.iter()
            .take(MOST_SUSPICIONS)
            .map(|line| format!("  {}\n", cut(line, 400))),
    );
    if all.len() > MOST_SUSPICIONS {
        out.push_str(&format!("  … and {} more\n", all.len() - MOST_SUSPICIONS));
    }
    out
}

/// What is wrong with the login of a server that is connected all the same, and what to type.
#[must_use]
pub fn login_trouble(server: &api::Server) -> Option<String> {
    let login = server.login.as_ref()?;
    let is_fine = server.state != api::ServerState::Connected || login.state == "connected";
    let id = tame(&server.id);
    (!is_fine).then(|| {
        format!(
            "login {}: portcullis servers login {id}",
            login_words(login)
        )
    })
}

fn login_words(login: &api::Login) -> String {
    let at = login
        .issuer
        .as_ref()
        .map(|issuer| format!(" at {}", tame(issuer)))
        .unwrap_or_default();
    let why = login
        .problem
        .as_ref()
        .map(|problem| format!(": {}", visible(problem)))
        .unwrap_or_default();
    let scopes = login
        .scopes
        .as_ref()
        .map(|scopes| format!(", wanted: {}", tame(scopes)))
        .unwrap_or_default();
    format!("{}{at}{scopes}{why}", tame(&login.state.replace('_', " ")))
}

/// Everything about one server, errors whole.
#[must_use]
pub fn server(
    server: &api::Server,
    entry: &[(String, String)],
    review: Option<&api::Review>,
    style: Style,
) -> String {
    let mut out = format!("{}\n", style.paint(&tame(&server.id), Paint::Bold));
    let level = match (&server.blocked, &server.classification) {
        (Some(reason), _) => format!("BLOCKED: {}", tame(reason)),
        (None, Some(level)) => tame(level),
        (None, None) => format!(
            "none, so nothing of it can be called: portcullis servers classify {} LEVEL",
            tame(&server.id)
        ),
    };
    let mut facts = vec![
        ("state", server.state.as_str().to_owned()),
        ("level", level),
    ];
    facts.extend(
        server
            .protocol
            .iter()
            .map(|protocol| ("protocol", tame(protocol))),
    );
    facts.extend(server.open_world.map(|is| {
        (
            "open world",
            open_world(is, server.open_world_why.as_deref().unwrap_or_default()),
        )
    }));
    facts.extend(
        server
            .login
            .iter()
            .map(|login| ("login", login_words(login))),
    );
    if server.quarantined > 0 {
        facts.push((
            "to review",
            format!(
                "{}: portcullis servers review {}",
                server.quarantined,
                tame(&server.id)
            ),
        ));
    }
    out.extend(facts.iter().map(|(name, value)| fact(name, value, style)));
    out.extend(
        entry
            .iter()
            .map(|(name, value)| fact(name, &visible(value), style)),
    );
    if server.transport == "stdio" {
        out.push_str(&fact(
            "environment",
            "PATH and the variables above only; proxies and certificates of yours need --env",
            style,
        ));
    }
    if let Some(error) = &server.last_error {
        out.push_str(&format!("\nLast error\n  {}\n", visible(error)));
    }
    if let Some(said) = server
        .stderr
        .as_deref()
        .filter(|said| !said.trim().is_empty())
    {
        out.push_str("\nWhat it wrote to standard error\n");
        out.extend(said.lines().map(|line| format!("  {}\n", visible(line))));
        out.push_str(hint(said));
    }
    out.extend(
        server
            .remarks
            .iter()
            .map(|remark| format!("{}\n", tame(remark))),
    );
    if let Some(review) = review.filter(|review| !review.definitions.is_empty()) {
        out.push_str(&format!("\n{}", offer(review, style)));
    }
    out
}

/// What a program's last words suggest that it lacks.
#[must_use]
pub fn hint(said: &str) -> &'static str {
    let lower = said.to_lowercase();
    let about_network = [
        "certificate",
        "ssl",
        "tls",
        "proxy",
        "self-signed",
        "unknownissuer",
        "unable to get local issuer",
    ];
    if about_network.iter().any(|word| lower.contains(word)) {
        "\nIt may lack a proxy or a certificate: its environment is PATH and what its entry says. Give it, for example,\n  \
         --env SSL_CERT_FILE=… --env HTTPS_PROXY=… with `portcullis servers edit ID`\n"
    } else {
        ""
    }
}
