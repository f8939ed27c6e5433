//! What a caller is told: a page or a part of it, hits, and troubles that an agent can act on.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use policy::context::WebAddress;
use upstreams::web::Fetched;
use vocab::ErrorCode;
use wire::write::{Object, quoted};

use super::asked::Fetch;
use crate::web::cache::Page;

/// An error that an agent can act on.
#[derive(Debug)]
pub(super) struct Trouble {
    error_code: ErrorCode,
    code: &'static str,
    says: String,
    status: Option<u16>,
}

impl Trouble {
    pub(super) fn invalid(code: &'static str, says: String) -> Self {
        Self {
            error_code: ErrorCode::InvalidInput,
            code,
            says,
            status: None,
        }
    }

    fn upstream(code: &'static str, says: String) -> Self {
        Self {
            error_code: ErrorCode::UpstreamUnavailable,
            ..Self::invalid(code, says)
        }
    }

    pub(super) fn result(&self) -> Vec<u8> {
        let text = format!("{}: {}", self.code, self.says);
        let mut envelope = Object::new();
        envelope
            .str("status", "error")
            .str("error_code", self.error_code.as_str())
            .str("error", &text)
            .str("code", self.code);
        if let Some(status) = self.status {
            envelope.u64("http_status", status.into());
        }
        let mut out = Object::new();
        out.raw("content", &array(&[text_content(&text)]))
            .raw("structuredContent", &envelope.finish())
            .bool("isError", true);
        out.finish()
    }
}

pub(super) fn status(address: &WebAddress, status: u16, text: &str) -> Trouble {
    let mut says = format!("`{}` answered with status {status}", shown(address));
    if !text.is_empty() {
        says.push_str("; it says:\n");
        says.push_str(text);
    }
    let error_code = match status {
        404 | 410 => ErrorCode::NotFound,
        401 | 403 => ErrorCode::PermissionDenied,
        _ => ErrorCode::UpstreamUnavailable,
    };
    Trouble {
        error_code,
        status: Some(status),
        ..Trouble::upstream("HTTP_ERROR", says)
    }
}

pub(super) fn unreachable(why: &str) -> Trouble {
    Trouble::upstream("NETWORK_ERROR", why.to_owned())
}

pub(super) fn too_large(address: &WebAddress, why: &str) -> Trouble {
    Trouble::invalid("TOO_LARGE", format!("`{}`: {why}", shown(address)))
}

pub(super) fn too_many(address: &WebAddress, most: usize) -> Trouble {
    let says = format!("`{}` redirects more than {most} times", shown(address));
    Trouble::upstream("TOO_MANY_REDIRECTS", says)
}

pub(super) fn astray(address: &WebAddress, why: &str) -> Trouble {
    let says = format!("where `{}` leads is not followed: {why}", shown(address));
    Trouble::upstream("REDIRECT_REFUSED", says)
}

pub(super) fn unreadable(address: &WebAddress, why: &str) -> Trouble {
    tracing::warn!(why, host = address.host(), "a page cannot be read");
    let says = format!("no text can be made of `{}`", shown(address));
    Trouble::upstream("UNREADABLE", says)
}

pub(super) fn not_shown(address: &WebAddress, kind: &str, bytes: usize) -> Trouble {
    let kind = if kind.is_empty() {
        "of no stated type"
    } else {
        kind
    };
    let kind: String = kind.chars().take(100).collect();
    let image = if kind.starts_with("image/") {
        "`as: image` shows PNG, JPEG, GIF and WebP of at most 5 MiB; "
    } else {
        ""
    };
    let says = format!(
        "`{}` is {kind}, {bytes} bytes, and is not shown as text; {image}`save_to: PATH` keeps it on a volume",
        shown(address)
    );
    Trouble::invalid("UNSUPPORTED_TYPE", says)
}

/// For people: without query, which may be long and hold anything.
fn shown(address: &WebAddress) -> &str {
    let text = address.as_str();
    text.split_once('?').map_or(text, |(text, _)| text)
}

/// A page, or the part of it that was asked for. Text is told twice: for clients that read structured content, and for those that do not.
pub(super) fn page(asks: &Fetch, page: &Page, is_kept: bool) -> Vec<u8> {
    let all = page.text.chars().count();
    let part: String = page
        .text
        .chars()
        .skip(asks.start)
        .take(asks.length)
        .collect();
    let shown = part.chars().count();
    let next = asks.start.saturating_add(shown);
    let mut text = part.clone();
    if next < all {
        text.push_str(&format!(
            "\n\n[characters {} to {next} of {all}; the rest begins at start_index {next}]",
            asks.start
        ));
    } else if shown == 0 && all > 0 {
        text = format!(
            "[the text has {all} characters, and none at start_index {}]",
            asks.start
        );
    }
    if page.is_degraded {
        text.push_str("\n\n[the page could not be converted; this is its text without form]");
    }
    let mut out = Object::with_capacity(part.len() * 2 + 1024);
    out.raw("content", &array(&[text_content(&text)]));
    out.object("structuredContent", |out| {
        out.str("url", asks.address.as_str())
            .u64("http_status", page.status.into())
            .str("content_type", &page.content_type)
            .str("content_format", page.form)
            .u64("content_length", all as u64)
            .u64("start_index", asks.start as u64);
        if next < all {
            out.u64("next_index", next as u64);
        }
        if let Some(title) = &page.title {
            out.str("title", title);
        }
        if !page.hops.is_empty() {
            let hops: Vec<Vec<u8>> = page.hops.iter().map(|hop| quoted(hop)).collect();
            out.raw("redirects", &array(&hops));
        }
        out.bool("degraded", page.is_degraded)
            .bool("cached", is_kept)
            .str("content", &part);
    });
    out.finish()
}

pub(super) fn redirect(asks: &Fetch, address: &WebAddress, fetched: &Fetched) -> Vec<u8> {
    let target = fetched.location.as_deref().unwrap_or_default();
    let target = address.join(target).map_or_else(
        |_| {
            target
                .chars()
                .filter(|c| !c.is_control())
                .take(2000)
                .collect()
        },
        |next| next.as_str().to_owned(),
    );
    let text = format!("Status {}, leads to {target}", fetched.status);
    let mut out = Object::new();
    out.raw("content", &array(&[text_content(&text)]));
    out.object("structuredContent", |out| {
        out.str("url", asks.address.as_str())
            .u64("http_status", fetched.status.into())
            .str("location", &target);
    });
    out.finish()
}

pub(super) fn saved(path: &str, address: &WebAddress, kind: &str, bytes: u64) -> Vec<u8> {
    let text = format!("Saved {bytes} bytes to {path}");
    let mut out = Object::new();
    out.raw("content", &array(&[text_content(&text)]));
    out.object("structuredContent", |out| {
        out.str("url", address.as_str())
            .str("content_type", kind)
            .str("path", path)
            .u64("bytes_written", bytes);
    });
    out.finish()
}

pub(super) fn image(kind: &str, body: &[u8]) -> Vec<u8> {
    let mut content = Object::with_capacity(body.len() * 4 / 3 + 128);
    content
        .str("type", "image")
        .str("data", &STANDARD.encode(body))
        .str("mimeType", kind);
    let mut out = Object::new();
    out.raw("content", &array(&[content.finish()]));
    out.finish()
}

/// One hit of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) title: String,
    pub(super) url: String,
    pub(super) snippet: String,
}

pub(super) fn hits(engine: &str, hits: &[Hit]) -> Vec<u8> {
    let lines: Vec<String> = hits
        .iter()
        .zip(1..)
        .map(|(hit, number)| {
            format!(
                "{number}. {}\n   {}\n   {}",
                hit.title, hit.url, hit.snippet
            )
        })
        .collect();
    let text = match lines.is_empty() {
        true => "No results".to_owned(),
        false => lines.join("\n\n"),
    };
    let results: Vec<Vec<u8>> = hits
        .iter()
        .map(|hit| {
            let mut out = Object::new();
            out.str("title", &hit.title)
                .str("url", &hit.url)
                .str("snippet", &hit.snippet)
                .str("source", engine);
            out.finish()
        })
        .collect();
    let mut out = Object::new();
    out.raw("content", &array(&[text_content(&text)]));
    out.object("structuredContent", |out| {
        out.str("engine", engine).raw("results", &array(&results));
    });
    out.finish()
}

fn text_content(text: &str) -> Vec<u8> {
    let mut out = Object::new();
    out.str("type", "text").str("text", text);
    out.finish()
}

fn array(items: &[Vec<u8>]) -> Vec<u8> {
    [b"[", items.join(&b","[..]).as_slice(), b"]"].concat()
}
