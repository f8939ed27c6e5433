//! What a caller's security context says of a call, and what it counts the call against.
//!
//! Only callers that have a context come here. A context that was taken out of the configuration bounds by allowing nothing.

use std::time::Duration;

use callers::{
    ForGate,
    meters::{Charge, Metered, Peek},
};
use calls::{
    receive::{Address, Received},
    tokens,
};
use policy::{
    Boundary,
    context::{self, Scope},
};
use tokio::sync::OwnedSemaphorePermit;
use upstreams::{catalog::Target, names::NamesOf};
use vocab::{Rule, Violation};
use wire::Json;

use super::Case;
use crate::{Caller, settings::Rate};

/// Whether a call is counted against its limits, or was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    Once,
    Look,
}

/// Every name of what a call addresses.
pub(super) fn names_of(case: &Case<'_>, received: &Received<'_>, target: &Target) -> NamesOf {
    let method = case.request.action.method();
    match &received.address {
        Address::Tool(name) => NamesOf::tool(case.request.mount.is_some(), name, target),
        Address::Task(id) => {
            match tokens::open_task(&case.gate.wrapper, &case.request.caller, id) {
                Some(task) => NamesOf::tool(false, &task.asked, target).or_method(method),
                None => NamesOf::unknown(method),
            }
        }
        _ => NamesOf::method(method, target),
    }
}

/// How a call stands to its caller's context; `None` for callers without one.
pub(crate) fn boundary<'a>(
    case: Case<'a>,
    target: &'a Target,
    asked: &'a str,
    others: &'a [&'a str],
    sent: &'a [u8],
) -> Result<Option<Boundary<'a>>, Violation> {
    let caller = &case.request.caller;
    let Some(name) = caller.context() else {
        return Ok(None);
    };
    let contexts = &case.now.rules.contexts;
    let known = contexts
        .context(name)
        .filter(|context| context.admits_tenant(caller.tenant()));
    let context = known.ok_or_else(|| {
        let detail = format!(
            "there is no security context `{name}` for this caller; one of that name would bound it"
        );
        Violation::new(Rule::ToolNotAllowed, detail).with_hint("its security context is gone")
    })?;
    let agent = caller.agent_name().and_then(|agent| contexts.agent(agent));
    if let Some(wanted) = agent
        .and_then(|agent| agent.security_context.as_deref())
        .filter(|wanted| *wanted != name)
    {
        let detail = format!(
            "the agent is for context `{wanted}`, not for `{name}`; a session in that one would be allowed"
        );
        return Err(Violation::new(Rule::ToolNotAllowed, detail)
            .with_hint("its agent is for another security context"));
    }
    let scope = Scope {
        context,
        agent,
        ceilings: case
            .part
            .and_then(|part| part.ceilings)
            .unwrap_or_else(|| contexts.ceilings()),
        session_patterns: caller.signed().map(|session| session.patterns.as_slice()),
    };
    let call = context::Call {
        tool: asked,
        aliases: others,
        server: Some(target.spec.id.as_str()),
        arguments: Some(Json::checked_before(sent)),
        calls_so_far: case.so_far.calls,
        tool_calls_so_far: case.so_far.of_tool,
    };
    Ok(Some(context::examine(scope, &call)))
}

/// The limits of the target, and the rate of the capability that the call is made under.
pub(crate) fn meters(caller: &Caller, target: &Target, boundary: Option<&Boundary<'_>>) -> Metered {
    let limited = boundary.and_then(|boundary| {
        let (index, capability) = boundary.capability()?;
        Some((
            boundary.context().name.as_str(),
            index,
            capability.rate_limit?,
        ))
    });
    let Some((context, index, limit)) = limited else {
        return target.meters.clone();
    };
    let rate = Rate {
        calls: limit.calls,
        per: Duration::from_secs(limit.per_seconds.into()),
    };
    target.meters.and(caller.meters().rate(
        format!("the rate limit of capability {index} of context `{context}`"),
        rate,
    ))
}

/// The limits are looked at where they stand in the table of checks, unless the call was counted before: then it has its place.
pub(crate) fn looking<T>(
    count: Count,
    meters: &Metered,
    with: impl FnOnce(&dyn policy::Meter) -> T,
) -> T {
    match count {
        Count::Once => with(&Peek(meters)),
        Count::Look => with(&policy::Unmetered),
    }
}

/// Counts a call that everything else has let through: what is refused for another reason uses up no limit that others share.
pub(crate) fn charge(count: Count, meters: &Metered) -> Result<Option<Charge>, Violation> {
    match count {
        Count::Once => meters.charge().map(Some).map_err(|exceeded| {
            context::too_many(&exceeded.limit, exceeded.calls, exceeded.retry_after)
        }),
        Count::Look => Ok(None),
    }
}

/// A place among the calls that the context lets run at once.
pub(super) fn concurrency(
    caller: &Caller,
    boundary: &Boundary<'_>,
) -> Result<Option<OwnedSemaphorePermit>, Violation> {
    let Some(limit) = boundary.concurrency() else {
        return Ok(None);
    };
    // Commands of an execution share their places, whichever capability allows them.
    let name = match boundary.capability() {
        Some((index, _)) if !boundary.is_command() => {
            format!("{} {index}", boundary.context().name)
        }
        _ => "commands".to_owned(),
    };
    let place = caller.meters().place(name, limit);
    place
        .map(Some)
        .ok_or_else(|| context::too_many_at_once(limit, limit))
}
