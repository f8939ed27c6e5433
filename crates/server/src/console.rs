//! The console's door: pages on a host of their own, for people who logged in with a code.
//!
//! It has no private road. Every page is made of operations that [`admin::perform`] carries out for the visit's credential, and every act is
//! one. On the console's host nothing else answers and only the cookie counts; on all other hosts the cookie counts for nothing.
//!
//! Invariant: a request that changes something comes from the console's own page, carries a text of this visit, and is signed by its
//! browser or confirmed with a fresh code. Test `each_proof_of_an_act_is_asked_for`.

mod acts;
mod feed;
mod views;

use std::sync::Arc;

use api::{Ask, Found, Input, Problem, Role};
use bytes::Bytes;
use console::Viewer;
use gateway::Visitor;
use http::{HeaderValue, Method, StatusCode, header, request::Parts};
use hyper::body::Incoming;

use crate::{
    admin, body,
    door::Door,
    guard, query,
    reply::{self, Body, Reply},
};

const COOKIE: &str = "__Host-portcullis";
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
/// A form is a reason, a code and some ticks; a draft of policies is the longest.
const MAX_FORM: usize = 1 << 20;

/// Whether a request is for the console's host. The console is for people at this machine, so only on loopback.
pub(crate) fn is_console(door: &Door, parts: &Parts) -> bool {
    let named = parts.uri.authority().map(http::uri::Authority::as_str);
    let host = named.or_else(|| guard::single(&parts.headers, header::HOST));
    host.is_some_and(|host| {
        let (name, port) = host.split_once(':').unwrap_or((host, ""));
        own_port(parts).is_some_and(|own| port.parse() == Ok(own))
            && name.eq_ignore_ascii_case(door.gate.console_host())
    })
}

/// The port that a request came to, if that was on loopback.
fn own_port(parts: &Parts) -> Option<u16> {
    let local = guard::arrival(parts)?.local;
    local.ip().is_loopback().then(|| local.port())
}

/// The console's origin, as browsers write it.
fn origin(door: &Door, parts: &Parts) -> String {
    let port = own_port(parts).unwrap_or(0);
    format!("http://{}:{port}", door.gate.console_host())
}

pub(crate) async fn answer(door: &Arc<Door>, parts: Parts, body: Incoming) -> Reply {
    let mut reply = match routed(door, &parts, body).await {
        Ok(reply) => reply,
        Err(problem) => failed(&problem),
    };
    for (name, value) in console::HEADERS {
        reply
            .headers_mut()
            .insert(*name, HeaderValue::from_static(value));
    }
    reply
        .headers_mut()
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    reply
}

async fn routed(door: &Arc<Door>, parts: &Parts, body: Incoming) -> Result<Reply, Problem> {
    let path = parts.uri.path();
    let is_get = matches!(parts.method, Method::GET | Method::HEAD);
    if !is_get && parts.method != Method::POST {
        return Ok(reply::wrong_method("GET, HEAD, POST"));
    }
    if is_get && let Some(asset) = console::assets::at(path) {
        return Ok(file(asset, parts));
    }
    if !is_get {
        own_page(door, parts)?;
    }
    let form = match is_get {
        true => Vec::new(),
        false => form(body).await?,
    };
    if path == "/login" {
        return Ok(match is_get {
            true => page(parts, console::login(None, "/")),
            false => acts::log_in(door, parts, &form),
        });
    }
    let Some(visitor) = visitor(door, parts) else {
        if is_get && comes_from_elsewhere(parts) {
            return Ok(page(parts, again()));
        }
        let mut reply = page(parts, console::login(None, path));
        *reply.status_mut() = StatusCode::UNAUTHORIZED;
        return Ok(reply);
    };
    if path == "/feed" {
        return feed::answer(door, &visitor, parts);
    }
    let desk = Desk {
        door,
        visitor: &visitor,
        parts,
    };
    match is_get {
        true => views::answer(&desk).await,
        false => acts::answer(&desk, &form).await,
    }
}

/// One request of somebody who is logged in.
pub(crate) struct Desk<'a> {
    pub(crate) door: &'a Arc<Door>,
    pub(crate) visitor: &'a Visitor,
    pub(crate) parts: &'a Parts,
}

impl Desk<'_> {
    /// Asks for an operation, as this visit. A visit may do less than its credential.
    pub(crate) async fn ask<A: Ask>(
        &self,
        _: A,
        name: &str,
        input: &A::Input,
    ) -> Result<A::Output, Problem>
    where
        A::Input: Input,
    {
        let role = A::OPERATION.row().role;
        if !self.visitor.role.may(role) {
            return Err(Problem::needs_role(role));
        }
        let found = Found {
            operation: A::OPERATION,
            name: name.to_owned(),
        };
        let given = Bytes::from(api::text(input));
        let answer = admin::perform(self.door, &self.visitor.caller, found, given).await?;
        serde_json::from_slice(&answer).map_err(Problem::broken)
    }

    /// Everything about the frame of a page.
    pub(crate) async fn viewer(&self, status: Option<&api::Status>) -> Result<Viewer, Problem> {
        let waiting = match status {
            Some(status) => Some(status.pending_approvals),
            None => self.waiting().await,
        };
        let form = self.door.gate.form_token(self.visitor);
        let form = form.ok_or_else(|| Problem::broken("the system gives no random numbers"))?;
        Ok(Viewer {
            name: self.visitor.caller.name().to_owned(),
            role: self.visitor.role,
            signs: self.visitor.signs,
            form,
            now_ms: self.door.gate.now_ms(),
            theme: match cookie(self.parts, "theme") {
                Some("dark") => "dark",
                Some("light") => "light",
                _ => "",
            },
            waiting,
            broken: status.and_then(|status| status.ledger.broken.clone()),
        })
    }

    async fn waiting(&self) -> Option<u64> {
        let input = api::AllOrOpen::default();
        let open = self.ask(api::ask::Approvals, "", &input);
        let open = open.await.ok()?;
        let open = open.iter().filter(|approval| approval.state == "pending");
        Some(open.count() as u64)
    }

    /// Whether this visit may do what needs that role.
    pub(crate) fn may(&self, role: Role) -> bool {
        self.visitor.role.may(role)
    }
}

/// A request that changes something must come from a page of ours. Browsers say where a form was; who is no browser says it on purpose.
fn own_page(door: &Door, parts: &Parts) -> Result<(), Problem> {
    let refused = |what: &str| {
        Problem::new(
            api::Kind::NotAllowed,
            "foreign_page",
            format!("{what}; open the console by `portcullis console` and use its own pages"),
        )
    };
    let own = origin(door, parts);
    if guard::single(&parts.headers, header::ORIGIN) != Some(own.as_str()) {
        return Err(refused("this form is from another page"));
    }
    match guard::single(&parts.headers, "sec-fetch-site") {
        Some("same-origin") => Ok(()),
        _ => Err(refused(
            "the browser does not say that this form is its own",
        )),
    }
}

/// A strict cookie stays behind where a link on another site leads here; the page that is answered then loads the address once more.
fn comes_from_elsewhere(parts: &Parts) -> bool {
    guard::single(&parts.headers, "sec-fetch-site") == Some("cross-site")
        && guard::single(&parts.headers, "sec-fetch-mode") == Some("navigate")
}

fn again() -> Vec<u8> {
    // An empty address is this one.
    b"<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0\"><title>Portcullis</title></head><body><p>One moment.</p></body></html>".to_vec()
}

fn visitor(door: &Door, parts: &Parts) -> Option<Visitor> {
    door.gate.visitor(cookie(parts, COOKIE)?)
}

/// The value of a cookie that is there once.
fn cookie<'a>(parts: &'a Parts, name: &str) -> Option<&'a str> {
    let all = parts.headers.get_all(header::COOKIE).iter();
    let mut found = all
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(key, _)| *key == name)
        .map(|(_, value)| value);
    let value = found.next()?;
    found.next().is_none().then_some(value)
}

/// The fields of a form in their order.
pub(crate) type Form = Vec<(String, String)>;

async fn form(incoming: Incoming) -> Result<Form, Problem> {
    let wrong = || Problem::new(api::Kind::Malformed, "not_a_form", "this is not a form");
    let text = body::read(incoming, MAX_FORM, None, None)
        .await
        .map_err(|_| {
            Problem::new(
                api::Kind::TooLarge,
                "form_too_large",
                "the form is too long, or did not come whole",
            )
        })?;
    let text = std::str::from_utf8(&text).map_err(|_| wrong())?;
    query::pairs(text).map_err(|_| wrong())
}

/// The one value of a field.
pub(crate) fn field<'a>(form: &'a Form, name: &str) -> &'a str {
    let found = form.iter().find(|(key, _)| key == name);
    found.map_or("", |(_, value)| value.as_str())
}

fn takes_gzip(parts: &Parts) -> bool {
    let given = guard::single(&parts.headers, header::ACCEPT_ENCODING).unwrap_or_default();
    given
        .split(',')
        .any(|coding| coding.split(';').next().unwrap_or_default().trim() == "gzip")
}

/// A document, compressed where the browser takes it.
pub(crate) fn page(parts: &Parts, text: Vec<u8>) -> Reply {
    let gzip = takes_gzip(parts);
    let body = match gzip {
        true => console::compressed(&text),
        false => text,
    };
    let mut reply = reply::json(StatusCode::OK, Body::whole(body));
    reply.headers_mut().insert(header::CONTENT_TYPE, HTML);
    if gzip {
        let coding = HeaderValue::from_static("gzip");
        reply.headers_mut().insert(header::CONTENT_ENCODING, coding);
    }
    let vary = HeaderValue::from_static("accept-encoding, cookie");
    reply.headers_mut().insert(header::VARY, vary);
    reply
}

fn file(asset: &'static console::assets::Asset, parts: &Parts) -> Reply {
    let gzip = takes_gzip(parts);
    let body = match gzip {
        true => Bytes::from_static(&asset.gzip),
        false => Bytes::from_static(asset.text),
    };
    let mut reply = reply::json(StatusCode::OK, Body::whole(body));
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.kind));
    // The address has the content's digest.
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("public, max-age=31536000, immutable"),
    );
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    reply
}

/// Back to a page, so that loading it again sends nothing twice.
pub(crate) fn see(path: &str) -> Reply {
    let mut reply = reply::empty(StatusCode::SEE_OTHER);
    let place = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static("/"));
    reply.headers_mut().insert(header::LOCATION, place);
    reply
}

fn failed(problem: &Problem) -> Reply {
    let text = console::failed(problem.kind.title(), &problem.sentence, &problem.fix);
    let status = StatusCode::from_u16(problem.kind.status());
    let mut reply = reply::json(
        status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        Body::whole(text),
    );
    reply.headers_mut().insert(header::CONTENT_TYPE, HTML);
    reply
}

/// What stands on every other host at `/`: where the console is.
pub(crate) fn welcome(method: &Method) -> Reply {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return reply::wrong_method("GET, HEAD");
    }
    let mut reply = reply::json(StatusCode::OK, Body::whole(console::welcome()));
    reply.headers_mut().insert(header::CONTENT_TYPE, HTML);
    for (name, value) in console::HEADERS {
        reply
            .headers_mut()
            .insert(*name, HeaderValue::from_static(value));
    }
    reply
}
