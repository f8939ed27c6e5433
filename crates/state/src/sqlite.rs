//! The driver for one gate: a SQLite file in its home.
//!
//! **Invariant: acknowledged is durable.** Every change is committed with a full sync before its future is ready, so a gate that is
//! killed at any moment finds everything it was told had been kept. Tests `everything_acknowledged_survives_kill_9`,
//! `it_syncs_every_commit_in_full`.
//!
//! **Invariant: one writer.** All statements go through one connection behind one lock. Tests `many_rises_at_once_are_all_in_the_file`,
//! `of_many_in_two_programs_one_asks_one_answers_and_one_spends`.
//!
//! Two more are also held by the schema, against mistakes made here: a label never falls within an epoch, and an approval is answered
//! and spent once.

mod approvals;
mod executions;
mod files;
mod labels;
mod open;
pub(crate) mod rows;
mod signed;
mod writer;

use std::{path::PathBuf, sync::Arc};

use sqlx::sqlite::SqliteConnection;
use tokio::sync::Mutex;

pub(crate) use open::prepare;

use crate::StateError;

/// The file, open. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Sqlite(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: PathBuf,
    writer: Mutex<writer::Writer>,
}

impl Sqlite {
    fn error(&self, error: &sqlx::Error) -> StateError {
        StateError::from_sqlx(&self.0.file, error)
    }

    /// Reads. Nothing is changed, and nothing unfinished is seen.
    async fn look<T>(
        &self,
        read: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, StateError> {
        let mut turn = self.turn().await?;
        read(turn.connection())
            .await
            .map_err(|error| self.error(&error))
    }

    /// Changes something in one transaction; durable when this is ready.
    async fn change<T>(
        &self,
        change: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, StateError> {
        let mut turn = self.turn().await?;
        let connection = turn.begin().await.map_err(|error| self.error(&error))?;
        let done = change(connection).await;
        turn.settle(done).await.map_err(|error| self.error(&error))
    }
}
