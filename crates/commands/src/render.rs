//! Answers as people read them.

use config::Explained;

use home::tokens::{Credential, view_name};

use terminal::style::{Cell, Paint, Style, cell, cut, painted, table, tame};

mod decide;
mod executions;
mod offer;
mod sinks;

pub use executions::{execution, executions};
pub use sinks::sinks;

pub use offer::{hint, login_trouble, offer, server};

pub use decide::{
    Extent, approval, approvals, explanation, jails, lasting, review, session, sessions, visible,
};

/// `MCP 2/3`: connected of wanted. Green when all are, red when none is, yellow between; nothing when none is wanted.
#[must_use]
pub fn mcp_line(servers: &[api::Server], style: Style) -> String {
    let wanted = servers
        .iter()
        .filter(|server| server.state.is_wanted())
        .count();
    let connected = servers
        .iter()
        .filter(|server| server.state == api::ServerState::Connected)
        .count();
    if wanted == 0 {
        return String::new();
    }
    let paint = match connected {
        0 => Paint::Red,
        _ if connected == wanted => Paint::Green,
        _ => Paint::Yellow,
    };
    style.paint(&format!("MCP {connected}/{wanted}"), paint)
}

#[must_use]
pub fn servers(servers: &[api::Server], style: Style) -> String {
    if servers.is_empty() {
        return "No servers yet. Add one with: portcullis servers add ID --command CMD -- ARGS…\n"
            .to_owned();
    }
    let rows: Vec<Vec<Cell>> = servers.iter().map(server_row).collect();
    let mut out = table(
        &[
            "SERVER",
            "STATE",
            "LEVEL",
            "TRANSPORT",
            "PROTOCOL",
            "TOOLS",
            "NOTE",
        ],
        &rows,
        style,
    );
    out.extend(servers.iter().map(|server| details(server, style)));
    out
}

/// The last lines of a program that does not connect say more than any note of ours.
const STDERR_LINES: usize = 5;

fn details(server: &api::Server, style: Style) -> String {
    let id = tame(&server.id);
    let mut out: String = server
        .remarks
        .iter()
        .map(|remark| format!("{id}: {}\n", tame(remark)))
        .collect();
    if let Some(trouble) = login_trouble(server) {
        out.push_str(&format!("{id}: {trouble}\n"));
    }
    let said: Vec<&str> = server
        .stderr
        .as_deref()
        .unwrap_or_default()
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    if !said.is_empty() {
        out.push_str(&format!("\n{id} wrote to standard error:\n"));
        let last = said.iter().skip(said.len().saturating_sub(STDERR_LINES));
        out.extend(
            last.map(|line| format!("  {}\n", cut(&tame(line), style.width.saturating_sub(2)))),
        );
        out.push_str(&format!("  portcullis servers show {id} has it whole\n"));
    }
    out
}

fn server_row(server: &api::Server) -> Vec<Cell> {
    let state = match server.state {
        api::ServerState::Connected => Paint::Green,
        api::ServerState::Failed | api::ServerState::Blocked => Paint::Red,
        api::ServerState::Connecting
        | api::ServerState::Disconnected
        | api::ServerState::Unknown => Paint::Yellow,
        api::ServerState::Disabled | api::ServerState::Skipped => Paint::Dim,
    };
    let level = match (&server.blocked, &server.classification) {
        (Some(_), _) => painted("BLOCKED", Paint::Red),
        (None, Some(level)) => cell(level),
        (None, None) => painted("UNTRUSTED", Paint::Yellow),
    };
    let known = server.state == api::ServerState::Connected;
    let count = |number: u64| {
        if known {
            number.to_string()
        } else {
            "-".to_owned()
        }
    };
    vec![
        painted(&server.id, Paint::Bold),
        painted(server.state.as_str(), state),
        level,
        cell(if matches!(server.transport.as_str(), "" | "none") {
            "-"
        } else {
            &server.transport
        }),
        cell(server.protocol.as_deref().unwrap_or("-")),
        cell(count(server.tools)),
        cell(note(server)),
    ]
}

/// What a person would want to know next about a server.
fn note(server: &api::Server) -> String {
    let error = server.last_error.as_deref().unwrap_or_default();
    if let Some(reason) = &server.blocked {
        return reason.clone();
    }
    match server.state {
        api::ServerState::Connected if server.classification.is_none() => {
            format!(
                "cannot be called; portcullis servers classify {} LEVEL",
                server.id
            )
        }
        api::ServerState::Connected if server.quarantined > 0 => {
            format!(
                "{} to review; portcullis servers review {}",
                server.quarantined, server.id
            )
        }
        api::ServerState::Connected if server.open_world == Some(true) => "open world".to_owned(),
        api::ServerState::Connected => String::new(),
        api::ServerState::Failed => format!("{error}; portcullis servers retry {}", server.id),
        api::ServerState::Connecting | api::ServerState::Disconnected => match server.next_retry_ms
        {
            Some(ms) => format!(
                "attempt {} in {}s: {error}",
                server.attempt + 1,
                ms.div_ceil(1_000)
            ),
            None => error.to_owned(),
        },
        api::ServerState::Disabled => format!("portcullis servers enable {}", server.id),
        api::ServerState::Blocked | api::ServerState::Skipped | api::ServerState::Unknown => {
            error.to_owned()
        }
    }
}

/// Of a name that is too long to be one.
const LONGEST_NAME: usize = 64;

#[must_use]
pub fn tools(tools: &[api::Tool], style: Style) -> String {
    if tools.is_empty() {
        return "No tools. `portcullis servers list` shows what is connected.\n".to_owned();
    }
    let (left_out, callable): (Vec<&api::Tool>, Vec<&api::Tool>) =
        tools.iter().partition(|tool| tool.left_out.is_some());
    let rows: Vec<Vec<Cell>> = callable
        .iter()
        .map(|tool| {
            let permission = match tool.permission.as_str() {
                _ if tool.admission == "BLOCKED" => painted("blocked", Paint::Red),
                _ if tool.admission == "DISABLED" => painted("disabled", Paint::Dim),
                _ if tool.quarantined => painted("to review", Paint::Yellow),
                "permitted" | "restricted" if tool.shown == Some(false) => {
                    painted("not classified", Paint::Yellow)
                }
                "permitted" => cell("permitted"),
                "blocked" => painted("blocked", Paint::Red),
                other => painted(other, Paint::Yellow),
            };
            let effect = offer::effect(&tool.effect, &tool.effect_from);
            let description = tool.description.as_deref().unwrap_or_default();
            let open_world = tool
                .open_world
                .map_or("-", |is_open| if is_open { "yes" } else { "no" });
            vec![
                painted(&tool.name, Paint::Bold),
                permission,
                cell(effect),
                cell(open_world),
                cell(description),
            ]
        })
        .collect();
    let mut out = table(
        &["TOOL", "PERMISSION", "EFFECT", "OPEN WORLD", "DESCRIPTION"],
        &rows,
        style,
    );
    if !left_out.is_empty() {
        let rows: Vec<Vec<Cell>> = left_out
            .iter()
            .map(|tool| {
                let name = cut(&tame(&tool.original), LONGEST_NAME);
                vec![
                    painted(name, Paint::Bold),
                    cell(&tool.server),
                    cell(tool.left_out.as_deref().unwrap_or_default()),
                ]
            })
            .collect();
        out.push_str(&format!(
            "\nLeft out, so nobody can call them:\n{}",
            table(&["NAME", "SERVER", "WHY"], &rows, style)
        ));
    }
    out
}

/// One line about an identity provider.
fn provider(issuer: &api::Issuer, style: Style) -> String {
    let name = tame(&issuer.issuer);
    let line = match (&issuer.last_error, issuer.usable) {
        (None, _) => return format!("tokens  of {name}, {} keys\n", issuer.keys),
        (Some(error), Some(true)) => {
            let age = span(issuer.age_ms.unwrap_or(0) / 1_000);
            format!("tokens  of {name}, by keys from {age} ago: {}", tame(error))
        }
        (Some(error), _) => format!(
            "tokens  of {name} are refused, there are no keys: {}",
            tame(error)
        ),
    };
    format!("{}\n", style.paint(&line, Paint::Yellow))
}

#[must_use]
pub fn status(status: &api::Status, style: Style) -> String {
    let mut out = String::new();
    let up = span(status.uptime_ms / 1_000);
    let title = style.paint(
        &format!("portcullis {}", tame(&status.version)),
        Paint::Bold,
    );
    out.push_str(&format!(
        "{title}  {}  pid {}, up {up}\n",
        tame(&status.url),
        status.pid
    ));
    if status.authentication == "none" {
        out.push_str(&style.paint(
            "authentication is off: every program on this machine can call",
            Paint::Yellow,
        ));
        out.push('\n');
    }
    if !status.awaiting_restart.is_empty() {
        let line = format!(
            "in force after a restart: {}",
            tame(&status.awaiting_restart.join(", "))
        );
        out.push_str(&format!("{}\n", style.paint(&line, Paint::Yellow)));
    }
    for issuer in status.oauth.iter().flat_map(|oauth| &oauth.issuers) {
        out.push_str(&provider(issuer, style));
    }
    let calls = &status.calls;
    out.push_str(&format!(
        "calls   {} answered, {} refused, {} failed, {} in flight\n",
        calls.answered, calls.refused, calls.failed, calls.in_flight
    ));
    if !status.bundle.is_empty() {
        out.push_str(&format!("policy  {}\n", tame(&status.bundle)));
    }
    if status.pending_approvals > 0 {
        let waiting = match status.pending_approvals {
            1 => "asks    one call waits for you: portcullis approvals list".to_owned(),
            count => format!("asks    {count} calls wait for you: portcullis approvals list"),
        };
        out.push_str(&format!("{}\n", style.paint(&waiting, Paint::Yellow)));
    }
    match &status.ledger.broken {
        None => out.push_str(&format!(
            "ledger  {} records in {}\n",
            status.ledger.records,
            tame(&status.ledger.path)
        )),
        Some(reason) => {
            let line = format!(
                "ledger  broken, so nothing is carried out: {}",
                tame(reason)
            );
            out.push_str(&style.paint(&line, Paint::Red));
            out.push('\n');
        }
    }
    out.push_str(&worker(status, style));
    let line = mcp_line(&status.servers, style);
    out.push_str(&format!(
        "\n{}{}",
        line,
        if line.is_empty() { "" } else { "\n" }
    ));
    out.push_str(&servers(&status.servers, style));
    if !status.sinks.is_empty() {
        out.push('\n');
        out.push_str(&sinks(&status.sinks, style));
    }
    if !status.callers.is_empty() {
        let rows: Vec<Vec<Cell>> = status
            .callers
            .iter()
            .map(|caller| {
                vec![
                    painted(&caller.name, Paint::Bold),
                    cell(&caller.id),
                    cell(&caller.label),
                ]
            })
            .collect();
        out.push('\n');
        out.push_str(&table(&["CALLER", "ID", "HAS SEEN"], &rows, style));
    }
    out
}

fn worker(status: &api::Status, style: Style) -> String {
    let worker = &status.worker;
    let pid = worker.pid.map_or_else(
        || style.paint("not running", Paint::Red),
        |pid| format!("pid {pid}"),
    );
    let missing: Vec<String> = worker
        .confinement
        .iter()
        .filter(|one| !one.applied)
        .map(|one| tame(&one.name))
        .collect();
    let held = match missing.as_slice() {
        [] => "fully confined".to_owned(),
        missing => style.paint(
            &format!("NOT confined by {}", missing.join(", ")),
            Paint::Yellow,
        ),
    };
    let restarts = match worker.restarts {
        0 => "never restarted".to_owned(),
        1 => "restarted once".to_owned(),
        times => format!("restarted {times} times"),
    };
    format!("worker  {pid}, {held}, {restarts}\n")
}

#[must_use]
pub fn tokens(credentials: &[Credential], style: Style) -> String {
    if credentials.is_empty() {
        return "No credentials yet. Make one with: portcullis token new NAME\n".to_owned();
    }
    let rows: Vec<Vec<Cell>> = credentials
        .iter()
        .map(|credential| {
            let state = if credential.revoked {
                painted("revoked", Paint::Red)
            } else {
                painted("valid", Paint::Green)
            };
            let grants = if credential.grants.is_empty() {
                "-".to_owned()
            } else {
                credential.grants.join(", ")
            };
            vec![
                painted(&credential.id, Paint::Bold),
                cell(&credential.name),
                cell(credential.role.as_str()),
                state,
                cell(view_name(credential.view)),
                cell(utc(credential.created)),
                cell(holder(credential)),
                cell(grants),
            ]
        })
        .collect();
    table(
        &[
            "ID", "NAME", "ROLE", "STATE", "VIEW", "CREATED", "FOR", "GRANTS",
        ],
        &rows,
        style,
    )
}

/// Whom a credential acts for, and within what: `alice (eng, ops) with claude of acme in read-only`.
fn holder(credential: &Credential) -> String {
    let mut words = Vec::new();
    words.extend(credential.user.clone());
    if !credential.departments.is_empty() {
        words.push(format!("({})", credential.departments.join(", ")));
    }
    words.extend(
        credential
            .agent
            .as_ref()
            .map(|agent| format!("with {agent}")),
    );
    words.extend(
        credential
            .tenant
            .as_ref()
            .map(|tenant| format!("of {tenant}")),
    );
    words.extend(
        credential
            .context
            .as_ref()
            .map(|context| format!("in {context}")),
    );
    if words.is_empty() {
        "-".to_owned()
    } else {
        words.join(" ")
    }
}

#[must_use]
pub fn explained(rows: &[Explained], style: Style) -> String {
    let rows: Vec<Vec<Cell>> = rows
        .iter()
        .map(|row| {
            let origin = match &row.lock {
                Some(_) => format!("{} (locked)", row.origin),
                None => row.origin.clone(),
            };
            let origin = match (row.awaiting_restart, origin.as_str()) {
                (true, origin) => {
                    painted(format!("{origin}, in force after a restart"), Paint::Yellow)
                }
                (false, "default") => painted("default", Paint::Dim),
                (false, origin) => cell(origin),
            };
            vec![cell(&row.key), origin, cell(&row.value)]
        })
        .collect();
    table(&["KEY", "FROM", "VALUE"], &rows, style)
}

/// The two largest units: `3d 4h`, `2m 5s`, `9s`.
fn span(seconds: u64) -> String {
    let parts = [
        (seconds / 86_400, 'd'),
        (seconds / 3_600 % 24, 'h'),
        (seconds / 60 % 60, 'm'),
        (seconds % 60, 's'),
    ];
    let shown = parts
        .iter()
        .skip_while(|(count, unit)| *count == 0 && *unit != 's')
        .take(2);
    shown
        .map(|(count, unit)| format!("{count}{unit}"))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Seconds since 1970 as `2026-11-15 11:02 UTC`.
#[must_use]
pub fn utc(seconds: u64) -> String {
    let text = audit::rfc3339(seconds.saturating_mul(1000));
    let part = |range| text.get(range).unwrap_or_default();
    format!("{} {} UTC", part(0..10), part(11..16))
}
