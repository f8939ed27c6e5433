//! `/visits`: who is at the console, and which callers the gate knows.

use api::{Status, Visit};
use maud::html;

use crate::{
    marked::marked,
    page::{Page, Viewer, proof},
    time,
};

#[must_use]
pub fn visits(visits: &[Visit], own: &str, status: &Status, viewer: &Viewer) -> Page {
    let body = html! {
        section aria-labelledby="visits" {
            h2 id="visits" { "At the console" }
            div.wide { table {
                thead { tr { th { "Who" } th { "Role" } th { "Since" } th { "Last seen" } th { "Signs" } th { "End" } } }
                tbody {
                    @for visit in visits {
                        tr {
                            td data-label="Who" { (marked(&visit.name)) @if visit.id == own { " (you)" } }
                            td data-label="Role" { (visit.role.as_str()) }
                            td data-label="Since" { (time::ago(viewer.now_ms, visit.since_ms)) }
                            td data-label="Last seen" { (time::ago(viewer.now_ms, visit.seen_ms)) }
                            td data-label="Signs" { @if visit.signs { "yes" } @else { "no, types codes" } }
                            td data-label="End" {
                                @if viewer.role.may(api::Role::Operator) && visit.id != own {
                                    form.inline method="post" action=(format!("/visits/{}/end", visit.id)) data-sign="" {
                                        (proof(viewer))
                                        button type="submit" { "End" span.hidden { " the visit of " (marked(&visit.name)) } }
                                    }
                                }
                            }
                        }
                    }
                }
            } }
        }
        section aria-labelledby="callers" {
            h2 id="callers" { "Callers since the gate started" }
            @if status.callers.is_empty() { p.muted { "None." } }
            ul {
                @for caller in &status.callers {
                    li { a href=(format!("/sessions/{}", super::calls::escaped(&caller.id))) { (marked(&caller.name)) } " has seen " (marked(&caller.label)) }
                }
            }
            p { "Make and revoke credentials with " code { "portcullis token new NAME" } " and " code { "portcullis token revoke NAME" } "." }
        }
    };
    Page::new("/visits", "Visits and callers", body).command("portcullis token list")
}
