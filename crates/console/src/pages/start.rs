//! `/start`: from an empty home to the first call. Steps tick themselves from facts.

use api::Status;
use maud::{Markup, html};

use super::overview::can_be_called;
use crate::page::{Page, badge};

#[must_use]
pub fn start(status: &Status, calls: u64) -> Page {
    let confined = status.worker.confinement.iter().all(|step| step.applied);
    let callable = status.servers.iter().filter(|server| can_be_called(server));
    let callable = callable.count();
    let body = html! {
        ol.steps {
            li {
                (tick(status.worker.pid.is_some()))
                h2 { "The gate runs" }
                p {
                    @if confined { "The program that talks to servers is confined." }
                    @else { "Not every wall could be put up on this machine; " code { "portcullis doctor" } " says which and what to do." }
                }
            }
            li {
                (tick(!status.callers.is_empty()))
                h2 { "Connect your client" }
                p { "This prints what to paste into Claude Code, Cursor, Codex, Gemini CLI, opencode, VS Code, Windsurf, Zed or Claude Desktop:" }
                pre.command { "portcullis clients show claude-code" }
            }
            li {
                (tick(callable > 0))
                h2 { "Bring your servers" }
                p { "Each is started in a jail, and nothing of it can be called until you give it a level:" }
                pre.command { "portcullis servers add NAME --command …" }
                p { a href="/servers" { (status.servers.len()) " servers are known, " (callable) " can be called" } }
            }
            li {
                (tick(calls > 0))
                h2 { "Try it" }
                p { "With the demo servers: a private note is read, and may then not be posted." }
                pre.command {
                    "portcullis call demo-notes__search_notes '{\"query\": \"launch\"}'\n"
                    "portcullis call demo-web__post_message '{\"channel\": \"#general\", \"text\": \"good evening\"}'"
                }
                p { a href="/calls?verdict=refused" { "Refused calls, and why" } }
            }
        }
    };
    Page::new("/start", "Start", body).command("portcullis status")
}

fn tick(done: bool) -> Markup {
    html! { @if done { (badge("good", "done")) } @else { (badge("none", "to do")) } }
}
