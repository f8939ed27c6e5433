//! Executions whose commands an executor runs. **Invariant: an execution that has ended stays ended**, and its id is nobody else's; the
//! schema holds it too. Conformance rule `an_execution_ends_once_and_its_id_is_not_given_again`.

use vocab::Level;

use crate::{State, StateError};

/// Ended ones are kept this long, so that what still calls in their name is told so.
const KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// What outlives the process of one execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedExecution {
    pub id: String,
    /// The credential whose commands run there.
    pub caller: String,
    /// Whether signed calls of this execution go there and nothing else; otherwise all commands of the credential do.
    pub is_signed: bool,
    /// The digest of what its executor proves itself with.
    pub digest: [u8; 32],
    /// The most secret data that may be sent there.
    pub accepts: Level,
    /// Whether an operator vouched that nothing from outside reaches it.
    pub is_closed: bool,
    pub made_by: String,
    pub created_ms: u64,
    pub expires_ms: u64,
    /// 0: it has not ended.
    pub ended_ms: u64,
}

impl State {
    /// Saves a new execution; durable when this returns. `false`: there is or was one of this id.
    pub async fn begin_execution(&self, new: &SavedExecution) -> Result<bool, StateError> {
        let forget_before_ms = new.created_ms.saturating_sub(KEPT_MS);
        self.0.store.begin_execution(new, forget_before_ms).await
    }

    /// Ends an execution; durable when this returns. `false`: it had ended before, or never was.
    pub async fn end_execution(&self, id: &str, now_ms: u64) -> Result<bool, StateError> {
        self.0.store.end_execution(id, now_ms).await
    }

    /// Every execution that is kept, ended ones too, oldest first.
    pub async fn executions(&self) -> Result<Vec<SavedExecution>, StateError> {
        self.0.store.executions().await
    }
}
