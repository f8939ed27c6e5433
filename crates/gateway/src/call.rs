//! The life of one call. Reads like `docs/life-of-a-call.md`; tidy checks that it does.
//!
//! This is the only way from a call to an effect. Each stage returns a value that the next one takes, and those values can be made
//! nowhere else: [`policy::Permit`] comes only out of Judge, [`audit::Intent`] only out of the ledger, and Dispatch spends both. The
//! first stage to refuse wins; whatever happens, Conclude records it, and only then does the door get a reply.

mod conclude;
mod consent;
mod context;
mod dispatch;
mod facts;
mod inspect;
mod receive;
mod resolve;
mod server_error;
mod shape;
mod slots;

use std::sync::Arc;

use audit::{Intent, Opened};
use flow::Step;
use policy::{Binding, Bounded, Evidence, Facts, Judged, Permit, Weighed};
use vocab::{Effect, Fault, FaultKind, Mark, Rule, ServerId, Stop, Violation};

use crate::{
    Ask, Proof,
    catalog::Target,
    gate::Inner,
    running::{Event, Outcome, Wires},
    settings::Rules,
    words::{Occasion, Pass},
};
use context::Place;
pub(crate) use context::{Count, NamesOf, SoFar, boundary, counted_as, meters};
use facts::Findings;
pub(crate) use facts::question;
pub(crate) use receive::{Received, receive};
pub(crate) use resolve::look_up;
use shape::Args;
#[cfg(test)]
pub(crate) use slots::{FEW_WAITING, MAX_WAITING, MAX_WAITING_IN_ALL, Waiting};
use slots::{Slots, admit};

/// What every stage can look at: the call as it came, who is calling, and the rules in force.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) gate: &'a Arc<Inner>,
    pub(crate) ask: &'a Ask,
    pub(crate) step: &'a Step,
    pub(crate) rules: &'a Rules,
    /// What its execution did before.
    pub(crate) so_far: SoFar,
}

/// Runs one call from Receive to Conclude and tells the door how it ended.
pub(crate) async fn call(gate: Arc<Inner>, ask: Ask, mut wires: Wires) {
    let _flight = gate.flights.begin();
    let rules = gate.rules();
    let mut opened = gate.ledger.open(conclude::facts(&gate, &ask, &rules));
    let step = Step::new(&opened.facts.call, ask.caller.session());
    let case = Case { gate: &gate, ask: &ask, step: &step, rules: &rules, so_far: SoFar::default() };
    let outcome = attempt(case, &mut opened, &mut wires).await;
    wires.say(Event::Done(conclude::conclude(case, opened, outcome))).await;
}

async fn attempt(case: Case<'_>, opened: &mut Opened, wires: &mut Wires) -> Result<Delivered, Stop> {
    let received = receive(case.ask)?;
    verify(case)?;
    let target = resolve::resolve(case, &received).await.inspect_err(|_| conclude::unresolved(opened, &received))?;
    conclude::name(case, opened, &received, &target);
    let place = Place::take(&case.ask.caller, &target);
    let case = Case { so_far: place.so_far(), ..case };
    /// Changes nothing but the limits it counts, so it can run again: on rewritten arguments, and after a person took their time.
    fn decide(case: Case<'_>, received: &Received<'_>, target: &Target, count: Count) -> Result<Decided, Violation> {
        let names = NamesOf::new(&case, received, target);
        let others = names.others();
        let boundary = context::boundary(case, received, target, names.asked(), &others)?;
        let boundary = boundary.as_ref();
        let findings = find(case, target);
        let meters = context::meters(&case.ask.caller, target, boundary);
        context::counting(count, &meters, |meter| {
            let facts = findings.facts(target, received, (names.asked(), boundary), case.rules.untrusted_influence, meter);
            let (admitted, slots) = admit(case, &facts)?;
            let bounded = bound(case, &facts, target)?;
            let weighed = weigh(case, &facts)?;
            let (shaped, args) = shape::shape(case, received, target, &facts)?;
            let judged = judge(case, received, target, &facts, Evidence { admitted, bounded, weighed, shaped }, &args)?;
            Ok(Decided { judged, args, slots })
        })
    }
    let decided = decide(case, &received, &target, Count::Once)?;
    place.keep(case).await?;
    let settled = consent::consent(case, opened, &received, target, decided, decide, wires).await?;
    let Settled { permit, args, target, mut slots } = settled;
    let intent = intend(case, opened, &received, &target, &permit, &args).await?;
    let budget = permit.budget();
    let raw = dispatch::dispatch(case, &target, (permit, intent, args), &mut slots, wires).await?;
    let inspected = inspect::inspect(case, &received, &target, raw, budget);
    absorb(case, &target, inspected).await
}

/// What there is to know about who calls what.
pub(crate) fn find(case: Case<'_>, target: &Target) -> Findings {
    let has_account = |server: &ServerId, user: &str| case.gate.account(server, user).is_some();
    Findings::new(&case.ask.caller, case.ask.action, target, has_account)
}

/// The verdict of Judge, for exactly these arguments.
struct Decided {
    judged: Judged,
    args: Args,
    slots: Slots,
}

/// What Consent leaves: a permit that needs nobody's word any more, and the target it is for.
struct Settled {
    permit: Permit,
    args: Args,
    target: Arc<Target>,
    slots: Slots,
}

/// How a server answered, with the evidence that the session's durable label includes it: a result, an error, or that there was none.
#[derive(Debug)]
pub(crate) struct Delivered {
    outcome: Outcome,
    /// The upstream delivered, but what it delivered says that the call failed.
    is_error: bool,
    /// For the operator: what was taken out of it, and what a server's error really said.
    remark: Option<String>,
    pass: Pass,
}

/// The door recognised the caller; here it is shown that this is the caller's own call. A signed one passes once.
fn verify(case: Case<'_>) -> Result<(), Violation> {
    let Case { gate, ask, .. } = case;
    in_force(case)?;
    match (ask.caller.signed(), &ask.proof) {
        (None, Proof::Bearer) => Ok(()),
        (Some(session), Proof::Envelope(envelope)) => gate.signed.verify(session, envelope, gate.now_ms()),
        (Some(_), Proof::Bearer) => Err(Violation::new(Rule::Unauthenticated, "a session of signed calls, without a signature")),
        (None, Proof::Envelope(_)) => {
            Err(Violation::new(Rule::Unauthenticated, "an envelope, without a session of signed calls"))
        }
    }
}

/// A credential revoked since the call came in is refused here, and so is a session that has ended.
fn in_force(case: Case<'_>) -> Result<(), Violation> {
    let caller = &case.ask.caller;
    if !caller.is_active() {
        return Err(Violation::new(Rule::Unauthenticated, format!("credential `{}` was revoked", caller.id())));
    }
    caller.signed().map_or(Ok(()), |session| crate::signed::in_force(session, case.gate.now_ms()))
}

fn bound(case: Case<'_>, facts: &Facts<'_>, target: &Target) -> Result<Bounded, Violation> {
    policy::bound(facts, target.spec.budget(), case.gate.terms().ceiling)
}

fn weigh(case: Case<'_>, facts: &Facts<'_>) -> Result<Weighed, Violation> {
    policy::weigh(facts, |ceiling| case.ask.caller.session().weigh_step(ceiling, case.step))
}

fn judge(
    case: Case<'_>,
    received: &Received<'_>,
    target: &Target,
    facts: &Facts<'_>,
    evidence: Evidence,
    args: &Args,
) -> Result<Judged, Violation> {
    let caller = conclude::bound_caller(&case.ask.caller);
    let binding = Binding { caller: &caller, action: case.ask.action.method(), definition: target.digest() };
    policy::judge(facts, evidence, &case.rules.bundle, question(&case, received, target), binding, args.digest)
}

/// No record, no action; and what changes something is on the disk first.
async fn intend(
    case: Case<'_>,
    opened: &mut Opened,
    received: &Received<'_>,
    target: &Target,
    permit: &Permit,
    args: &Args,
) -> Result<Intent, Violation> {
    conclude::weighed(case, opened, received, target, permit, args);
    let ledger = &case.gate.ledger;
    let intended = match target.effect {
        Effect::Read => ledger.intend(opened),
        Effect::Consequential => ledger.intend_durable(opened).await,
    };
    case.ask.caller.counts().add(&facts::count_key(target));
    intended.map_err(|error| Violation::new(Rule::LedgerUnavailable, error.to_string()))
}

/// Raises the session's label, durably, before anything of the result leaves the gate. Why there is no result to show, where there is
/// none, is the server's choice too, and is told like a result.
async fn absorb(case: Case<'_>, target: &Target, inspected: Result<inspect::Inspected, Stop>) -> Result<Delivered, Stop> {
    let pass = show(case, target).await?;
    Ok(match inspected {
        Ok(inspect::Inspected { outcome, is_error, remark }) => Delivered { outcome, is_error, remark, pass },
        Err(stop) => Delivered { outcome: Outcome::Stopped(stop), is_error: true, remark: None, pass },
    })
}

/// Evidence that words of this server may be shown to the caller.
async fn show(case: Case<'_>, target: &Target) -> Result<Pass, Stop> {
    Ok(case.gate.pass(&case.ask.caller, &target.spec, target.mark(), Occasion::Call(case.step)).await?)
}

/// The label a call is recorded under when it ended before it was weighed.
fn current_label(ask: &Ask) -> Mark {
    ask.caller.session().mark()
}

fn worker_lost() -> Stop {
    Fault::new(FaultKind::Worker, "the worker was lost while the call was in flight").into()
}
