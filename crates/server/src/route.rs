//! From a path to what answers it.

use std::sync::Arc;

use http::{Method, Request, StatusCode, request::Parts};
use hyper::body::Incoming;
use vocab::ServerId;

use crate::{
    admin, console, cors, crowd, dispatch,
    door::Door,
    guard, limit, mcp, oauth, refused,
    reply::{self, Body, Reply},
    seal,
};

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/mcp`, or `/u/{server}/mcp` for one server alone.
    Mcp(Option<ServerId>),
    Admin(api::Found),
    /// The OpenAPI document of the operator's paths.
    OpenApi,
    Seal(seal::Verb),
    /// Where executors ask for work.
    Dispatch,
    Healthy,
    Ready,
    /// Where clients look for who issues tokens for this door, credential or not. A plain "not found" tells them that nobody does.
    WellKnown,
    /// Where people look first: says where the console is.
    Welcome,
    Nothing,
}

impl Route {
    /// Whether it says how the gate is, which whoever watches it must be able to ask at any time.
    pub(crate) fn is_health(&self) -> bool {
        matches!(self, Self::Healthy | Self::Ready)
    }
}

/// Where executors ask for work and answer.
const DISPATCH: &str = "/v1/dispatch-gateway";

/// Where signed calls come in.
const SEAL: &str = "/v1/seal/";

pub(crate) fn route(path: &str) -> Route {
    match path {
        "/" => return Route::Welcome,
        "/mcp" => return Route::Mcp(None),
        "/healthz" | "/livez" => return Route::Healthy,
        "/readyz" => return Route::Ready,
        "/v1/openapi.json" => return Route::OpenApi,
        DISPATCH => return Route::Dispatch,
        // The road of whoever runs agents: short, and the same operation.
        "/v1/tasks" => return api::find("tasks").map_or(Route::Nothing, Route::Admin),
        "/reload-config" => return of_host("reload-config"),
        admin::CONNECTORS => return of_host("connectors"),
        _ => {}
    }
    if let Some(id) = path.strip_prefix("/mcp/connectors/") {
        return of_host(&format!("connectors/{id}/remove"));
    }
    if let Some(server) = path
        .strip_prefix("/u/")
        .and_then(|rest| rest.strip_suffix("/mcp"))
    {
        return ServerId::parse(server).map_or(Route::Nothing, |server| Route::Mcp(Some(server)));
    }
    if let Some(rest) = path.strip_prefix(SEAL) {
        return api::unescaped(rest)
            .and_then(|rest| seal::Verb::parse(&rest))
            .map_or(Route::Nothing, Route::Seal);
    }
    if path.starts_with("/.well-known/") {
        return Route::WellKnown;
    }
    path.strip_prefix(api::PREFIX)
        .and_then(api::find)
        .map_or(Route::Nothing, Route::Admin)
}

/// A path that host programs know, for an operation that has one of ours too.
fn of_host(path: &str) -> Route {
    api::find(path).map_or(Route::Nothing, Route::Admin)
}

fn is_operators(path: &str) -> bool {
    path.starts_with(api::PREFIX)
        || path.starts_with(admin::CONNECTORS)
        || matches!(path, "/v1/tasks" | "/reload-config")
}

pub(crate) async fn answer(door: &Arc<Door>, request: Request<Incoming>) -> Reply {
    let (parts, body) = request.into_parts();
    if console::is_console(door, &parts) {
        return match guard::framing(&parts.headers) {
            Ok(()) => console::answer(door, parts, body).await,
            Err(refused) => *refused,
        };
    }
    let path = parts.uri.path();
    if let Some(refused) = limit::refused(door, &parts).await {
        return refused;
    }
    let reword = match path {
        _ if path.starts_with(SEAL) => seal::reword,
        DISPATCH => dispatch::reword,
        _ if is_operators(path) => admin::reword,
        _ => return guarded(door, parts, body).await,
    };
    let mut reply = guarded(door, parts, body).await;
    reword(&mut reply);
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
        Route::Dispatch => return dispatch::answer(door, &parts, body).await,
        route => route,
    };
    match &route {
        Route::Healthy => return health(&parts.method, true),
        Route::Ready => return health(&parts.method, door.gate.is_ready() && !door.is_closing()),
        Route::WellKnown => return oauth::metadata(door, &parts),
        Route::Welcome => return console::welcome(&parts.method),
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
        Route::OpenApi => ("http", document(&parts.method)),
        Route::Admin(found) => {
            let mut reply = admin::answer(door, &caller, found, &parts, body).await;
            oauth::ask_for_operator_scope(door, &caller, &parts, &mut reply);
            ("admin", reply)
        }
        Route::Healthy
        | Route::Ready
        | Route::WellKnown
        | Route::Welcome
        | Route::Seal(_)
        | Route::Dispatch
        | Route::Nothing => ("http", reply::not_found()),
    };
    refused::note(door, kind, &caller, &parts, &reply);
    reply
}

/// What the operator's paths take and give, for whoever has a credential.
fn document(method: &Method) -> Reply {
    if *method != Method::GET {
        return reply::wrong_method("GET");
    }
    reply::json(StatusCode::OK, Body::whole(api::OPENAPI.as_bytes()))
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
