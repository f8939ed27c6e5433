//! What an execution has used up of the calls its agent may make: on disk before the call goes on, and found there by the next gate.

use std::{collections::HashMap, sync::Arc};

use policy::Contexts;
use state::{StateError, UsedCalls};

use super::{AttestError, Signed, SignedSession};
use crate::{
    Caller,
    meters::{Limits, SessionMeters},
};

/// The meters of executions that used something up in an earlier run.
pub(super) fn meters(used: Vec<UsedCalls>) -> HashMap<String, Arc<SessionMeters>> {
    let mut meters: HashMap<String, Arc<SessionMeters>> = HashMap::new();
    for used in used {
        meters
            .entry(used.execution)
            .or_default()
            .calls
            .resume([(used.tool, used.calls)]);
    }
    meters
}

impl Signed {
    /// Puts on disk that a call is used up, unless there is no limit or enough was put there before.
    pub(crate) async fn use_up(
        &self,
        caller: &Caller,
        session: &SignedSession,
        tool: &str,
        contexts: &Contexts,
    ) -> Result<(), StateError> {
        let calls = &session.meters.calls;
        let Some(limits) =
            limits(caller, contexts).filter(|limits| !calls.wanted(tool, *limits).is_empty())
        else {
            return Ok(());
        };
        let _turn = calls.keeping.lock().await;
        // Whoever had the turn before may have put enough there for this call too.
        let wanted = calls.wanted(tool, limits);
        if !wanted.is_empty() {
            let used = |(tool, calls): &(String, u64)| UsedCalls {
                execution: session.execution.clone(),
                tool: tool.clone(),
                calls: *calls,
            };
            self.state
                .use_calls(&wanted.iter().map(used).collect::<Vec<_>>())
                .await?;
            calls.kept(&wanted);
        }
        Ok(())
    }

    /// The meters of an execution that a session is about to begin for. What it has used up stays used up.
    pub(super) async fn meters_of(
        &self,
        execution: &str,
        before: Option<&Caller>,
    ) -> Result<Arc<SessionMeters>, AttestError> {
        if let Some(before) = before.and_then(Caller::signed) {
            return Ok(Arc::clone(&before.meters));
        }
        let used = self
            .state
            .used_calls_of(execution)
            .await
            .map_err(|error| AttestError::Unavailable(error.to_string()))?;
        let meters = SessionMeters::default();
        meters
            .calls
            .resume(used.into_iter().map(|used| (used.tool, used.calls)));
        Ok(Arc::new(meters))
    }
}

/// What the caller's agent may make in one execution; `None` where nothing is limited.
fn limits(caller: &Caller, contexts: &Contexts) -> Option<Limits> {
    let agent = contexts.agent(caller.agent_name()?)?;
    let of_tool = agent
        .tools
        .iter()
        .filter_map(|tool| tool.max_calls_per_execution)
        .min();
    let limits = Limits {
        all: agent.max_calls_per_execution,
        of_tool,
    };
    (limits != Limits::default()).then_some(limits)
}
