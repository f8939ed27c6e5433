//! `/calls/{id}`: what happened to one call, why, and what would have allowed it.

use api::{Check, CheckedStage, Explanation, Lineage, LogRecord, Status};
use maud::{Markup, html};

use super::calls::{Names, escaped, label, target};
use crate::{
    marked::{folded, lines, marked},
    page::{Page, badge, verdict},
    time,
};

/// A text above this folds.
const LONG: usize = 2_000;

/// What is known of a call.
#[derive(Debug)]
pub struct Story<'a> {
    pub id: &'a str,
    pub status: &'a Status,
    /// Its records, in the order of the ledger.
    pub records: &'a [LogRecord],
    /// What the gate would do with it now, or why that cannot be told.
    pub now: Result<&'a Explanation, &'a str>,
    pub lineage: Result<&'a Lineage, &'a str>,
}

/// Every stage, in order, so that one that was not reached is shown too.
const STAGES: [&str; 14] = [
    "Receive", "Verify", "Resolve", "Admit", "Bound", "Weigh", "Shape", "Judge", "Consent",
    "Intend", "Dispatch", "Inspect", "Absorb", "Conclude",
];

#[must_use]
pub fn call(story: &Story<'_>) -> Page {
    let names = Names::of(story.status);
    let command = format!("portcullis audit show {}", story.id);
    let end = story
        .records
        .iter()
        .rev()
        .find(|record| matches!(record.kind.as_str(), "outcome" | "refusal"));
    let Some(any) = end.or(story.records.first()) else {
        let body = html! {
            p { "No record of this call. It may be older than the ledger, or the id may be cut." }
            p { a href="/calls" { "All calls" } }
        };
        return Page::new("/calls", format!("Call {}", story.id), body).command(command);
    };
    let fix = fix(story);
    let body = html! {
        p.lead {
            (names.name(&any.caller)) " asked for " strong { (target(any)) } " at " (marked(&any.time)) ": "
            (verdict(end.map_or("", |end| end.verdict.as_str())))
            @if let Some(us) = end.and_then(|end| end.us) { " in " (time::took(us)) }
            @if let Some(us) = end.and_then(|end| end.server_us) { ", of which the server took " (time::took(us)) }
        }
        @if let Some(end) = end.filter(|end| !end.violation.is_empty() || !end.detail.is_empty()) {
            p.why { "At " strong { (marked(&end.stage)) } ": " (marked(&end.violation)) ". " (marked(&end.detail)) }
        }
        @if let Some(fix) = fix {
            p.fix { strong { "What would have allowed it: " } (marked(fix)) }
        }
        section aria-labelledby="then" {
            h2 id="then" { "Then, from the ledger" }
            (then(story, end))
        }
        section aria-labelledby="now" {
            h2 id="now" { "Now, decided again" }
            @match story.now {
                Ok(now) => (explained(now)),
                Err(why) => { p.muted { (marked(why)) } },
            }
        }
        section aria-labelledby="arguments" {
            h2 id="arguments" { "Arguments" }
            (arguments(story, any))
        }
        section aria-labelledby="lineage" {
            h2 id="lineage" { "What may have influenced it" }
            @match story.lineage {
                Ok(lineage) => (rail(lineage, &names)),
                Err(why) => { p.muted { (marked(why)) } },
            }
        }
        section aria-labelledby="records" {
            h2 id="records" { "Records" }
            (records(story.records))
        }
    };
    Page::new("/calls", format!("Call {}", story.id), body).command(command)
}

/// The repair that the check which stopped it names.
fn fix<'a>(story: &Story<'a>) -> Option<&'a str> {
    let checks = story
        .now
        .ok()?
        .stages
        .iter()
        .flat_map(|stage| &stage.checks);
    checks
        .filter(|check| check.verdict != "ok")
        .find_map(|check| check.fix.as_deref())
}

fn then(story: &Story<'_>, end: Option<&LogRecord>) -> Markup {
    let decided = end.map_or("", |end| end.stage.as_str());
    let at = STAGES.iter().position(|stage| *stage == decided);
    let was_refused = end.is_some_and(|end| end.verdict == "refused");
    let asked = story
        .records
        .iter()
        .find(|record| !record.approval.is_empty());
    html! {
        ol.stages {
            @for (place, stage) in STAGES.iter().enumerate() {
                @let mark = match at {
                    Some(at) if was_refused && place == at => ("bad", "decided here"),
                    Some(at) if was_refused && place > at && *stage != "Conclude" => ("none", "not reached"),
                    _ if end.is_none() => ("none", "not known yet"),
                    Some(at) if !was_refused && place == at && end.is_some_and(|end| end.verdict != "permitted") => ("warn", "ended here"),
                    _ if *stage == "Consent" && asked.is_some() => ("warn", "asked"),
                    _ => ("good", "passed"),
                };
                li {
                    span.stage { (*stage) } " " (badge(mark.0, mark.1))
                    @if *stage == "Consent" {
                        @if let Some(asked) = asked {
                            " " a href=(format!("/approvals/{}", escaped(&asked.approval))) { "the approval" }
                        }
                    }
                    @if *stage == "Weigh" { @if let Some(end) = end { " " span.muted { "session " (label(end)) } } }
                }
            }
        }
    }
}

fn explained(now: &Explanation) -> Markup {
    html! {
        p {
            "The gate would say " strong { (marked(&now.verdict)) } " now"
            @if let Some(recorded) = &now.recorded {
                @if recorded.verdict != now.verdict { "; then it was " strong { (marked(&recorded.verdict)) } }
            }
            "."
        }
        @if let Some(remark) = &now.remark { p.muted { (marked(remark)) } }
        div.wide { table {
            thead { tr { th { "Stage" } th { "Check" } th { "Says" } th { "What was compared" } th { "What would allow it" } } }
            tbody {
                @for CheckedStage { stage, checks } in &now.stages {
                    @for check in checks { (check_row(stage, check)) }
                }
            }
        } }
    }
}

fn check_row(stage: &str, check: &Check) -> Markup {
    let kind = match check.verdict.as_str() {
        "ok" => "good",
        "refused" => "bad",
        "ask" => "warn",
        _ => "none",
    };
    html! {
        tr {
            td data-label="Stage" { (marked(stage)) }
            td data-label="Check" { (marked(&check.name)) }
            td data-label="Says" { (badge(kind, &check.verdict)) }
            td data-label="What was compared" { (marked(check.detail.as_deref().unwrap_or_default())) }
            td data-label="What would allow it" { (marked(check.fix.as_deref().unwrap_or_default())) }
        }
    }
}

fn arguments(story: &Story<'_>, any: &LogRecord) -> Markup {
    let kept = story.now.ok().and_then(|now| now.arguments.as_deref());
    html! {
        @match kept {
            Some(text) if !text.is_empty() => (folded(text, LONG)),
            _ => { p.muted { "The text is not kept or not shown to this credential." } },
        }
        p.muted {
            @if !any.args.is_empty() { "Digest " code { (marked(&any.args)) } ", " }
            @if let Some(bytes) = any.args_bytes { (bytes) " bytes. " }
            "Of a result only the digest is kept"
            @if let Some(end) = story.records.iter().find(|record| !record.result.is_empty()) {
                ": " code { (marked(&end.result)) } @if let Some(bytes) = end.result_bytes { ", " (bytes) " bytes" }
            }
            "."
        }
    }
}

/// Newest first; runs of one server are folded.
fn rail(lineage: &Lineage, names: &Names<'_>) -> Markup {
    let mut runs: Vec<(&str, Vec<&api::ShownCall>)> = Vec::new();
    for call in &lineage.calls {
        match runs.last_mut() {
            Some((server, calls)) if *server == call.server => calls.push(call),
            _ => runs.push((&call.server, vec![call])),
        }
    }
    html! {
        @if runs.is_empty() { p.muted { "Its session had been shown nothing." } }
        ol.rail {
            @for (server, calls) in &runs {
                li {
                    @if let [call] = calls.as_slice() {
                        (rail_row(call, names))
                    } @else {
                        details {
                            summary { (calls.len()) " results of " (marked(server)) }
                            ol { @for call in calls { li { (rail_row(call, names)) } } }
                        }
                    }
                }
            }
        }
        @if !lineage.whole { p.muted { "There may be more: links lead out of the ledger, or too far." } }
    }
}

fn rail_row(call: &api::ShownCall, names: &Names<'_>) -> Markup {
    html! {
        a href=(format!("/calls/{}", escaped(&call.call))) { (marked(&call.server)) "/" (marked(&call.tool)) }
        " " span.muted { (marked(&call.time)) ", " (names.name(&call.caller)) }
        @if !call.label_after.is_empty() && call.label != call.label_after {
            " " (badge("warn", "label rose")) " " (marked(&call.label)) " → " (marked(&call.label_after))
        }
    }
}

fn records(records: &[LogRecord]) -> Markup {
    html! {
        @for record in records {
            details {
                summary { "Record " (record.seq) ", " (marked(&record.kind)) ", " (marked(&record.time)) }
                (lines(&serde_json::to_string_pretty(record).unwrap_or_default()))
            }
        }
    }
}
