//! Executions as rows.

use sqlx::{Row, sqlite::SqliteRow};
use vocab::Level;

use super::{Sqlite, rows};
use crate::{Answer, Executions, SavedExecution};

const FORGET: &str = "
    DELETE FROM execution WHERE (ended_ms <> 0 AND ended_ms < ?1) OR expires_ms < ?1";

const INSERT: &str = "
    INSERT INTO execution (id, caller, is_signed, digest, accepts, is_closed, made_by, created_ms, expires_ms, ended_ms)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0) ON CONFLICT (id) DO NOTHING";

const END: &str = "UPDATE execution SET ended_ms = ? WHERE id = ? AND ended_ms = 0";

impl Executions for Sqlite {
    fn begin_execution<'a>(
        &'a self,
        new: &'a SavedExecution,
        forget_before_ms: u64,
    ) -> Answer<'a, bool> {
        Box::pin(self.change(async move |connection| {
            sqlx::query(FORGET)
                .bind(rows::to_file(forget_before_ms))
                .execute(&mut *connection)
                .await?;
            let insert = sqlx::query(INSERT)
                .bind(&new.id)
                .bind(&new.caller)
                .bind(i64::from(new.is_signed))
                .bind(&new.digest[..])
                .bind(i64::from(new.accepts as u8))
                .bind(i64::from(new.is_closed))
                .bind(&new.made_by)
                .bind(rows::to_file(new.created_ms))
                .bind(rows::to_file(new.expires_ms));
            Ok(insert.execute(connection).await?.rows_affected() > 0)
        }))
    }

    fn end_execution<'a>(&'a self, id: &'a str, now_ms: u64) -> Answer<'a, bool> {
        Box::pin(self.change(async move |connection| {
            let ended = sqlx::query(END)
                .bind(rows::to_file(now_ms.max(1)))
                .bind(id)
                .execute(connection)
                .await?;
            Ok(ended.rows_affected() > 0)
        }))
    }

    fn executions(&self) -> Answer<'_, Vec<SavedExecution>> {
        Box::pin(self.look(async |connection| {
            let all = "SELECT * FROM execution ORDER BY created_ms, id";
            let found = sqlx::query(all).fetch_all(connection).await?;
            found.iter().map(execution).collect()
        }))
    }
}

fn execution(row: &SqliteRow) -> Result<SavedExecution, sqlx::Error> {
    let digest: &[u8] = row.try_get("digest")?;
    let accepts: i64 = row.try_get("accepts")?;
    let flag = |column: &str| row.try_get::<i64, _>(column).map(|flag| flag != 0);
    let number = |column: &str| row.try_get(column).map(rows::from_file);
    Ok(SavedExecution {
        id: row.try_get("id")?,
        caller: row.try_get("caller")?,
        is_signed: flag("is_signed")?,
        digest: digest
            .try_into()
            .map_err(|error| sqlx::Error::Decode(Box::new(error)))?,
        // What makes no sense accepts the least.
        accepts: u8::try_from(accepts)
            .ok()
            .and_then(Level::from_rank)
            .unwrap_or(Level::Public),
        is_closed: flag("is_closed")?,
        made_by: row.try_get("made_by")?,
        created_ms: number("created_ms")?,
        expires_ms: number("expires_ms")?,
        ended_ms: number("ended_ms")?,
    })
}
