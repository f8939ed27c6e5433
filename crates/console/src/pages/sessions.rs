//! `/sessions`: what each caller has seen, what it can no longer do, and beginning anew.

use api::{LogRecord, Session, Status};
use maud::{Markup, html};

use super::calls::{self, Names, escaped};
use crate::{
    marked::marked,
    page::{Page, Viewer, proof, reason},
};

#[must_use]
pub fn sessions(sessions: &[Session]) -> Page {
    let body = html! {
        @if sessions.is_empty() {
            p.muted { "No caller has called since the gate started." }
        } @else {
            div.wide { table {
                thead { tr { th { "Caller" } th { "Has seen" } th { "From" } th { "Results" } th { "Begun anew" } } }
                tbody data-rows="" {
                    @for session in sessions {
                        tr {
                            td data-label="Caller" { a href=(format!("/sessions/{}", escaped(&session.caller))) { (marked(&session.name)) } }
                            td data-label="Has seen" { (marked(&session.label)) }
                            td data-label="From" { (marked(&session.origins.join(", "))) }
                            td data-label="Results" { (session.calls) }
                            td data-label="Begun anew" { (session.epoch) @if session.epoch == 1 { " time" } @else { " times" } }
                        }
                    }
                }
            } }
        }
    };
    Page::new("/sessions", "Sessions", body).command("portcullis session show")
}

/// One caller's session. `refused` are its calls that a label stopped.
#[must_use]
pub fn session(
    session: &Session,
    status: &Status,
    refused: Option<&[LogRecord]>,
    viewer: &Viewer,
) -> Page {
    let names = Names::of(status);
    let body = html! {
        p.lead {
            (marked(&session.name)) " has seen " strong { (marked(&session.label)) } " data"
            @if !session.origins.is_empty() { " from " (marked(&session.origins.join(", "))) }
            "."
        }
        section aria-labelledby="closed" {
            h2 id="closed" { "Closed now" }
            (closed(session, status))
        }
        @if let Some(head) = session.head() {
            p { a href=(format!("/calls/{}", escaped(head))) { "The newest result it was shown" } }
        }
        section aria-labelledby="refused" {
            h2 id="refused" { "Refused for what it has seen" }
            @match refused {
                Some([]) => { p.muted { "No call was." } },
                Some(refused) => (calls::table(&refused.iter().rev().collect::<Vec<_>>(), &names, None)),
                None => { p.muted { "Not known: the index of the ledger could not be read." } },
            }
        }
        @if viewer.role.may(api::Role::Operator) {
            section aria-labelledby="reset" {
                h2 id="reset" { "Begin anew" }
                p {
                    "It begins with nothing seen. Do this when the agent itself has forgotten too: what it still remembers, a new session lets it send anywhere."
                }
                form method="post" action=(format!("/sessions/{}/reset", escaped(&session.caller))) data-sign="" {
                    p { label { "Type the caller's name, " strong { (marked(&session.name)) } " " input name="name" autocomplete="off" spellcheck="false" required; } }
                    (reason(true)) (proof(viewer))
                    button type="submit" { "Begin a new session" }
                }
            }
        }
    };
    Page::new("/sessions", format!("Session of {}", session.name), body)
        .command(format!("portcullis session show {}", session.name))
}

/// Servers below what the session has seen. A server may accept more than it gives; its own page and the checks of a call say so.
fn closed(session: &Session, status: &Status) -> Markup {
    let seen = level(&session.label);
    let below: Vec<&str> = status
        .servers
        .iter()
        .filter(|server| server.classification.as_deref().map(level) < Some(seen))
        .filter(|server| server.classification.is_some())
        .map(|server| server.id.as_str())
        .collect();
    html! {
        @if below.is_empty() {
            p { "Nothing: every server that has a level may be sent what it has seen." }
        } @else {
            p {
                "Unless they accept more than they give, nothing may be sent to "
                @for (at, id) in below.iter().enumerate() {
                    @if at > 0 { ", " }
                    a href=(format!("/servers/{}", escaped(id))) { (marked(id)) }
                }
                "."
            }
        }
    }
}

fn level(label: &str) -> usize {
    let levels = ["PUBLIC", "INTERNAL", "CONFIDENTIAL", "RESTRICTED"];
    levels
        .iter()
        .position(|level| label.starts_with(level))
        .unwrap_or(0)
}
