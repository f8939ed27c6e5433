//! How many calls executions have used up. **Invariant: what was used up stays used up**, for as long as a session of the execution
//! is kept; the schema holds it too. Test `what_an_execution_used_up_outlives_the_process_and_never_falls`.

use sqlx::{Row, sqlite::SqliteConnection, sqlite::SqliteRow};

use crate::{State, StateError, rows};

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
        let mut turn = self.turn().await?;
        let connection = turn.begin().await.map_err(|error| self.error(&error))?;
        let done = async {
            for used in used {
                let raise = "INSERT INTO used_calls (execution, tool, calls) VALUES (?, ?, ?)
                    ON CONFLICT (execution, tool) DO UPDATE SET calls = max(calls, excluded.calls)";
                let calls = rows::to_file(used.calls);
                sqlx::query(raise)
                    .bind(&used.execution)
                    .bind(&used.tool)
                    .bind(calls)
                    .execute(&mut *connection)
                    .await?;
            }
            Ok(())
        };
        let done = done.await;
        turn.settle(done).await.map_err(|error| self.error(&error))
    }

    /// What every execution has used up.
    pub async fn used_calls(&self) -> Result<Vec<UsedCalls>, StateError> {
        let mut turn = self.turn().await?;
        let rows = sqlx::query("SELECT * FROM used_calls")
            .fetch_all(turn.connection())
            .await;
        rows.and_then(|rows| rows.iter().map(used).collect())
            .map_err(|error| self.error(&error))
    }

    /// What one execution has used up.
    pub async fn used_calls_of(&self, execution: &str) -> Result<Vec<UsedCalls>, StateError> {
        let mut turn = self.turn().await?;
        let find = sqlx::query("SELECT * FROM used_calls WHERE execution = ?").bind(execution);
        let rows = find.fetch_all(turn.connection()).await;
        rows.and_then(|rows| rows.iter().map(used).collect())
            .map_err(|error| self.error(&error))
    }
}

/// Forgets the counts of executions that no session is left of.
pub(crate) async fn forget_orphans(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let forget =
        "DELETE FROM used_calls WHERE execution NOT IN (SELECT execution FROM signed_session)";
    sqlx::query(forget).execute(connection).await.map(drop)
}

fn used(row: &SqliteRow) -> Result<UsedCalls, sqlx::Error> {
    let calls = rows::from_file(row.try_get("calls")?);
    Ok(UsedCalls {
        execution: row.try_get("execution")?,
        tool: row.try_get("tool")?,
        calls,
    })
}
