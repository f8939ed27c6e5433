//! The methods the gate can ask for: a table, and the short ones themselves.

use std::{rc::Rc, time::Duration};

use bytes::Bytes;
use tokio::time::timeout;
use wire::{Json, rpc, worker::method, write::Object};

use super::{
    Aggregator,
    call::{Answer, Stop},
    catalog::{self, Wanted},
    connect::{self, Spec},
    connection::Connection,
    fetch, forward,
    incoming::known,
    listen, seed, seed_calls, seed_lists,
};
use crate::failure::Failure;

/// For requests that say nothing about their time. A catalogue has its own, shorter limits.
const PATIENCE: Duration = Duration::from_secs(45);

/// One row: what a method is called, and what it does. The line is there to cut slices from.
#[derive(Debug)]
pub(crate) struct Method {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Rc<Aggregator>, u64, &Bytes, Json<'_>),
    /// It reaches an upstream, so it counts against the bound.
    pub(crate) waits_its_turn: bool,
}

const fn now(name: &'static str, run: fn(&Rc<Aggregator>, u64, &Bytes, Json<'_>)) -> Method {
    Method {
        name,
        run,
        waits_its_turn: false,
    }
}

const fn in_turn(name: &'static str, run: fn(&Rc<Aggregator>, u64, &Bytes, Json<'_>)) -> Method {
    Method {
        name,
        run,
        waits_its_turn: true,
    }
}

/// The busiest first.
const METHODS: [Method; 27] = [
    in_turn(method::FORWARD, forward::start),
    now(method::ANSWER, answer),
    now(method::CANCEL, cancel),
    in_turn(method::CALL_TOOL, seed_calls::call_tool),
    in_turn(method::READ_RESOURCE, seed_calls::read_resource),
    in_turn(method::GET_PROMPT, seed_calls::get_prompt),
    now(method::LIST_SERVERS, seed_lists::list_servers),
    now(method::LIST_TOOLS, seed_lists::list_tools),
    now(method::LIST_RESOURCES, seed_lists::list_resources),
    now(method::LIST_PROMPTS, seed_lists::list_prompts),
    now(method::REFRESH, seed::refresh),
    now(method::SHUTDOWN, shutdown),
    now(method::WATCH, watch),
    now(method::CONNECT, connect_server),
    now(method::DISCONNECT, disconnect),
    in_turn(method::CATALOG, list_offer),
    in_turn(method::HEALTH, health),
    in_turn(method::SUBSCRIBE, subscribe),
    in_turn(method::UNSUBSCRIBE, unsubscribe),
    in_turn(method::NOTIFY, notify),
    in_turn(method::LOG_LEVEL, log_level),
    now(method::CONFINEMENT, confinement),
    in_turn(method::FETCH, fetch::start),
    now(method::BEARER, bearer),
    now(method::PROOFS, proofs),
    now(method::PROOF, proof),
    now(method::PING, ping),
];

pub(crate) fn find(name: &str) -> Option<&'static Method> {
    const { &METHODS }.iter().find(|method| method.name == name)
}

/// Runs a request in a task of its own; what it returns is the answer.
pub(crate) fn serve<F>(aggregator: &Rc<Aggregator>, id: u64, work: F)
where
    F: Future<Output = Result<Done, Failure>> + 'static,
{
    let aggregator = Rc::clone(aggregator);
    aggregator.queue.began(id);
    tokio::task::spawn_local(async move {
        let outcome = work.await;
        aggregator.finished(id);
        match outcome {
            Ok(Done::Ok) => aggregator.hub.out.ok(id),
            Ok(Done::Result(result)) => aggregator.hub.out.result(id, &result),
            Err(failure) => aggregator.hub.out.failure(id, &failure),
        }
    });
}

/// How a request succeeded.
pub(crate) enum Done {
    Ok,
    Result(Bytes),
}

fn text(params: Json<'_>, key: &str) -> Result<String, Failure> {
    let found = params.get(key).and_then(Json::as_str);
    found
        .map(|text| text.into_owned())
        .ok_or_else(|| Failure::invalid(format!("`{key}` is missing")))
}

/// Runs something with the connection that `server` names, for as long as `timeout_ms` allows.
fn with_server<F>(
    aggregator: &Rc<Aggregator>,
    id: u64,
    params: Json<'_>,
    work: impl FnOnce(Rc<Connection>) -> Result<F, Failure>,
) where
    F: Future<Output = Result<Done, Failure>> + 'static,
{
    let limit = params
        .get("timeout_ms")
        .and_then(Json::as_u64)
        .map_or(PATIENCE, Duration::from_millis);
    let found = text(params, "server")
        .and_then(|server| aggregator.servers.connected(&server))
        .and_then(work);
    match found {
        Ok(work) => serve(aggregator, id, async move {
            let late =
                |_| Failure::timeout(format!("timeout: no reply within {} ms", limit.as_millis()));
            timeout(limit, work).await.map_err(late)?
        }),
        Err(failure) => aggregator.hub.out.failure(id, &failure),
    }
}

fn shutdown(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, _: Json<'_>) {
    aggregator.hub.out.ok(id);
    aggregator.end();
}

fn watch(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, _: Json<'_>) {
    aggregator.hub.watch(id);
}

fn confinement(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, _: Json<'_>) {
    aggregator
        .hub
        .out
        .field(id, "result", &aggregator.confinement);
}

/// The loop that reads requests is alive.
fn ping(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, _: Json<'_>) {
    aggregator.hub.out.ok(id);
}

fn connect_server(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, params: Json<'_>) {
    let spec = match Spec::read(params) {
        Ok(spec) => spec,
        Err(failure) => return aggregator.hub.out.failure(id, &failure),
    };
    let owner = Rc::clone(aggregator);
    serve(aggregator, id, async move {
        let conn = connect::connect(&owner, spec).await?;
        let described = connect::description(&conn);
        owner.servers.add(conn);
        Ok(Done::Result(described.into()))
    });
}

fn disconnect(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, params: Json<'_>) {
    let server = match text(params, "server") {
        Ok(server) => server,
        Err(failure) => return aggregator.hub.out.failure(id, &failure),
    };
    let generation = params.get("generation").and_then(Json::as_u64).unwrap_or(0);
    // Gone already is as good as gone now.
    aggregator.servers.remove(&server, generation);
    aggregator.hub.out.ok(id);
}

/// A login was renewed; or, without a bearer, it has ended.
fn bearer(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, params: Json<'_>) {
    let generation = params.get("generation").and_then(Json::as_u64).unwrap_or(0);
    let bearer = params.get("bearer").and_then(Json::as_str);
    let found = text(params, "server").and_then(|server| {
        let conn = aggregator.servers.connected(&server)?;
        match conn.generation == generation {
            true => Ok(conn),
            false => Err(Failure::not_found("no such connection")),
        }
    });
    let key = params.get("key").and_then(Json::as_u64);
    match found.and_then(|conn| conn.link.replace_bearer((bearer.as_deref(), key))) {
        Ok(()) => aggregator.hub.out.ok(id),
        Err(failure) => aggregator.hub.out.failure(id, &failure),
    }
}

/// From now on proofs are asked for with this request.
fn proofs(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, _: Json<'_>) {
    aggregator.hub.proofs.listen(id);
}

/// A proof that was asked for; or, without one, none is given.
fn proof(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, params: Json<'_>) {
    let asked = params.get("asked").and_then(Json::as_u64).unwrap_or(0);
    let proof = params.get("proof").and_then(Json::as_str);
    aggregator.hub.proofs.give(asked, proof.as_deref());
    aggregator.hub.out.ok(id);
}

fn list_offer(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, params: Json<'_>) {
    let wanted = Wanted::read(params);
    with_server(aggregator, id, params, |conn| {
        let wanted = wanted?;
        Ok(async move {
            Box::pin(catalog::answer(&conn, &wanted))
                .await
                .map(|lists| Done::Result(lists.into()))
        })
    });
}

fn health(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, params: Json<'_>) {
    let asked = params
        .get("method")
        .and_then(Json::as_str)
        .map(|method| method.into_owned());
    with_server(aggregator, id, params, |conn| {
        let method = asked.unwrap_or_else(|| {
            if conn.is_modern() {
                "server/discover"
            } else {
                "ping"
            }
            .to_owned()
        });
        Ok(async move { conn.request(&method, None).await.map(|_| Done::Ok) })
    });
}

fn answer(aggregator: &Rc<Aggregator>, id: u64, line: &Bytes, params: Json<'_>) {
    let call = params
        .get("call")
        .and_then(Json::as_u64)
        .and_then(|call| aggregator.call(call));
    let key = params.get("key").and_then(Json::as_str);
    let cut = |json: Json<'_>| line.slice_ref(json.as_bytes());
    let answer = match (params.get("result"), params.get("error")) {
        (Some(result), None) => Some(Answer::Result(cut(result))),
        (None, Some(error)) => Some(Answer::Error(cut(error))),
        _ => None,
    };
    let (Some(call), Some(key), Some(answer)) = (call, key, answer) else {
        return aggregator
            .hub
            .out
            .failure(id, &Failure::not_found("no such question is open"));
    };
    match call.answer(&key, answer) {
        true => aggregator.hub.out.ok(id),
        false => aggregator
            .hub
            .out
            .failure(id, &Failure::not_found("no such question is open")),
    }
}

fn cancel(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, params: Json<'_>) {
    if let Some(call) = params.get("call").and_then(Json::as_u64) {
        match aggregator.call(call) {
            Some(call) => call.stop(Stop::Cancelled),
            None => {
                aggregator.queue.cancel(aggregator, call);
            }
        }
    }
    // A call that ended meanwhile is as good as cancelled.
    aggregator.hub.out.ok(id);
}

fn subscribe(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, params: Json<'_>) {
    subscription(aggregator, id, params, true);
}

fn unsubscribe(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, params: Json<'_>) {
    subscription(aggregator, id, params, false);
}

fn subscription(aggregator: &Rc<Aggregator>, id: u64, params: Json<'_>, wanted: bool) {
    let uri = text(params, "uri");
    with_server(aggregator, id, params, |conn| {
        let uri = uri?;
        Ok(async move {
            if !conn.is_modern() {
                let mut body = Object::new();
                body.str("uri", &uri);
                let body = Bytes::from(body.finish());
                let method = if wanted {
                    "resources/subscribe"
                } else {
                    "resources/unsubscribe"
                };
                conn.request(method, Some(known(&body))).await?;
            }
            let changed = match wanted {
                true => conn.subscriptions.borrow_mut().insert(uri),
                false => conn.subscriptions.borrow_mut().remove(&uri),
            };
            if conn.is_modern() && changed {
                listen::reopen(&conn).await;
            }
            Ok(Done::Ok)
        })
    });
}

fn notify(aggregator: &Rc<Aggregator>, id: u64, line: &Bytes, params: Json<'_>) {
    let method = text(params, "method");
    let body = params
        .get("params")
        .map(|params| line.slice_ref(params.as_bytes()));
    with_server(aggregator, id, params, |conn| {
        let method = method?;
        Ok(async move {
            // A modern server takes no notifications over HTTP; there is nothing to deliver.
            if !(conn.is_modern() && conn.is_http()) {
                conn.post(rpc::notification(&method, body.as_deref()).into())
                    .await?;
            }
            Ok(Done::Ok)
        })
    });
}

fn log_level(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, params: Json<'_>) {
    let level = text(params, "level");
    with_server(aggregator, id, params, |conn| {
        let level = level?;
        Ok(async move {
            // A modern server hears the level with each call instead.
            if !conn.is_modern() {
                let mut body = Object::new();
                body.str("level", &level);
                let body = Bytes::from(body.finish());
                conn.request("logging/setLevel", Some(known(&body))).await?;
                conn.log_level.replace(Some(level.into()));
            }
            Ok(Done::Ok)
        })
    });
}
