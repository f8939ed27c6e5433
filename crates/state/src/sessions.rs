//! The labels of sessions. **Invariant: within an epoch a saved label never falls**, whoever saves what in which order.
//! Tests `a_saved_label_never_falls`, `the_schema_itself_refuses_to_lower_or_forget`.

use std::collections::BTreeMap;

use flow::{Absorbed, Reset, Session, Showable};
use sqlx::{Row, sqlite::SqliteConnection};
use vocab::Label;

use crate::{State, StateError, rows, writer::Writer};

/// What outlives the process of one caller's session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedSession {
    /// The credential id.
    pub caller: String,
    pub epoch: u64,
    pub label: Label,
    /// The call whose result was shown last when this was saved, or nothing. Later ones are in the ledger.
    pub head: String,
}

/// A session that a reset ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedSession {
    pub session: SavedSession,
    pub who: String,
    pub reason: String,
    pub at_ms: u64,
}

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

impl State {
    /// Every session that was ever saved, by caller.
    pub async fn sessions(&self) -> Result<Vec<SavedSession>, StateError> {
        let mut turn = self.turn().await?;
        read_sessions(turn.connection())
            .await
            .map_err(|error| self.error(&error))
    }

    /// Saves a session; durable when this returns.
    pub async fn save_session(&self, session: &SavedSession) -> Result<(), StateError> {
        let mut turn = self.turn().await?;
        self.save(&mut turn, session).await
    }

    /// Makes the label that includes `absorbed` durable, and gives the evidence that it may be shown. Costs nothing if it was durable
    /// before; many that wait at once share one write.
    pub async fn keep(&self, caller: &str, absorbed: Absorbed) -> Result<Showable, StateError> {
        let absorbed = match absorbed.durable() {
            Ok(showable) => return Ok(showable),
            Err(absorbed) => absorbed,
        };
        let mut turn = self.turn().await?;
        // Who came before may have saved it for us while we waited for the lock.
        if let Some(snapshot) = absorbed.session().unsaved() {
            let session = SavedSession::of(caller, &snapshot);
            self.save(&mut turn, &session).await?;
            absorbed.session().saved(&snapshot);
        }
        absorbed.durable().map_err(|_| StateError::Broken {
            file: self.0.file.clone(),
            detail: "a label that was just saved does not count as saved".to_owned(),
        })
    }

    /// Resets a session that the gate holds: archives what it was and saves what it begins with, or changes nothing.
    pub async fn reset(
        &self,
        caller: &str,
        session: &Session,
        who: &str,
        reason: &str,
        now_ms: u64,
    ) -> Result<Reset, StateError> {
        let mut turn = self.turn().await?;
        // First in memory: what is shown from now on is absorbed by the new epoch, and its label cannot be kept before we let go
        // of the connection.
        let mut pending = PendingReset {
            session,
            reset: session.reset(),
            is_saved: false,
        };
        let begun = SavedSession::of(caller, &pending.reset.begun);
        let ended = ArchivedSession {
            session: SavedSession::of(caller, &pending.reset.ended),
            who: who.to_owned(),
            reason: reason.to_owned(),
            at_ms: now_ms,
        };
        self.archive(&mut turn, &ended, &begun).await?;
        pending.is_saved = true;
        Ok(pending.reset.clone())
    }

    /// Resets a session that no gate holds: archives the saved row and begins `new_epoch` with a clean label. Nothing happens for a
    /// caller that was never shown anything; what was archived is given back.
    pub async fn reset_session(
        &self,
        caller: &str,
        new_epoch: u64,
        who: &str,
        reason: &str,
        now_ms: u64,
    ) -> Result<Option<ArchivedSession>, StateError> {
        let mut turn = self.turn().await?;
        let all = read_sessions(turn.connection())
            .await
            .map_err(|error| self.error(&error))?;
        let Some(session) = all.into_iter().find(|session| session.caller == caller) else {
            return Ok(None);
        };
        if new_epoch <= session.epoch {
            return Err(StateError::Superseded {
                caller: caller.to_owned(),
                saved: session.epoch,
                given: new_epoch,
            });
        }
        let begun = SavedSession {
            caller: caller.to_owned(),
            epoch: new_epoch,
            label: Label::default(),
            head: String::new(),
        };
        let ended = ArchivedSession {
            session,
            who: who.to_owned(),
            reason: reason.to_owned(),
            at_ms: now_ms,
        };
        self.archive(&mut turn, &ended, &begun).await?;
        Ok(Some(ended))
    }

    /// What resets ended, oldest first; of one caller, or of all.
    pub async fn archived_sessions(
        &self,
        caller: Option<&str>,
    ) -> Result<Vec<ArchivedSession>, StateError> {
        let mut turn = self.turn().await?;
        let read = async {
            let all = "SELECT * FROM session_archive WHERE ?1 IS NULL OR caller = ?1 ORDER BY at_ms, caller, epoch";
            let rows = sqlx::query(all)
                .bind(caller)
                .fetch_all(turn.connection())
                .await?;
            rows.iter().map(archived).collect::<Result<Vec<_>, _>>()
        };
        read.await.map_err(|error| self.error(&error))
    }

    async fn save(&self, turn: &mut Writer, session: &SavedSession) -> Result<(), StateError> {
        let connection = turn.begin().await.map_err(|error| self.error(&error))?;
        let done = write(connection, session).await;
        self.unless_superseded(session, turn.settle(done).await)
    }

    async fn archive(
        &self,
        turn: &mut Writer,
        ended: &ArchivedSession,
        begun: &SavedSession,
    ) -> Result<(), StateError> {
        let connection = turn.begin().await.map_err(|error| self.error(&error))?;
        let done = async {
            add_to_archive(connection, ended).await?;
            let written = write(connection, begun).await?;
            let older = "DELETE FROM session_origin WHERE caller = ? AND epoch < ?";
            sqlx::query(older)
                .bind(&begun.caller)
                .bind(rows::to_file(begun.epoch))
                .execute(connection)
                .await?;
            Ok(written)
        };
        let done = done.await;
        self.unless_superseded(begun, turn.settle(done).await)
    }

    fn unless_superseded(
        &self,
        session: &SavedSession,
        done: Result<Written, sqlx::Error>,
    ) -> Result<(), StateError> {
        match done.map_err(|error| self.error(&error))? {
            Written::Yes => Ok(()),
            Written::NewerIs(saved) => Err(StateError::Superseded {
                caller: session.caller.clone(),
                saved,
                given: session.epoch,
            }),
        }
    }
}

/// A reset that has happened in memory. Unless it was saved, it is taken back: also when whoever asked for it went away meanwhile.
struct PendingReset<'a> {
    session: &'a Session,
    reset: Reset,
    is_saved: bool,
}

impl Drop for PendingReset<'_> {
    fn drop(&mut self) {
        if self.is_saved {
            self.session.saved(&self.reset.begun);
        } else {
            self.session.take_back(&self.reset);
        }
    }
}

impl SavedSession {
    fn of(caller: &str, snapshot: &flow::Snapshot) -> Self {
        Self {
            caller: caller.to_owned(),
            epoch: snapshot.epoch,
            label: snapshot.label.clone(),
            head: snapshot.head.clone(),
        }
    }
}

/// What became of a session that was to be written.
enum Written {
    Yes,
    /// Nothing was written: the one that is saved is of this epoch, a later one.
    NewerIs(u64),
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
        let newer = "SELECT epoch FROM session WHERE caller = ?";
        let row = sqlx::query(newer)
            .bind(&session.caller)
            .fetch_one(connection)
            .await?;
        return Ok(Written::NewerIs(rows::from_file(row.try_get(0)?)));
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

async fn read_sessions(
    connection: &mut SqliteConnection,
) -> Result<Vec<SavedSession>, sqlx::Error> {
    let mut sessions: BTreeMap<String, SavedSession> = BTreeMap::new();
    for row in sqlx::query("SELECT * FROM session")
        .fetch_all(&mut *connection)
        .await?
    {
        let session = rows::session(&row)?;
        sessions.insert(session.caller.clone(), session);
    }
    let origins = "SELECT caller, origin FROM session JOIN session_origin USING (caller, epoch)";
    for row in sqlx::query(origins).fetch_all(&mut *connection).await? {
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
