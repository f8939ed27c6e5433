//! `invoke`: one envelope, one call.

use bytes::Bytes;
use gateway::{Action, Answer, CallRequest, Caller, Envelope, Event, Origin};
use vocab::{Rule, Violation};
use wire::{Json, Kind, Limits, mcp::code, rpc, write::Object};

use super::{
    Request,
    render::{self, Said},
    tools,
};
use crate::{door::Door, refused};

pub(super) async fn answer(door: &Door, request: &Request) -> Said {
    let body = &request.body;
    let settings = door.gate.settings();
    let envelope = match Envelope::parse_within(
        body,
        Limits::new(settings.max_body_bytes, settings.max_depth),
    ) {
        Ok(envelope) => envelope,
        Err(problem) => {
            door.gate.strangers("malformed envelope");
            return malformed(None, &problem.to_string());
        }
    };
    let payload = envelope.payload();
    let id = payload
        .get("id")
        .filter(|id| matches!(id.kind(), Kind::String | Kind::Number));
    let caller = match door.gate.recognise(envelope.token()) {
        Ok(caller) => caller,
        Err(violation) => {
            door.gate.strangers(violation.rule.code());
            return render::refusal(id, &violation);
        }
    };
    if let Some(guest) = &request.guest {
        guest.recognise(caller.id());
    }
    door.gate.turn(&caller).await;
    // Of somebody we know: on record, as everything they are refused.
    let malformed = |id: Option<Json<'_>>, message: &str| {
        refused::note_one(
            door,
            "seal",
            &caller,
            "invoke",
            Rule::Malformed.code(),
            message,
        );
        malformed(id, message)
    };
    let method = payload
        .get("method")
        .and_then(Json::as_str)
        .unwrap_or_default();
    if payload.get("jsonrpc").and_then(Json::as_str).as_deref() != Some("2.0") || id.is_none() {
        return malformed(id, "the payload must be a JSON-RPC 2.0 request with an id");
    }
    let params = payload.get("params").filter(|params| params.is_object());
    match (&*method, params) {
        ("tools/list", _) => match door.gate.verify(&caller, body) {
            Ok(()) => render::success(id, &tools::list(door, &caller)),
            Err(violation) => render::refusal(id, &violation),
        },
        ("tools/call" | "resources/read" | "prompts/get", Some(params)) => {
            let Some(action) = Action::from_method(&method) else {
                return malformed(id, "the method is unknown");
            };
            if action == Action::CallTool
                && params
                    .get("name")
                    .and_then(Json::as_str)
                    .is_none_or(|name| name.is_empty())
            {
                return malformed(id, "the tool's name is missing");
            }
            call(door, caller.clone(), action, body, params, id).await
        }
        ("tools/call" | "resources/read" | "prompts/get", None) => {
            malformed(id, "`params` must be an object")
        }
        (other, _) => {
            let shown: String = other.chars().take(64).collect();
            malformed(
                id,
                &format!(
                    "a payload can be tools/call, tools/list, resources/read or prompts/get, not `{shown}`"
                ),
            )
        }
    }
}

fn malformed(id: Option<Json<'_>>, message: &str) -> Said {
    let violation = Violation::new(Rule::Malformed, message).with_hint(message);
    render::refusal(id, &violation)
}

async fn call(
    door: &Door,
    caller: Caller,
    action: Action,
    envelope: &Bytes,
    params: Json<'_>,
    id: Option<Json<'_>>,
) -> Said {
    let asks = caller.clone();
    let lane = caller.signed().map_or_else(
        || "".into(),
        |session| format!("seal:{}", session.id).into(),
    );
    let mut running = door.gate.start(CallRequest {
        caller: asks,
        door: gateway::Door::Seal,
        mount: None,
        lane,
        origin: Origin::Signed(envelope.clone()),
        action,
        params: envelope.slice_ref(params.as_bytes()).into(),
    });
    loop {
        match running.next().await {
            Event::Done(reply) => {
                let (outcome, pass) = reply.into_parts();
                let said = render::outcome(id, outcome);
                return Said {
                    body: caller.counted(said.body),
                    pass,
                    ..said
                };
            }
            // One envelope, one answer: there is nobody to ask meanwhile.
            Event::Ask { key, .. } => {
                let nobody =
                    rpc::error_object(code::INTERNAL_ERROR, "this client cannot be asked", None);
                running.answer(&key, Answer::Error(nobody.into()));
            }
            Event::Progress(_) | Event::Log(_) => {}
        }
    }
}

/// A list of tools as the result of `tools/list`.
pub(super) fn as_result(tools: &[u8]) -> Vec<u8> {
    let mut out = Object::with_capacity(tools.len() + 16);
    out.raw("tools", tools);
    out.finish()
}
