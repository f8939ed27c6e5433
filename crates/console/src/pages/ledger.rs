//! `/ledger`: can the record be trusted, and what stands in it.

use api::{Report, Status};
use maud::html;

use super::{
    calls::{Names, escaped},
    overview::change_list,
};
use crate::{
    marked::marked,
    page::{Page, Viewer, badge, token},
};

/// `verified` is there when somebody asked for it: it reads every record.
#[must_use]
pub fn ledger(
    status: &Status,
    changes: Option<&api::Records>,
    verified: Option<Result<&Report, &str>>,
    viewer: &Viewer,
) -> Page {
    let names = Names::of(status);
    let body = html! {
        p.lead {
            (status.ledger.records) " records. "
            @match &status.ledger.broken {
                Some(why) => { (badge("bad", "cannot be written")) " " (marked(why)) },
                None => (badge("good", "written")),
            }
        }
        section aria-labelledby="verify" {
            h2 id="verify" { "Verify" }
            @match verified {
                None => {
                    p { "Verifying reads every record, follows its chain and compares its signed head." }
                    form method="post" action="/ledger" { (token(viewer)) button type="submit" data-key="v" { "Verify now" } }
                },
                Some(Err(why)) => { p.notice.bad role="alert" { (marked(why)) } },
                Some(Ok(report)) => {
                    @let state = &report.ledger;
                    p {
                        @if state.verifies { (badge("good", "verifies")) " to record " (state.records) } @else { (badge("bad", "does not verify")) }
                        @if let Some(finding) = &state.finding { " " (marked(finding)) }
                    }
                    dl.facts {
                        dt { "Head" } dd { code { (marked(&state.head)) } }
                        dt { "Root" } dd { code { (marked(&state.root)) } }
                        @if let Some(covers) = state.checkpoint_covers { dt { "Signed head covers" } dd { (covers) " records" } }
                        @if let Some(key) = &state.public_key { dt { "Key" } dd { code { (marked(key)) } } }
                    }
                    p.muted {
                        "Verifying shows that nothing was changed or taken out since it was written. It does not show that what was written was true, nor that \
                         the end is the newest one: keep a head elsewhere for that."
                    }
                },
            }
        }
        section aria-labelledby="sinks" {
            h2 id="sinks" { "Sent elsewhere" }
            @if status.sinks.is_empty() { p.muted { "Nowhere." } } @else {
                div.wide { table {
                    thead { tr { th { "Sink" } th { "State" } th { "Behind" } th { "Lost" } th { "Error" } } }
                    tbody { @for sink in &status.sinks { tr {
                        td data-label="Sink" { (marked(&sink.name)) " (" (marked(&sink.kind)) ")" }
                        td data-label="State" { (marked(&sink.state)) }
                        td data-label="Behind" { (sink.lag) }
                        td data-label="Lost" { (sink.lost) }
                        td data-label="Error" { (marked(&sink.error)) }
                    } } }
                } }
            }
        }
        section aria-labelledby="changes" {
            h2 id="changes" { "Changes" }
            @match changes {
                Some(changes) => (change_list(&changes.records.iter().rev().collect::<Vec<_>>(), &names)),
                None => { p.muted { "Not known: the index of the ledger could not be read." } },
            }
        }
        p { "Export and proofs: " code { "portcullis audit export" } ", " code { "portcullis audit proof " (escaped("SEQ")) } "." }
    };
    Page::new("/ledger", "Ledger", body).command("portcullis audit verify")
}
