//! `/servers`: what is connected, may it be used, has it changed.

use api::{Definition, LogRecord, Review, Server, Status, Tool};
use maud::{Markup, html};

use super::{
    calls::{self, Names, escaped},
    overview::can_be_called,
};
use crate::{
    marked::{folded, lines, looks_like, marked},
    page::{Page, Viewer, badge, proof, reason},
};

const LEVELS: [(&str, &str); 4] = [
    ("PUBLIC", "nothing but public data may be sent to it"),
    ("INTERNAL", "internal data may be sent to it too"),
    ("CONFIDENTIAL", "confidential data may be sent to it too"),
    ("RESTRICTED", "everything may be sent to it"),
];

#[must_use]
pub fn servers(status: &Status, viewer: &Viewer) -> Page {
    let body = html! {
        @if status.servers.is_empty() {
            p { "No servers yet. " a href="/start" { "Add one" } }
        } @else {
            div.wide { table {
                thead { tr { th { "Server" } th { "State" } th { "Level" } th { "Tools" } th { "Words" } th { "Last error" } } }
                tbody data-rows="" {
                    @for server in &status.servers {
                        tr {
                            td data-label="Server" { a href=(format!("/servers/{}", escaped(&server.id))) { (marked(&server.id)) } }
                            td data-label="State" { (state(server)) }
                            td data-label="Level" { (marked(server.classification.as_deref().unwrap_or("none yet"))) }
                            td data-label="Tools" {
                                (server.tools)
                                @if server.quarantined > 0 {
                                    ", " a href=(format!("/servers/{}/review", escaped(&server.id))) { (server.quarantined) " wait" }
                                }
                            }
                            td data-label="Words" { @match server.open_world { Some(true) => "a stranger's", Some(false) => "its own", None => "not known" } }
                            td data-label="Last error" { (marked(server.last_error.as_deref().unwrap_or_default())) }
                        }
                    }
                }
            } }
        }
    };
    let _ = viewer;
    Page::new("/servers", "Servers", body).command("portcullis servers list")
}

/// The state as a sentence.
fn state(server: &Server) -> Markup {
    html! {
        @if let Some(why) = &server.blocked {
            (badge("bad", "blocked")) " " (marked(why))
        } @else if can_be_called(server) {
            (badge("good", "can be called"))
        } @else if server.state == api::ServerState::Connected && server.trust == "UNTRUSTED" {
            (badge("none", "waits for a level"))
        } @else if server.state == api::ServerState::Connected {
            (badge("warn", "connected, nothing to call"))
        } @else if let Some(login) = server.login.as_ref().filter(|login| login.state != "connected") {
            (badge("warn", &login.state))
        } @else {
            (badge(if server.state.is_wanted() { "warn" } else { "none" }, server.state.as_str()))
            @if let Some(ms) = server.next_retry_ms { " tried again in " (ms / 1000) " s" }
        }
    }
}

/// One server, its tools and its last calls.
#[must_use]
pub fn server(
    shown: &Server,
    tools: &[&Tool],
    status: &Status,
    last: Option<&[LogRecord]>,
    viewer: &Viewer,
) -> Page {
    let names = Names::of(status);
    let id = escaped(&shown.id);
    let others = status.servers.iter().map(|server| server.id.as_str());
    let body = html! {
        p.lead { (state(shown)) @if let Some(like) = looks_like(&shown.id, others) { " " (badge("bad", "looks like")) " " (marked(like)) } }
        dl.facts {
            dt { "Level" } dd { (marked(shown.classification.as_deref().unwrap_or("none yet"))) }
            dt { "Transport" } dd { (marked(&shown.transport)) @if let Some(protocol) = &shown.protocol { ", " (marked(protocol)) } }
            @if let Some(confined) = &shown.confined { dt { "Confined" } dd { (marked(confined)) } }
            dt { "Whose words it returns" }
            dd {
                @match shown.open_world { Some(true) => "a stranger's, so reading it makes a session untrusted", Some(false) => "its own", None => "not known" }
                @if let Some(why) = &shown.open_world_why { " (" (marked(why)) ")" }
            }
            @if let Some(login) = &shown.login {
                dt { "Login" } dd { (marked(&login.state)) @if let Some(problem) = &login.problem { ": " (marked(problem)) } }
            }
            @if let Some(error) = &shown.last_error { dt { "Last error" } dd { (folded(error, 2_000)) } }
            @if let Some(stderr) = &shown.stderr { dt { "Last words" } dd { (folded(stderr, 2_000)) } }
        }
        @if !shown.remarks.is_empty() { ul { @for remark in &shown.remarks { li { (badge("warn", "odd")) " " (marked(remark)) } } } }
        @if shown.quarantined > 0 {
            p { a href=(format!("/servers/{id}/review")) { "Look at " (shown.quarantined) " definitions that are new or changed" } }
        }
        section aria-labelledby="tools" {
            h2 id="tools" { "Tools" }
            @if tools.is_empty() { p.muted { "It offers none that are known." } } @else {
                div.wide { table {
                    thead { tr { th { "Tool" } th { "Effect" } th { "Permission" } th { "Shown" } th { "Description" } } }
                    tbody {
                        @for tool in tools {
                            tr {
                                td data-label="Tool" { (marked(&tool.original)) }
                                td data-label="Effect" { (marked(&tool.effect)) " " span.muted { "(" (marked(&tool.effect_from)) ")" } }
                                td data-label="Permission" { (marked(&tool.permission)) }
                                td data-label="Shown" {
                                    @if tool.quarantined { (badge("warn", "waits")) } @else if tool.shown == Some(true) { "yes" } @else { "no" }
                                    @if let Some(why) = &tool.left_out { " " (marked(why)) }
                                }
                                td data-label="Description" { (folded(tool.description.as_deref().unwrap_or_default(), 240)) }
                            }
                        }
                    }
                } }
            }
        }
        section aria-labelledby="calls" {
            h2 id="calls" { "Last calls" }
            @match last {
                Some([]) => { p.muted { "None." } },
                Some(last) => (calls::table(&last.iter().rev().collect::<Vec<_>>(), &names, None)),
                None => { p.muted { "Not known: the index of the ledger could not be read." } },
            }
        }
        @if viewer.role.may(api::Role::Operator) { (acts(shown, &id, viewer)) }
    };
    Page::new("/servers", shown.id.clone(), body)
        .command(format!("portcullis servers show {}", shown.id))
}

fn acts(shown: &Server, id: &str, viewer: &Viewer) -> Markup {
    html! {
        section aria-labelledby="acts" {
            h2 id="acts" { "Change it" }
            details {
                summary { "Give it a level" }
                p { "The first time, the definitions that are listed under review are approved with it." }
                form method="post" action=(format!("/servers/{id}/classify")) data-sign="" {
                    fieldset {
                        legend { "Level" }
                        @for (level, means) in LEVELS {
                            p { label { input type="radio" name="level" value=(level) required; " " strong { (level) } ": " (means) } }
                        }
                    }
                    (reason(false)) (proof(viewer))
                    button type="submit" { "Classify" }
                }
            }
            @if shown.blocked.is_none() {
                details {
                    summary { "Block it" }
                    p { "It is ended at once and nothing of it can be called." }
                    form method="post" action=(format!("/servers/{id}/block")) data-sign="" {
                        (reason(true)) (proof(viewer))
                        button type="submit" { "Block" }
                    }
                }
            } @else {
                details {
                    summary { "Unblock it" }
                    form method="post" action=(format!("/servers/{id}/unblock")) data-sign="" {
                        (reason(false)) (proof(viewer))
                        button type="submit" { "Unblock" }
                    }
                }
            }
            details {
                summary { "Try it again now" }
                form method="post" action=(format!("/servers/{id}/retry")) data-sign="" {
                    (proof(viewer))
                    button type="submit" { "Try again" }
                }
            }
        }
    }
}

/// What changed in what a server offers; each is ticked as read, and approving covers the ticked ones.
#[must_use]
pub fn review(review: &Review, viewer: &Viewer) -> Page {
    let waiting: Vec<&Definition> = review
        .definitions
        .iter()
        .filter(|definition| definition.waits())
        .collect();
    let id = escaped(&review.server);
    let known: Vec<&str> = review
        .definitions
        .iter()
        .map(|definition| definition.name.as_str())
        .collect();
    let body = html! {
        p.lead {
            (marked(&review.server)) " is " (marked(&review.state)) ". "
            @if waiting.is_empty() { "Everything it offers is as it was approved." } @else { (waiting.len()) " definitions wait for a person." }
        }
        @if !waiting.is_empty() {
            form method="post" action=(format!("/servers/{id}/approve")) data-sign="" {
                @for definition in &waiting { (definition_card(definition, &known)) }
                @if viewer.role.may(api::Role::Operator) {
                    (reason(false)) (proof(viewer))
                    button type="submit" { "Approve what is ticked" }
                } @else {
                    p.muted { "An operator can approve these." }
                }
            }
        }
        details {
            summary { "All " (review.definitions.len()) " definitions" }
            div.wide { table {
                thead { tr { th { "Definition" } th { "State" } th { "Effect" } th { "Description" } } }
                tbody {
                    @for definition in &review.definitions {
                        tr {
                            td data-label="Definition" { (marked(&definition.kind)) " " (marked(&definition.name)) }
                            td data-label="State" { (marked(&definition.state)) }
                            td data-label="Effect" { (marked(definition.effect.as_deref().unwrap_or_default())) }
                            td data-label="Description" { (folded(definition.description.as_deref().unwrap_or_default(), 240)) }
                        }
                    }
                }
            } }
        }
    };
    Page::new("/servers", format!("Review of {}", review.server), body)
        .command(format!("portcullis servers review {}", review.server))
}

fn definition_card(definition: &Definition, known: &[&str]) -> Markup {
    let name = format!("{}:{}", definition.kind, definition.name);
    html! {
        article.definition {
            h2 {
                (marked(&definition.kind)) " " (marked(&definition.name)) " " (badge("warn", &definition.state))
                @if let Some(verdict) = &definition.verdict { " " (marked(verdict)) }
            }
            @if let Some(like) = looks_like(&definition.name, known.iter().copied()) {
                p { (badge("bad", "looks like")) " " (marked(like)) }
            }
            @if let Some(effect) = &definition.effect { p { "Effect: " (marked(effect)) " (" (marked(&definition.effect_from)) ")" @if definition.takes_address { "; takes an address" } } }
            @for odd in &definition.suspicions { p { (badge("bad", "odd")) " " (marked(odd)) } }
            @if definition.diff.is_empty() {
                (lines(definition.description.as_deref().unwrap_or_default()))
            } @else {
                pre.diff {
                    @for line in &definition.diff {
                        @if line.starts_with("+ ") { ins { (marked(line)) } } @else if line.starts_with("- ") { del { (marked(line)) } } @else { (marked(line)) }
                        "\n"
                    }
                }
            }
            @if let Some(digest) = &definition.digest {
                p { label { input type="checkbox" name="tick" value=(format!("{name} {digest}")); " Read; approve it" } }
            }
        }
    }
}
