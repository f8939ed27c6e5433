//! The life of one call. Reads like `docs/life-of-a-call.md`; tidy checks that it does.
//!
//! This is the only way from a call to an effect. Each stage returns a value that the next one takes, and those values can be made
//! nowhere else: [`policy::Permit`] comes only out of Judge, [`audit::Intent`] only out of the ledger, and Dispatch spends both. The
//! first stage to refuse wins; whatever happens, Conclude records it, and only then does the door get a reply.

mod conclude;
mod dispatch;
mod inspect;
mod receive;
mod resolve;
mod shape;

use std::sync::Arc;

use audit::{Intent, Opened};
use flow::Weighed;
use policy::{Admitted, Bounded, Facts, Permit, Shaped};
use vocab::{Fault, FaultKind, Mark, Rule, Stop, Violation};

use crate::{
    Ask,
    catalog::Target,
    gate::Inner,
    running::{Event, Outcome, Wires},
};
use receive::Received;
use shape::Args;

/// Runs one call from Receive to Conclude and tells the door how it ended.
pub(crate) async fn call(gate: Arc<Inner>, ask: Ask, mut wires: Wires) {
    let mut opened = gate.ledger.open(conclude::facts(&gate, &ask));
    let outcome = attempt(&gate, &mut opened, &ask, &mut wires).await;
    let reply = conclude::conclude(&gate, opened, &ask, outcome);
    wires.say(Event::Done(reply)).await;
}

async fn attempt(gate: &Arc<Inner>, opened: &mut Opened, ask: &Ask, wires: &mut Wires) -> Result<Delivered, Stop> {
    let received = receive::receive(ask)?;
    verify(ask)?;
    let target = resolve::resolve(gate, ask, &received).await?;
    conclude::name(opened, &target);
    let facts = facts(ask, &received, &target);
    let (admitted, _slot) = admit(gate, &facts)?;
    let bounded = bound(gate, &facts, &target)?;
    let weighed = weigh(ask, &target)?;
    let (shaped, args) = shape::shape(gate, ask, &received, &target, &facts)?;
    let permit = judge(&facts, admitted, bounded, weighed, shaped, &args)?;
    let permit = consent(permit);
    let intent = intend(gate, opened, &permit, &args)?;
    let raw = dispatch::dispatch(gate, ask, &target, permit, intent, args, wires).await?;
    let result = inspect::inspect(gate, ask, &received, &target, raw)?;
    Ok(absorb(ask, &target, result))
}

/// A result that the session's label already includes, so it may be shown.
#[derive(Debug)]
pub(crate) struct Delivered {
    outcome: Outcome,
    /// The upstream delivered, but what it delivered says that the call failed.
    is_error: bool,
    label: Mark,
}

/// The door identified the caller when the call came in; a credential revoked since then is refused here.
fn verify(ask: &Ask) -> Result<(), Violation> {
    match ask.caller.is_active() {
        true => Ok(()),
        false => Err(Violation::new(Rule::Unauthenticated, format!("credential `{}` was revoked", ask.caller.id()))),
    }
}

fn facts<'a>(ask: &Ask, received: &Received<'_>, target: &'a Target) -> Facts<'a> {
    Facts {
        server: &target.spec.id,
        classification: target.spec.classification,
        target: &target.name,
        permission: receive::permission(ask.action, target),
        granted: ask.caller.is_granted(&target.spec.id, &target.name),
        arguments_are_object: received.arguments_are_object(),
    }
}

/// One of the gate's bounded number of calls at a time, given back when the call ends.
type Slot = tokio::sync::OwnedSemaphorePermit;

fn admit(gate: &Inner, facts: &Facts<'_>) -> Result<(Admitted, Slot), Violation> {
    let admitted = policy::admit(facts)?;
    let slot = Arc::clone(&gate.slots).try_acquire_owned();
    slot.map(|slot| (admitted, slot))
        .map_err(|_| Violation::new(Rule::RateLimitExceeded, "`limits.max_concurrent_calls` calls are in flight"))
}

fn bound(gate: &Inner, facts: &Facts<'_>, target: &Target) -> Result<Bounded, Violation> {
    policy::bound(facts, target.spec.budget(), gate.ceiling)
}

/// No write-down: what the caller has seen must not flow to a server below its level.
fn weigh(ask: &Ask, target: &Target) -> Result<Weighed, Violation> {
    let ceiling = target.spec.classification.unwrap_or_default();
    ask.caller.session().weigh(ceiling).map_err(|refused| {
        let (session, server) = (refused.session, &target.spec.id);
        Violation::new(
            Rule::WouldViolateWriteDown,
            format!("the session's label is {session} and server `{server}` takes at most {ceiling}; a server of level {session}, or a session that has not seen such data, would be allowed"),
        )
        .with_hint(format!("this session has seen {} data and `{server}` is {ceiling}", session.secrecy))
    })
}

fn judge(
    facts: &Facts<'_>,
    admitted: Admitted,
    bounded: Bounded,
    weighed: Weighed,
    shaped: Shaped,
    args: &Args,
) -> Result<Permit, Violation> {
    policy::judge(facts, admitted, bounded, weighed, shaped, args.digest)
}

/// No policy asks a person yet, so every permit is settled as it is.
fn consent(permit: Permit) -> Permit {
    permit
}

/// No record, no action.
fn intend(gate: &Inner, opened: &mut Opened, permit: &Permit, args: &Args) -> Result<Intent, Violation> {
    conclude::weighed(opened, permit, args);
    gate.ledger.intend(opened).map_err(|error| Violation::new(Rule::LedgerUnavailable, error.to_string()))
}

/// Raises the session's label before anything of the result leaves the gate.
fn absorb(ask: &Ask, target: &Target, (outcome, is_error): (Outcome, bool)) -> Delivered {
    let label = ask.caller.session().absorb(mark(target), &target.spec.id);
    Delivered { outcome, is_error, label }
}

/// What a server's results carry.
fn mark(target: &Target) -> Mark {
    Mark::trusted(target.spec.classification.unwrap_or_default())
}

fn worker_lost() -> Stop {
    Fault::new(FaultKind::Worker, "the worker was lost while the call was in flight").into()
}
