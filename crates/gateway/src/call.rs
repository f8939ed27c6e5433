//! The life of one call. Reads like `docs/understand/life-of-a-call.md`; tidy checks that it does.
//!
//! This is the only way from a call to an effect. Each stage returns a value that the next one takes, and those values can be made
//! nowhere else: [`policy::Permit`] comes only out of Judge, [`audit::Intent`] only out of the ledger, and Dispatch spends both. The
//! first stage to refuse wins; whatever happens, Conclude records it, and only then does the door get a reply.

mod adapt;
mod answers;
mod conclude;
mod consent;
mod context;
mod dispatch;
mod gather;
mod inspect;
mod links;
mod part;
mod provenance;
mod record;
mod resolve;
mod seals;
mod server_error;
mod shape;
mod slots;

use std::{sync::Arc, time::Duration};

use audit::{Intent, Opened};
use callers::{
    ForGate,
    meters::{Charge, SoFar},
};
use calls::{
    aside::Turn,
    receive::{Received, receive},
    running::{Event, Outcome, Wires},
    tokens::OpenState,
};
use flow::Step;
use policy::{Binding, Bounded, Evidence, Facts, Judged, Permit, Weighed};
use tokio::time::Instant;
use upstreams::{
    catalog::Target,
    words::{Occasion, Pass},
};
use vocab::{Effect, Fault, FaultKind, Label, Mark, Rule, Stop, Violation};

use crate::{
    CallRequest, Origin,
    gate::{InForce, Inner},
    route::{CallerSide, Carried},
};
use shape::Load;
use slots::admit;

pub(crate) use answers::{judge as judge_answer, record as record_answer};
pub(crate) use consent::{Decide, KEY as APPROVAL_KEY};
pub(crate) use context::Count;
pub(crate) use dispatch::Order;
pub(crate) use gather::{Gathered, gather, question};
pub(crate) use part::{Part, judge as judge_part, record as record_part};
pub(crate) use resolve::look_up;
pub use seals::DEFINITION as SEALED_DEFINITION;
pub(crate) use seals::{Meant, still_for, texts};
pub(crate) use slots::Slots;
#[cfg(test)]
pub(crate) use slots::{FEW_WAITING, MAX_WAITING, MAX_WAITING_IN_ALL, Waiting};

/// What every stage can look at: the call as it came, who is calling, and the configuration it is held to.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) gate: &'a Arc<Inner>,
    pub(crate) request: &'a CallRequest,
    pub(crate) step: &'a Step,
    /// The configuration that it is held to.
    pub(crate) now: &'a Arc<InForce>,
    /// What its execution did before.
    pub(crate) so_far: SoFar,
    /// The server's own state that the caller brought back, opened.
    pub(crate) state: Option<&'a OpenState>,
    /// What the client answered in the middle of it, and under which key, while that is judged.
    pub(crate) answer: Option<(&'a str, &'a [u8])>,
    /// Which part of it is looked at, where it is not the call itself.
    pub(crate) part: Option<Part<'a>>,
    /// Whether a person approved it.
    pub(crate) is_approved: bool,
    /// Whether the question about it is being answered: then no other answer counts.
    pub(crate) is_answered: bool,
    /// What its handles stood for, and whether its result is to be sealed.
    pub(crate) meant: Option<&'a Meant>,
    /// From when its time runs.
    pub(crate) begun: Instant,
}

impl<'a> Case<'a> {
    pub(crate) fn new(
        gate: &'a Arc<Inner>,
        request: &'a CallRequest,
        step: &'a Step,
        now: &'a Arc<InForce>,
        so_far: SoFar,
    ) -> Self {
        Self {
            gate,
            request,
            step,
            now,
            so_far,
            state: None,
            answer: None,
            part: None,
            is_approved: false,
            is_answered: false,
            meant: None,
            begun: Instant::now(),
        }
    }

    /// What is sent with it besides what its caller has seen: the label of sealed texts.
    pub(crate) fn carried(self) -> Label {
        self.meant.map(Meant::label).unwrap_or_default()
    }

    /// Everything that may be in what it sends.
    pub(crate) fn label(self) -> Label {
        self.request.caller.session().label().join(&self.carried())
    }
}

/// Every stage but the last.
async fn attempt(
    case: Case<'_>,
    meant: &Result<Option<Meant>, Violation>,
    opened: &mut Opened,
    wires: &mut Wires,
) -> Result<Delivered, Stop> {
    receive(case.request)?;
    verify(case)?;
    let case = seals::meant_by(case, meant)?;
    let received = receive(case.request)?;
    let (under, target, slot) = resolve::resolve(case, opened, &received).await?;
    let case = Case {
        now: &under.now,
        request: under.request.as_ref().unwrap_or(case.request),
        ..case
    };
    seals::may(case, &target)?;
    let state = shape::request_state(case, &received, &target)?;
    let case = Case {
        so_far: slot.so_far(),
        state: state.as_ref(),
        begun: Instant::now(),
        ..case
    };
    /// Changes nothing that is not given back, so it can run again: on rewritten arguments, and after a person took their time.
    fn decide(
        case: Case<'_>,
        received: &Received<'_>,
        target: &Arc<Target>,
        count: Count,
    ) -> Result<Decided, Violation> {
        gather(case, received, target, count, |gathered| {
            let Gathered { facts, sent, .. } = gathered;
            let (admitted, slots) = admit(case, gathered, target)?;
            let bounded = bound(case, facts, target)?;
            let weighed = weigh(case, gathered)?;
            let (shaped, args) = shape::shape(case, received, target, sent, facts)?;
            let evidence = Evidence {
                admitted,
                bounded,
                weighed,
                shaped,
            };
            let target = Arc::clone(target);
            let step = gathered.looked.step;
            let load = Load { target, args, step };
            let judged = judge(case, received, gathered, evidence, load)?;
            Ok(Decided {
                judged,
                slots,
                charge: context::charge(count, gathered.meters)?,
            })
        })
    }
    let its_turn = turn(case, case.request.params.len(), wires).await;
    let decided = decide(case, &received, &target, Count::Once)?;
    drop(its_turn);
    let way = (target, slot);
    let settled = consent::consent(case, opened, &received, way, decided, decide, wires).await?;
    let Settled {
        now,
        request,
        permit,
        charge,
        mut slots,
        begun,
        is_approved,
    } = settled;
    let case = Case {
        now: &now,
        request: request.as_ref().unwrap_or(case.request),
        begun,
        is_approved,
        ..case
    };
    let intent = intend(case, opened, &permit, charge).await?;
    let (target, budget) = (Arc::clone(&permit.load().target), permit.budget());
    let asked = (permit.load().args.judged.clone(), permit.label());
    let side = CallerSide {
        case,
        wires,
        slots: &mut slots,
        decide,
    };
    let sent = Instant::now();
    let carried = dispatch::dispatch(permit, intent, side).await;
    opened.facts.server_us = u64::try_from(sent.elapsed().as_micros()).ok();
    let Carried { raw, label } = carried?;
    // Who was sent a sealed text may say it again.
    let label = label.join(&case.carried());
    let its_turn = turn(case, raw.len(), wires).await;
    let inspected = inspect::inspect(case, &received, &target, raw, budget);
    if let Ok(inspected) = &inspected {
        let asked = (asked.0.as_ref(), asked.1);
        provenance::learn(case, &target, asked, &label, &inspected.outcome);
    }
    let (inspected, label) = seals::seal(case, &target, inspected, label);
    drop(its_turn);
    absorb(case, &target, label, inspected).await
}

/// Runs one call from Receive to Conclude and tells the door how it ended.
pub(crate) async fn call(gate: Arc<Inner>, mut request: CallRequest, mut wires: Wires) {
    let _flight = gate.flights.begin();
    let now = gate.now();
    // The door may have recognised them under another configuration.
    if let Some(caller) = now.caller(&request.caller) {
        request.caller = caller;
    }
    gate.aside.note(&request.caller, || gate.now_us());
    let mut opened = gate.ledger.open(record::facts(&gate, &request, &now.rules));
    let session = gate.read_session(&request.caller).await;
    let step = Step::new(&opened.facts.call, request.caller.session());
    let case = Case::new(&gate, &request, &step, &now, SoFar::default());
    let meant = seals::meant(case);
    let outcome = match session {
        Ok(()) => {
            let outcome = attempt(case, &meant, &mut opened, &mut wires).await;
            outcome.map_err(|stop| seals::quiet(&meant, stop))
        }
        Err(stop) => Err(stop),
    };
    wires
        .say(Event::Done(conclude::conclude(case, opened, outcome)))
        .await;
}

/// The caller's turn to work on a text of this length; a call that has a long one goes on where it keeps nobody waiting.
pub(crate) async fn turn(case: Case<'_>, bytes: usize, wires: &Wires) -> Turn {
    case.gate
        .aside
        .turn(&case.request.caller, bytes, || case.gate.now_us(), wires)
        .await
}

/// The verdict of Judge, for exactly what was judged.
pub(crate) struct Decided {
    judged: Judged<Load>,
    slots: Slots,
    /// What it counts against its limits, unless it was counted before.
    charge: Option<Charge>,
}

/// What Consent leaves: a permit that needs nobody's word any more.
struct Settled {
    /// The configuration that permitted it, and the call as that one has it where it is another than the call began with.
    now: Arc<InForce>,
    request: Option<CallRequest>,
    permit: Permit<Load>,
    charge: Option<Charge>,
    slots: Slots,
    /// From when its time runs, and whether a person approved it.
    begun: Instant,
    is_approved: bool,
}

impl Settled {
    /// The call as it goes on.
    fn case<'a>(&'a self, case: Case<'a>) -> Case<'a> {
        Case {
            now: &self.now,
            request: self.request.as_ref().unwrap_or(case.request),
            ..case
        }
    }
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
    let Case { gate, request, .. } = case;
    case.now.admits(&request.caller, gate.now_ms())?;
    match (request.caller.signed(), &request.origin) {
        (None, Origin::Mcp(_) | Origin::Mount) => Ok(()),
        (Some(session), Origin::Signed(envelope)) => {
            gate.signed.verify(session, envelope, gate.now_ms())
        }
        (Some(_), Origin::Mcp(_) | Origin::Mount) => Err(Violation::new(
            Rule::Unauthenticated,
            "a session of signed calls, without a signature",
        )),
        (None, Origin::Signed(_)) => Err(Violation::new(
            Rule::Unauthenticated,
            "an envelope, without a session of signed calls",
        )),
        (_, Origin::Operator) => Err(Violation::new(
            Rule::Unauthenticated,
            "an operator's question, which is explained and not made",
        )),
    }
}

fn bound(case: Case<'_>, facts: &Facts<'_>, target: &Target) -> Result<Bounded, Violation> {
    let mut ceiling = case.now.terms.ceiling;
    let wanted = match case.request.action.is_of_tool() {
        true => {
            let (budget, is_bounded) = target.spec.tool_budget(&target.name);
            if !is_bounded {
                ceiling.time = budget.time;
            }
            budget
        }
        false => target.spec.budget,
    };
    policy::bound(facts, wanted, ceiling)
}

fn weigh(case: Case<'_>, gathered: &Gathered<'_>) -> Result<Weighed, Violation> {
    let session = case.request.caller.session();
    policy::weigh(gathered.facts, |ceiling| {
        session.weigh_with(ceiling, case.step, gathered.looked.carried)
    })
}

fn judge(
    case: Case<'_>,
    received: &Received<'_>,
    gathered: &Gathered<'_>,
    evidence: Evidence,
    load: Load,
) -> Result<Judged<Load>, Violation> {
    let facts = gathered.facts;
    let target = Arc::clone(&load.target);
    let caller = record::bound_caller(&case.request.caller);
    let binding = Binding {
        caller: &caller,
        action: case.request.action.method(),
        definition: target.digest(),
    };
    policy::judge(
        facts,
        evidence,
        &case.now.rules.bundle,
        question(&case, received, &target, gathered),
        binding,
        load,
    )
}

/// No record, no action; and what changes something is on the disk first.
async fn intend(
    case: Case<'_>,
    opened: &mut Opened,
    permit: &Permit<Load>,
    charge: Option<Charge>,
) -> Result<Intent, Violation> {
    record::weighed(case, opened, permit);
    let target = &permit.load().target;
    let (ledger, states) = (&case.gate.ledger, &case.gate.states);
    let step = permit.load().step;
    provenance::spend(case, step)?;
    if let Some(state) = case.state {
        states
            .spend(state, case.gate.now_ms())
            .inspect_err(|_| provenance::give_back(case, step))?;
    }
    let intended = match target.effect {
        Effect::Read => ledger.intend(opened),
        Effect::Consequential => ledger.intend_durable(opened).await,
    };
    case.request.caller.counts().add(&gather::count_key(target));
    let intent = intended.map_err(|error| {
        // What was not sent can be brought again.
        provenance::give_back(case, step);
        case.state.inspect(|state| states.give_back(state));
        Violation::new(Rule::LedgerUnavailable, error.to_string())
    })?;
    charge.into_iter().for_each(Charge::keep);
    Ok(intent)
}

/// Raises the session's label, durably, before anything of the result leaves the gate. Why there is no result to show, where there is
/// none, is the server's choice too, and is told like a result.
async fn absorb(
    case: Case<'_>,
    target: &Target,
    label: Label,
    inspected: Result<inspect::Inspected, Stop>,
) -> Result<Delivered, Stop> {
    let pass = show(case, target, label).await?;
    Ok(match inspected {
        Ok(inspect::Inspected {
            outcome,
            is_error,
            remark,
        }) => Delivered {
            outcome,
            is_error,
            remark,
            pass,
        },
        Err(stop) => Delivered {
            outcome: Outcome::Stopped(stop),
            is_error: true,
            remark: None,
            pass,
        },
    })
}

/// Evidence that words of this label may be shown to the caller.
pub(crate) async fn show(case: Case<'_>, target: &Target, label: Label) -> Result<Pass, Stop> {
    Ok(case
        .gate
        .pass(
            &case.now.rules,
            &case.request.caller,
            &target.spec,
            label,
            Occasion::Call(case.step),
        )
        .await?)
}

/// The label a call is recorded under when it ended before it was weighed.
fn current_label(request: &CallRequest) -> Mark {
    request.caller.session().mark()
}

/// What is left of a call's time. It runs from when its target was found, or a person's answer came.
pub(crate) fn left(case: Case<'_>, time: Duration) -> Result<Duration, Stop> {
    let left = time.saturating_sub(case.begun.elapsed());
    if left.is_zero() {
        return Err(Fault::new(
            FaultKind::Timeout,
            "the call's time was over before it could be sent",
        )
        .into());
    }
    Ok(left)
}

pub(crate) fn worker_lost() -> Stop {
    Fault::new(
        FaultKind::Worker,
        "the worker was lost while the call was in flight",
    )
    .into()
}
