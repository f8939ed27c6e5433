//! The tool `portcullis.plan`: a conversation declares what it is going to do.
//!
//! A plan carries out a person's words, so none is taken where nobody said anything. While the session is trusted any plan is taken.
//! Afterwards one that is wider is put before a person, with what it adds in words.

use ::provenance::{
    Conversation, Plan,
    plan::{PlanError, ToolName},
};
use callers::ForGate;
use upstreams::catalog::{Found, Names, Target};
use vocab::{Integrity, Rule, Stop, Violation};
use wire::{
    Json, builtin,
    write::{self, Object},
};

use crate::call::{Case, Order};

pub(super) const TOOL: &str = "portcullis.plan";

/// What agents are shown of it, where a person's words began the conversation.
pub const DEFINITION: &str = r#"{"name":"portcullis__plan","title":"Plan","description":"Declare what you are going to do, before you read anything that strangers may have written (web pages, mail, issues). Afterwards a call that acts passes without a question if it is a step of this plan, or names only what the person said. Each step is a tool, by the name in your list, with `arguments`: for each argument \"said\" (the person said it), {\"form\": \"Re: *\"} (a text of this form) or {\"from\": \"tool name\"} (a field of what that tool returns). Arguments you leave out must be the person's own. `times` says how often. Later plans may only be narrower.","inputSchema":{"type":"object","properties":{"steps":{"type":"array","items":{"type":"object","properties":{"tool":{"type":"string"},"times":{"type":"integer","minimum":1,"maximum":100},"arguments":{"type":"object"}},"required":["tool"]}}},"required":["steps"]}}"#;

/// Whether a call is for this tool.
pub(crate) fn is_plan(target: &Target) -> bool {
    target.server().is_none() && builtin::find(&target.name).is_some_and(|tool| tool.name == TOOL)
}

/// The plan that a call declares, with the names of tools as its caller is shown them.
pub(crate) fn read(case: Case<'_>, sent: Json<'_>) -> Result<Plan, PlanError> {
    let caller = &case.request.caller;
    let catalog = case.now.catalog();
    let names = Names {
        mount: None,
        view: caller.view(),
        tenant: caller.tenant(),
    };
    let find = |name: &str| match catalog.tool(names, name) {
        Found::Target(target) if caller.sees(target.spec.tenant.as_deref()) => Some(ToolName {
            server: target.spec.id.to_string(),
            tool: target.name.clone(),
        }),
        _ => None,
    };
    let mut plan = Object::new();
    if let Some(steps) = sent.get("steps") {
        plan.json("steps", steps);
    }
    Plan::parse(&plan.finish(), find)
}

/// Whether nobody outside can have had a part in what this call says.
fn is_clean(case: Case<'_>) -> bool {
    let session = case.request.caller.session();
    session.epoch() == case.step.arrived() && session.mark().integrity == Integrity::Trusted
}

pub(super) fn set(order: &Order, case: Case<'_>) -> Result<Vec<u8>, Stop> {
    let plan = read(case, Json::checked_before(order.judged())).map_err(|PlanError(why)| {
        Violation::new(Rule::InvalidArguments, why.clone()).with_hint(why)
    })?;
    let may_be_any = is_clean(case) || case.is_approved;
    let arrived = case.step.arrived();
    let set = case
        .request
        .caller
        .conversation(|conversation| put(conversation, arrived, plan, may_be_any));
    let words = set.map_err(|refused| match refused {
        Refused::NothingSaid => Violation::new(
            Rule::UntrustedInfluence,
            "nobody said what this conversation is for, so there is nothing to plan",
        )
        .with_hint("a plan needs a task that a person began"),
        Refused::Wider(wider) => {
            let wider = wider.join("; ");
            Violation::new(
                Rule::UntrustedInfluence,
                format!("the plan is wider: {wider}"),
            )
            .with_hint("after something untrusted was read a plan can only be narrowed")
        }
    })?;
    let quoted: Vec<Vec<u8>> = words.iter().map(|words| write::quoted(words)).collect();
    let mut out = Object::new();
    out.raw(
        "steps",
        &[b"[", quoted.join(&b","[..]).as_slice(), b"]"].concat(),
    );
    Ok(out.finish())
}

/// Why a plan is not taken.
enum Refused {
    /// Nobody said anything in the conversation that the call belongs to.
    NothingSaid,
    /// What it would add.
    Wider(Vec<String>),
}

fn put(
    conversation: &mut Conversation,
    arrived: u64,
    plan: Plan,
    may_be_any: bool,
) -> Result<Vec<String>, Refused> {
    if conversation.epoch() != arrived || !conversation.index().has_words() {
        return Err(Refused::NothingSaid);
    }
    conversation
        .set_plan(plan, may_be_any)
        .map_err(Refused::Wider)?;
    Ok(conversation.plan().map(Plan::in_words).unwrap_or_default())
}
