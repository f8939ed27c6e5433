//! What the dispatch door asks the gate: who an executor is, and what its messages come to.
//!
//! Nothing reaches an executor from here but commands that the call path let through: they wait in their execution, put there by the route.

use std::sync::Arc;

use callers::Caller;
use upstreams::executions::{Execution, IDLE_AFTER, machine::Heard};
use wire::dispatch::{FromExecutor, ToExecutor};

use super::Gate;

/// What an executor posts that no command asked for is at most this long.
const USUAL_OUTPUT: usize = 512 << 10;

/// An executor that has shown its bearer.
#[derive(Debug, Clone)]
pub struct Executor {
    execution: Arc<Execution>,
    caller: Caller,
}

impl Executor {
    /// Whose commands it runs.
    #[must_use]
    pub const fn caller(&self) -> &Caller {
        &self.caller
    }

    /// A place for one more request; `None` where it has too many already.
    #[must_use]
    pub fn place(&self) -> Option<impl Drop + use<>> {
        self.execution.place()
    }

    #[must_use]
    pub fn largest_message(&self) -> usize {
        self.execution.largest_message(USUAL_OUTPUT)
    }
}

/// Why a message came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DispatchRefusal {
    /// It names another execution than its bearer does. It is told what a stranger is.
    NotItsOwn,
    /// It answers a dispatch that this execution does not have.
    UnknownDispatch,
    /// It wants a model, and the gate has none.
    NoModel,
    Broken(String),
}

impl Gate {
    /// The executor that this bearer belongs to, while its execution and the credential behind it are in force.
    #[must_use]
    pub fn executor(&self, bearer: &str) -> Option<Executor> {
        let inner = self.inner();
        let (now, now_ms) = (inner.now(), inner.now_ms());
        let execution = inner.executions.identify(bearer, now_ms)?;
        let caller = inner
            .callers
            .of_id(&now.credentials, &execution.saved().caller)?;
        now.admits(&caller, now_ms).ok()?;
        Some(Executor { execution, caller })
    }

    /// Takes what an executor says, and waits until there is something for it to do, but not for long.
    pub async fn dispatch(
        &self,
        executor: &Executor,
        message: FromExecutor,
    ) -> Result<ToExecutor, DispatchRefusal> {
        let execution = &executor.execution;
        let id = &execution.saved().id;
        if message.execution() != id {
            self.note_executor(executor, "dispatch.refused", "it names another execution");
            return Err(DispatchRefusal::NotItsOwn);
        }
        let now_ms = self.inner().now_ms();
        match message {
            FromExecutor::Generate { .. } => return Err(DispatchRefusal::NoModel),
            FromExecutor::Attach { instance, .. } => {
                if !execution.attach(instance, now_ms) {
                    // Another has taken its place. Two that take turns would lose each other's commands.
                    let executed = execution.standing().executed;
                    return Ok(ToExecutor::Final { executed });
                }
            }
            FromExecutor::Result { posted, .. } => {
                let named: String = posted.dispatch_id.chars().take(64).collect();
                match execution.post(posted, now_ms) {
                    Heard::Concludes(_) => {}
                    Heard::Again { differs } => {
                        if differs {
                            let detail = format!(
                                "another answer to dispatch {named}, which was concluded before"
                            );
                            self.note_executor(executor, "dispatch.repeated", &detail);
                        }
                        // What runs now is with the executor that took its place, and must not be given to both.
                        if execution.was_anothers(&named) {
                            let executed = execution.standing().executed;
                            return Ok(ToExecutor::Final { executed });
                        }
                    }
                    Heard::Unknown => {
                        let detail = format!("no dispatch {named} was sent");
                        self.note_executor(executor, "dispatch.unknown", &detail);
                        return Err(DispatchRefusal::UnknownDispatch);
                    }
                }
            }
        }
        let next = execution.next(IDLE_AFTER).await;
        next.map_err(|error| DispatchRefusal::Broken(error.to_string()))
    }

    fn note_executor(&self, executor: &Executor, action: &str, detail: &str) {
        let change = audit::Change {
            action,
            door: "dispatch",
            caller: executor.caller.id(),
            execution: &executor.execution.saved().id,
            detail: &audit::printable(detail),
            ..audit::Change::default()
        };
        self.note("dispatch", &executor.caller, &change);
    }
}
