//! Sessions of signed calls, the workloads that may begin one, and what executions used up, as rows.

use sqlx::{Row, sqlite::SqliteConnection, sqlite::SqliteRow};

use super::{Sqlite, rows};
use crate::{
    Answer, SavedSigned, SignedSessions, SignedStatus, Usage, UsedCalls, Workload, Workloads,
};

const REPLACE: &str = "
    UPDATE signed_session SET status = 'Revoked', ended_ms = ?, reason = 'replaced' WHERE execution = ? AND status = 'Active'";

const INSERT: &str = "
    INSERT INTO signed_session (id, execution, agent, context, workload, tenant, owner, attested_by, vouched, public_key, patterns,
        created_ms, expires_ms, status, ended_ms, reason)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'Active', 0, '')";

const END: &str = "
    UPDATE signed_session SET status = ?, reason = ?, ended_ms = ? WHERE id = ? AND status = 'Active'";

const FORGET: &str = "DELETE FROM signed_session WHERE status <> 'Active' AND ended_ms < ?";

/// The counts of executions that no session is left of.
const FORGET_USED: &str =
    "DELETE FROM used_calls WHERE execution NOT IN (SELECT execution FROM signed_session)";

const INSERT_WORKLOAD: &str = "
    INSERT INTO workload (id, digest, context, agent, tenant, made_by, created_ms, expires_ms, uses_left)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";

const FIND_WORKLOAD: &str =
    "SELECT * FROM workload WHERE id = ? AND uses_left > 0 AND expires_ms > ?";

const USE_WORKLOAD: &str = "
    UPDATE workload SET uses_left = uses_left - 1 WHERE id = ? AND uses_left > 0 AND expires_ms > ?";

const USE_CALLS: &str = "
    INSERT INTO used_calls (execution, tool, calls) VALUES (?, ?, ?)
    ON CONFLICT (execution, tool) DO UPDATE SET calls = max(calls, excluded.calls)";

impl SignedSessions for Sqlite {
    fn begin_signed<'a>(&'a self, new: &'a SavedSigned, forget_before_ms: u64) -> Answer<'a, ()> {
        Box::pin(
            self.change(async move |connection| begin(connection, new, forget_before_ms).await),
        )
    }

    fn end_signed<'a>(
        &'a self,
        id: &'a str,
        status: SignedStatus,
        reason: &'a str,
        now_ms: u64,
    ) -> Answer<'a, bool> {
        Box::pin(self.change(async move |connection| {
            let ended = sqlx::query(END)
                .bind(status.as_str())
                .bind(reason)
                .bind(rows::to_file(now_ms))
                .bind(id)
                .execute(connection)
                .await?;
            Ok(ended.rows_affected() > 0)
        }))
    }

    fn signed_sessions(&self) -> Answer<'_, Vec<SavedSigned>> {
        Box::pin(self.look(async |connection| {
            let all = "SELECT * FROM signed_session ORDER BY created_ms, id";
            let found = sqlx::query(all).fetch_all(connection).await?;
            found.iter().map(signed).collect()
        }))
    }
}

impl Workloads for Sqlite {
    fn add_workload<'a>(&'a self, new: &'a Workload) -> Answer<'a, ()> {
        Box::pin(self.change(async move |connection| {
            let dead = "DELETE FROM workload WHERE expires_ms < ? OR uses_left = 0";
            sqlx::query(dead)
                .bind(rows::to_file(new.created_ms))
                .execute(&mut *connection)
                .await?;
            let insert = sqlx::query(INSERT_WORKLOAD)
                .bind(&new.id)
                .bind(&new.digest[..])
                .bind(&new.context)
                .bind(&new.agent)
                .bind(&new.tenant)
                .bind(&new.made_by)
                .bind(rows::to_file(new.created_ms))
                .bind(rows::to_file(new.expires_ms))
                .bind(i64::from(new.uses_left));
            insert.execute(connection).await.map(drop)
        }))
    }

    fn workloads(&self, now_ms: u64) -> Answer<'_, Vec<Workload>> {
        Box::pin(self.look(async move |connection| {
            let find = "SELECT * FROM workload WHERE uses_left > 0 AND expires_ms > ?";
            let find = sqlx::query(find).bind(rows::to_file(now_ms));
            find.fetch_all(connection)
                .await?
                .iter()
                .map(workload)
                .collect()
        }))
    }

    fn workload<'a>(&'a self, id: &'a str, now_ms: u64) -> Answer<'a, Option<Workload>> {
        Box::pin(self.look(async move |connection| {
            let find = sqlx::query(FIND_WORKLOAD)
                .bind(id)
                .bind(rows::to_file(now_ms));
            let found = find.fetch_optional(connection).await?;
            found.as_ref().map(workload).transpose()
        }))
    }

    fn use_workload<'a>(&'a self, id: &'a str, now_ms: u64) -> Answer<'a, bool> {
        Box::pin(self.change(async move |connection| {
            let used = sqlx::query(USE_WORKLOAD)
                .bind(id)
                .bind(rows::to_file(now_ms))
                .execute(connection)
                .await?;
            Ok(used.rows_affected() > 0)
        }))
    }
}

impl Usage for Sqlite {
    fn use_calls<'a>(&'a self, used: &'a [UsedCalls]) -> Answer<'a, ()> {
        Box::pin(self.change(async move |connection| {
            for used in used {
                sqlx::query(USE_CALLS)
                    .bind(&used.execution)
                    .bind(&used.tool)
                    .bind(rows::to_file(used.calls))
                    .execute(&mut *connection)
                    .await?;
            }
            Ok(())
        }))
    }

    fn used_calls(&self) -> Answer<'_, Vec<UsedCalls>> {
        Box::pin(self.look(async |connection| {
            let all = sqlx::query("SELECT * FROM used_calls");
            all.fetch_all(connection).await?.iter().map(used).collect()
        }))
    }

    fn used_calls_of<'a>(&'a self, execution: &'a str) -> Answer<'a, Vec<UsedCalls>> {
        Box::pin(self.look(async move |connection| {
            let find = sqlx::query("SELECT * FROM used_calls WHERE execution = ?").bind(execution);
            find.fetch_all(connection).await?.iter().map(used).collect()
        }))
    }
}

async fn begin(
    connection: &mut SqliteConnection,
    new: &SavedSigned,
    forget_before_ms: u64,
) -> Result<(), sqlx::Error> {
    sqlx::query(REPLACE)
        .bind(rows::to_file(new.created_ms))
        .bind(&new.execution)
        .execute(&mut *connection)
        .await?;
    sqlx::query(INSERT)
        .bind(&new.id)
        .bind(&new.execution)
        .bind(&new.agent)
        .bind(&new.context)
        .bind(&new.workload)
        .bind(&new.tenant)
        .bind(&new.owner)
        .bind(&new.attested_by)
        .bind(&new.vouched)
        .bind(&new.public_key[..])
        .bind(rows::list(&new.patterns))
        .bind(rows::to_file(new.created_ms))
        .bind(rows::to_file(new.expires_ms))
        .execute(&mut *connection)
        .await?;
    let forgotten = sqlx::query(FORGET)
        .bind(rows::to_file(forget_before_ms))
        .execute(&mut *connection)
        .await?;
    if forgotten.rows_affected() > 0 {
        sqlx::query(FORGET_USED).execute(connection).await?;
    }
    Ok(())
}

fn used(row: &SqliteRow) -> Result<UsedCalls, sqlx::Error> {
    Ok(UsedCalls {
        execution: row.try_get("execution")?,
        tool: row.try_get("tool")?,
        calls: rows::from_file(row.try_get("calls")?),
    })
}

fn bytes32(row: &SqliteRow, column: &str) -> Result<[u8; 32], sqlx::Error> {
    let bytes: &[u8] = row.try_get(column)?;
    bytes
        .try_into()
        .map_err(|error| sqlx::Error::Decode(Box::new(error)))
}

fn signed(row: &SqliteRow) -> Result<SavedSigned, sqlx::Error> {
    let status: &str = row.try_get("status")?;
    Ok(SavedSigned {
        id: row.try_get("id")?,
        execution: row.try_get("execution")?,
        agent: row.try_get("agent")?,
        context: row.try_get("context")?,
        workload: row.try_get("workload")?,
        tenant: row.try_get("tenant")?,
        owner: row.try_get("owner")?,
        attested_by: row.try_get("attested_by")?,
        vouched: row.try_get("vouched")?,
        public_key: bytes32(row, "public_key")?,
        patterns: rows::texts(row, "patterns")?,
        created_ms: rows::from_file(row.try_get("created_ms")?),
        expires_ms: rows::from_file(row.try_get("expires_ms")?),
        // What cannot be read is over.
        status: SignedStatus::parse(status).unwrap_or(SignedStatus::Revoked),
        ended_ms: rows::from_file(row.try_get("ended_ms")?),
        reason: row.try_get("reason")?,
    })
}

fn workload(row: &SqliteRow) -> Result<Workload, sqlx::Error> {
    Ok(Workload {
        id: row.try_get("id")?,
        digest: bytes32(row, "digest")?,
        context: row.try_get("context")?,
        agent: row.try_get("agent")?,
        tenant: row.try_get("tenant")?,
        made_by: row.try_get("made_by")?,
        created_ms: rows::from_file(row.try_get("created_ms")?),
        expires_ms: rows::from_file(row.try_get("expires_ms")?),
        uses_left: u32::try_from(row.try_get::<i64, _>("uses_left")?).unwrap_or(0),
    })
}
