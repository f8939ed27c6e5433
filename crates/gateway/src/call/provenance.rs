//! Where the arguments of a call came from, and whether the person's own words stand for it. What a result brings is noted before
//! anything of it is shown.

use std::borrow::Cow;

use ::provenance::{
    self as origins, Aims, Call, Conversation, Finding, Plan, Read, Roles, Ruling, Trust,
    plan::StepOf,
};
use callers::ForGate;
use policy::Influence;
use upstreams::catalog::Target;
use vocab::{Effect, Integrity, Label, Mark, Rule, Violation};
use wire::Json;

use super::Case;
use crate::{Action, Outcome, offers::Offer, route::own::plan};

/// What was found out of a call that could be led by untrusted data; nothing for any other.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    pub(super) ruling: Option<Ruling>,
    /// The step of the plan that it is.
    pub(super) step: Option<StepOf>,
    pub(crate) origins: Option<policy::Provenance>,
    /// What it carries besides what its session has seen: sealed texts, or a stranger's number that a sealed result showed.
    pub(crate) carried: Mark,
}

/// Only where it matters: a call that does something, of a session that has read untrusted data or with such data in it, where a person
/// would be asked.
pub(super) fn look(
    case: Case<'_>,
    target: &Target,
    sent: Option<Json<'_>>,
    influence: Influence,
) -> Looked {
    let caller = &case.request.caller;
    let mut carried = case.carried().mark;
    let mut is_led = caller.session().mark().join(carried).integrity == Integrity::Untrusted;
    let acts = target.effect == Effect::Consequential && case.request.action == Action::CallTool;
    let may_be_led = || caller.conversation(|it| it.sealed().has_shown());
    if !acts || influence == Influence::Off || !(is_led || may_be_led()) {
        return Looked {
            carried,
            ..Looked::default()
        };
    }
    let roles = &*roles_of(target);
    let sent = sent.unwrap_or(Json::EMPTY_OBJECT);
    if !is_led {
        let call = Call {
            server: target.spec.id.as_str(),
            tool: &target.name,
            roles,
            sent,
        };
        is_led = caller.conversation(|conversation| conversation.is_led_by_sealed(call));
        if is_led {
            carried.integrity = Integrity::Untrusted;
        }
    }
    if !is_led || influence != Influence::Ask {
        return Looked {
            carried,
            ..Looked::default()
        };
    }
    caller.conversation(|conversation| {
        // Words of another epoch stand for nothing in this one, nor for a call that arrived before they were said.
        if conversation.epoch() != case.step.arrived() {
            return Looked {
                ruling: Some(Ruling::NothingSaid),
                carried,
                ..Looked::default()
            };
        }
        if plan::is_plan(target) {
            let declared = plan::read(case, sent).ok();
            let ruling = declared
                .filter(|_| conversation.index().has_words())
                .map(|new| Plan::ruling(conversation.plan(), &new));
            return Looked {
                // What is no plan, or one without words, is refused when it is carried out, whoever approved it.
                ruling: Some(ruling.unwrap_or(Ruling::NothingSaid)),
                carried,
                ..Looked::default()
            };
        }
        let call = Call {
            server: target.spec.id.as_str(),
            tool: &target.name,
            roles,
            sent,
        };
        let (mut ruling, step) = rule(conversation, call);
        if matches!(ruling, Ruling::Strange(_))
            && let Some(clean) = case.gate.without_secrets(sent.as_bytes())
        {
            // A person is told of the call as they are shown it.
            let sent = Json::checked_before(&clean);
            ruling = match rule(conversation, Call { sent, ..call }).0 {
                Ruling::Strange(findings) => Ruling::Strange(findings),
                Ruling::Vouched(_) | Ruling::NothingSaid => {
                    Ruling::Strange(vec![Finding::of_all("a secret in it is not from you")])
                }
            };
        }
        if !matches!(ruling, Ruling::Vouched(_))
            && !case.is_answered
            && let Some(vouched) = conversation.covered(call, target.digest())
        {
            ruling = Ruling::Vouched(vouched);
        }
        let reads = case.now.rules.bundle.reads_provenance();
        let index = conversation.index();
        let traced = reads.then(|| origins::trace(index, call)).flatten();
        let origins = traced.map(|arguments| policy::Provenance {
            has_words: index.has_words(),
            arguments,
        });
        Looked {
            ruling: Some(ruling),
            step,
            origins,
            carried,
        }
    })
}

/// What the arguments of a target are for.
fn roles_of(target: &Target) -> Cow<'_, Roles> {
    let said = &target.spec.rule(&target.name).roles;
    let definition = target.definition.as_deref();
    match definition.filter(|_| said.is_empty()) {
        Some(definition) => Cow::Borrowed(definition.roles()),
        None => {
            let schema = definition.and_then(|definition| definition.json().get("inputSchema"));
            Cow::Owned(Roles::new(said.clone(), schema))
        }
    }
}

/// What could last of a yes to this call, where only untrusted data asks for one. A plan lasts by itself, and who signs has no conversation
/// of their own.
pub(super) fn offer(case: Case<'_>, target: &Target, sent: &[u8]) -> Option<Offer> {
    let is_call = case.request.action == Action::CallTool;
    if !is_call || case.request.caller.signed().is_some() || target.server().is_none() {
        return None;
    }
    let roles = roles_of(target);
    let aims = Aims::of(Call {
        server: target.spec.id.as_str(),
        tool: &target.name,
        roles: &roles,
        sent: Json::checked_before(sent),
    })?;
    // What a person is not shown they cannot say yes to for longer.
    if case.gate.without_secrets(sent).is_some() {
        return None;
    }
    Some(Offer {
        caller: case.request.caller.clone(),
        epoch: case.step.arrived(),
        server: target.spec.id.to_string(),
        tool: target.name.clone(),
        definition: target.digest().to_owned(),
        aims,
    })
}

/// The person's words first, then the plan. Where nobody said anything there is nothing that a plan could carry out.
fn rule(conversation: &Conversation, call: Call<'_>) -> (Ruling, Option<StepOf>) {
    let index = conversation.index();
    let ruling = origins::weigh(index, call);
    let (Ruling::Strange(_), Some(plan)) = (&ruling, conversation.plan()) else {
        return (ruling, None);
    };
    match plan.check(index, call) {
        Ok((vouched, step)) => (Ruling::Vouched(vouched), Some(step)),
        // What the plan has against it says more than what the words have.
        Err(findings) if !findings.is_empty() => (Ruling::Strange(findings), None),
        Err(_) => (ruling, None),
    }
}

/// Uses the call's step of the plan up. Who does not make the call after all gives it back.
pub(super) fn spend(case: Case<'_>, step: Option<StepOf>) -> Result<(), Violation> {
    let Some(step) = step else {
        return Ok(());
    };
    let arrived = case.step.arrived();
    let is_spent = case
        .request
        .caller
        .conversation(|it| it.epoch() == arrived && it.spend(step));
    if is_spent {
        return Ok(());
    }
    let detail = "another call took the step of the plan, or the plan was replaced; one with more `times` would allow both";
    Err(Violation::new(Rule::UntrustedInfluence, detail)
        .with_hint("the plan does not provide for it a second time"))
}

/// The call was not made after all.
pub(super) fn give_back(case: Case<'_>, step: Option<StepOf>) {
    let Some(step) = step else {
        return;
    };
    let arrived = case.step.arrived();
    case.request.caller.conversation(|it| {
        if it.epoch() == arrived {
            it.give_back(step);
        }
    });
}

/// Notes what a result brought. Must happen before anything of it is shown. `mark` is what the session had seen when the call was weighed:
/// what a stranger may have asked for is a stranger's choice, whoever answers.
pub(super) fn learn(
    case: Case<'_>,
    target: &Target,
    (sent, mark): (&[u8], Mark),
    label: &Label,
    outcome: &Outcome,
) {
    let (Outcome::Result(result), Some(_)) = (outcome, target.server()) else {
        return;
    };
    let trust = match (mark.integrity, label.mark.integrity) {
        (Integrity::Trusted, Integrity::Trusted) => Trust::Trusted,
        _ => Trust::Untrusted,
    };
    let read = Read::new(
        target.spec.id.as_str(),
        &target.name,
        case.step.call(),
        trust,
    );
    let result = Json::checked_before(result);
    let is_call = case.request.action == Action::CallTool;
    let arrived = case.step.arrived();
    case.request.caller.conversation(|it| {
        if target.effect == Effect::Consequential && is_call && it.epoch() == arrived {
            it.created(read, Json::checked_before(sent), result);
        } else {
            it.read(read, result);
        }
    });
}
