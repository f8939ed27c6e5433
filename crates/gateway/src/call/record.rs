//! The record of a call as it grows: what is known when it comes in, what Resolve adds, what the decision was made on.

use audit::{Facts, Opened};
use callers::ForGate;
use calls::{
    receive::{Address, Received, receive},
    sent::Sent,
};
use policy::Permit;
use upstreams::{Route, catalog::Target};
use wire::Json;

use super::{Case, shape::Load};
use crate::{CallRequest, Caller, Origin, gate::Inner, settings::Rules};

/// Arguments longer than this are recorded by their digest alone.
const MAX_BODY: usize = 64 << 10;
/// Characters of a name that leads nowhere.
const MAX_NAME: usize = 200;

/// What is known when a call comes in.
pub(super) fn facts(gate: &Inner, request: &CallRequest, rules: &Rules) -> Facts {
    Facts {
        call: gate.next_call_id().into(),
        door: request.door.as_str().into(),
        action: request.action.method().into(),
        caller: request.caller.id().to_owned().into(),
        user: request.caller.user().unwrap_or_default().to_owned().into(),
        agent: request
            .caller
            .agent_name()
            .unwrap_or_default()
            .to_owned()
            .into(),
        tenant: request
            .caller
            .tenant()
            .unwrap_or_default()
            .to_owned()
            .into(),
        execution: request
            .caller
            .signed()
            .map_or_else(String::new, |session| session.execution.clone())
            .into(),
        context: request
            .caller
            .context()
            .unwrap_or_default()
            .to_owned()
            .into(),
        signature: signature(request).into(),
        session: request.lane.to_string().into(),
        bundle: rules.bundle.version().to_owned().into(),
        args_bytes: Some(request.params.len() as u64),
        ..Facts::default()
    }
}

/// Who an approval is for: of a session of signed calls, that execution in that context and no other of the same credential.
pub(super) fn bound_caller(caller: &Caller) -> String {
    match caller.signed() {
        None => caller.id().to_owned(),
        Some(session) => format!("{} {} {}", caller.id(), session.execution, session.context),
    }
}

/// The client's own signature, as proof of what it asked for.
fn signature(request: &CallRequest) -> String {
    let Origin::Signed(envelope) = &request.origin else {
        return String::new();
    };
    let signature = Json::checked_before(envelope)
        .get("signature")
        .and_then(Json::as_str);
    signature.map(|text| text.into_owned()).unwrap_or_default()
}

/// What Resolve adds.
pub(super) fn name(case: Case<'_>, opened: &mut Opened, received: &Received<'_>, target: &Target) {
    // Behind a door that shows one server its names are that server's, and `server` and `tool` say it all.
    if let Address::Tool(asked) = &received.address
        && case.request.mount.is_none()
        && !is_double(asked, target)
    {
        opened.facts.target = asked.clone().into_owned().into();
    }
    opened.facts.server = target.spec.id.as_str().to_owned().into();
    opened.facts.tool = target.name.clone().into();
    opened.facts.effect = Some(target.effect);
    if let Some(Route::Execution(execution)) = &target.route {
        opened.facts.execution = execution.saved().id.clone().into();
    }
    opened.facts.definition = target.digest().to_owned().into();
}

/// The call goes on under another configuration than it began with: so do who calls, and by which policies it is judged.
pub(super) fn renewed(case: Case<'_>, opened: &mut Opened) {
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let caller = &case.request.caller;
    opened.facts.user = text(caller.user()).into();
    opened.facts.agent = text(caller.agent_name()).into();
    opened.facts.tenant = text(caller.tenant()).into();
    opened.facts.context = text(caller.context()).into();
    opened.facts.bundle = case.now.rules.bundle.version().to_owned().into();
}

/// Whether a name is the one that `server` and `tool` make, without making it.
fn is_double(asked: &str, target: &Target) -> bool {
    let rest = asked
        .strip_prefix(target.spec.id.as_str())
        .and_then(|rest| rest.strip_prefix("__"));
    rest == Some(target.name.as_str())
}

/// Resolve found nothing: the name is all there is to say.
pub(super) fn unresolved(opened: &mut Opened, received: &Received<'_>) {
    if let Address::Tool(asked) = &received.address {
        opened.facts.tool = asked.chars().take(MAX_NAME).collect::<String>().into();
    }
}

/// What the decision was made on.
pub(super) fn weighed(case: Case<'_>, opened: &mut Opened, permit: &Permit<Load>) {
    let Load { target, args, .. } = permit.load();
    opened.facts.label = permit.label().to_string().into();
    opened.facts.after = case.step.after().to_string().into();
    opened.facts.policy = permit.policies().join(" ").into();
    opened.facts.args = blake3::Hash::from_bytes(args.digest)
        .to_hex()
        .to_string()
        .into();
    opened.facts.args_bytes = Some(args.text.len() as u64);
    keep_body(case, opened, &args.judged, target.spec.id.as_str());
}

/// Keeps what is sent beside the ledger, with secrets taken out. Losing them loses no proof, so it stops no call.
fn keep_body(case: Case<'_>, opened: &mut Opened, arguments: &[u8], server: &str) {
    if arguments.is_empty() || arguments.len() > MAX_BODY {
        return;
    }
    let redacted = case.gate.without_secrets(arguments);
    if let Err(error) = opened.keep_body(redacted.as_deref().unwrap_or(arguments)) {
        tracing::warn!(%error, server, "the arguments of a call could not be kept");
    }
}

/// What was refused is worth knowing too: it can be explained, and judged by another bundle. As much of it as one caller may have.
pub(super) fn keep_refused(case: Case<'_>, opened: &mut Opened) {
    let server = opened.facts.server.to_string();
    if !server.is_empty()
        && opened.facts.body.is_empty()
        && let Ok(received) = receive(case.request)
        && let Ok(sent) = Sent::new(case.request, &received, None)
    {
        let kept = sent.kept(case.request);
        if kept.len() <= MAX_BODY && case.request.caller.refusals().may_keep(kept.len()) {
            keep_body(case, opened, &kept, &server);
        }
    }
}
