//! Conclude: the outcome is on record, and only then is there a reply.

use audit::{Facts, Opened, Verdict};
use policy::Permit;
use vocab::{Fault, FaultKind, Rule, Stage, Stop};
use wire::Json;

use super::{
    Case, Delivered, Received, current_label,
    receive::{Address, receive},
    sent::Sent,
    shape::Load,
};
use crate::{
    Ask, Caller, Proof,
    catalog::Target,
    gate::Inner,
    running::{OnRecord, Outcome, Reply},
    settings::Rules,
    words::Pass,
};

/// Arguments longer than this are recorded by their digest alone.
const MAX_BODY: usize = 64 << 10;
/// Characters of a name that leads nowhere.
const MAX_NAME: usize = 200;

/// What is known when a call comes in.
pub(super) fn facts(gate: &Inner, ask: &Ask, rules: &Rules) -> Facts {
    Facts {
        call: gate.next_call_id().into(),
        door: ask.door.as_str().into(),
        action: ask.action.method().into(),
        caller: ask.caller.id().to_owned().into(),
        user: ask.caller.user().unwrap_or_default().to_owned().into(),
        agent: ask
            .caller
            .agent_name()
            .unwrap_or_default()
            .to_owned()
            .into(),
        tenant: ask.caller.tenant().unwrap_or_default().to_owned().into(),
        execution: ask
            .caller
            .signed()
            .map_or_else(String::new, |session| session.execution.clone())
            .into(),
        context: ask.caller.context().unwrap_or_default().to_owned().into(),
        signature: signature(ask).into(),
        session: ask.session.to_string().into(),
        bundle: rules.bundle.version().to_owned().into(),
        args_bytes: Some(ask.params.len() as u64),
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

/// A refusal's words for the operator, without secrets that the caller sent.
fn scrubbed(gate: &Inner, stop: Stop) -> Stop {
    let Stop::Refused(mut violation) = stop else {
        return stop;
    };
    if let Some(clean) = gate.text_without_secrets(&violation.detail) {
        violation.detail = clean;
    }
    let clean = violation
        .payload
        .as_ref()
        .and_then(|payload| gate.without_secrets(payload.as_bytes()));
    if let Some(clean) = clean.and_then(|clean| String::from_utf8(clean).ok()) {
        violation.payload = Some(clean);
    }
    Stop::Refused(violation)
}

/// The client's own signature, as proof of what it asked for.
fn signature(ask: &Ask) -> String {
    let Proof::Envelope(envelope) = &ask.proof else {
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
        && case.ask.mount.is_none()
        && !is_double(asked, target)
    {
        opened.facts.target = asked.clone().into_owned().into();
    }
    opened.facts.server = target.spec.id.as_str().to_owned().into();
    opened.facts.tool = target.name.clone().into();
    opened.facts.effect = Some(target.effect);
    opened.facts.definition = target.digest().to_owned().into();
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
    let Load { target, args } = permit.load();
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
fn keep_refused(case: Case<'_>, opened: &mut Opened) {
    let server = opened.facts.server.to_string();
    if !server.is_empty()
        && opened.facts.body.is_empty()
        && let Ok(received) = receive(case.ask)
        && let Ok(sent) = Sent::new(case.ask, &received, None)
    {
        let kept = sent.kept(case.ask);
        if kept.len() <= MAX_BODY && case.ask.caller.refusals().may_keep(kept.len()) {
            keep_body(case, opened, &kept, &server);
        }
    }
}

pub(super) fn conclude(
    case: Case<'_>,
    mut opened: Opened,
    outcome: Result<Delivered, Stop>,
) -> Reply {
    let Case {
        gate, ask, step, ..
    } = case;
    if opened.facts.label.is_empty() {
        opened.facts.label = current_label(ask).to_string().into();
    }
    let had_intent = opened.has_intent();
    if !had_intent {
        // What the session had read is part of why a call was refused, wherever that was.
        ask.caller.session().place_step(step);
        opened.facts.after = step.after().to_string().into();
    }
    let delivered = match outcome {
        Ok(delivered) => {
            let (after, follows) = (step.after(), step.follows());
            if after != follows {
                // Another call's result was shown in between: the lineage has both.
                opened.facts.after = format!("{after} {follows}").trim().to_owned().into();
            }
            delivered
        }
        Err(stop) => Delivered {
            outcome: Outcome::Stopped(stop),
            is_error: true,
            remark: None,
            pass: Pass::own(),
        },
    };
    let (record, outcome, pass) = match delivered {
        Delivered {
            outcome: Outcome::Stopped(stop),
            pass,
            ..
        } => {
            let stop = scrubbed(gate, stop);
            gate.count(stopped(&stop, had_intent).verdict);
            (
                stopped_record(case, opened, &stop),
                Outcome::Stopped(stop),
                pass,
            )
        }
        delivered => {
            gate.count(verdict(&delivered));
            (
                delivered_record(gate, opened, &delivered).map(OnRecord::from),
                delivered.outcome,
                delivered.pass,
            )
        }
    };
    match record {
        Ok(proof) => Reply::new(outcome, pass, proof),
        Err(error) => {
            tracing::error!(%error, call = step.call(), "an outcome could not be recorded");
            match outcome {
                // No reply before its record, a refusal's neither: what it had to say is not said.
                Outcome::Stopped(Stop::Refused(violation))
                    if !had_intent || violation.rule == Rule::LedgerUnavailable =>
                {
                    Reply::refused_unrecorded(error.to_string())
                }
                _ => Reply::unrecorded(error.to_string()),
            }
        }
    }
}

/// Records how a call was stopped. Refusals of one caller that come in numbers are counted instead, so that they do not fill the disk.
fn stopped_record(
    case: Case<'_>,
    mut opened: Opened,
    stop: &Stop,
) -> Result<OnRecord, audit::LedgerUnavailable> {
    let Case { gate, ask, .. } = case;
    let had_intent = opened.has_intent();
    if let Stop::Refused(violation) = stop
        && !had_intent
        && !ask.caller.refusals().may_record()
    {
        return gate
            .refusals
            .count(opened, ask.door.as_str(), violation.rule.code())
            .map(OnRecord::from);
    }
    let label = current_label(ask).to_string();
    let mut record = stopped(stop, had_intent);
    record.label_after = &label;
    log(stop, &opened);
    keep_refused(case, &mut opened);
    gate.ledger.conclude(opened, &record).map(OnRecord::from)
}

fn delivered_record(
    gate: &Inner,
    opened: Opened,
    delivered: &Delivered,
) -> Result<audit::Sealed, audit::LedgerUnavailable> {
    let label = delivered.pass.after().unwrap_or_default().to_string();
    let none = bytes::Bytes::new();
    let (bytes, known) = match &delivered.outcome {
        Outcome::Result(text) => (text.bytes(), text.digest()),
        Outcome::Rpc(bytes) => (bytes, None),
        Outcome::Stopped(_) => (&none, None),
    };
    let digest = known
        .map_or_else(|| blake3::hash(bytes), blake3::Hash::from_bytes)
        .to_hex();
    let mut record = audit::Outcome::new(verdict(delivered), Stage::Conclude);
    record.label_after = &label;
    record.result = digest.as_str();
    record.result_bytes = Some(bytes.len() as u64);
    record.violation = upstream_error(delivered);
    record.detail = delivered.remark.as_deref().unwrap_or_default();
    if record.violation == audit::UPSTREAM_ERROR {
        let (call, server) = (&*opened.facts.call, &*opened.facts.server);
        tracing::warn!(
            call,
            server,
            detail = record.detail,
            "a server answered with an error"
        );
    }
    gate.ledger.conclude(opened, &record)
}

/// A call whose server or tool says that it failed has failed, however well that was said.
fn verdict(delivered: &Delivered) -> Verdict {
    if delivered.is_error {
        Verdict::Failed
    } else {
        Verdict::Permitted
    }
}

/// An error that the upstream reported in a well-formed answer: delivered, and counted as a failure.
fn upstream_error(delivered: &Delivered) -> &'static str {
    match delivered.outcome {
        Outcome::Rpc(_) => audit::UPSTREAM_ERROR,
        Outcome::Result(_) if delivered.is_error => audit::TOOL_ERROR,
        _ => "",
    }
}

fn stopped(stop: &Stop, had_intent: bool) -> audit::Outcome<'_> {
    let mut record = match stop {
        Stop::Refused(violation) => {
            // What was refused was not done. A result that is withheld was, and so was a call whose client gave an answer that could not
            // be sent. A server that does not accept the user's account did nothing.
            let is_under_way = had_intent && violation.rule != Rule::PermissionDenied;
            let is_done = violation.rule.stage() > Stage::Dispatch || is_under_way;
            let verdict = if is_done {
                Verdict::Failed
            } else {
                Verdict::Refused
            };
            let mut record = audit::Outcome::new(verdict, violation.rule.stage());
            record.violation = violation.rule.code();
            record.payload = violation.payload.as_deref().unwrap_or_default();
            record
        }
        Stop::Failed(Fault {
            kind: FaultKind::Cancelled,
            ..
        }) => audit::Outcome::new(Verdict::Cancelled, Stage::Dispatch),
        Stop::Failed(fault) => {
            // The server may have done it, and whoever could have told is gone.
            let is_unknown = had_intent && fault.kind == FaultKind::Worker;
            let verdict = if is_unknown {
                Verdict::Indeterminate
            } else {
                Verdict::Failed
            };
            let mut record = audit::Outcome::new(verdict, Stage::Dispatch);
            record.violation = fault.error_code().as_str();
            record
        }
    };
    record.detail = match stop {
        Stop::Refused(violation) => &violation.detail,
        Stop::Failed(fault) => &fault.detail,
    };
    record
}

/// The operator's copy, once; the agent never sees the detail.
fn log(stop: &Stop, opened: &Opened) {
    let call = &*opened.facts.call;
    match stop {
        Stop::Refused(violation) => tracing::info!(
            call,
            rule = violation.rule.code(),
            detail = violation.detail,
            "refused"
        ),
        Stop::Failed(fault) => {
            tracing::warn!(call, kind = ?fault.kind, detail = fault.detail, "failed")
        }
    }
}
