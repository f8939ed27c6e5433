//! `/policy`: the rules in force, and trying others against calls that were made.

use api::{BundleCheck, PolicyDiff};
use maud::{Markup, html};

use super::calls::escaped;
use crate::{
    marked::marked,
    page::{Page, Viewer, badge, token},
};

/// What the page is made of.
#[derive(Debug)]
pub struct Policy<'a> {
    /// Whether the bundle in force can be used, as it is read now.
    pub current: Result<&'a BundleCheck, &'a str>,
    /// Other policies that were sent to be tried, what is wrong with them, and what they would decide otherwise.
    pub draft: &'a str,
    pub checked: Option<Result<&'a BundleCheck, &'a str>>,
    pub diff: Option<Result<&'a PolicyDiff, &'a str>>,
}

#[must_use]
pub fn policy(view: &Policy<'_>, viewer: &Viewer) -> Page {
    let body = html! {
        section aria-labelledby="current" {
            h2 id="current" { "In force" }
            @match view.current {
                Ok(bundle) => {
                    p {
                        @if bundle.ok { (badge("good", "good")) } @else { (badge("bad", "cannot be used")) }
                        " " (marked(bundle.bundle.as_deref().unwrap_or_default()))
                        @if let Some(count) = bundle.policies { ", " (count) " policies" }
                    }
                    (mistakes(bundle))
                },
                Err(why) => { p.notice.bad { (marked(why)) } },
            }
        }
        section aria-labelledby="try" {
            h2 id="try" { "Try other policies" }
            p { "They are checked, and held against the calls of the last seven days. Nothing is put in force." }
            form method="post" action="/policy" {
                (token(viewer))
                label for="draft" { "Cedar policies" }
                textarea id="draft" name="draft" rows="16" spellcheck="false" { (view.draft) }
                button type="submit" { "Try" }
            }
            @match &view.checked {
                Some(Ok(bundle)) => {
                    p { @if bundle.ok { (badge("good", "can be used")) } @else { (badge("bad", "cannot be used")) } }
                    (mistakes(bundle))
                },
                Some(Err(why)) => { p.notice.bad role="alert" { (marked(why)) } },
                None => {},
            }
            @match &view.diff {
                Some(Ok(diff)) => (differences(diff)),
                Some(Err(why)) => { p.notice.bad role="alert" { (marked(why)) } },
                None => {},
            }
        }
    };
    Page::new("/policy", "Policy", body).command("portcullis policy check")
}

fn mistakes(bundle: &BundleCheck) -> Markup {
    html! {
        @if !bundle.problems.is_empty() {
            ul {
                @for mistake in &bundle.problems {
                    li {
                        code { (marked(&mistake.file)) ":" (mistake.line) ":" (mistake.column) } " " (marked(&mistake.message))
                        @if !mistake.fix.is_empty() { " " strong { "Repair: " } (marked(&mistake.fix)) }
                    }
                }
            }
        }
    }
}

fn differences(diff: &PolicyDiff) -> Markup {
    html! {
        p {
            strong { (diff.changed.len()) " of " (diff.calls) " calls would change" } "; "
            (diff.unknown) " cannot be told, because their arguments or their server are gone."
        }
        @if !diff.changed.is_empty() {
            div.wide { table {
                thead { tr { th { "Call" } th { "Target" } th { "Now" } th { "Then" } th { "By" } } }
                tbody {
                    @for change in &diff.changed {
                        tr {
                            td data-label="Call" { a href=(format!("/calls/{}", escaped(&change.call))) { (marked(&change.call)) } }
                            td data-label="Target" {
                                (marked(change.server.as_deref().unwrap_or_default())) "/" (marked(change.target.as_deref().unwrap_or_default()))
                            }
                            td data-label="Now" { (marked(&change.before.decision)) }
                            td data-label="Then" { (marked(&change.after.decision)) }
                            td data-label="By" { (marked(&change.after.policies.join(", "))) }
                        }
                    }
                }
            } }
        }
    }
}
