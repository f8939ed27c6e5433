//! Consent: a person approves the exact action, when the permit asks. Then a last look at whether the server still offers what was
//! approved.
//!
//! A person may take minutes, and the world moves meanwhile. So an approved call is decided again from Admit on, and what comes out
//! must be bound to the same digest as what the person saw: caller, tool, definition, arguments, label, bundle. An approval is spent
//! once. Nothing here can allow what an earlier stage refused.
//!
//! **Invariant: an agent does not approve itself**, unless the operator lets clients answer. Tests
//! `an_agent_does_not_answer_for_itself`, `a_client_answers_where_the_operator_allows_it`.

use std::{sync::Arc, time::Duration};

use audit::Opened;
use bytes::Bytes;
use callers::{ForGate, meters::Charge, signed::ExecutionSlot};
use calls::{
    finish::Phase,
    receive::{Received, receive},
    running::{Event, FromClient, Wires},
    sent,
};
use policy::{Asked, Judged};
use state::{Approval, ApprovalState, NewApproval, SpendError};
use tokio::time::Instant;
use upstreams::{catalog::Target, words::own_words};
use vocab::{Fault, FaultKind, Rule, Stop, Violation};
use wire::{
    Json,
    write::{self, Object},
};

use super::{
    Case, Count, Decided, Settled, left, provenance, record,
    resolve::{self, Under},
    shape::Load,
    slots::Waiting,
};
use crate::{Answer, CallRequest, ClientFace, route};

/// How often a waiting client is told that it waits.
const REMINDER: Duration = Duration::from_secs(10);
/// The key of our own question to the client; servers' keys are numbers.
pub(crate) const KEY: &str = "portcullis-approval";

/// Admit to Judge, as `call.rs` has it.
pub(crate) type Decide =
    fn(Case<'_>, &Received<'_>, &Arc<Target>, Count) -> Result<Decided, Violation>;

/// The call was let in: it uses up its slot. Then a person is asked, if the permit says so.
pub(super) async fn consent(
    case: Case<'_>,
    opened: &mut Opened,
    received: &Received<'_>,
    (target, slot): (Arc<Target>, ExecutionSlot),
    mut decided: Decided,
    decide: Decide,
    wires: &mut Wires,
) -> Result<Settled, Stop> {
    let charge = decided.charge.take();
    keep(case, slot).await?;
    if target.route.is_none() {
        // It passed everything else, so it counts as a call does: against its execution, and against its rate.
        charge.into_iter().for_each(Charge::keep);
        return Err(unserved(&target).into());
    }
    let settled = settle(case, opened, received, target, decided, decide, wires).await?;
    Ok(Settled { charge, ..settled })
}

async fn settle(
    case: Case<'_>,
    opened: &mut Opened,
    received: &Received<'_>,
    target: Arc<Target>,
    decided: Decided,
    decide: Decide,
    wires: &mut Wires,
) -> Result<Settled, Stop> {
    let Decided { judged, slots, .. } = settle_rewrite(case, &target, decided, decide)?;
    if matches!(judged, Judged::Asked(_))
        && let Some(request) = sent::untraced(case.request)
    {
        // The same call made again must find this question open.
        drop((judged, slots));
        let (case, received) = (
            Case {
                request: &request,
                ..case
            },
            receive(&request)?,
        );
        let decided = decide(case, &received, &target, Count::Look)?;
        return Box::pin(settle(
            case, opened, &received, target, decided, decide, wires,
        ))
        .await;
    }
    let settled = match judged {
        Judged::Permitted(permit) => Settled {
            now: Arc::clone(case.now),
            request: None,
            permit,
            charge: None,
            slots,
            begun: case.begun,
            is_approved: false,
        },
        Judged::Rewritten(_) => {
            return Err(Violation::new(
                Rule::PolicyDenied,
                "a rewritten call would be rewritten again",
            )
            .into());
        }
        Judged::Asked(asked) => {
            // A person's time is nobody's place among the calls in flight; those who wait have places of their own.
            drop(slots);
            let _waiting =
                Waiting::of(case).ok_or_else(|| too_many("too many of its calls wait"))?;
            let approval = open(case, &target, &asked).await?;
            let may_last = asked.is_doubt_alone;
            let offer = may_last.then(|| provenance::offer(case, &target, &asked.sent));
            let _offered = offer
                .flatten()
                .map(|offer| case.gate.offers.begin(&approval.id, offer));
            // Nothing of it is kept meanwhile: who says yes says it to what is decided then.
            drop(asked);
            opened.facts.approval = approval.id.clone().into();
            wait(case, &approval, wires).await?;
            let settled = spend(case, received, decide).await?;
            record::renewed(settled.case(case), opened);
            settled
        }
    };
    confirm(case, received, settled).await
}

/// A rewritten call is decided like the original was, once.
pub(super) fn settle_rewrite(
    case: Case<'_>,
    target: &Arc<Target>,
    decided: Decided,
    decide: Decide,
) -> Result<Decided, Violation> {
    let Judged::Rewritten(rewritten) = decided.judged else {
        return Ok(decided);
    };
    drop(decided.slots);
    tracing::info!(policies = ?rewritten.policies, server = %target.spec.id, tool = target.name, "arguments rewritten");
    let params = write::replace_fields(
        Json::checked_before(&case.request.params),
        &["arguments"],
        |out| {
            out.raw("arguments", &rewritten.arguments);
        },
    );
    let request = CallRequest {
        params: params.into(),
        ..case.request.clone()
    };
    let received = receive(&request)?;
    decide(
        Case {
            request: &request,
            ..case
        },
        &received,
        target,
        Count::Look,
    )
}

/// The open question for this very call: a new one, or the one that waits already.
async fn open(case: Case<'_>, target: &Target, asked: &Asked<Load>) -> Result<Approval, Stop> {
    let gate = case.gate;
    let now_ms = gate.now_ms();
    let origins = case.request.caller.session().label().origins;
    let mut why = asked.why.clone();
    if !origins.is_empty() {
        let origins: Vec<&str> = origins.iter().map(vocab::ServerId::as_str).collect();
        why.push(format!(
            "the session has seen data of {}",
            origins.join(", ")
        ));
    }
    if let Some(meant) = case.meant {
        why.extend_from_slice(meant.words());
    }
    // The person sees all of it as the ledger keeps it: without secrets. What they approve is bound to the whole text all the same.
    let why = without_secrets(case, why);
    let new = NewApproval {
        digest: *asked.binding(),
        caller: case.request.caller.id().to_owned(),
        caller_name: case.request.caller.name().to_owned(),
        action: case.request.action.method().to_owned(),
        server: target.spec.id.to_string(),
        target: target.name.clone(),
        definition: target.digest().to_owned(),
        arguments: String::from_utf8_lossy(
            &gate
                .without_secrets(&asked.sent)
                .unwrap_or_else(|| asked.sent.to_vec()),
        )
        .into_owned(),
        label: asked.label().to_string(),
        lineage: Some(case.step.after().to_string())
            .into_iter()
            .filter(|head| !head.is_empty())
            .collect(),
        why,
        bundle: case.now.rules.bundle.version().to_owned(),
        asked_ms: now_ms,
        expires_ms: now_ms.saturating_add(
            u64::try_from(case.now.rules.approvals.expiry.as_millis()).unwrap_or(u64::MAX),
        ),
        // No two calls have the same id, so no two approvals do; that it can be guessed helps nobody who may not answer.
        entropy: *blake3::keyed_hash(asked.binding(), case.step.call().as_bytes()).as_bytes(),
    };
    let state::Asked { approval, is_new } =
        gate.state.ask(new).await.map_err(|error| match error {
            state::StateError::TooMany { .. } => too_many(&error.to_string()).into(),
            state::StateError::TooLarge { .. } => {
                Violation::new(Rule::ApprovalDenied, error.to_string())
                    .with_hint("the arguments are too long to be put before a person")
                    .into()
            }
            error => unavailable(error),
        })?;
    if is_new {
        let change = audit::Change {
            action: "approval.asked",
            caller: case.request.caller.id(),
            server: target.spec.id.as_str(),
            tool: &target.name,
            approval: &approval.id,
            definition: &approval.definition,
            label: &approval.label,
            bundle: &approval.bundle,
            ..audit::Change::default()
        };
        let recorded = gate.ledger.change(&change);
        recorded.map_err(|error| Violation::new(Rule::LedgerUnavailable, error.to_string()))?;
        tracing::warn!(approval = approval.id, server = %target.spec.id, tool = target.name, "waits for a person");
    }
    Ok(approval)
}

/// Reasons hold parts of what is sent.
pub(super) fn without_secrets(case: Case<'_>, why: Vec<String>) -> Vec<String> {
    let clean = |why: String| case.gate.text_without_secrets(&why).unwrap_or(why);
    why.into_iter().map(clean).collect()
}

fn too_many(detail: &str) -> Violation {
    Violation::new(Rule::RateLimitExceeded, detail).with_hint("too many calls wait for a person")
}

fn unavailable(error: impl std::fmt::Display) -> Stop {
    Fault::new(
        FaultKind::Gate,
        format!("approvals are not available: {error}"),
    )
    .into()
}

/// Waits until a person answered, the question expired, or the client is gone. In the last case the question stays open, and the
/// same call made again takes up its answer.
async fn wait(case: Case<'_>, approval: &Approval, wires: &mut Wires) -> Result<(), Stop> {
    let gate = case.gate;
    let _awaited = gate.awaited.begin(&approval.id);
    let news = gate.state.watch(&approval.id).await.map_err(unavailable)?;
    let mut news = news.ok_or_else(|| unavailable("the question is gone"))?;
    if case.now.rules.approvals.in_client
        && approval.state == ApprovalState::Pending
        && can_elicit(case.request)
        // A client is shown no sealed text, whoever sits in front of it.
        && case.meant.is_none_or(|meant| meant.words().is_empty())
    {
        wires
            .say(Event::Ask {
                key: KEY.into(),
                method: "elicitation/create".into(),
                params: own_words(question(approval)),
            })
            .await;
    }
    let mut reminder = tokio::time::interval(REMINDER);
    let mut reminded = 0;
    let mut orders_open = true;
    loop {
        let now = gate.state.get(&approval.id).await.map_err(unavailable)?;
        match now.map_or(ApprovalState::Expired, |approval| {
            approval.at(gate.now_ms()).state
        }) {
            ApprovalState::Pending => {}
            ApprovalState::Approved => return Ok(()),
            ApprovalState::Denied => return Err(denied(case, approval).await),
            ApprovalState::Used => return Err(used().into()),
            ApprovalState::Expired => return Err(expired(approval).into()),
        }
        let left = Duration::from_millis(approval.expires_ms.saturating_sub(gate.now_ms()));
        let unwatched = wires.unwatched();
        tokio::select! {
            _ = news.answered() => {}
            () = tokio::time::sleep(left) => {}
            () = unwatched => {
                let detail = format!("the client left while approval {} was open; it stays open", approval.id);
                return Err(Fault::new(FaultKind::Cancelled, detail).into());
            }
            order = wires.from_client.recv(), if orders_open => match order {
                Some(FromClient::Answer { key, answer }) if key == KEY => answered(case, approval, &answer).await?,
                Some(FromClient::Answer { .. }) => {}
                Some(FromClient::Cancel) => return Err(Fault::new(FaultKind::Cancelled, "cancelled while waiting for approval").into()),
                None => orders_open = false,
            },
            () = gate.flights.reached(Phase::Closing) => {
                let detail = format!("the gate is stopping while approval {} is open; it stays open", approval.id);
                return Err(Fault::new(FaultKind::Cancelled, detail).into());
            }
            _ = reminder.tick() => {
                let mut out = Object::new();
                let id = &approval.id;
                let message = format!("waiting for a person to answer approval {id}; see it with: portcullis approvals show {id}");
                out.u64("progress", reminded).str("message", &message);
                wires.mention(Event::Progress(own_words(out.finish())));
                reminded += 1;
            }
        }
    }
}

async fn denied(case: Case<'_>, approval: &Approval) -> Stop {
    let answered = case.gate.state.get(&approval.id).await.ok().flatten();
    let (who, reason) = answered
        .map(|approval| (approval.answered_by, approval.reason))
        .unwrap_or_default();
    let violation = Violation::new(
        Rule::ApprovalDenied,
        format!("approval {} was denied by {who}: {reason}", approval.id),
    );
    if reason.is_empty() {
        violation.into()
    } else {
        violation.with_hint(reason).into()
    }
}

fn expired(approval: &Approval) -> Violation {
    Violation::new(
        Rule::ApprovalExpired,
        format!("nobody answered approval {} in time", approval.id),
    )
}

fn used() -> Violation {
    Violation::new(
        Rule::ApprovalDenied,
        "the approval was spent by another call",
    )
    .with_hint("it was used already")
}

fn can_elicit(request: &CallRequest) -> bool {
    let can = |client: &ClientFace| {
        let capabilities = Json::checked_before(&client.capabilities);
        capabilities.get("elicitation").is_some()
    };
    request.origin.client().is_some_and(can)
}

/// The question as the person at the client sees it: everything an operator would see, with nothing that could fool a terminal.
fn question(approval: &Approval) -> Bytes {
    let shown = audit::printable(&approval.arguments);
    let message = format!(
        "Accept to make this call, once. Decline to refuse it.\n\n{} of server {}\narguments: {shown}\nsession label: {}\nwhy you are asked: {}\napproval {}",
        audit::printable(&approval.target),
        approval.server,
        approval.label,
        audit::printable(&approval.why.join("; ")),
        approval.id,
    );
    let mut out = Object::new();
    // Nothing to fill in: accepting approves, declining denies, and who dismisses the question leaves it to others.
    out.str("mode", "form")
        .str("message", &message)
        .raw("requestedSchema", br#"{"type":"object","properties":{}}"#);
    out.finish().into()
}

/// An answer from the client. It counts only because the operator allows it; a dismissed question stays open for others.
async fn answered(case: Case<'_>, approval: &Approval, answer: &Answer) -> Result<(), Stop> {
    let Answer::Result(result) = answer else {
        return Ok(());
    };
    let result = Json::checked_before(result);
    let is_approved = match result.get("action").and_then(Json::as_str).as_deref() {
        Some("accept") => true,
        Some("decline") => false,
        _ => return Ok(()),
    };
    let who = format!("{} (in the client)", case.request.caller.id());
    case.gate
        .answer_approval(&approval.id, is_approved, (&who, ""), "")
        .await
        .map(drop)
        .map_err(unavailable)
}

/// Puts on disk that the call is used up, where there is a limit.
async fn keep(case: Case<'_>, slot: ExecutionSlot) -> Result<(), Stop> {
    let (signed, contexts) = (&case.gate.signed, &case.now.rules.contexts);
    let kept = slot.keep(signed, &case.request.caller, contexts).await;
    kept.map_err(|error| {
        let detail = format!("a call could not be counted, so it is not made: {error}");
        Fault::new(FaultKind::Gate, detail).into()
    })
}

/// Decides the approved call again and spends the approval, if it is still the same call in the same world.
async fn spend(case: Case<'_>, received: &Received<'_>, decide: Decide) -> Result<Settled, Stop> {
    // They took their time: what is in force now decides, all of it.
    let renewed = Under::now(case)?;
    let case = Case {
        now: &renewed.now,
        request: renewed.request.as_ref().unwrap_or(case.request),
        is_answered: true,
        ..case
    };
    case.request.caller.in_force(case.gate.now_ms())?;
    let (under, target) = resolve::target(case, received).await?;
    let case = Case {
        now: &under.now,
        request: under.request.as_ref().unwrap_or(case.request),
        ..case
    };
    let decided = decide(case, received, &target, Count::Look)?;
    let Decided { judged, slots, .. } = settle_rewrite(case, &target, decided, decide)?;
    let Judged::Asked(asked) = judged else {
        return Err(changed("the rules changed while it waited").into());
    };
    let spent = case
        .gate
        .state
        .spend(asked.binding(), case.gate.now_ms())
        .await
        .map_err(|error| match error {
            SpendError::NotAsked | SpendError::NotApproved(_) | SpendError::Denied(_) => {
                Stop::from(changed(
                    "the call, its session or its tool is not what was approved",
                ))
            }
            SpendError::AlreadyUsed(_) => used().into(),
            SpendError::Expired(approval) => expired(&approval).into(),
            SpendError::State(error) => unavailable(error),
        })?;
    let permit = asked.approved(&spent.digest)?;
    Ok(Settled {
        now: Arc::clone(&under.now),
        request: under.request.or(renewed.request),
        permit,
        charge: None,
        slots,
        begun: Instant::now(),
        is_approved: true,
    })
}

fn changed(why: &str) -> Violation {
    Violation::new(Rule::ApprovalDenied, why)
        .with_hint("what was approved has changed since; ask again")
}

/// A last look: a server whose list is not fresh is asked for it again, and what it shows must still be what was approved.
async fn confirm(
    case: Case<'_>,
    received: &Received<'_>,
    settled: Settled,
) -> Result<Settled, Stop> {
    let case = settled.case(case);
    let target = &settled.permit.load().target;
    let Some(server) = target.server().filter(|_| target.definition.is_some()) else {
        return Ok(settled);
    };
    let left = left(
        Case {
            begun: settled.begun,
            ..case
        },
        settled.permit.budget().time,
    )?;
    let looked = tokio::time::timeout(left, case.gate.hub.recheck(server)).await;
    let late = |_| {
        Fault::new(
            FaultKind::Timeout,
            "the server did not show its definitions within the call's time",
        )
    };
    if !looked.map_err(late)?? {
        return Ok(settled);
    }
    // What the server shows now is in the catalog of now, whichever configuration permitted the call.
    let live = Under::now(case)?;
    let looking = Case {
        now: &live.now,
        request: live.request.as_ref().unwrap_or(case.request),
        ..case
    };
    let (_, now) = resolve::target(looking, received).await?;
    if now.standing == upstreams::pins::Standing::Approved && now.digest() == target.digest() {
        // It goes where it was permitted to go; that is gone if the server leaves it out now.
        return if now.is_absent {
            Err(route::unlisted())
        } else {
            Ok(settled)
        };
    }
    let detail = format!(
        "`{}` of server `{}` changed between listing and calling",
        now.name, now.spec.id
    );
    Err(Violation::new(Rule::DefinitionChanged, detail).into())
}

/// What nothing executes is not asked about and not begun. It is judged first: what is refused anyway is refused by its own rule.
pub(super) fn unserved(target: &Target) -> Violation {
    let detail = format!(
        "nothing here executes `{}`; a server that declares it among its `capabilities` would",
        target.name
    );
    Violation::new(Rule::ToolNotServed, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reasons quote names and values that an agent or a server wrote.
    #[test]
    fn nothing_in_a_question_fools_a_terminal() {
        let odd = "a\u{1b}[2Jb\u{202e}c\nd".to_owned();
        let approval = Approval {
            id: "1".to_owned(),
            digest: [0; 32],
            state: ApprovalState::Pending,
            caller: "agent".to_owned(),
            caller_name: "agent".to_owned(),
            action: "call".to_owned(),
            server: "mail".to_owned(),
            target: odd.clone(),
            definition: String::new(),
            arguments: odd.clone(),
            label: "PUBLIC".to_owned(),
            lineage: Vec::new(),
            why: vec![odd.clone(), odd],
            bundle: String::new(),
            asked_ms: 0,
            expires_ms: 0,
            answered_by: String::new(),
            answered_ms: 0,
            reason: String::new(),
        };
        let question = question(&approval);
        let message = Json::checked_before(&question).get("message");
        let message = message.and_then(Json::as_str).unwrap().into_owned();
        assert!(!message.contains(['\u{1b}', '\u{202e}']), "{message:?}");
        assert!(!message.contains("\nd"), "{message:?}");
    }
}
