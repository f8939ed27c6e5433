//! The seed's calls: a namespaced name leads to a server and what it calls the thing itself.

use std::{rc::Rc, time::Duration};

use bytes::Bytes;
use wire::{Json, write::Object};

use super::{
    Aggregator,
    call::{Abilities, Call},
    connection::Connection,
    forward::{self, Forward},
};
use crate::failure::{Failure, clip};

const CALL: Duration = Duration::from_secs(60);
const SCHEMES: [&str; 2] = ["portcullis://", "capsem://"];

pub(crate) fn call_tool(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, params: Json<'_>) {
    named_call(aggregator, id, params, "tools/call", "tool");
}

pub(crate) fn get_prompt(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, params: Json<'_>) {
    named_call(aggregator, id, params, "prompts/get", "prompt");
}

fn named_call(
    aggregator: &Rc<Aggregator>,
    id: u64,
    params: Json<'_>,
    method: &'static str,
    thing: &'static str,
) {
    let name = params
        .get("name")
        .and_then(Json::as_str)
        .unwrap_or_default();
    let Some((server, own)) = vocab::split_double(&name) else {
        return aggregator.hub.out.error(
            id,
            &format!("invalid namespaced {thing} name: {}", clip(&name)),
        );
    };
    let mut body = Object::new();
    body.str("name", own);
    // An empty set of arguments is sent as none.
    if let Some(arguments) = params
        .get("arguments")
        .filter(|arguments| arguments.fields().next().is_some())
    {
        body.json("arguments", arguments);
    }
    plain_call(
        aggregator,
        id,
        server.to_owned(),
        method,
        body.finish().into(),
        format!("{thing} call '{}' failed", clip(&name)),
    );
}

pub(crate) fn read_resource(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, params: Json<'_>) {
    let uri = params.get("uri").and_then(Json::as_str).unwrap_or_default();
    let rest = SCHEMES.iter().find_map(|scheme| uri.strip_prefix(scheme));
    let Some((server, own)) = rest
        .and_then(|rest| rest.split_once('/'))
        .filter(|(server, own)| !server.is_empty() && !own.is_empty())
    else {
        return aggregator.hub.out.error(
            id,
            &format!("invalid namespaced resource URI: {}", clip(&uri)),
        );
    };
    let mut body = Object::new();
    body.str("uri", own);
    let failed = format!("reading '{}' failed", clip(&uri));
    plain_call(
        aggregator,
        id,
        server.to_owned(),
        "resources/read",
        body.finish().into(),
        failed,
    );
}

/// A call without a client behind it. Its errors are plain text, prefixed with what was tried.
fn plain_call(
    aggregator: &Rc<Aggregator>,
    id: u64,
    server: String,
    method: &'static str,
    params: Bytes,
    failed: String,
) {
    let aggregator = Rc::clone(aggregator);
    let call = Rc::new(Call::new(
        id,
        String::new(),
        Abilities::default(),
        false,
        CALL,
    ));
    aggregator.began(&call);
    tokio::task::spawn_local(async move {
        aggregator.seed.settle().await;
        let outcome = match lookup(&aggregator, &server) {
            Err(failure) => Err(failure.text),
            Ok(conn) => {
                let forward = Forward::plain(method, Some(params.clone()));
                let ran = match forward::prepare(&conn, &call, &forward, Some(&params)) {
                    Ok(first) => forward::run(&conn, &call, &forward, first).await,
                    Err(failure) => Err(failure),
                };
                ran.map_err(|failure| format!("{failed}: {failure}"))
            }
        };
        aggregator.ended(&call);
        match outcome {
            Ok(result) => aggregator.hub.out.result(id, &result),
            Err(text) => aggregator.hub.out.error(id, &text),
        }
    });
}

fn lookup(aggregator: &Aggregator, server: &str) -> Result<Rc<Connection>, Failure> {
    if let Some(conn) = aggregator.servers.get(server) {
        return Ok(conn);
    }
    let known = aggregator
        .seed
        .entries
        .borrow()
        .iter()
        .any(|entry| entry.name == server);
    let state = if known { "connected" } else { "found" };
    Err(Failure::not_found(format!("server not {state}: {server}")))
}
