//! Shape: the parameters as the upstream will get them, and their digest. What is judged from here on are exactly these bytes.

use std::sync::Arc;

use bytes::Bytes;
use calls::{
    receive::{Address, Received},
    sent::Sent,
    tokens,
};
use policy::{Facts, Shaped};
use upstreams::catalog::Target;
use vocab::{Rule, Violation};
use wire::write::{self, Pieces};

use super::Case;
use crate::{Action, CallRequest};

/// What a permit is for: where it goes, and exactly what is sent there.
#[derive(Debug)]
pub(crate) struct Load {
    pub(super) target: Arc<Target>,
    pub(super) args: Args,
    /// The step of the plan that it uses up.
    pub(super) step: Option<::provenance::plan::StepOf>,
}

/// Parameters for the upstream: the caller's own, with our names and seals taken off.
#[derive(Debug)]
pub(super) struct Args {
    pub(super) text: Pieces,
    pub(super) digest: [u8; 32],
    /// The same as the judges read it.
    pub(super) judged: Bytes,
}

pub(super) fn shape(
    case: Case<'_>,
    received: &Received<'_>,
    target: &Target,
    sent: &Sent<'_>,
    facts: &Facts<'_>,
) -> Result<(Shaped, Args), Violation> {
    let shaped = policy::shape(facts)?;
    let (field, name) = address(case, received, target)?;
    let text = sent.parameters(
        case.request,
        (field, &name),
        case.state.map(|state| state.inner.as_slice()),
    );
    let mut hasher = blake3::Hasher::new();
    for piece in text.all() {
        hasher.update(piece);
    }
    let digest = *hasher.finalize().as_bytes();
    Ok((
        shaped,
        Args {
            text,
            digest,
            judged: sent.kept(case.request),
        },
    ))
}

/// Opens the seal around the upstream's own state, if the caller brought one back. It is bound to the call as the caller made it, before
/// any policy changed its arguments.
pub(super) fn request_state(
    case: Case<'_>,
    received: &Received<'_>,
    target: &Target,
) -> Result<Option<tokens::OpenState>, Violation> {
    let Some(state) = received.get("requestState") else {
        return Ok(None);
    };
    let Some(state) = state.as_str() else {
        return Err(
            Violation::new(Rule::Malformed, "`requestState` is not a string")
                .with_hint("`requestState` must be a string"),
        );
    };
    let bound = bound(case.request, received, target);
    let state = tokens::open_state(&case.gate.wrapper, bound, case.gate.now_ms(), &state)?;
    case.gate.states.check(&state)?;
    Ok(Some(state))
}

pub(super) fn bound<'a>(
    request: &'a CallRequest,
    received: &Received<'_>,
    target: &'a Target,
) -> tokens::Bound<'a> {
    let digest = tokens::digest(&target.name, received.arguments_text());
    tokens::Bound {
        caller: &request.caller,
        server: &target.spec.id,
        action: request.action,
        digest,
    }
}

/// What is addressed, in the server's own words.
fn address(
    case: Case<'_>,
    received: &Received<'_>,
    target: &Target,
) -> Result<(&'static str, Vec<u8>), Violation> {
    let Case { gate, request, .. } = case;
    Ok(match (&received.address, request.action) {
        (Address::Prompt(_), Action::Complete) => {
            ("ref", reference("ref/prompt", "name", &target.name))
        }
        (Address::Resource(_), Action::Complete) => {
            ("ref", reference("ref/resource", "uri", &target.name))
        }
        (Address::Tool(_) | Address::Prompt(_), _) => ("name", write::quoted(&target.name)),
        (Address::Resource(_), _) => ("uri", write::quoted(&target.name)),
        (Address::Task(id), _) => {
            let task = tokens::open_task(&gate.wrapper, &request.caller, id)
                .ok_or_else(|| Violation::new(Rule::ToolNotFound, "unknown task id"))?;
            ("taskId", write::quoted(&task.id))
        }
    })
}

fn reference(kind: &str, field: &str, name: &str) -> Vec<u8> {
    let mut out = write::Object::new();
    out.str("type", kind).str(field, name);
    out.finish()
}
