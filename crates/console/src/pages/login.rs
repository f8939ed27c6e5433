//! `/login`, and what people see who are not logged in. These pages have no ways: nobody is there yet.

use maud::{DOCTYPE, Markup, html};

use crate::{assets, marked::marked};

fn bare(title: &str, script: Option<&str>, body: &Markup) -> Vec<u8> {
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " · Portcullis" }
                link rel="stylesheet" href=(assets::path("console", "css"));
                link rel="icon" href=(assets::path("icon", "svg"));
                @if let Some(script) = script { script type="module" src=(script) {} }
            }
            body { main.bare id="main" { h1 { (title) } (body) } }
        }
    };
    document.into_string().into_bytes()
}

/// Where a code is handed in. `again` is where the person was before.
#[must_use]
pub fn login(problem: Option<&str>, again: &str) -> Vec<u8> {
    let body = html! {
        @if let Some(problem) = problem { p.notice.bad role="alert" { (marked(problem)) } }
        p { "Run " code { "portcullis console" } " in a terminal. It opens this page and logs in by itself; or type its code here." }
        form method="post" action="/login" data-login="" {
            input type="hidden" name="again" value=(again);
            label for="code" { "Code" } " "
            input id="code" name="code" autocomplete="off" autocapitalize="off" spellcheck="false" size="26" required;
            button type="submit" { "Log in" }
        }
    };
    bare("Log in", Some(assets::path("login", "js")), &body)
}

#[must_use]
pub fn logged_out() -> Vec<u8> {
    bare(
        "Logged out",
        None,
        &html! { p { "This visit has ended. Run " code { "portcullis console" } " to come again." } },
    )
}

/// On every other host: where the console is, without its name.
#[must_use]
pub fn welcome() -> Vec<u8> {
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; title { "Portcullis" } }
            body {
                h1 { "Portcullis" }
                p { "A gate between agents and tools. People look and decide in its console: run " code { "portcullis console" } " in a terminal." }
                p { "Clients speak MCP at " code { "/mcp" } "." }
            }
        }
    };
    document.into_string().into_bytes()
}

/// What went wrong, and what to do about it, for somebody who is logged in or not.
#[must_use]
pub fn failed(title: &str, sentence: &str, fix: &str) -> Vec<u8> {
    let body = html! {
        p { (marked(sentence)) }
        @if !fix.is_empty() { p { strong { "What to do: " } (marked(fix)) } }
        p { a href="/" { "Overview" } }
    };
    bare(title, None, &body)
}
