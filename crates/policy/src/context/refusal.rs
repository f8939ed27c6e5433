//! The violations of a boundary: what the agent reads, what the operator reads, and the payload with each rule's own keys.

use std::{fmt::Display, time::Duration};

use vocab::{Rule, Violation};
use wire::write::{Object, quote};

/// Entries of a list that a payload repeats.
const MAX_LISTED: usize = 64;
/// Characters of an argument that a sentence repeats.
const MAX_SHOWN: usize = 160;

/// A text from a caller, fit for a sentence.
pub(crate) fn shown(text: &str) -> String {
    let mut out: String = text
        .chars()
        .take(MAX_SHOWN)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(MAX_SHOWN).is_some() {
        out.push('…');
    }
    out
}

fn array(items: impl IntoIterator<Item = impl Display>) -> Vec<u8> {
    let mut out = vec![b'['];
    for (index, item) in items.into_iter().take(MAX_LISTED).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        quote(&mut out, &item.to_string());
    }
    out.push(b']');
    out
}

pub(crate) fn listed(items: impl IntoIterator<Item = impl Display>) -> String {
    let all: Vec<String> = items
        .into_iter()
        .take(MAX_LISTED)
        .map(|item| item.to_string())
        .collect();
    if all.is_empty() {
        "nothing".to_owned()
    } else {
        all.join(", ")
    }
}

fn with(violation: Violation, fill: impl FnOnce(&mut Object)) -> Violation {
    let mut out = Object::new();
    fill(&mut out);
    violation.with_payload(String::from_utf8(out.finish()).unwrap_or_default())
}

pub(crate) fn not_allowed(tool: &str, allowed: &[String], detail: String) -> Violation {
    let violation = Violation::new(Rule::ToolNotAllowed, detail)
        .with_hint(format!("`{}` is not listed", shown(tool)));
    with(violation, |out| {
        out.str("tool_name", tool)
            .raw("allowed_tools", &array(allowed));
    })
}

pub(crate) fn denied(tool: &str, denial: &dyn Display, context: &str) -> Violation {
    let detail = format!(
        "the deny list of context `{context}` has `{denial}`; removing it there would allow the call"
    );
    with(
        Violation::new(Rule::ToolExplicitlyDenied, detail).with_hint(format!("`{}`", shown(tool))),
        |out| {
            out.str("tool_name", tool);
        },
    )
}

/// The limit of one execution, which no waiting lifts.
pub(crate) fn spent(bucket: &str, limit: u64, current: u64, agent: &str) -> Violation {
    let detail = format!(
        "the execution has made {current} calls and agent `{agent}` may make {limit}; a higher `max_calls_per_execution` would allow it"
    );
    let violation = Violation::new(Rule::RateLimitExceeded, detail)
        .with_hint(format!("{limit} calls are all this execution has"));
    with(violation, |out| {
        out.str("resource_type", "execution")
            .str("bucket", bucket)
            .u64("limit", limit)
            .u64("current", current);
        out.raw("retry_after_seconds", b"null");
    })
}

/// A limit over time.
pub fn too_many(bucket: &str, limit: u64, retry_after: Duration) -> Violation {
    let seconds = u64::try_from(retry_after.as_millis().div_ceil(1000)).unwrap_or(u64::MAX);
    let violation = Violation::new(
        Rule::RateLimitExceeded,
        format!("{bucket} is reached; try again in {seconds} s"),
    )
    .with_hint(format!("try again in {seconds} s"))
    .with_retry_after(retry_after);
    with(violation, |out| {
        out.str("resource_type", "tool_calls")
            .str("bucket", bucket)
            .u64("limit", limit)
            .u64("current", limit);
        out.u64("retry_after_seconds", seconds);
    })
}

/// As many calls of a capability, or of an execution, as may run at once are running.
#[must_use]
pub fn too_many_at_once(limit: u32, active: u32) -> Violation {
    let detail = format!(
        "{active} calls are running and `max_concurrent` is {limit}; a higher one would allow it"
    );
    with(
        Violation::new(Rule::ConcurrentExecLimitExceeded, detail)
            .with_hint(format!("{limit} at a time")),
        |out| {
            out.u64("limit", limit.into()).u64("active", active.into());
        },
    )
}

pub(crate) fn climbing(path: &str) -> Violation {
    let detail = format!(
        "`{}` has a component that goes up; a path without one would be checked",
        shown(path)
    );
    let violation =
        Violation::new(Rule::PathTraversalAttempt, detail).with_hint(format!("`{}`", shown(path)));
    with(violation, |out| {
        out.str("path", path);
    })
}

/// What is wrong with a text, as a sentence about it; nothing can be there where something should.
fn wrong(text: &str, why: &str) -> String {
    let subject = if text.is_empty() {
        "nothing".to_owned()
    } else {
        format!("`{}`", shown(text))
    };
    match why.strip_prefix("it ") {
        Some(rest) => format!("{subject} {rest}"),
        None if why.starts_with("is ") => format!("{subject} {why}"),
        None => format!("{subject}: {why}"),
    }
}

/// `allowed` is empty where no list bounds the paths and the text is none.
pub(crate) fn outside(path: &str, why: &str, allowed: &[String]) -> Violation {
    let fix = match allowed {
        [] => "a plain path".to_owned(),
        _ => format!("a path covered by {}", listed(allowed)),
    };
    let said = wrong(path, why);
    let violation = Violation::new(
        Rule::PathOutsideBoundary,
        format!("{said}; {fix} would be allowed"),
    )
    .with_hint(said);
    with(violation, |out| {
        out.str("path", path).raw("allowed_paths", &array(allowed));
    })
}

pub(crate) fn not_domain(domain: &str, why: &str, allowed: &[String]) -> Violation {
    let said = wrong(domain, why);
    let detail = format!("{said}; {} would be allowed", listed(allowed));
    let violation = Violation::new(Rule::DomainNotAllowed, detail).with_hint(said);
    with(violation, |out| {
        out.str("domain", domain)
            .raw("allowed_domains", &array(allowed));
    })
}

pub(crate) fn not_command(command: &str, allowed: &[String], by: &str) -> Violation {
    let detail = format!(
        "{by} has no command `{}`; {} would be allowed",
        shown(command),
        listed(allowed)
    );
    let violation =
        Violation::new(Rule::CommandNotAllowed, detail).with_hint(format!("`{}`", shown(command)));
    with(violation, |out| {
        out.str("command", command)
            .raw("allowed_commands", &array(allowed));
    })
}

pub(crate) fn not_subcommand(
    command: &str,
    subcommand: &str,
    allowed: &[String],
    by: &str,
) -> Violation {
    let (line, allowed_line) = (format!("{command} {subcommand}"), listed(allowed));
    let detail = format!(
        "{by} lets `{}` begin with {allowed_line} only; one of these would be allowed",
        shown(command)
    );
    let violation = Violation::new(Rule::SubcommandNotAllowed, detail)
        .with_hint(format!("`{}`", shown(line.trim_end())));
    with(violation, |out| {
        out.str("command", command)
            .str("subcommand", subcommand)
            .raw("allowed_subcommands", &array(allowed));
    })
}

/// `requested` is the text of a JSON value.
pub(crate) fn too_long(requested: &str, ceiling: u64) -> Violation {
    let detail = format!(
        "{} s are asked for; up to {ceiling} s would be allowed",
        shown(requested)
    );
    let violation = Violation::new(Rule::ExecTimeoutCeilingExceeded, detail)
        .with_hint(format!("the ceiling is {ceiling} s"));
    with(violation, |out| {
        out.raw("requested_secs", requested.as_bytes())
            .u64("ceiling_secs", ceiling);
    })
}
