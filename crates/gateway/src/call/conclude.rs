//! Conclude: the outcome is on record, and only then is there a reply.

use audit::{Opened, Verdict};
use callers::ForGate;
use calls::running::{OnRecord, Outcome, Reply};
use upstreams::words::own_pass;
use vocab::{Fault, FaultKind, Rule, Stage, Stop};

use super::{Case, Delivered, current_label, record};
use crate::gate::Inner;

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

pub(super) fn conclude(
    case: Case<'_>,
    mut opened: Opened,
    outcome: Result<Delivered, Stop>,
) -> Reply {
    let Case {
        gate,
        request,
        step,
        ..
    } = case;
    if opened.facts.label.is_empty() {
        opened.facts.label = current_label(request).to_string().into();
    }
    let had_intent = opened.has_intent();
    if !had_intent {
        // What the session had read is part of why a call was refused, wherever that was.
        request.caller.session().place_step(step);
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
            pass: own_pass(),
        },
    };
    let (record, outcome, pass) = match delivered {
        Delivered {
            outcome: Outcome::Stopped(stop),
            pass,
            ..
        } => {
            let stop = scrubbed(gate, stop);
            let ended = stopped(&stop, had_intent);
            gate.count(ended.verdict);
            let took = case.begun.elapsed();
            gate.tally.count(
                &opened.facts.server,
                ended.verdict.as_str(),
                ended.violation,
                took,
            );
            (
                stopped_record(case, opened, &stop),
                Outcome::Stopped(stop),
                pass,
            )
        }
        delivered => {
            let (verdict, rule) = (verdict(&delivered), upstream_error(&delivered));
            gate.count(verdict);
            let took = case.begun.elapsed();
            gate.tally
                .count(&opened.facts.server, verdict.as_str(), rule, took);
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
    let Case { gate, request, .. } = case;
    let had_intent = opened.has_intent();
    if let Stop::Refused(violation) = stop
        && !had_intent
        && !request.caller.refusals().may_record()
    {
        return gate
            .refusals
            .count(opened, request.door.as_str(), violation.rule.code())
            .map(OnRecord::from);
    }
    let label = current_label(request).to_string();
    let mut record = stopped(stop, had_intent);
    record.label_after = &label;
    log(stop, &opened);
    record::keep_refused(case, &mut opened);
    gate.ledger.conclude(opened, &record).map(OnRecord::from)
}

fn delivered_record(
    gate: &Inner,
    opened: Opened,
    delivered: &Delivered,
) -> Result<audit::Concluded, audit::LedgerUnavailable> {
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
            // be sent. A server that does not accept the user's account, or our login, did nothing.
            let did_nothing =
                matches!(violation.rule, Rule::PermissionDenied | Rule::LoginRequired);
            let is_under_way = had_intent && !did_nothing;
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
            let is_unknown =
                had_intent && matches!(fault.kind, FaultKind::Worker | FaultKind::DispatchTimeout);
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
