//! How many calls executions have used up. **Invariant: what was used up stays used up**, for as long as a session of the execution
//! is kept; the schema holds it too. Test `what_an_execution_used_up_outlives_the_process_and_never_falls`.

use crate::{State, StateError};

/// Calls that an execution has used up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedCalls {
    pub execution: String,
    /// Of this tool; empty: of all together.
    pub tool: String,
    pub calls: u64,
}

impl State {
    /// Counts so many calls as used up; durable when this returns. Fewer than before changes nothing.
    pub async fn use_calls(&self, used: &[UsedCalls]) -> Result<(), StateError> {
        self.0.store.use_calls(used).await
    }

    /// What every execution has used up.
    pub async fn used_calls(&self) -> Result<Vec<UsedCalls>, StateError> {
        self.0.store.used_calls().await
    }

    /// What one execution has used up.
    pub async fn used_calls_of(&self, execution: &str) -> Result<Vec<UsedCalls>, StateError> {
        self.0.store.used_calls_of(execution).await
    }
}
