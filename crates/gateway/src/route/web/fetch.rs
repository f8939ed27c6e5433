//! `web.fetch`: an address, where it leads, and what is there, as text, as an image or on a volume.

use std::{sync::Arc, time::Instant};

use callers::ForGate;
use policy::context::WebAddress;
use upstreams::{catalog::builtin, web::Fetched};
use vocab::{Level, Violation};
use wire::{
    Json,
    write::{Object, quoted},
};

use super::{
    Ended, Errand, Request,
    asked::Fetch,
    told::{self, Trouble},
};
use crate::{
    call::{Part, judge_part, record_part},
    route::volume,
    web::cache::{Key, Page},
};

/// Redirects that are followed, one after the other.
const MAX_HOPS: usize = 5;
const MAX_IMAGE: usize = 5 << 20;
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// Of an answer that is no success.
const MAX_ERROR: usize = 2 << 10;
const ACCEPT: &str =
    "text/html,application/xhtml+xml;q=0.9,application/json;q=0.9,text/*;q=0.8,*/*;q=0.5";

pub(super) async fn run(errand: &Errand<'_>, asks: &Fetch) -> Result<Vec<u8>, Ended> {
    if let Some(path) = &asks.save_to {
        may_save(errand, path)?;
    }
    let shows_text = asks.save_to.is_none() && !asks.as_image;
    let key = key(errand, asks);
    let cache = &errand.case.gate.web.cache;
    if shows_text
        && !asks.is_fresh
        && let Some(page) = cache.get(&key, Instant::now())
    {
        // The rules may have changed since.
        for hop in &page.hops {
            judge(errand, asks, hop)?;
        }
        return Ok(told::page(asks, &page, true));
    }
    let (address, hops, fetched) = follow(errand, asks).await?;
    let kind = media_type(&fetched.content_type);
    if !asks.follows && is_redirect(&fetched) {
        return Ok(told::redirect(asks, &address, &fetched));
    }
    if !(200..300).contains(&fetched.status) {
        let text = beginning(errand, &fetched).await;
        return Err(Ended::Said(told::status(&address, fetched.status, &text)));
    }
    if let Some(path) = &asks.save_to {
        let (case, body) = (errand.case, fetched.body.clone());
        let kept = volume::put(errand.order, case, path, body, super::STRANGERS).await;
        let written = kept.map_err(|stop| match stop {
            volume::NotKept::Stop(stop) => Ended::Stop(stop),
            volume::NotKept::Said(code, says) => Ended::Said(Trouble::invalid(code, says)),
        })?;
        return Ok(told::saved(path, &address, &kind, written));
    }
    if asks.as_image {
        let is_image = IMAGES.contains(&kind.as_str()) && fetched.body.len() <= MAX_IMAGE;
        return match is_image {
            true => Ok(told::image(&kind, &fetched.body)),
            false => Err(Ended::Said(told::not_shown(
                &address,
                &kind,
                fetched.body.len(),
            ))),
        };
    }
    let page = Arc::new(page(errand, asks, (&address, hops), &fetched, &kind).await?);
    cache.put(key, Arc::clone(&page), Instant::now());
    Ok(told::page(asks, &page, false))
}

/// The answer at the end of all redirects that may be followed, and where that is.
async fn follow(
    errand: &Errand<'_>,
    asks: &Fetch,
) -> Result<(WebAddress, Vec<String>, Fetched), Ended> {
    let mut address = asks.address.clone();
    let mut hops = Vec::new();
    loop {
        let request = Request {
            address: &address,
            headers: vec![("accept", ACCEPT.to_owned())],
            form: None,
            is_own: false,
        };
        let fetched = errand.open(request).await?;
        let location = fetched
            .location
            .as_deref()
            .filter(|_| is_redirect(&fetched));
        let Some(location) = location.filter(|_| asks.follows) else {
            return Ok((address, hops, fetched));
        };
        if hops.len() >= MAX_HOPS {
            return Err(Ended::Said(told::too_many(&asks.address, MAX_HOPS)));
        }
        let next = address.join(location);
        let next = next.map_err(|why| Ended::Said(told::astray(&address, why)))?;
        if address.is_tls() && !next.is_tls() {
            let why = "it would leave https for http";
            return Err(Ended::Said(told::astray(&address, why)));
        }
        judge(errand, asks, next.as_str())?;
        let detail = format!(
            "{}: {address} leads to {next}",
            fetched.status,
            address = address.as_str(),
            next = next.as_str()
        );
        record_part(
            errand.case,
            errand.order.target(),
            "call.redirected",
            &detail,
        )?;
        hops.push(next.as_str().to_owned());
        address = next;
    }
}

const fn is_redirect(fetched: &Fetched) -> bool {
    matches!(fetched.status, 301 | 302 | 303 | 307 | 308)
}

/// Whether the call could have asked for this address in the first place. A person who approved the call saw another.
fn judge(errand: &Errand<'_>, asks: &Fetch, address: &str) -> Result<(), Violation> {
    let params = errand.params(Some(address));
    let is_seen = address == asks.address.as_str();
    let way = (errand.order.target(), errand.decide);
    judge_part(errand.case, way, (params, Part::default()), is_seen)
}

/// Whether the caller may write there: the same as for `fs.write`.
fn may_save(errand: &Errand<'_>, path: &str) -> Result<(), Violation> {
    let mut arguments = Object::new();
    arguments.str("path", path).str("content", "");
    let mut params = Object::new();
    params
        .raw("name", &quoted(volume::WRITE))
        .raw("arguments", &arguments.finish());
    let (set, caller) = (&errand.case.now.volumes, &errand.case.request.caller);
    let ceiling = set.locate(caller, path).ok();
    let ceiling = ceiling.map_or(Level::Restricted, |at| at.held.entry.spec.ceiling);
    let Some(target) = builtin::on_volume(volume::WRITE, ceiling) else {
        return Err(super::invalid("there are no volumes here"));
    };
    let part = (params.finish(), Part::default());
    judge_part(errand.case, (&target, errand.decide), part, true)
}

fn key(errand: &Errand<'_>, asks: &Fetch) -> Key {
    let caller = &errand.case.request.caller;
    Key {
        tenant: caller.tenant().map(str::to_owned),
        caller: format!("{} {}", caller.key(), caller.id()),
        context: caller.context().map(str::to_owned),
        address: asks.address.as_str().to_owned(),
        is_markdown: asks.to_markdown,
        follows: asks.follows,
    }
}

/// The media type without its parameters, in lower case.
fn media_type(content_type: &str) -> String {
    let kind = content_type.split(';').next().unwrap_or_default();
    kind.trim().to_ascii_lowercase()
}

fn is_html(kind: &str) -> bool {
    matches!(kind, "text/html" | "application/xhtml+xml")
}

/// Whether it is text to be shown as it is.
fn is_text(kind: &str) -> bool {
    const TEXTS: [&str; 9] = [
        "application/json",
        "application/xml",
        "application/javascript",
        "application/x-javascript",
        "application/yaml",
        "application/x-yaml",
        "application/toml",
        "application/sql",
        "application/x-ndjson",
    ];
    kind.starts_with("text/")
        || TEXTS.contains(&kind)
        || (kind.starts_with("application/") && (kind.ends_with("+json") || kind.ends_with("+xml")))
}

/// What it is where its server does not say.
fn guessed(body: &[u8]) -> &'static str {
    let head = body.get(..body.len().min(8 << 10)).unwrap_or_default();
    let begin = head
        .trim_ascii_start()
        .get(..14)
        .unwrap_or_default()
        .to_ascii_lowercase();
    if begin.starts_with(b"<!doctype html") || begin.starts_with(b"<html") {
        "text/html"
    } else if memchr::memchr(0, head).is_some() {
        "application/octet-stream"
    } else {
        "text/plain"
    }
}

async fn page(
    errand: &Errand<'_>,
    asks: &Fetch,
    (address, hops): (&WebAddress, Vec<String>),
    fetched: &Fetched,
    kind: &str,
) -> Result<Page, Ended> {
    let kind = if kind.is_empty() {
        guessed(&fetched.body)
    } else {
        kind
    };
    let (mode, form) = match (is_html(kind), asks.to_markdown) {
        (true, true) => ("markdown", "markdown"),
        (true, false) => ("text", "html"),
        (false, _) if is_text(kind) => ("text", "text"),
        (false, _) => {
            return Err(Ended::Said(told::not_shown(
                address,
                kind,
                fetched.body.len(),
            )));
        }
    };
    let head = |mode| {
        let mut head = Object::new();
        head.str("mode", mode)
            .str("type", &fetched.content_type)
            .str("address", address.as_str());
        head
    };
    let programs = &errand.case.gate.web.programs;
    let mut is_degraded = false;
    let mut said = programs.convert(head(mode), &fetched.body).await;
    if let Err(why) = &said {
        tracing::info!(
            why,
            host = address.host(),
            "a page is given without its form"
        );
        is_degraded = true;
        said = programs.convert(head("strip"), &fetched.body).await;
    }
    let said = said.map_err(|why| Ended::Said(told::unreadable(address, &why)))?;
    let json = Json::checked_before(&said);
    let text = |key: &str| {
        json.get(key)
            .and_then(Json::as_str)
            .map(|text| text.into_owned())
    };
    Ok(Page {
        text: text("text").unwrap_or_default(),
        form: if is_degraded { "text" } else { form },
        title: text("title"),
        status: fetched.status,
        content_type: fetched.content_type.clone(),
        hops,
        is_degraded,
    })
}

/// A little of what a server says where it does not give what was asked for.
async fn beginning(errand: &Errand<'_>, fetched: &Fetched) -> String {
    let kind = media_type(&fetched.content_type);
    if fetched.body.is_empty() || !(is_html(&kind) || is_text(&kind)) {
        return String::new();
    }
    let mut head = Object::new();
    head.str("mode", if is_html(&kind) { "strip" } else { "text" })
        .str("type", &fetched.content_type);
    let programs = &errand.case.gate.web.programs;
    let Ok(said) = programs.convert(head, &fetched.body).await else {
        return String::new();
    };
    let text = Json::checked_before(&said)
        .get("text")
        .and_then(Json::as_str);
    let text = text.unwrap_or_default();
    let end = text.floor_char_boundary(MAX_ERROR);
    text.get(..end).unwrap_or_default().trim().to_owned()
}
