//! What a caller's security context says of a call, and what it counts the call against.
//!
//! Only callers that have a context come here. A context that was taken out of the configuration bounds by allowing nothing.

use std::{sync::Arc, time::Duration};

use policy::{
    Boundary,
    context::{self, Scope},
};
use tokio::sync::OwnedSemaphorePermit;
use vocab::{Fault, FaultKind, Rule, ServerId, Stop, View, Violation};
use wire::Json;

use super::{
    Case,
    receive::{Address, Received},
};
use crate::{
    Caller, SignedSession,
    catalog::{Target, dotted_names},
    meters::{Charge, Metered, Peek},
    settings::Rate,
    tokens,
};

/// Whether a call is counted against its limits, or was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    Once,
    Look,
}

/// The place of a call among those of its execution. Given back unless the call is let in, so that no two calls at once take the
/// last one.
#[derive(Debug)]
pub(super) struct ExecutionSlot {
    session: Option<Arc<SignedSession>>,
    tool: String,
    so_far: SoFar,
}

/// How many calls of the execution came before this one, and of this tool among them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SoFar {
    pub(crate) calls: u64,
    pub(crate) of_tool: u64,
}

impl ExecutionSlot {
    pub(super) fn take(caller: &Caller, target: &Target) -> Self {
        let session = caller.signed().cloned();
        let tool = counted_as(target);
        let so_far = session
            .as_ref()
            .map_or_else(SoFar::default, |session| session.meters.calls.begin(&tool));
        Self {
            session,
            tool,
            so_far,
        }
    }

    pub(super) const fn so_far(&self) -> SoFar {
        self.so_far
    }

    /// The call was let in. Where there is a limit, that it is used up is on disk first.
    pub(super) async fn keep(mut self, case: Case<'_>) -> Result<(), Stop> {
        if let Some(session) = &self.session {
            case.gate
                .signed
                .use_up(
                    &case.request.caller,
                    session,
                    &self.tool,
                    &case.rules.contexts,
                )
                .await
                .map_err(|error| {
                    Fault::new(
                        FaultKind::Gate,
                        format!("a call could not be counted, so it is not made: {error}"),
                    )
                })?;
        }
        self.session = None;
        Ok(())
    }
}

impl Drop for ExecutionSlot {
    fn drop(&mut self) {
        if let Some(session) = &self.session {
            session.meters.calls.give_back(&self.tool);
        }
    }
}

/// Under which a target is counted, whatever name it was asked for by. What is no tool has no count of its own.
pub(crate) fn counted_as(target: &Target) -> String {
    match &target.definition {
        None if target.spec.id != ServerId::built_in() => target.spec.id.to_string(),
        _ => View::Double.expose(&target.spec.id, &target.name),
    }
}

/// Every name of what a call addresses.
#[derive(Debug)]
pub(crate) struct NamesOf {
    asked: String,
    others: Vec<String>,
}

impl NamesOf {
    pub(crate) fn new(case: &Case<'_>, received: &Received<'_>, target: &Target) -> Self {
        let method = || case.request.action.method().replace('/', ".");
        match &received.address {
            Address::Tool(name) => Self::tool(case.request.mount.is_some(), name, target),
            // What is asked about a task is asked of its tool; denials may name the method as well.
            Address::Task(id) => {
                match tokens::open_task(&case.gate.wrapper, &case.request.caller, id) {
                    Some(task) => {
                        let mut names = Self::tool(false, &task.asked, target);
                        names.others.push(method());
                        names
                    }
                    None => Self {
                        asked: method(),
                        others: Vec::new(),
                    },
                }
            }
            // What is no tool has the name of its method: `resources.read`, `prompts.get`. Denials of its server hold for it too.
            _ => Self {
                asked: method(),
                others: vec![View::Double.expose(&target.spec.id, &target.name)],
            },
        }
    }

    /// Behind a door that shows one server, tools have that server's names; lists of tools have the gate's.
    pub(crate) fn tool(is_mounted: bool, name: &str, target: &Target) -> Self {
        let exposed = View::Double.expose(&target.spec.id, &target.name);
        let asked = if is_mounted {
            exposed.clone()
        } else {
            name.to_owned()
        };
        let dotted = target
            .server()
            .map(|server| dotted_names(server, &target.name))
            .unwrap_or_default();
        let built_in = wire::builtin::find(name).filter(|_| target.spec.id == ServerId::built_in());
        let aliases = built_in
            .into_iter()
            .flat_map(|tool| tool.other_names(name))
            .map(str::to_owned);
        let others = [target.name.clone(), exposed]
            .into_iter()
            .chain(dotted)
            .chain(aliases);
        let others = others.filter(|other| *other != asked).collect();
        Self { asked, others }
    }

    pub(crate) fn asked(&self) -> &str {
        &self.asked
    }

    pub(crate) fn others(&self) -> Vec<&str> {
        self.others.iter().map(String::as_str).collect()
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
    let contexts = &case.rules.contexts;
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
        ceilings: contexts.ceilings(),
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
