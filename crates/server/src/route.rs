//! From a path to what answers it.

use std::sync::Arc;

use http::{Method, Request, StatusCode, request::Parts};
use hyper::body::Incoming;
use vocab::ServerId;

use crate::{
    admin, cors, crowd,
    door::Door,
    guard, mcp, oauth, refused,
    reply::{self, Body, Reply},
    seal,
};

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/mcp`, or `/u/{server}/mcp` for one server alone.
    Mcp(Option<ServerId>),
    Admin(admin::Verb),
    Seal(seal::Verb),
    Healthy,
    Ready,
    /// Where clients look for who issues tokens for this door, credential or not. A plain "not found" tells them that nobody does.
    WellKnown,
    Nothing,
}

/// Where signed calls come in.
const SEAL: &str = "/v1/seal/";

pub(crate) fn route(path: &str) -> Route {
    match path {
        "/mcp" => return Route::Mcp(None),
        "/healthz" => return Route::Healthy,
        "/readyz" => return Route::Ready,
        _ => {}
    }
    if let Some(server) = path
        .strip_prefix("/u/")
        .and_then(|rest| rest.strip_suffix("/mcp"))
    {
        return ServerId::parse(server).map_or(Route::Nothing, |server| Route::Mcp(Some(server)));
    }
    if let Some(rest) = path.strip_prefix(SEAL) {
        return unescaped(rest)
            .and_then(|rest| seal::Verb::parse(&rest))
            .map_or(Route::Nothing, Route::Seal);
    }
    if path.starts_with("/.well-known/") {
        return Route::WellKnown;
    }
    path.strip_prefix("/v1/admin/")
        .and_then(admin_verb)
        .map_or(Route::Nothing, Route::Admin)
}

/// A caller's name may have any character, so it comes escaped; nothing else in a path of ours does.
fn admin_verb(path: &str) -> Option<admin::Verb> {
    match path.strip_prefix("sessions/") {
        Some(named) => admin::Verb::parse(&format!("sessions/{}", unescaped(named)?)),
        None => admin::Verb::parse(path),
    }
}

/// Undoes percent escapes; `None` where they do not make text.
pub(crate) fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        bytes.push(match byte {
            b'%' => u8::try_from(digit(rest.next())? * 16 + digit(rest.next())?).ok()?,
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

pub(crate) async fn answer(door: &Arc<Door>, request: Request<Incoming>) -> Reply {
    let (parts, body) = request.into_parts();
    if !parts.uri.path().starts_with(SEAL) {
        return guarded(door, parts, body).await;
    }
    let mut reply = guarded(door, parts, body).await;
    seal::reword(&mut reply);
    reply
}

async fn guarded(door: &Arc<Door>, parts: Parts, body: Incoming) -> Reply {
    if let Err(refused) = guard::framing(&parts.headers).and_then(|()| guard::place(door, &parts)) {
        return *refused;
    }
    let origin = cors::listed_origin(&parts.headers, &door.gate.settings().allowed_origins);
    let Some(origin) = origin else {
        return admitted(door, parts, body).await;
    };
    let mut reply = match cors::preflight(&parts) {
        Some(reply) => reply,
        None => admitted(door, parts, body).await,
    };
    cors::show(&mut reply, origin);
    reply
}

/// A request that came to the right place from a place it may come from.
async fn admitted(door: &Arc<Door>, parts: Parts, body: Incoming) -> Reply {
    let route = route(parts.uri.path());
    let route = match route {
        Route::Seal(verb) => return seal::answer(door, verb, &parts, body).await,
        route => route,
    };
    match &route {
        Route::Healthy => return health(&parts.method, true),
        Route::Ready => return health(&parts.method, door.gate.is_ready() && !door.is_closing()),
        Route::WellKnown => return oauth::metadata(door, &parts),
        _ => {}
    }
    let caller = match guard::caller(door, &parts).await {
        Ok(caller) => caller,
        Err(refused) => return *refused,
    };
    crowd::recognise(&parts, &caller);
    door.gate.turn(&caller).await;
    let (kind, reply) = match route {
        Route::Mcp(mount) => (
            "mcp-http",
            mcp::http::answer(door, caller.clone(), mount, &parts, body).await,
        ),
        Route::Admin(verb) => {
            let mut reply = admin::answer(door, &caller, verb, &parts, body).await;
            oauth::ask_for_operator_scope(door, &caller, &parts, &mut reply);
            ("admin", reply)
        }
        Route::Healthy | Route::Ready | Route::WellKnown | Route::Seal(_) | Route::Nothing => {
            ("http", reply::not_found())
        }
    };
    refused::note(door, kind, &caller, &parts, &reply);
    reply
}

/// The gate is ready before any upstream is, and stops being ready when it begins to drain.
fn health(method: &Method, well: bool) -> Reply {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return reply::wrong_method("GET, HEAD");
    }
    match well {
        true => reply::json(StatusCode::OK, Body::whole(&b"{\"status\":\"ok\"}"[..])),
        false => reply::json(
            StatusCode::SERVICE_UNAVAILABLE,
            Body::whole(&b"{\"status\":\"draining\"}"[..]),
        ),
    }
}

#[cfg(test)]
mod tests;
