//! What the gate must not forget: labels of sessions and of files, approvals, sessions of signed calls and what they used up. The only
//! crate that links a database.
//!
//! [`State`] is what the gate uses; it decides. Behind it a driver keeps what it is given: [`Store`] is the traits, by need, that a driver
//! implements, and [`Sqlite`] the driver for one gate. Beside both, in a file of its own that may be lost, the [`index`] of the ledger.
//!
//! It must never lower a label within an epoch, and never let an approval be spent twice. It reads no clock and draws no randomness:
//! time and entropy are arguments.

mod approval;
mod approvals;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod error;
mod executions;
mod files;
pub mod index;
mod labels;
#[cfg(any(test, feature = "conformance"))]
mod memory;
mod signed;
mod sqlite;
mod store;
mod used;
mod watch;

use std::{path::Path, sync::Arc};

use tokio::sync::Mutex;

pub use approval::{
    AnswerError, Approval, ApprovalState, ApprovalStateError, Asked, NewApproval, SpendError,
};
pub use approvals::{ARGUMENTS_LIMIT, KEPT_MS, PENDING_LIMIT, PENDING_LIMIT_PER_CALLER};
pub use error::StateError;
pub use executions::SavedExecution;
pub use files::{FileKey, VolumeLabels};
pub use labels::{ArchivedSession, SavedSession};
#[cfg(any(test, feature = "conformance"))]
pub use memory::Memory;
pub use signed::{SavedSigned, SignedStatus, Workload};
pub use sqlite::Sqlite;
pub use store::{
    Answer, Approvals, AskOutcome, Executions, FileLabels, Labels, PersonsAnswer, Placed, Question,
    SignedSessions, Store, Usage, Workloads, Written,
};
pub use used::UsedCalls;
pub use watch::Watch;

/// The state of one gate. Cheap to clone.
#[derive(Debug, Clone)]
pub struct State(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Arc<dyn Store>,
    /// Held while a label is saved, so that many rises at once share one write, and a reset comes wholly before or after.
    rising: Mutex<()>,
    watchers: watch::Watchers,
}

impl State {
    /// The state that a driver keeps.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self(Arc::new(Inner {
            store,
            rising: Mutex::default(),
            watchers: watch::Watchers::default(),
        }))
    }

    /// The state in a file, which is made if there is none.
    pub async fn open(file: &Path) -> Result<Self, StateError> {
        Ok(Self::new(Arc::new(Sqlite::open(file).await?)))
    }

    /// A state that is gone with the process, for tests.
    pub async fn in_memory() -> Result<Self, StateError> {
        Ok(Self::new(Arc::new(Sqlite::in_memory().await?)))
    }
}

#[cfg(test)]
mod tests;
