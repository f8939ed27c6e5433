//! `/calls`: finding calls and watching them. The address is the view: its query has the words of `audit query`.

use std::collections::HashMap;

use api::{LogRecord, Records, RecordsQuery, Status};
use maud::{Markup, html};

use crate::{
    Marked,
    marked::marked,
    page::{Page, verdict},
    time,
};

/// Callers by id, so that people read names.
#[derive(Debug)]
pub(crate) struct Names<'a>(HashMap<&'a str, &'a str>);

impl<'a> Names<'a> {
    pub(crate) fn of(status: &'a Status) -> Self {
        let callers = status.callers.iter();
        Self(
            callers
                .map(|caller| (caller.id.as_str(), caller.name.as_str()))
                .collect(),
        )
    }

    pub(crate) fn name(&self, id: &str) -> Marked {
        marked(self.0.get(id).copied().unwrap_or(id))
    }
}

/// What the page is made of.
#[derive(Debug)]
pub struct Calls<'a> {
    pub status: &'a Status,
    /// What was asked for, and what came of it; or why it cannot be told.
    pub query: &'a RecordsQuery,
    pub found: Result<&'a Records, &'a str>,
    /// The address of this view without its `until`, for the way to older ones.
    pub address: &'a str,
    /// Conditions as the form shows them.
    pub words: &'a str,
}

#[must_use]
pub fn calls(view: &Calls<'_>) -> Page {
    let names = Names::of(view.status);
    let body = html! {
        form.search method="get" action="/calls" role="search" {
            label for="words" { "Conditions " span.muted { "such as " code { "verdict:refused server:github since:2h" } } }
            input id="words" name="q" value=(view.words) autocomplete="off" spellcheck="false" data-search="";
            button type="submit" { "Find" }
        }
        (chips(view))
        @match view.found {
            Err(why) => { p.notice.bad role="alert" { (marked(why)) } },
            Ok(found) if found.records.is_empty() => {
                p.muted id="none" { "No call matches. " a href="/calls" { "All calls" } }
                (live_table(&[], &names))
            },
            Ok(found) => {
                @let newest: Vec<&LogRecord> = found.records.iter().rev().collect();
                (facets(&newest, &names))
                (live_table(&newest, &names))
                @if found.more {
                    @if let Some(oldest) = newest.last() {
                        p { a rel="next" href=(older(view.address, oldest)) { "Older" } " · more calls match than are listed here" }
                    }
                }
            },
        }
    };
    let command = view.query.columns().fold(
        "portcullis audit query".to_owned(),
        |command, (key, value)| format!("{command} --{key} {value}"),
    );
    Page::new("/calls", "Calls", body).command(command)
}

/// Before the oldest one that is listed.
fn older(address: &str, oldest: &LogRecord) -> String {
    let joint = if address.contains('?') { '&' } else { '?' };
    format!("{address}{joint}until={}", escaped(&oldest.time))
}

/// A value as it stands in an address.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn chips(view: &Calls<'_>) -> Markup {
    html! {
        ul.chips {
            @for (key, value) in view.query.columns() {
                li {
                    (marked(key)) ": " (marked(value)) " "
                    a href=(without(view.query, key)) aria-label=(format!("Without {key}")) { "×" }
                }
            }
        }
    }
}

/// The address of the same view without one of its conditions.
fn without(query: &RecordsQuery, left_out: &str) -> String {
    let rest = query.columns().filter(|(key, _)| *key != left_out);
    address(rest.chain(query.since.iter().map(|since| ("since", since.as_str()))))
}

fn address<'a>(pairs: impl Iterator<Item = (&'static str, &'a str)>) -> String {
    let query: Vec<String> = pairs
        .map(|(key, value)| format!("{key}={}", escaped(value)))
        .collect();
    match query.is_empty() {
        true => "/calls".to_owned(),
        false => format!("/calls?{}", query.join("&")),
    }
}

/// The key of a condition, its title, and where its value stands.
type Facet = (&'static str, &'static str, fn(&LogRecord) -> &str);

/// How often each server, caller and violation stands in the list; each a way to narrow it.
fn facets(calls: &[&LogRecord], names: &Names<'_>) -> Markup {
    let count = |value: fn(&LogRecord) -> &str| {
        let mut counts: HashMap<&str, u64> = HashMap::new();
        for call in calls {
            *counts.entry(value(call)).or_default() += 1;
        }
        let mut counts: Vec<(&str, u64)> = counts
            .into_iter()
            .filter(|(value, _)| !value.is_empty())
            .collect();
        counts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        counts.truncate(6);
        counts
    };
    let all: [Facet; 4] = [
        ("server", "Server", |call| &call.server),
        ("caller", "Caller", |call| &call.caller),
        ("verdict", "Verdict", |call| &call.verdict),
        ("violation", "Violation", |call| &call.violation),
    ];
    html! {
        dl.facets aria-label="Counts of this list" {
            @for (key, title, value) in all {
                @let counts = count(value);
                @if !counts.is_empty() {
                    dt { (title) }
                    @for (value, count) in counts {
                        dd {
                            a href=(address([(key, value)].into_iter())) {
                                @if key == "caller" { (names.name(value)) } @else { (marked(value)) }
                            }
                            " " span.muted { (count) }
                        }
                    }
                }
            }
        }
    }
}

fn live_table(calls: &[&LogRecord], names: &Names<'_>) -> Markup {
    html! {
        p.live hidden data-live="" {
            button type="button" data-pause="" { "Pause" } " "
            button type="button" data-new="" hidden { "" }
        }
        (table(calls, names, Some("calls")))
    }
}

pub(crate) fn table(calls: &[&LogRecord], names: &Names<'_>, id: Option<&str>) -> Markup {
    html! {
        div.wide { table id=[id] {
            thead {
                tr { th { "Time" } th { "Verdict" } th { "Caller" } th { "Server and tool" } th { "Why" } th { "Label" } th { "Took" } }
            }
            tbody data-rows="" {
                @for call in calls {
                    tr {
                        td data-label="Time" { a href=(format!("/calls/{}", escaped(&call.call))) { (marked(&call.time)) } }
                        td data-label="Verdict" { (verdict(&call.verdict)) }
                        td data-label="Caller" { (names.name(&call.caller)) }
                        td data-label="Server and tool" { (target(call)) }
                        td data-label="Why" { (why(call)) }
                        td data-label="Label" { (label(call)) }
                        td data-label="Took" { @if let Some(us) = call.us { (time::took(us)) } }
                    }
                }
            }
        } }
    }
}

pub(crate) fn target(call: &LogRecord) -> Markup {
    html! {
        @if !call.server.is_empty() { (marked(&call.server)) "/" }
        @if call.tool.is_empty() { (marked(&call.target)) } @else { (marked(&call.tool)) }
    }
}

fn why(call: &LogRecord) -> Markup {
    let short: String = call.detail.chars().take(160).collect();
    html! {
        @if !call.violation.is_empty() { (marked(&call.stage)) ": " (marked(&call.violation)) ". " }
        (marked(&short)) @if short.len() < call.detail.len() { " …" }
    }
}

pub(crate) fn label(call: &LogRecord) -> Markup {
    html! {
        (marked(&call.label))
        @if !call.label_after.is_empty() && call.label_after != call.label { " → " (marked(&call.label_after)) }
    }
}
