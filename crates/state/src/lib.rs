//! What the gate must not forget: labels, approvals, sessions of signed calls and what they used up. One SQLite file; the only crate
//! that links a database. Beside it, in a file of its own that may be lost, the [`index`] of the ledger.
//!
//! **Invariant: acknowledged is durable.** Every change is committed with a full sync before its function returns, so a gate that is
//! killed at any moment finds everything it was told had been kept. Tests `everything_acknowledged_survives_kill_9`,
//! `it_syncs_every_commit_in_full`.
//!
//! **Invariant: one writer.** All statements go through one connection behind one lock. A change and the word about it (to the
//! session in memory, to those who wait for an approval) happen under that lock, so no order of events can part them. Tests
//! `many_rises_at_once_are_all_in_the_file`, `of_many_in_two_programs_one_asks_one_answers_and_one_spends`.
//!
//! It must never lower a label within an epoch, and never let an approval be spent twice. Both are also held by the schema, against
//! mistakes made here. It reads no clock and draws no randomness: time and entropy are arguments.

mod approval;
mod approvals;
mod error;
pub mod index;
mod open;
mod rows;
mod sessions;
mod signed;
mod used;
mod watch;
mod writer;

use std::{path::PathBuf, sync::Arc};

use tokio::sync::Mutex;

pub use approval::{
    AnswerError, Approval, ApprovalState, ApprovalStateError, Asked, NewApproval, SpendError,
};
pub use approvals::{ARGUMENTS_LIMIT, KEPT_MS, PENDING_LIMIT, PENDING_LIMIT_PER_CALLER};
pub use error::StateError;
pub use sessions::{ArchivedSession, SavedSession};
pub use signed::{SavedSigned, SignedStatus, Workload};
pub use used::UsedCalls;
pub use watch::Watch;

/// The state of one gate. Cheap to clone.
#[derive(Debug, Clone)]
pub struct State(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: PathBuf,
    writer: Mutex<writer::Writer>,
    watchers: watch::Watchers,
}

impl State {
    fn error(&self, error: &sqlx::Error) -> StateError {
        StateError::from_sqlx(&self.0.file, error)
    }
}

#[cfg(test)]
mod tests;
