//! What only a company's file says: which of its values nobody may change, what no server may be, and which servers may be called at all.

use std::fmt;

use gateway::settings::Transport;
use vocab::Level;

use super::{
    Finding, Place, check,
    fields::Fields,
    keys::{Key, Kind, LEVELS, key},
    tree::{Node, Value},
};

/// The keys of `corp.yaml` beside those of every configuration.
pub static CORP: &[Key] = &[
    key(
        "serial",
        Kind::Count(0..=u64::MAX),
        "0",
        "The number of this version. A gate that has seen a higher one refuses a lower one.",
    ),
    key(
        "not_after",
        Kind::Text,
        "",
        "The day this version ends, as in `2027-06-30`, or the moment, as in `2027-06-30T12:00:00Z`.",
    ),
    key(
        "locks",
        Kind::TableList(LOCK),
        "[]",
        "Paths at which only this file counts, as in `policy`, `mcp_servers.github`, `mcp_servers.*.definitions`. `mcp_servers` alone means that \
         there are no other servers than this file's.",
    ),
    key(
        "forbid",
        Kind::TableList(FORBID),
        "[]",
        "Servers that nobody may have. One that is configured all the same is blocked, and no verb, import or operator adds one.",
    ),
    key(
        "registry",
        Kind::TableList(REGISTERED),
        "",
        "The servers that may be classified. With this key, a server that is neither in this file nor listed here stays UNTRUSTED.",
    ),
];

pub static LOCK: &[Key] = &[
    key(
        "path",
        Kind::Text,
        "",
        "Names joined by `.`; `*` stands for any one name.",
    ),
    key("reason", Kind::Text, "", "Shown to whoever meets the lock."),
];

pub static FORBID: &[Key] = &[
    key(
        "command",
        Kind::Text,
        "",
        "A program, by its name or its path; `*` at the end stands for any rest.",
    ),
    key(
        "host",
        Kind::Text,
        "",
        "A host that servers are at; `*.example.com` stands for every host below it.",
    ),
    key("reason", Kind::Text, "", "Shown to whoever meets it."),
];

pub static REGISTERED: &[Key] = &[
    key("id", Kind::Text, "", "The server's id."),
    key("url", Kind::Text, "", "Its address, exactly."),
    key("command", Kind::Text, "", "Its program, exactly."),
    key(
        "args",
        Kind::TextList,
        "[]",
        "The program's arguments, all of them.",
    ),
    key(
        "classification",
        Kind::Choice(LEVELS),
        "RESTRICTED",
        "The highest level it may be given.",
    ),
];

/// What those keys say. Without a company's file: nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Corp {
    pub serial: u64,
    /// Milliseconds since 1970.
    pub not_after_ms: Option<u64>,
    pub locks: Vec<Lock>,
    forbid: Vec<Forbid>,
    registry: Option<Vec<Registered>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    path: Vec<String>,
    reason: String,
    line: usize,
}

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.join(".");
        write!(f, "corp.yaml:{} locks `{path}`", self.line)?;
        match self.reason.as_str() {
            "" => Ok(()),
            reason => write!(f, " ({reason})"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Forbid {
    command: String,
    host: String,
    reason: String,
    line: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Registered {
    id: String,
    url: String,
    command: String,
    args: Vec<String>,
    highest: Level,
}

impl Corp {
    /// The lock that this path is at or below.
    pub(super) fn lock(&self, path: &[&str]) -> Option<&Lock> {
        self.locks.iter().find(|lock| {
            lock.path.len() <= path.len()
                && lock
                    .path
                    .iter()
                    .zip(path)
                    .all(|(locked, name)| locked == "*" || locked == name)
        })
    }

    pub(super) fn forbids(&self, transport: &Transport) -> Option<String> {
        let forbid = self.forbid.iter().find(|forbid| match transport {
            Transport::Stdio { command, args, .. } => {
                // A launcher such as `env npx` starts what it is given.
                std::iter::once(command)
                    .chain(args)
                    .any(|word| is_command(&forbid.command, word))
            }
            Transport::Http { url, .. } => is_host(&forbid.host, url),
            Transport::Nothing => false,
        })?;
        let what = match transport {
            Transport::Stdio { .. } => format!("the program `{}`", forbid.command),
            _ => format!("the host `{}`", forbid.host),
        };
        let reason = match forbid.reason.as_str() {
            "" => String::new(),
            reason => format!(" ({reason})"),
        };
        Some(format!("corp.yaml:{} forbids {what}{reason}", forbid.line))
    }

    pub(super) fn approves(
        &self,
        id: &str,
        transport: &Transport,
        level: Option<Level>,
    ) -> Result<(), String> {
        let Some(registry) = &self.registry else {
            return Ok(());
        };
        let entry = registry.iter().find(|entry| {
            entry.id == id
                && match transport {
                    Transport::Stdio { command, args, .. } => {
                        *command == entry.command && *args == entry.args
                    }
                    Transport::Http { url, .. } => *url == entry.url,
                    Transport::Nothing => false,
                }
        });
        match entry {
            None => Err("the registry of corp.yaml does not list it as it is".to_owned()),
            Some(entry) if level.is_some_and(|level| level > entry.highest) => Err(format!(
                "the registry of corp.yaml lets it be {} at most",
                entry.highest
            )),
            Some(_) => Ok(()),
        }
    }
}

/// A name is met wherever the program lies, a path only there.
fn is_command(pattern: &str, word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    let fits = |text: &str| match pattern.strip_suffix('*') {
        Some(start) => text.starts_with(start),
        None => text == pattern,
    };
    !pattern.is_empty() && (fits(word) || !pattern.contains('/') && fits(name))
}

fn is_host(pattern: &str, url: &str) -> bool {
    let Ok(uri) = url.parse::<http::Uri>() else {
        return false;
    };
    let host = uri.host().unwrap_or_default().to_ascii_lowercase();
    let host = host.trim_end_matches('.');
    let pattern = pattern.to_ascii_lowercase();
    match pattern.strip_prefix("*.") {
        Some(domain) => host == domain || host.ends_with(&format!(".{domain}")),
        None => !pattern.is_empty() && host == pattern,
    }
}

/// Splits the top of the company's file into what only it says and what every configuration may.
pub(super) fn read(root: Node) -> (Result<Corp, Vec<Finding>>, Node) {
    let place = root.place;
    let Value::Map(entries) = root.value else {
        let empty = Node {
            place,
            value: Value::Map(Vec::new()),
        };
        return (Ok(Corp::default()), empty);
    };
    let is_own = |name: &str| CORP.iter().any(|key| key.name == name);
    let (own, rest) = entries.into_iter().partition(|(key, _)| is_own(&key.name));
    let own = Node {
        place,
        value: Value::Map(own),
    };
    let rest = Node {
        place,
        value: Value::Map(rest),
    };
    (terms(&own), rest)
}

fn terms(node: &Node) -> Result<Corp, Vec<Finding>> {
    let mut findings = Vec::new();
    check::check(node, &Kind::Table(CORP), "", &mut findings);
    let top = Fields::new(Some(node), CORP);
    let registry = top.node("registry").map(|_| {
        let entries = top.items("registry").iter();
        entries
            .map(|node| registered(node, &mut findings))
            .collect()
    });
    let corp = Corp {
        serial: top.count("serial"),
        not_after_ms: top.node("not_after").and_then(|node| {
            let moment = moment_ms(node.text().unwrap_or_default());
            if moment.is_none() {
                findings.push(Finding::error(
                    node.place,
                    "`not_after` is no day",
                    "write it as in `2027-06-30` or `2027-06-30T12:00:00Z`",
                ));
            }
            moment
        }),
        locks: top
            .items("locks")
            .iter()
            .map(|node| lock(node, &mut findings))
            .collect(),
        forbid: top
            .items("forbid")
            .iter()
            .map(|node| forbid(node, &mut findings))
            .collect(),
        registry,
    };
    match findings.is_empty() {
        true => Ok(corp),
        false => Err(findings),
    }
}

fn lock(node: &Node, findings: &mut Vec<Finding>) -> Lock {
    let fields = Fields::new(Some(node), LOCK);
    let path = match node.text() {
        Some(text) => text,
        None => fields.text("path"),
    };
    let path: Vec<String> = path.split('.').map(str::to_owned).collect();
    if path.iter().any(String::is_empty) || path.first().is_some_and(|name| name == "*") {
        findings.push(Finding::error(
            node.place,
            "a lock names a path that begins with a key",
            "write it as in `policy` or `mcp_servers.*.definitions`",
        ));
    }
    Lock {
        path,
        reason: match node.text() {
            Some(_) => String::new(),
            None => fields.text("reason").to_owned(),
        },
        line: node.place.line,
    }
}

fn forbid(node: &Node, findings: &mut Vec<Finding>) -> Forbid {
    let fields = Fields::new(Some(node), FORBID);
    let text = |name| match node.text() {
        Some(command) if name == "command" => command.to_owned(),
        Some(_) => String::new(),
        None => fields.text(name).to_owned(),
    };
    let forbid = Forbid {
        command: text("command"),
        host: text("host"),
        reason: text("reason"),
        line: node.place.line,
    };
    if forbid.command.is_empty() == forbid.host.is_empty() {
        findings.push(Finding::error(
            node.place,
            "this forbids nothing, or two things",
            "write either `command` or `host`",
        ));
    }
    forbid
}

fn registered(node: &Node, findings: &mut Vec<Finding>) -> Registered {
    let fields = Fields::new(Some(node), REGISTERED);
    let args = fields.items("args").iter();
    let entry = Registered {
        id: node.text().unwrap_or(fields.text("id")).to_owned(),
        url: fields.text("url").to_owned(),
        command: fields.text("command").to_owned(),
        args: args
            .filter_map(|arg| arg.text().map(str::to_owned))
            .collect(),
        highest: fields
            .text("classification")
            .parse()
            .unwrap_or(Level::Public),
    };
    if entry.id.is_empty() || entry.url.is_empty() == entry.command.is_empty() {
        findings.push(Finding::error(
            node.place,
            "an entry of the registry says which server it approves",
            "write `id`, and either `url` or `command` with its `args`",
        ));
    }
    entry
}

/// A day is good until it ends.
fn moment_ms(text: &str) -> Option<u64> {
    const DAY_MS: u64 = 86_400_000;
    let (date, time) = match text.split_once('T') {
        Some((date, time)) => (date, Some(time.strip_suffix('Z')?)),
        None => (text, None),
    };
    let mut parts = date.split('-').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() || !(1970..10_000).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let length = |month: u64| match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if !(1..=length(month)).contains(&day) {
        return None;
    }
    let years: u64 = (1970..year)
        .map(|year| if is_leap(year) { 366 } else { 365 })
        .sum();
    let days = years + (1..month).map(length).sum::<u64>() + day - 1;
    let within = match time {
        None => DAY_MS - 1,
        Some(time) => {
            let mut parts = time.split(':').map(|part| part.parse::<u64>().ok());
            let (hour, minute) = (parts.next()??, parts.next()??);
            let second = match parts.next() {
                Some(second) => second?,
                None => 0,
            };
            if parts.next().is_some() || hour > 23 || minute > 59 || second > 59 {
                return None;
            }
            ((hour * 60 + minute) * 60 + second) * 1000
        }
    };
    Some(days * DAY_MS + within)
}

/// A path in the company's file that does not begin at `/`: the file is in no directory that a person could put files into.
pub(super) fn relative(place: Place, path: &str) -> Option<Finding> {
    let is_relative = place.layer == super::layers::CORP && !path.starts_with('/');
    is_relative.then(|| {
        Finding::error(
            place,
            format!("`{path}` is relative, and corp.yaml is in no directory of a home"),
            "write the whole path",
        )
    })
}

#[cfg(test)]
mod tests;
