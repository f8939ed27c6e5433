//! Where the arguments of a call came from, and whether the person's own words stand for it. What a result brings is noted before
//! anything of it is shown.

use ::provenance::{
    self as origins, Finding, Plan, Read, Roles, Ruling, Trust, plan::StepNumber, plan::ToolName,
};
use callers::ForGate;
use policy::Influence;
use upstreams::catalog::Target;
use vocab::{Effect, Integrity, Label, Rule, Violation};
use wire::Json;

use super::Case;
use crate::{Action, Outcome, route::own::plan};

/// What was found out of a call that could be led by untrusted data; nothing for any other.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    pub(super) ruling: Option<Ruling>,
    /// The step of the plan that it is.
    pub(super) step: Option<StepNumber>,
    pub(crate) origins: Option<policy::Provenance>,
}

/// Only where it matters: a call that does something, of a session that has read untrusted data, where a person would be asked.
pub(super) fn look(
    case: Case<'_>,
    target: &Target,
    sent: Option<Json<'_>>,
    influence: Influence,
) -> Looked {
    let caller = &case.request.caller;
    let is_led = caller.session().mark().integrity == Integrity::Untrusted;
    let matters = is_led
        && influence == Influence::Ask
        && target.effect == Effect::Consequential
        && case.request.action == Action::CallTool;
    if !matters {
        return Looked::default();
    }
    let said = &target.spec.rule(&target.name).roles;
    let definition = target.definition.as_deref();
    let own;
    let roles = match definition.filter(|_| said.is_empty()) {
        Some(definition) => definition.roles(),
        None => {
            let schema = definition.and_then(|definition| definition.json().get("inputSchema"));
            own = Roles::new(said.clone(), schema);
            &own
        }
    };
    let sent = sent.unwrap_or(Json::EMPTY_OBJECT);
    caller.conversation(|conversation| {
        // Words of another epoch stand for nothing in this one, nor for a call that arrived before they were said.
        if conversation.epoch() != case.step.arrived() {
            return Looked {
                ruling: Some(Ruling::NothingSaid),
                ..Looked::default()
            };
        }
        if plan::is_plan(target) {
            let declared = plan::read(case, sent);
            let ruling = declared.map(|new| Plan::ruling(conversation.plan(), &new));
            return Looked {
                // What is no plan is refused when it is carried out, whoever approved it.
                ruling: Some(ruling.unwrap_or(Ruling::NothingSaid)),
                ..Looked::default()
            };
        }
        let index = conversation.index();
        let mut ruling = origins::weigh(index, roles, sent);
        let mut step = None;
        if let (Ruling::NothingSaid | Ruling::Strange(_), Some(plan)) =
            (&ruling, conversation.plan())
        {
            let tool = ToolName {
                server: target.spec.id.to_string(),
                tool: target.name.clone(),
            };
            match plan.check(index, roles, &tool, sent) {
                Ok((vouched, number)) => {
                    ruling = Ruling::Vouched(vouched);
                    step = Some(number);
                }
                Err(findings) if !findings.is_empty() => ruling = with(ruling, findings),
                Err(_) => {}
            }
        }
        let origins = origins::trace(index, roles, sent).map(|arguments| policy::Provenance {
            has_words: index.has_words(),
            arguments,
        });
        Looked {
            ruling: Some(ruling),
            step,
            origins,
        }
    })
}

/// What the plan has against it says more than what the rule has.
fn with(ruling: Ruling, findings: Vec<Finding>) -> Ruling {
    match ruling {
        Ruling::Vouched(_) => ruling,
        Ruling::NothingSaid | Ruling::Strange(_) => Ruling::Strange(findings),
    }
}

/// Uses the call's step of the plan up.
pub(super) fn spend(case: Case<'_>, step: Option<StepNumber>) -> Result<(), Violation> {
    let Some(step) = step else {
        return Ok(());
    };
    let is_spent = case.request.caller.conversation(|it| it.spend(step));
    if is_spent {
        return Ok(());
    }
    let detail =
        "another call took the step of the plan; a plan with more `times` would allow both";
    Err(Violation::new(Rule::UntrustedInfluence, detail)
        .with_hint("the plan does not provide for it a second time"))
}

/// Notes what a result brought. Must happen before anything of it is shown.
pub(super) fn learn(case: Case<'_>, target: &Target, label: &Label, outcome: &Outcome) {
    let (Outcome::Result(result), Some(_)) = (outcome, target.server()) else {
        return;
    };
    let trust = match label.mark.integrity {
        Integrity::Trusted => Trust::Trusted,
        Integrity::Untrusted => Trust::Untrusted,
    };
    let read = Read::new(
        target.spec.id.as_str(),
        &target.name,
        case.step.call(),
        trust,
    );
    case.request
        .caller
        .conversation(|it| it.read(read, Json::checked_before(result)));
}
