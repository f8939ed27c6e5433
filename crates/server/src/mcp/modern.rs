//! Requests of 2026-07-28: nothing is remembered between them, each carries what it needs.

use std::sync::Arc;

use gateway::{Action, Era, Outcome, Pass};
use vocab::Stop;
use wire::{Json, mcp::meta as keys, write::Object};

use super::{
    answer::{Answer, Problem},
    calls::{Call, Turn},
    client::Client,
    legacy::Incoming,
    lists,
    meta::{Meta, spoken_json},
    peer::Peer,
    render::Shape,
    tasks,
};
use crate::door::Door;

/// Discovery may be served from a client's memory for this long.
const DISCOVER_TTL_MS: u64 = 5_000;

pub(crate) const LISTEN: &str = "subscriptions/listen";
const DISCOVER: &str = "server/discover";

/// Is there such a method in this revision?
pub(crate) fn knows(method: &str) -> bool {
    method == DISCOVER
        || method == LISTEN
        || lists::Kind::from_method(method).is_some()
        || matches!(
            Action::from_method(method),
            Some(
                Action::CallTool
                    | Action::ReadResource
                    | Action::GetPrompt
                    | Action::Complete
                    | Action::TaskGet
                    | Action::TaskUpdate
                    | Action::TaskCancel
            )
        )
}

/// Is this a method that only a modern client would send?
pub(crate) fn knows_only(method: &str) -> bool {
    matches!(method, DISCOVER | LISTEN)
}

/// Answers a request, or starts the call it asks for. `peer` makes calls cancellable where hanging up is not how it is done.
pub(crate) fn turn(
    door: &Door,
    client: &Client,
    meta: Meta,
    incoming: &Incoming<'_>,
    peer: Option<&Arc<Peer>>,
) -> Turn {
    if !knows(incoming.method) {
        return Problem::no_method(incoming.method).into();
    }
    if let Some(kind) = lists::Kind::from_method(incoming.method) {
        let shown = (client.mount.as_ref(), Era::Modern);
        let (answer, pass) =
            door.lists
                .answer(&door.gate, kind, &client.caller, shown, incoming.params);
        return Turn::Now(answer, pass);
    }
    match incoming.method {
        DISCOVER => {
            let (answer, pass) = discover(door, client);
            return Turn::Now(answer, pass);
        }
        LISTEN => return Turn::Listen,
        _ => {}
    }
    let Some(action) = Action::from_method(incoming.method) else {
        return Problem::no_method(incoming.method).into();
    };
    if tasks::is_task(action) {
        let sight = door.gate.sight(&client.caller);
        let server = door
            .gate
            .catalog()
            .capabilities(client.mount.as_ref(), Era::Modern, &sight);
        if let Err(problem) = tasks::modern(action, incoming.method, &server, &client.capabilities)
        {
            return problem.into();
        }
    }
    call(door, client, action, meta, incoming, peer)
}

fn call(
    door: &Door,
    client: &Client,
    action: Action,
    meta: Meta,
    incoming: &Incoming<'_>,
    peer: Option<&Arc<Peer>>,
) -> Turn {
    let registration = match peer.map(|peer| peer.register(&incoming.id)).transpose() {
        Ok(registration) => registration,
        Err(problem) => return problem.into(),
    };
    let errand = incoming.errand(action, meta.progress, registration);
    let parked = incoming
        .params
        .and_then(|params| door.gate.resume(&client.caller, action, params));
    let call = match parked {
        None => Call::start(&door.gate, client, errand),
        Some(Ok(running)) => Call::over(running, &door.gate, client, errand),
        Some(Err(violation)) => {
            let shape = Shape {
                era: Era::Modern,
                action,
                params: errand.params.into_bytes(),
            };
            let is_untyped = |tool: &str| client.sees_untyped(&door.gate, tool);
            return shape
                .answer(Outcome::Stopped(Stop::Refused(violation)), is_untyped)
                .into();
        }
    };
    Turn::Call(Box::new(call))
}

fn discover(door: &Door, client: &Client) -> (Answer, Pass) {
    let settings = door.gate.settings();
    let (catalog, sight) = (door.gate.catalog(), door.gate.sight(&client.caller));
    let mount = client.mount.as_ref();
    let mut result = Object::with_capacity(512);
    result
        .str("resultType", "complete")
        .raw("supportedVersions", &spoken_json())
        .raw(
            "capabilities",
            &catalog.capabilities(mount, Era::Modern, &sight),
        );
    if let Some(instructions) = door.gate.instructions(&sight, mount) {
        result.str("instructions", &instructions);
    }
    result
        .u64("ttlMs", DISCOVER_TTL_MS)
        .str("cacheScope", "private")
        .object("_meta", |meta| {
            meta.object(keys::SERVER_INFO, |info| {
                info.str("name", settings.name)
                    .str("version", settings.version);
            });
        });
    (Answer::result(result.finish()), sight.pass())
}

/// The header checks that need to know the tool: each annotated argument must be repeated in its header.
pub(crate) fn params_agree(
    door: &Door,
    client: &Client,
    headers: &http::HeaderMap,
    incoming: &Incoming<'_>,
) -> Result<(), Problem> {
    if incoming.method != "tools/call" {
        return Ok(());
    }
    let Some(tool) = incoming.param("name").and_then(Json::as_str) else {
        return Ok(());
    };
    let catalog = door.gate.catalog();
    for wanted in catalog.header_params(client.mount.as_ref(), client.caller.view(), &tool) {
        let path: Vec<&str> = wanted.path.iter().map(String::as_str).collect();
        let argument = incoming
            .param("arguments")
            .and_then(|arguments| arguments.path(&path));
        super::headers::param_agrees(headers, &wanted.header, argument)?;
    }
    Ok(())
}
