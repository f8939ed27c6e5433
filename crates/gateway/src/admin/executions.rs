//! What operators do with executions whose commands an executor runs.

use std::time::Duration;

use api::{Kind, Problem};
use audit::rfc3339;
use state::SavedExecution;
use upstreams::executions::{Execution, NewExecution, NotBegun, machine::Phase};

use super::Admin;
use crate::{Caller, problem};

impl Admin {
    #[must_use]
    pub fn executions(&self) -> Vec<api::Execution> {
        let inner = self.gate.inner();
        let now_ms = inner.now_ms();
        let all = inner.executions.all().into_iter();
        all.map(|execution| self.shown(&execution, now_ms))
            .collect()
    }

    fn shown(&self, execution: &Execution, now_ms: u64) -> api::Execution {
        let (saved, standing) = (execution.saved(), execution.standing());
        let time = |ms: u64| (ms != 0).then(|| rfc3339(ms));
        let state = match standing.phase {
            Phase::Ended => "ended",
            _ if !execution.is_in_force(now_ms) => "expired",
            Phase::Detached => "detached",
            Phase::Ready => "ready",
            Phase::Running => "running",
        };
        let running = standing.running.map(|command| {
            let clean = self.gate.without_secrets(&command);
            clean.unwrap_or(command)
        });
        api::Execution {
            id: saved.id.clone(),
            caller: saved.caller.clone(),
            signed: saved.is_signed,
            state: state.to_owned(),
            accepts: saved.accepts.to_string(),
            closed: saved.is_closed,
            waiting: standing.waiting as u64,
            executed: standing.executed,
            running,
            repeated: standing.repeated,
            unknown: standing.unknown,
            heard_at: time(standing.heard_ms),
            made_by: saved.made_by.clone(),
            created_at: rfc3339(saved.created_ms),
            expires_at: rfc3339(saved.expires_ms),
            ended_at: time(execution.ended_ms()),
        }
    }

    /// From now on an executor runs the commands of a credential, or of one of its executions of signed calls.
    pub async fn begin_execution(
        &self,
        who: &Caller,
        asked: &api::BeginExecution,
    ) -> Result<api::ExecutionBegun, Problem> {
        let inner = self.gate.inner();
        let found = self.gate.find_caller(&asked.caller).ok_or_else(|| {
            let text = format!("there is no caller `{}`", asked.caller);
            Problem::new(Kind::NotFound, "no_such_caller", text)
        })?;
        let new = NewExecution {
            caller: found.id().to_owned(),
            execution: asked.execution.clone(),
            accepts: asked.accepts()?,
            is_closed: asked.closed,
            ttl: Duration::from_secs(asked.ttl_seconds().into()),
            made_by: who.id().to_owned(),
        };
        let detail = format!(
            "accepts {}{}",
            new.accepts,
            if new.is_closed { ", closed" } else { "" }
        );
        let record = |saved: &SavedExecution| {
            let recorded = self.record("execution.begun", who, "", |change| {
                change.target = &saved.caller;
                change.execution = &saved.id;
                change.detail = &detail;
            });
            recorded.map_err(|problem| problem.to_string())
        };
        let begun = inner.executions.begin(new, inner.now_ms(), record).await;
        let (execution, token) = begun.map_err(|why| match why {
            NotBegun::Taken(id) => {
                let text = format!("execution `{id}` was begun before; name another");
                problem::conflict("execution_exists", text)
            }
            NotBegun::HasOne(id) => {
                let text = format!(
                    "the commands of `{}` run in execution `{id}` already; end it first",
                    found.id()
                );
                problem::conflict("execution_exists", text)
            }
            NotBegun::TooMany => Problem::new(
                Kind::Busy,
                "too_many_executions",
                "as many executions as there can be are in force; end one first",
            ),
            NotBegun::Broken(error) => Problem::broken(error),
        })?;
        let base = self.gate.url().trim_end_matches("/mcp");
        Ok(api::ExecutionBegun {
            execution_id: execution.saved().id.clone(),
            token: token.expose().clone(),
            url: format!("{base}/v1/dispatch-gateway"),
            expires_at: rfc3339(execution.saved().expires_ms),
        })
    }

    /// Commands that wait for its executor fail, and its executor is told to end.
    pub async fn end_execution(
        &self,
        who: &Caller,
        id: &str,
        reason: &str,
    ) -> Result<String, Problem> {
        let inner = self.gate.inner();
        let found = inner.executions.find(id).ok_or_else(|| {
            let text = format!("there is no execution `{id}`");
            Problem::new(Kind::NotFound, "no_such_execution", text)
        })?;
        if found.ended_ms() != 0 {
            let text = format!("execution `{id}` has ended already");
            return Err(problem::conflict("execution_ended", text));
        }
        self.record("execution.ended", who, reason, |change| {
            change.target = &found.saved().caller;
            change.execution = id;
        })?;
        let kept = inner.executions.end(&found, inner.now_ms()).await;
        kept.map_err(Problem::broken)?;
        Ok(format!("execution `{id}` has ended"))
    }
}
