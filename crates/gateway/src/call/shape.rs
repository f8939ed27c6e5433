//! Shape: the arguments as the upstream will get them, and their digest. What is judged from here on are exactly these bytes.

use bytes::Bytes;
use policy::{Facts, Shaped};
use vocab::{Rule, Violation};
use wire::{
    Json,
    mcp::meta,
    write::{self, Pieces},
};

use super::{
    Case,
    receive::{Address, Received},
};
use crate::{Action, Ask, Door, Era, catalog::Target, gate::Inner, tokens};

/// Parameters for the upstream: the caller's own, with our names and seals taken off.
#[derive(Debug)]
pub(super) struct Args {
    pub(super) text: Pieces,
    pub(super) digest: [u8; 32],
}

pub(super) fn shape(
    case: Case<'_>,
    received: &Received<'_>,
    target: &Target,
    facts: &Facts<'_>,
) -> Result<(Shaped, Args), Violation> {
    let Case { gate, ask, .. } = case;
    let shaped = policy::shape(facts)?;
    let state = request_state(gate, ask, received, target)?;
    let text = rewrite(gate, ask, received, target, state.as_deref())?;
    let mut hasher = blake3::Hasher::new();
    for piece in text.all() {
        hasher.update(piece);
    }
    let digest = *hasher.finalize().as_bytes();
    Ok((shaped, Args { text, digest }))
}

/// Opens the seal around the upstream's own state, if the caller brought one back.
fn request_state(gate: &Inner, ask: &Ask, received: &Received<'_>, target: &Target) -> Result<Option<Vec<u8>>, Violation> {
    let Some(state) = received.get("requestState") else { return Ok(None) };
    let Some(state) = state.as_str() else {
        return Err(
            Violation::new(Rule::Malformed, "`requestState` is not a string").with_hint("`requestState` must be a string")
        );
    };
    let bound = bound(ask, received, target);
    tokens::open_state(&gate.seal, bound, gate.now_ms(), &state).map(Some)
}

pub(super) fn bound<'a>(ask: &'a Ask, received: &Received<'_>, target: &'a Target) -> tokens::Bound<'a> {
    let digest = tokens::digest(&target.name, received.arguments_text());
    tokens::Bound { caller: &ask.caller, server: &target.spec.id, action: ask.action, digest }
}

fn rewrite(gate: &Inner, ask: &Ask, received: &Received<'_>, target: &Target, state: Option<&[u8]>) -> Result<Pieces, Violation> {
    let (field, value) = match (&received.address, ask.action) {
        (Address::Prompt(_), Action::Complete) => ("ref", reference(received, "name", &target.name)),
        (Address::Resource(_), Action::Complete) => ("ref", reference(received, "uri", &target.name)),
        (Address::Tool(_) | Address::Prompt(_), _) => ("name", write::quoted(&target.name)),
        (Address::Resource(_), _) => ("uri", write::quoted(&target.name)),
        (Address::Task(id), _) => {
            let (_, task) = tokens::open_task(&gate.seal, &ask.caller, id)
                .ok_or_else(|| Violation::new(Rule::ToolNotFound, "unknown task id"))?;
            ("taskId", write::quoted(&task))
        }
        (Address::Server, _) => ("_meta", Vec::new()),
    };
    let mut dropped = vec![field, "_meta", "requestState"];
    let acts_for_user = ask.action == Action::CallTool && target.spec.rule(&target.name).requires_user_auth;
    if ask.client.era == Era::Modern || target.era != Some(Era::Legacy) || acts_for_user || ask.door == Door::Seal {
        // A signed call has one answer, so it cannot be made a task that ends later.
        // What is asked about a task later would go out under the gate's own name, so a user's call is never made one.
        // The 2025 way to ask for a task means nothing to a server of the other kind: the call is then made synchronously.
        dropped.push("task");
    }
    let kept = received.get("_meta").and_then(kept_meta);
    Ok(write::lead_fields(&ask.params, &received.fields, &dropped, |out| {
        if !value.is_empty() {
            out.raw(field, &value);
        }
        if let Some(state) = state {
            out.raw("requestState", state);
        }
        if let Some(meta) = kept {
            out.raw("_meta", &meta);
        }
    }))
}

fn reference(received: &Received<'_>, field: &str, name: &str) -> Vec<u8> {
    let reference = received.get("ref").unwrap_or(Json::EMPTY_OBJECT);
    write::replace_fields(reference, &[field], |out| {
        out.str(field, name);
    })
}

/// What of `_meta` is the caller's own to pass on: not the protocol's keys, which are written anew for every hop.
fn kept_meta(json: Json<'_>) -> Option<Bytes> {
    let mut out = write::Object::new();
    let mut any = false;
    let mut fields = json.fields();
    while let Some((key, value)) = fields.next_raw() {
        let name = Json::checked_before(key).as_str()?;
        let ours = name.starts_with(meta::PREFIX) && name != meta::RELATED_TASK;
        if !ours && name != meta::PROGRESS_TOKEN {
            out.copied(key, value);
            any = true;
        }
    }
    any.then(|| out.finish().into())
}
