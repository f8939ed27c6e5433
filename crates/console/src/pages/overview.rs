//! `/`: is it working, what happened, what waits for me.

use api::{LogRecord, ServerState, Status};
use maud::{Markup, html};

use super::calls::{self, Names};
use crate::{
    marked::marked,
    page::{Page, badge},
    time,
};

/// What the page is made of. What could not be had is absent, and the page says so.
#[derive(Debug)]
pub struct Overview<'a> {
    pub status: &'a Status,
    pub approvals: &'a [api::Approval],
    /// The calls of the last hour, the newest; and whether there were more.
    pub hour: Option<&'a api::Records>,
    pub refused: Option<&'a api::Records>,
    pub changes: Option<&'a api::Records>,
    pub now_ms: u64,
}

const BARS: u64 = 60;
const MINUTE: u64 = 60_000;

#[must_use]
pub fn overview(view: &Overview<'_>) -> Page {
    let names = Names::of(view.status);
    let body = html! {
        p.lead id="sentence" { (sentence(view)) }
        (troubles(view.status))
        section aria-labelledby="waits" {
            h2 id="waits" { "Waits for you" }
            (waits(view))
        }
        section aria-labelledby="hour" {
            h2 id="hour" { "The last hour" }
            @match view.hour {
                Some(hour) => (bars(hour, view.now_ms)),
                None => { p.muted { "Not known: the index of the ledger could not be read." } },
            }
        }
        section aria-labelledby="refused" {
            h2 id="refused" { "Last refusals" }
            @match view.refused {
                Some(refused) if refused.records.is_empty() => { p.muted { "No call was refused." } },
                Some(refused) => (calls::table(&newest(refused), &names, None)),
                None => { p.muted { "Not known: the index of the ledger could not be read." } },
            }
        }
        section aria-labelledby="changes" {
            h2 id="changes" { "Last changes" }
            @match view.changes {
                Some(changes) => (change_list(&newest(changes), &names)),
                None => { p.muted { "Not known: the index of the ledger could not be read." } },
            }
        }
        p.muted {
            "Version " (marked(&view.status.version)) ", policies " (marked(&view.status.bundle)) ", "
            (view.status.ledger.records) " records."
        }
    };
    Page::new("/", "Overview", body).command("portcullis status")
}

fn newest(records: &api::Records) -> Vec<&LogRecord> {
    records.records.iter().rev().collect()
}

fn sentence(view: &Overview<'_>) -> Markup {
    let wanted = view
        .status
        .servers
        .iter()
        .filter(|server| server.state.is_wanted());
    let (mut all, mut callable) = (0, 0);
    for server in wanted {
        all += 1;
        if can_be_called(server) {
            callable += 1;
        }
    }
    let open = view.approvals.len();
    html! {
        (callable) " of " (all) " servers can be called; "
        @if view.status.ledger.broken.is_none() { "records are written; " } @else { "records are not written; " }
        @match open {
            0 => "no call waits for a person.",
            1 => "1 call waits for a person.",
            _ => { (open) " calls wait for a person." },
        }
    }
}

/// A caller could call one of its tools now.
pub(crate) fn can_be_called(server: &api::Server) -> bool {
    server.state == ServerState::Connected && server.trust == "CLASSIFIED" && server.tools > 0
}

fn troubles(status: &Status) -> Markup {
    let weak = status
        .worker
        .confinement
        .iter()
        .filter(|step| !step.applied);
    html! {
        ul.troubles {
            @for step in weak {
                li { (badge("warn", "not confined")) " " (marked(&step.name)) ": " (marked(&step.detail)) }
            }
            @for sink in status.sinks.iter().filter(|sink| sink.state == "failing" || sink.state == "stopped") {
                li { (badge("bad", &sink.state)) " sink " (marked(&sink.name)) ", " (sink.lag) " records behind: " (marked(&sink.error)) }
            }
            @if !status.awaiting_restart.is_empty() {
                li {
                    (badge("warn", "awaits a restart")) " "
                    @for key in &status.awaiting_restart { code { (marked(key)) } " " }
                }
            }
            @if status.worker.restarts > 0 {
                li { (badge("warn", "restarted")) " The worker that talks to servers was started again " (status.worker.restarts) " times." }
            }
        }
    }
}

fn waits(view: &Overview<'_>) -> Markup {
    let servers = &view.status.servers;
    let unsaid = servers
        .iter()
        .filter(|server| server.state.is_wanted() && server.trust == "UNTRUSTED");
    let changed = servers.iter().filter(|server| server.quarantined > 0);
    let failed = servers.iter().filter(|server| {
        matches!(
            server.state,
            ServerState::Failed | ServerState::Disconnected
        )
    });
    let rows = html! {
        @for approval in view.approvals {
            li {
                (badge("warn", "approval")) " "
                a href=(format!("/approvals/{}", approval.id)) {
                    (marked(&approval.name)) " wants " (marked(&approval.server)) "/" (marked(&approval.tool))
                }
                " · " (time::left(view.now_ms, approval.expires_ms))
            }
        }
        @for server in changed {
            li {
                (badge("warn", "changed")) " "
                a href=(format!("/servers/{}/review", server.id)) {
                    (server.quarantined) " definitions of " (marked(&server.id)) " are new or changed"
                }
            }
        }
        @for server in unsaid {
            li {
                (badge("none", "no level")) " "
                a href=(format!("/servers/{}", server.id)) { (marked(&server.id)) " waits for a level" }
            }
        }
        @for server in failed {
            li {
                (badge("bad", server.state.as_str())) " "
                a href=(format!("/servers/{}", server.id)) { (marked(&server.id)) }
                " " (marked(server.last_error.as_deref().unwrap_or_default()))
            }
        }
    };
    if rows.0.is_empty() {
        return html! { p.muted { "Nothing waits for you." } };
    }
    html! { ul.waits data-rows="" { (rows) } }
}

/// Sixty minutes as bars: permitted, refused, and whatever else, on top of each other.
fn bars(hour: &api::Records, now_ms: u64) -> Markup {
    let begin = now_ms.saturating_sub(BARS * MINUTE) / MINUTE + 1;
    let mut minutes = vec![[0_u64; 3]; usize::try_from(BARS).unwrap_or(60)];
    for record in &hour.records {
        let at = (record.ms / MINUTE)
            .checked_sub(begin)
            .and_then(|at| usize::try_from(at).ok());
        let kind = match record.verdict.as_str() {
            "permitted" => 0,
            "refused" => 1,
            _ => 2,
        };
        let place = at
            .and_then(|at| minutes.get_mut(at))
            .and_then(|minute| minute.get_mut(kind));
        if let Some(place) = place {
            *place += 1;
        }
    }
    let most = minutes
        .iter()
        .map(|minute| minute.iter().sum::<u64>())
        .max()
        .unwrap_or(0);
    let all = hour.records.len();
    let scale = |count: u64| count * 60 / most.max(1);
    html! {
        @if most == 0 {
            p.muted { "No calls yet. " a href="/start" { "Connect a client and make the first one." } }
        } @else {
            svg.bars role="img" aria-label=(format!("{all} calls in the last hour, at most {most} in a minute")) viewBox="0 0 300 64" preserveAspectRatio="xMinYMid meet" {
                @for (at, [permitted, refused, other]) in minutes.iter().enumerate() {
                    @let x = at * 5;
                    @let (good, bad, warn) = (scale(*permitted), scale(*refused), scale(*other));
                    rect.good x=(x) y=(62 - good) width="4" height=(good) {}
                    rect.bad x=(x) y=(62 - good - bad) width="4" height=(bad) {}
                    rect.warn x=(x) y=(62_u64.saturating_sub(good + bad + warn)) width="4" height=(warn) {}
                }
                rect.base x="0" y="63" width="300" height="1" {}
            }
            p {
                a href="/calls?since=1h" {
                    @if hour.more { "The newest " (all) " of more calls" } @else { (all) " calls" }
                }
                " · at most " (most) " in a minute · "
                span.legend.good { "● permitted" } " " span.legend.bad { "■ refused" } " " span.legend.warn { "▲ other" }
            }
        }
    }
}

pub(crate) fn change_list(changes: &[&LogRecord], names: &Names<'_>) -> Markup {
    html! {
        @if changes.is_empty() {
            p.muted { "Nothing was changed." }
        } @else {
            div.wide { table {
                thead { tr { th { "Time" } th { "What" } th { "About" } th { "By" } th { "Detail" } } }
                tbody {
                    @for change in changes {
                        tr {
                            td data-label="Time" { (marked(&change.time)) }
                            td data-label="What" { (marked(&change.action)) }
                            td data-label="About" { (marked(&change.server)) " " (marked(&change.target)) }
                            td data-label="By" { (names.name(&change.caller)) }
                            td data-label="Detail" { (marked(&change.detail)) @if !change.reason.is_empty() { " — " (marked(&change.reason)) } }
                        }
                    }
                }
            } }
        }
    }
}
