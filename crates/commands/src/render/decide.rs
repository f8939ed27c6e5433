//! Definitions, sessions, approvals and explanations as people read them.
//!
//! Arguments, reasons and diffs hold what agents and servers wrote. They are shown whole, because a person decides by them, and
//! tamed, because they would otherwise decide what the person sees.

use terminal::style::{Cell, Paint, Style, cell, painted, table, tame};

use crate::render::{
    offer::{effect, open_world},
    span, utc,
};

/// How much of a review is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Long differences in part, so that the table and what to do stay on the screen.
    Overview,
    Full,
}

/// Lines of all differences together that an overview shows.
const MOST_LINES: usize = 60;
/// Lines of one difference that it shows where there are more.
const FIRST_LINES: usize = 6;

/// What a server offers; differences below, line by line.
#[must_use]
pub fn review(review: &api::Review, extent: Extent, style: Style) -> String {
    let id = tame(&review.server);
    if review.definitions.is_empty() {
        return format!(
            "{id} has shown nothing yet. `portcullis servers list` says whether it is connected.\n"
        );
    }
    let rows: Vec<Vec<Cell>> = review.definitions.iter().map(definition_row).collect();
    let mut out = table(&["KIND", "NAME", "STATE", "EFFECT", "DIGEST"], &rows, style);
    if !review.open_world_why.is_empty() {
        out.push_str(&format!(
            "\n{}",
            fact(
                "open world",
                &open_world(review.open_world, &review.open_world_why),
                style
            )
        ));
        out.push_str(&format!(
            "  Correct a guess:  portcullis servers set {id} effect TOOL=read|consequential, portcullis servers set {id} open-world true|false\n"
        ));
    }
    for one in &review.definitions {
        let said = one
            .suspicions
            .iter()
            .map(|what| format!("{} {} {}", one.kind, tame(&one.name), visible(what)));
        out.extend(
            said.map(|line| format!("  {}\n", style.paint(&format!("LOOK: {line}"), Paint::Red))),
        );
    }
    let waiting: Vec<&api::Definition> = review
        .definitions
        .iter()
        .filter(|definition| definition.waits())
        .collect();
    let lines: usize = waiting.iter().map(|definition| definition.diff.len()).sum();
    let most = if extent == Extent::Overview && lines > MOST_LINES {
        FIRST_LINES
    } else {
        usize::MAX
    };
    for definition in &waiting {
        out.push_str(&difference(definition, most, style));
        let left = definition.diff.len().saturating_sub(most);
        if left > 0 {
            let name = tame(&definition.name);
            let lines = if left == 1 { "line" } else { "lines" };
            out.push_str(&format!(
                "  … {left} more {lines}: portcullis servers review {id} {name}\n"
            ));
        }
    }
    out.push('\n');
    out.push_str(&match (review.state.as_str(), waiting.len()) {
        ("UNTRUSTED", _) => format!(
            "Nobody has approved {id}. Classifying it approves what is shown here:\n  portcullis servers classify {id} LEVEL\n"
        ),
        (_, 0) => "Everything is as it was approved.\n".to_owned(),
        (_, 1) => format!("One waits for you. If it is what you want callers to have:\n  portcullis servers approve {id}\n"),
        (_, count) => format!(
            "{count} wait for you. If they are what you want callers to have:\n  portcullis servers approve {id} [NAME…]\n"
        ),
    });
    out
}

fn definition_row(definition: &api::Definition) -> Vec<Cell> {
    let state = match definition.state.as_str() {
        "pinned" => painted("approved", Paint::Green),
        "gone" => painted("gone", Paint::Dim),
        other => match definition.verdict.as_deref() {
            Some(verdict) if verdict != "same" => {
                painted(format!("{other}, {verdict}"), Paint::Yellow)
            }
            _ => painted(other, Paint::Yellow),
        },
    };
    let digest = definition
        .digest
        .as_deref()
        .or(definition.pinned_digest.as_deref())
        .unwrap_or("-");
    vec![
        cell(&definition.kind),
        painted(&definition.name, Paint::Bold),
        state,
        cell(
            definition
                .effect
                .as_deref()
                .map_or("-".to_owned(), |is| effect(is, &definition.effect_from)),
        ),
        cell(digest.chars().take(12).collect::<String>()),
    ]
}

fn difference(definition: &api::Definition, most: usize, style: Style) -> String {
    let title = format!("{} {}", tame(&definition.kind), tame(&definition.name));
    let mut out = format!("\n{}\n", style.paint(&title, Paint::Bold));
    for line in definition.diff.iter().take(most) {
        let paint = match line.chars().next() {
            Some('-') => Paint::Red,
            Some('+') => Paint::Green,
            _ => Paint::Dim,
        };
        out.push_str(&format!("  {}\n", style.paint(&visible(line), paint)));
    }
    out
}

#[must_use]
pub fn jails(jails: &[api::Jail], style: Style) -> String {
    if jails.is_empty() {
        return "Nothing runs in a jail.\n".to_owned();
    }
    let rows: Vec<Vec<Cell>> = jails
        .iter()
        .map(|jail| {
            vec![
                painted(&jail.id, Paint::Bold),
                cell(&jail.of),
                cell(&jail.program),
                cell(
                    jail.running_ms
                        .map_or_else(|| "-".to_owned(), |ms| format!("{}s", ms / 1000)),
                ),
                cell(&jail.confined),
            ]
        })
        .collect();
    table(&["JAIL", "OF", "PROGRAM", "RUNS", "WALLS"], &rows, style)
}

pub fn sessions(sessions: &[api::Session], style: Style) -> String {
    if sessions.is_empty() {
        return "No caller has been here yet.\n".to_owned();
    }
    let rows: Vec<Vec<Cell>> = sessions
        .iter()
        .map(|session| {
            let origins = if session.origins.is_empty() {
                "-".to_owned()
            } else {
                session.origins.join(", ")
            };
            vec![
                painted(&session.name, Paint::Bold),
                cell(&session.caller),
                cell(session.user.as_deref().unwrap_or("-")),
                cell(&session.label),
                cell(session.calls.to_string()),
                cell(session.head().unwrap_or("-")),
                cell(origins),
            ]
        })
        .collect();
    table(
        &[
            "CALLER",
            "ID",
            "USER",
            "HAS SEEN",
            "CALLS",
            "LAST READ",
            "FROM",
        ],
        &rows,
        style,
    )
}

/// One session, a line for each thing known.
#[must_use]
pub fn session(session: &api::Session, style: Style) -> String {
    let mut out = format!("{}\n", style.paint(&tame(&session.name), Paint::Bold));
    let origins = session
        .origins
        .iter()
        .map(|origin| tame(origin))
        .collect::<Vec<_>>()
        .join(", ");
    let rows = [
        ("id", tame(&session.caller)),
        (
            "user",
            session.user.as_deref().map(tame).unwrap_or_default(),
        ),
        ("has seen", tame(&session.label)),
        ("read from", origins),
        (
            "calls",
            format!("{} since reset {}", session.calls, session.epoch),
        ),
        (
            "last read",
            session
                .head()
                .map(|head| format!("{0}   portcullis lineage {0}", tame(head)))
                .unwrap_or_default(),
        ),
    ];
    out.extend(
        rows.iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| fact(name, value, style)),
    );
    out
}

#[must_use]
pub fn approvals(approvals: &[api::Approval], now_ms: u64, style: Style) -> String {
    if approvals.is_empty() {
        return "Nothing waits for a person.\n".to_owned();
    }
    let rows: Vec<Vec<Cell>> = approvals
        .iter()
        .map(|approval| {
            vec![
                painted(&approval.id, Paint::Bold),
                approval_state(approval, now_ms),
                cell(&approval.name),
                cell(format!("{}__{}", approval.server, approval.tool)),
                cell(&approval.label),
                cell(&approval.arguments),
            ]
        })
        .collect();
    let mut out = table(
        &[
            "APPROVAL",
            "STATE",
            "CALLER",
            "TOOL",
            "HAS SEEN",
            "ARGUMENTS",
        ],
        &rows,
        style,
    );
    if approvals.iter().any(|approval| approval.state == "pending") {
        out.push_str("\nSee one in full before you answer: portcullis approvals show APPROVAL\n");
    }
    if approvals.iter().any(is_given_up) {
        out.push_str(GIVEN_UP);
    }
    out
}

const GIVEN_UP: &str =
    "Where the client gave up, your answer holds for the same call if it is made again in time.\n";

/// A question that nobody waits for any more.
fn is_given_up(approval: &api::Approval) -> bool {
    approval.state == "pending" && !approval.awaited
}

fn approval_state(approval: &api::Approval, now_ms: u64) -> Cell {
    match approval.state.as_str() {
        "pending" => {
            let left = approval.expires_ms.saturating_sub(now_ms) / 1_000;
            let given_up = if is_given_up(approval) {
                ", the client gave up"
            } else {
                ""
            };
            painted(
                format!("pending, {} left{given_up}", span(left)),
                Paint::Yellow,
            )
        }
        "approved" | "used" => painted(&approval.state, Paint::Green),
        "denied" => painted("denied", Paint::Red),
        other => painted(other, Paint::Dim),
    }
}

/// Everything a person needs to decide, and nothing shortened.
#[must_use]
pub fn approval(approval: &api::Approval, now_ms: u64, style: Style) -> String {
    let title = format!(
        "{} asks to call {}__{}",
        tame(&approval.name),
        tame(&approval.server),
        tame(&approval.tool)
    );
    let mut out = format!("{}\n", style.paint(&title, Paint::Bold));
    let (state, paint) = approval_state(approval, now_ms);
    let facts = [
        ("approval", tame(&approval.id)),
        (
            "state",
            paint.map_or_else(|| state.clone(), |paint| style.paint(&state, paint)),
        ),
        ("asked", utc(approval.asked_ms / 1_000)),
        ("caller", tame(&approval.caller)),
        ("has seen", tame(&approval.label)),
        (
            "effect",
            if approval.effect.is_empty() {
                String::new()
            } else {
                effect(&approval.effect, &approval.effect_from)
            },
        ),
        (
            "open world",
            approval
                .open_world
                .map(|is_open| open_world(is_open, ""))
                .unwrap_or_default(),
        ),
        ("bundle", tame(&approval.bundle)),
        ("definition", tame(&approval.definition)),
        (
            "answered by",
            approval
                .answered_by
                .as_deref()
                .map(tame)
                .unwrap_or_default(),
        ),
        (
            "because",
            approval.reason.as_deref().map(tame).unwrap_or_default(),
        ),
    ];
    out.extend(
        facts
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| fact(name, value, style)),
    );
    if is_given_up(approval) {
        out.push('\n');
        out.push_str(GIVEN_UP);
    }
    out.push_str("\nWhy it was asked\n");
    out.extend(
        approval
            .why
            .iter()
            .map(|why| format!("  {}\n", visible(why))),
    );
    out.push_str("\nWhat the session has read, latest first\n");
    match approval.lineage.as_slice() {
        [] => out.push_str("  nothing\n"),
        calls => out.extend(calls.iter().map(|call| format!("  {}\n", tame(call)))),
    }
    out.push_str("\nArguments, complete\n");
    out.extend(
        approval
            .arguments
            .lines()
            .map(|line| format!("  {}\n", visible(line))),
    );
    if approval.state == "pending" {
        let id = tame(&approval.id);
        out.push_str(&format!(
            "\nYour answer holds for this call only, exactly as shown.\n  portcullis approvals approve {id}\n  portcullis approvals deny {id} --reason '…'\n"
        ));
        if let Some(covers) = &approval.may_last {
            out.push_str(&format!(
                "Or for the rest of this conversation: {}, and no other targets.\n  portcullis approvals approve {id} --for conversation\n",
                visible(covers)
            ));
        }
    }
    out
}

/// The answers that last, and what they cover.
#[must_use]
pub fn lasting(answers: &[api::LastingAnswer], now_ms: u64, style: Style) -> String {
    if answers.is_empty() {
        return "No answer lasts.\n".to_owned();
    }
    let rows: Vec<Vec<Cell>> = answers
        .iter()
        .map(|one| {
            vec![
                painted(&one.id, Paint::Bold),
                cell(&one.name),
                cell(format!("{}__{}", one.server, one.tool)),
                cell(one.covers.join(", ")),
                cell(&one.by),
                cell(span(now_ms.saturating_sub(one.said_ms) / 1_000)),
            ]
        })
        .collect();
    let mut out = table(
        &["ANSWER", "CALLER", "TOOL", "COVERS", "SAID BY", "AGO"],
        &rows,
        style,
    );
    out.push_str("\nTake one back: portcullis approvals revoke ANSWER\n");
    out
}

/// Every stage's checks, and what would have allowed the call.
#[must_use]
pub fn explanation(explained: &api::Explanation, style: Style) -> String {
    let mut out = String::new();
    let verdict = style.paint(&tame(&explained.verdict), paint_of(&explained.verdict));
    let tool = explained
        .tool
        .as_deref()
        .map_or_else(|| "the call".to_owned(), tame);
    let what = explained
        .asked
        .as_deref()
        .map_or_else(|| tool.clone(), |asked| format!("{} ({tool})", tame(asked)));
    let who = explained
        .caller
        .as_deref()
        .map(|caller| format!(" by {}", tame(caller)))
        .unwrap_or_default();
    let within = explained
        .context
        .as_deref()
        .map(|context| format!(" in context {}", tame(context)))
        .unwrap_or_default();
    out.push_str(&format!("{what}{who}{within}, judged now: {verdict}\n"));
    if let Some(then) = recorded(explained) {
        out.push_str(&format!("When it was made: {then}\n"));
    }
    if let Some(label) = explained.label.as_deref().filter(|label| !label.is_empty()) {
        out.push_str(&format!("The session has seen: {}\n", tame(label)));
    }
    if let Some(remark) = explained
        .remark
        .as_deref()
        .filter(|remark| !remark.is_empty())
    {
        out.push_str(&format!("Note: {}\n", visible(remark)));
    }
    for stage in &explained.stages {
        out.push_str(&format!(
            "\n{}\n",
            style.paint(&tame(&stage.stage), Paint::Bold)
        ));
        out.extend(stage.checks.iter().map(|check| check_line(check, style)));
    }
    let mut fixes: Vec<String> = explained
        .stages
        .iter()
        .flat_map(|stage| &stage.checks)
        .filter(|check| matches!(check.verdict.as_str(), "refused" | "ask"))
        .filter_map(|check| check.fix.as_deref().filter(|fix| !fix.is_empty()))
        .map(|fix| format!("  {}\n", visible(fix)))
        .collect();
    // Two checks may ask for the same.
    fixes.dedup();
    if !fixes.is_empty() {
        out.push_str("\nWhat would have allowed it\n");
        out.extend(fixes);
    }
    out
}

fn check_line(check: &api::Check, style: Style) -> String {
    let word = match check.verdict.as_str() {
        "refused" => "NO ",
        "ask" => "ASK",
        "skipped" => "-  ",
        _ => "ok ",
    };
    let detail = check.detail.as_deref().map(visible).unwrap_or_default();
    let line = format!(
        "  {} {:<24} {detail}",
        style.paint(word, paint_of(&check.verdict)),
        tame(&check.name)
    );
    format!("{}\n", line.trim_end())
}

fn recorded(explained: &api::Explanation) -> Option<String> {
    let record = explained.recorded.as_ref()?;
    let field = |text: &str| Some(tame(text)).filter(|text| !text.is_empty());
    let mut words = vec![field(&record.verdict)?];
    words.extend(field(&record.stage).map(|stage| format!("at {stage}")));
    words.extend(field(&record.violation).map(|violation| format!("({violation})")));
    words.extend(field(&record.bundle).map(|bundle| format!("by {bundle}")));
    Some(words.join(" "))
}

fn paint_of(verdict: &str) -> Paint {
    match verdict {
        "ok" | "allow" | "allowed" | "permitted" => Paint::Green,
        "ask" | "asked" => Paint::Yellow,
        "skipped" => Paint::Dim,
        _ => Paint::Red,
    }
}

pub(super) fn fact(name: &str, value: &str, style: Style) -> String {
    format!(
        "  {} {value}\n",
        style.paint(&format!("{name:<11}"), Paint::Dim)
    )
}

/// One line as it is, spaces included, with what a terminal would obey or hide made visible.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let hides = matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{e0000}'..='\u{e0fff}');
        match c {
            c if c.is_control() || hides => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}
