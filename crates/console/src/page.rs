//! What every page has: head, ways, banner, notice, the command that shows the same.

use maud::{DOCTYPE, Markup, html};

use crate::{assets, marked::marked, time};

/// What is said to the browser with every answer. Nothing inline, nothing from elsewhere, no frames, no text that becomes markup.
pub const HEADERS: &[(&str, &str)] = &[
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("x-frame-options", "DENY"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    // `no-referrer` would also keep the origin of our own forms from us.
    ("referrer-policy", "same-origin"),
    ("x-content-type-options", "nosniff"),
    (
        "permissions-policy",
        "camera=(), microphone=(), geolocation=(), payment=(), usb=(), clipboard-read=()",
    ),
];

/// Who looks, and at what moment.
#[derive(Debug, Clone)]
pub struct Viewer {
    pub name: String,
    pub role: api::Role,
    /// Whether this browser signs; if not, forms ask for a code.
    pub signs: bool,
    /// A text that forms of this visit carry.
    pub form: String,
    /// When the page was made.
    pub now_ms: u64,
    /// `light`, `dark`, or nothing for what the system says.
    pub theme: &'static str,
    /// How many calls wait for a person; `None` where that is not known.
    pub waiting: Option<u64>,
    /// Why nothing can be recorded, if so.
    pub broken: Option<String>,
}

/// What became of the last form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    Done(String),
    Failed(String),
}

/// A page before it is bytes.
#[derive(Debug)]
pub struct Page {
    title: String,
    at: &'static str,
    command: String,
    pub(crate) notice: Option<Notice>,
    body: Markup,
}

/// The ways through the console: the first letter of each is its key.
const WAYS: [(&str, &str, &str); 9] = [
    ("/", "Overview", "o"),
    ("/calls", "Calls", "c"),
    ("/approvals", "Approvals", "a"),
    ("/servers", "Servers", "s"),
    ("/sessions", "Sessions", "n"),
    ("/policy", "Policy", "p"),
    ("/ledger", "Ledger", "l"),
    ("/visits", "Visits", "k"),
    ("/settings", "Settings", "e"),
];

impl Page {
    pub(crate) fn new(at: &'static str, title: impl Into<String>, body: Markup) -> Self {
        Self {
            title: title.into(),
            at,
            command: String::new(),
            notice: None,
            body,
        }
    }

    /// The command that shows the same in a terminal.
    pub(crate) fn command(mut self, command: impl Into<String>) -> Self {
        self.command = command.into();
        self
    }

    /// Puts above everything what became of the form that was sent.
    #[must_use]
    pub fn with_notice(mut self, notice: Option<Notice>) -> Self {
        self.notice = notice;
        self
    }

    /// The whole document.
    #[must_use]
    pub fn render(&self, viewer: &Viewer) -> Vec<u8> {
        let waiting = viewer.waiting.unwrap_or(0);
        let document = html! {
            (DOCTYPE)
            html lang="en" data-theme=[Some(viewer.theme).filter(|theme| !theme.is_empty())] {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title {
                        @if waiting > 0 { "(" (waiting) ") " }
                        (marked_title(&self.title)) " · Portcullis"
                    }
                    link rel="stylesheet" href=(assets::path("console", "css"));
                    link rel="icon" href=(assets::path("icon", "svg"));
                    script type="module" src=(assets::path("console", "js")) {}
                }
                body data-now=(viewer.now_ms) data-waiting=(waiting) {
                    a.skip href="#main" { "Skip to the page" }
                    header.top {
                        a.brand href="/" { "Portcullis" }
                        nav aria-label="Pages" {
                            ul {
                                @for (path, name, key) in WAYS {
                                    li {
                                        a href=(path) data-key=(key) aria-current=[(path == self.at).then_some("page")] {
                                            (name)
                                            @if path == "/approvals" && waiting > 0 {
                                                " " span.count { (waiting) span.hidden { " waiting" } }
                                            }
                                        }
                                    }
                                }
                            }
                        }
                        p.who {
                            (marked(&viewer.name)) ", " (viewer.role.as_str())
                        }
                    }
                    @if let Some(broken) = &viewer.broken {
                        div.banner.bad role="alert" {
                            strong { "Nothing can be recorded, so nothing is done." } " " (marked(broken))
                        }
                    }
                    main id="main" tabindex="-1" {
                        h1 { (marked(&self.title)) }
                        @match &self.notice {
                            Some(Notice::Done(text)) => { p.notice.good role="status" { "✓ " (marked(text)) } },
                            Some(Notice::Failed(text)) => { p.notice.bad role="alert" { "✗ " (marked(text)) } },
                            None => {},
                        }
                        (self.body)
                    }
                    footer {
                        p { "As of " time { (time::clock(viewer.now_ms)) } " UTC. " span id="lamp" {} }
                        @if !self.command.is_empty() {
                            p { "The same in a terminal: " code { (marked(&self.command)) } }
                        }
                        form.inline method="post" action="/logout" data-sign="" {
                            (token(viewer))
                            button.plain type="submit" { "Log out" }
                        }
                        p { a href="/help" { "Help and keys" } }
                    }
                    div id="spoken" class="hidden" aria-live="polite" {}
                }
            }
        };
        document.into_string().into_bytes()
    }
}

/// A title is shown by the browser, where no mark can stand: what cannot be seen is left out.
fn marked_title(title: &str) -> String {
    let marked = marked(title);
    let runs = marked.runs().iter();
    runs.map(|run| match run {
        crate::Run::Plain(text) => text.as_str(),
        crate::Run::Mark(_) => "�",
    })
    .collect()
}

/// What shows that a form is of this visit.
pub(crate) fn token(viewer: &Viewer) -> Markup {
    html! { input type="hidden" name="form" value=(viewer.form); }
}

/// What a form needs so that it counts: its token, and where the browser does not sign, a code.
pub(crate) fn proof(viewer: &Viewer) -> Markup {
    html! {
        (token(viewer))
        p.code data-code="" {
            label { "Code of " code { "portcullis console --code" } " "
                input name="code" autocomplete="off" spellcheck="false" size="26" required[!viewer.signs];
            }
            @if viewer.signs { " Only needed where scripts are off." }
        }
    }
}

/// A field for the person's own words.
pub(crate) fn reason(required: bool) -> Markup {
    html! {
        p {
            label { @if required { "Reason (goes on record) " } @else { "Reason, if you like (goes on record) " }
                input name="reason" maxlength="500" size="50" required[required];
            }
        }
    }
}

/// A short text in a box of its own: a word and a shape, and colour as the third.
pub(crate) fn badge(kind: &'static str, text: &str) -> Markup {
    let shape = match kind {
        "good" => "●",
        "bad" => "■",
        "warn" => "▲",
        _ => "○",
    };
    html! { span class=(format!("badge {kind}")) { (shape) " " (marked(text)) } }
}

/// How a call ended, as a badge.
pub(crate) fn verdict(verdict: &str) -> Markup {
    let kind = match verdict {
        "permitted" => "good",
        "refused" => "bad",
        "" => return badge("none", "under way"),
        _ => "warn",
    };
    badge(kind, verdict)
}

/// A page as it travels where the browser takes gzip.
#[must_use]
pub fn compressed(page: &[u8]) -> Vec<u8> {
    assets::gzip(page)
}
