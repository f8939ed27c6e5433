//! `/settings`: every value and where it came from. `/help`: keys, and what words mean.

use api::{ConfigCheck, ConfigValue};
use maud::html;

use crate::{
    marked::marked,
    page::{Page, badge},
};

#[must_use]
pub fn settings(values: Result<&[ConfigValue], &str>, checked: Result<&ConfigCheck, &str>) -> Page {
    let body = html! {
        section aria-labelledby="browser" {
            h2 id="browser" { "This browser" }
            p { "Theme: " button type="button" data-theme-to="" { "as the system" } " " button type="button" data-theme-to="light" { "light" } " " button type="button" data-theme-to="dark" { "dark" } }
            p { label { input type="checkbox" data-keys=""; " Single keys move around (see " a href="/help" { "help" } ")" } }
        }
        section aria-labelledby="file" {
            h2 id="file" { "The file" }
            @match checked {
                Ok(check) => {
                    p { (marked(&check.file)) " " @if check.ok { (badge("good", "good")) } @else { (badge("bad", "cannot be used")) } }
                    ul {
                        @for finding in &check.findings {
                            li {
                                (badge(if finding.severity == "error" { "bad" } else { "warn" }, &finding.severity)) " line " (finding.line) ": " (marked(&finding.what))
                                @if !finding.fix.is_empty() { " " strong { "Repair: " } (marked(&finding.fix)) }
                            }
                        }
                    }
                },
                Err(why) => { p.notice.bad { (marked(why)) } },
            }
        }
        section aria-labelledby="values" {
            h2 id="values" { "Values" }
            @match values {
                Ok(values) => {
                    div.wide { table {
                        thead { tr { th { "Key" } th { "Value" } th { "From" } } }
                        tbody {
                            @for value in values {
                                tr {
                                    td data-label="Key" { code { (marked(&value.key)) } }
                                    td data-label="Value" { (marked(&value.value)) @if value.awaiting_restart { " " (badge("warn", "awaits a restart")) } }
                                    td data-label="From" { (marked(&value.origin)) }
                                }
                            }
                        }
                    } }
                },
                Err(why) => { p.notice.bad { (marked(why)) } },
            }
        }
    };
    Page::new("/settings", "Settings", body).command("portcullis config explain")
}

const KEYS: [(&str, &str); 9] = [
    ("?", "this page"),
    (
        "g, then o c a s n p l k e",
        "overview, calls, approvals, servers, sessions, policy, ledger, visits, settings",
    ),
    ("j, k", "next and previous row"),
    ("Enter", "open the row"),
    ("/", "to the search"),
    (".", "pause and go on"),
    (
        "a, d",
        "on an approval: to the button, which you then press",
    ),
    ("y", "copy the address of this page"),
    ("Esc", "back to the page"),
];

#[must_use]
pub fn help() -> Page {
    let body = html! {
        section aria-labelledby="keys" {
            h2 id="keys" { "Keys" }
            dl.facts { @for (key, does) in KEYS { dt { kbd { (key) } } dd { (does) } } }
            p { "They work outside of fields, and can be switched off in " a href="/settings" { "settings" } "." }
        }
        section aria-labelledby="words" {
            h2 id="words" { "Words" }
            dl.facts {
                dt { "Label" } dd { "What a session has seen: the highest level of data, and whether strangers' words were among it." }
                dt { "Write-down" } dd { "Sending to a place of a lower level than what was seen. It is always refused." }
                dt { "Classified" } dd { "A person gave the server a level and approved what it offers." }
                dt { "Consequential" } dd { "Changes something, or tells somebody something." }
                dt { "Approval" } dd { "A person's yes to one call, as it was shown, once." }
            }
        }
    };
    Page::new("/help", "Help", body)
}
