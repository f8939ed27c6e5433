//! The labels of sessions, as rows.

use std::collections::BTreeMap;

use sqlx::{Row, sqlite::SqliteConnection};

use super::{Sqlite, rows};
use crate::{Answer, ArchivedSession, Labels, SavedSession, Written};

/// A newer epoch replaces; within one, each part takes the higher of the two. An older epoch matches no row.
const SAVE: &str = "
    INSERT INTO session (caller, epoch, secrecy, untrusted, head) VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT (caller) DO UPDATE SET
        epoch = excluded.epoch,
        secrecy = CASE WHEN excluded.epoch = epoch THEN max(secrecy, excluded.secrecy) ELSE excluded.secrecy END,
        untrusted = CASE WHEN excluded.epoch = epoch THEN max(untrusted, excluded.untrusted) ELSE excluded.untrusted END,
        head = excluded.head
    WHERE excluded.epoch >= epoch";

const SAVE_ORIGIN: &str =
    "INSERT INTO session_origin (caller, epoch, origin) VALUES (?, ?, ?) ON CONFLICT DO NOTHING";

const ARCHIVE: &str = "
    INSERT INTO session_archive (caller, epoch, secrecy, untrusted, head, origins, who, reason, at_ms)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";

const ORIGINS: &str = "
    SELECT caller, origin FROM session JOIN session_origin USING (caller, epoch) WHERE ?1 IS NULL OR caller = ?1";

const ARCHIVED: &str = "
    SELECT * FROM session_archive WHERE ?1 IS NULL OR caller = ?1 ORDER BY at_ms, caller, epoch";

impl Labels for Sqlite {
    /// The gate holds a lock on its home while it runs, so no other gate has the file.
    fn is_shared(&self) -> bool {
        false
    }

    fn sessions(&self) -> Answer<'_, Vec<SavedSession>> {
        Box::pin(self.look(async |connection| read(connection, None).await))
    }

    fn session<'a>(&'a self, caller: &'a str) -> Answer<'a, Option<SavedSession>> {
        Box::pin(self.look(async move |connection| Ok(read(connection, Some(caller)).await?.pop())))
    }

    fn raise<'a>(&'a self, session: &'a SavedSession) -> Answer<'a, Written> {
        Box::pin(self.change(async move |connection| write(connection, session).await))
    }

    fn reset<'a>(
        &'a self,
        ended: &'a ArchivedSession,
        begun: &'a SavedSession,
    ) -> Answer<'a, Written> {
        Box::pin(self.change(async move |connection| reset(connection, ended, begun).await))
    }

    fn archived_sessions<'a>(
        &'a self,
        caller: Option<&'a str>,
    ) -> Answer<'a, Vec<ArchivedSession>> {
        Box::pin(self.look(async move |connection| {
            let found = sqlx::query(ARCHIVED).bind(caller);
            found
                .fetch_all(connection)
                .await?
                .iter()
                .map(archived)
                .collect()
        }))
    }
}

async fn reset(
    connection: &mut SqliteConnection,
    ended: &ArchivedSession,
    begun: &SavedSession,
) -> Result<Written, sqlx::Error> {
    let saved = saved_epoch(connection, &begun.caller).await?;
    if let Some(saved) = saved.filter(|saved| *saved >= begun.epoch) {
        return Ok(Written::NewerIs(saved));
    }
    add_to_archive(connection, ended).await?;
    let written = write(connection, begun).await?;
    sqlx::query("DELETE FROM session_origin WHERE caller = ? AND epoch < ?")
        .bind(&begun.caller)
        .bind(rows::to_file(begun.epoch))
        .execute(connection)
        .await?;
    Ok(written)
}

async fn write(
    connection: &mut SqliteConnection,
    session: &SavedSession,
) -> Result<Written, sqlx::Error> {
    let (secrecy, untrusted) = rows::mark_columns(session.label.mark);
    let epoch = rows::to_file(session.epoch);
    let written = sqlx::query(SAVE)
        .bind(&session.caller)
        .bind(epoch)
        .bind(secrecy)
        .bind(untrusted)
        .bind(&session.head)
        .execute(&mut *connection)
        .await?;
    if written.rows_affected() == 0 {
        let newer = saved_epoch(connection, &session.caller).await?;
        return Ok(Written::NewerIs(newer.unwrap_or_default()));
    }
    for origin in &session.label.origins {
        sqlx::query(SAVE_ORIGIN)
            .bind(&session.caller)
            .bind(epoch)
            .bind(origin.as_str())
            .execute(&mut *connection)
            .await?;
    }
    Ok(Written::Yes)
}

async fn add_to_archive(
    connection: &mut SqliteConnection,
    ended: &ArchivedSession,
) -> Result<(), sqlx::Error> {
    let session = &ended.session;
    let (secrecy, untrusted) = rows::mark_columns(session.label.mark);
    let origins: Vec<String> = session
        .label
        .origins
        .iter()
        .map(|origin| origin.as_str().to_owned())
        .collect();
    sqlx::query(ARCHIVE)
        .bind(&session.caller)
        .bind(rows::to_file(session.epoch))
        .bind(secrecy)
        .bind(untrusted)
        .bind(&session.head)
        .bind(rows::list(&origins))
        .bind(&ended.who)
        .bind(&ended.reason)
        .bind(rows::to_file(ended.at_ms))
        .execute(connection)
        .await?;
    Ok(())
}

async fn saved_epoch(
    connection: &mut SqliteConnection,
    caller: &str,
) -> Result<Option<u64>, sqlx::Error> {
    let find = sqlx::query("SELECT epoch FROM session WHERE caller = ?").bind(caller);
    let row = find.fetch_optional(connection).await?;
    row.map(|row| row.try_get(0).map(rows::from_file))
        .transpose()
}

/// Of one caller, or of all.
async fn read(
    connection: &mut SqliteConnection,
    caller: Option<&str>,
) -> Result<Vec<SavedSession>, sqlx::Error> {
    let mut sessions: BTreeMap<String, SavedSession> = BTreeMap::new();
    let rows = sqlx::query("SELECT * FROM session WHERE ?1 IS NULL OR caller = ?1").bind(caller);
    for row in rows.fetch_all(&mut *connection).await? {
        let session = rows::session(&row)?;
        sessions.insert(session.caller.clone(), session);
    }
    let origins = sqlx::query(ORIGINS).bind(caller);
    for row in origins.fetch_all(connection).await? {
        let (caller, origin): (&str, &str) = (row.try_get(0)?, row.try_get(1)?);
        if let Some(session) = sessions.get_mut(caller) {
            session.label.origins.insert(rows::origin(origin)?);
        }
    }
    Ok(sessions.into_values().collect())
}

fn archived(row: &sqlx::sqlite::SqliteRow) -> Result<ArchivedSession, sqlx::Error> {
    let mut session = rows::session(row)?;
    for origin in rows::texts(row, "origins")? {
        session.label.origins.insert(rows::origin(&origin)?);
    }
    Ok(ArchivedSession {
        session,
        who: row.try_get("who")?,
        reason: row.try_get("reason")?,
        at_ms: rows::from_file(row.try_get("at_ms")?),
    })
}
