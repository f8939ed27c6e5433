//! Conclude: the outcome is on record, and only then is there a reply.

use audit::{Facts, Opened, Verdict};
use policy::Permit;
use vocab::{Fault, FaultKind, Stage, Stop};

use super::{Delivered, shape::Args};
use crate::{
    Ask,
    catalog::Target,
    gate::Inner,
    running::{Outcome, Reply},
};

/// The bundle that judged; there is one until bundles can be loaded.
const BUNDLE: &str = "floor-1";

/// What is known when a call comes in.
pub(super) fn facts(gate: &Inner, ask: &Ask) -> Facts {
    Facts {
        call: gate.next_call_id().into(),
        door: ask.door.as_str().into(),
        action: ask.action.method().into(),
        caller: ask.caller.id().to_owned().into(),
        session: ask.session.to_string().into(),
        bundle: BUNDLE.into(),
        args_bytes: Some(ask.params.len() as u64),
        ..Facts::default()
    }
}

/// What Resolve adds.
pub(super) fn name(opened: &mut Opened, target: &Target) {
    opened.facts.server = target.spec.id.as_str().to_owned().into();
    opened.facts.tool = target.name.clone().into();
}

/// What the decision was made on.
pub(super) fn weighed(opened: &mut Opened, permit: &Permit, args: &Args) {
    opened.facts.label = permit.label().to_string().into();
    opened.facts.args = blake3::Hash::from_bytes(args.digest).to_hex().to_string().into();
    opened.facts.args_bytes = Some(args.text.len() as u64);
}

pub(super) fn conclude(gate: &Inner, opened: Opened, ask: &Ask, outcome: Result<Delivered, Stop>) -> Reply {
    if opened.facts.label.is_empty() {
        let mut opened = opened;
        opened.facts.label = ask.caller.session().mark().to_string().into();
        return seal(gate, opened, ask, outcome);
    }
    seal(gate, opened, ask, outcome)
}

fn seal(gate: &Inner, opened: Opened, ask: &Ask, outcome: Result<Delivered, Stop>) -> Reply {
    let label;
    let digest;
    let (record, outcome) = match outcome {
        Ok(delivered) => {
            label = delivered.label.to_string();
            let (bytes, known) = match &delivered.outcome {
                Outcome::Result(text) => (text.bytes(), text.digest()),
                Outcome::Rpc(bytes) => (bytes, None),
                Outcome::Stopped(_) => (&bytes::Bytes::new(), None),
            };
            digest = known.map_or_else(|| blake3::hash(bytes), blake3::Hash::from_bytes).to_hex();
            let mut record = audit::Outcome::new(verdict(&delivered.outcome), Stage::Conclude);
            record.label_after = &label;
            record.result = digest.as_str();
            record.result_bytes = Some(bytes.len() as u64);
            record.violation = upstream_error(&delivered);
            (gate.ledger.conclude(opened, &record), delivered.outcome)
        }
        Err(stop) => {
            label = ask.caller.session().mark().to_string();
            let mut record = stopped(&stop);
            record.label_after = &label;
            log(&stop, &opened);
            (gate.ledger.conclude(opened, &record), Outcome::Stopped(stop))
        }
    };
    gate.count(&outcome);
    match record {
        Ok(proof) => Reply::new(outcome, proof),
        Err(error) => {
            tracing::error!(%error, "an outcome could not be recorded");
            match outcome {
                // A refusal had no effect; its caller may know why even if the record must wait.
                Outcome::Stopped(stop @ Stop::Refused(_)) => Reply::refused_unrecorded(stop),
                _ => Reply::unrecorded(error.to_string()),
            }
        }
    }
}

fn verdict(outcome: &Outcome) -> Verdict {
    match outcome {
        Outcome::Result(_) => Verdict::Permitted,
        Outcome::Rpc(_) | Outcome::Stopped(_) => Verdict::Failed,
    }
}

/// An error that the upstream reported in a well-formed answer: delivered, and counted as a failure.
fn upstream_error(delivered: &Delivered) -> &'static str {
    match delivered.outcome {
        Outcome::Rpc(_) => "upstream_error",
        Outcome::Result(_) if delivered.is_error => "tool_error",
        _ => "",
    }
}

fn stopped(stop: &Stop) -> audit::Outcome<'_> {
    let mut record = match stop {
        Stop::Refused(violation) => {
            let mut record = audit::Outcome::new(Verdict::Refused, violation.rule.stage());
            record.violation = violation.rule.code();
            record
        }
        Stop::Failed(Fault { kind: FaultKind::Cancelled, .. }) => audit::Outcome::new(Verdict::Cancelled, Stage::Dispatch),
        Stop::Failed(fault) => {
            let mut record = audit::Outcome::new(Verdict::Failed, Stage::Dispatch);
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
        Stop::Refused(violation) => tracing::info!(call, rule = violation.rule.code(), detail = violation.detail, "refused"),
        Stop::Failed(fault) => tracing::warn!(call, kind = ?fault.kind, detail = fault.detail, "failed"),
    }
}
