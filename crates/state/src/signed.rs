//! Sessions of signed calls, and the workloads that may begin one. **Invariant: what has ended stays ended**; the schema holds it
//! too. Tests `a_session_outlives_the_process_and_ends_once`, `revocation_bites_on_the_next_call_and_lasts`.

use sqlx::{Row, sqlite::SqliteRow};

use crate::{State, StateError, rows, used};

/// Ended sessions are kept this long for whoever asks what became of one; the ledger keeps them for ever.
const KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// Where a session of signed calls is in its life. Only `Active` can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SignedStatus {
    Active,
    Expired,
    Revoked,
}

impl SignedStatus {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "Active",
            Self::Expired => "Expired",
            Self::Revoked => "Revoked",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Active, Self::Expired, Self::Revoked]
            .into_iter()
            .find(|status| status.as_str() == text)
    }
}

/// What outlives the process of one session of signed calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedSigned {
    /// The token's `jti`.
    pub id: String,
    pub execution: String,
    pub agent: String,
    pub context: String,
    pub workload: String,
    /// Empty where there are no tenants.
    pub tenant: String,
    /// Under whose id the label of what it has seen is kept.
    pub owner: String,
    /// The credential or workload that proved itself.
    pub attested_by: String,
    /// The agent it is by more than its own word; empty where there is none.
    pub vouched: String,
    pub public_key: [u8; 32],
    /// Tools it may call at most, as patterns; empty for no limit of its own.
    pub patterns: Vec<String>,
    pub created_ms: u64,
    pub expires_ms: u64,
    pub status: SignedStatus,
    pub ended_ms: u64,
    pub reason: String,
}

/// Something that may begin a session by showing its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    pub id: String,
    /// SHA-256 of the secret.
    pub digest: [u8; 32],
    pub context: String,
    pub agent: String,
    pub tenant: String,
    pub made_by: String,
    pub created_ms: u64,
    pub expires_ms: u64,
    pub uses_left: u32,
}

impl State {
    /// Saves a new session; durable when this returns. An earlier one of the same execution is ended in the same step.
    pub async fn begin_signed(&self, new: &SavedSigned) -> Result<(), StateError> {
        let mut turn = self.turn().await?;
        let connection = turn.begin().await.map_err(|error| self.error(&error))?;
        let done = async {
            let replace =
                "UPDATE signed_session SET status = 'Revoked', ended_ms = ?, reason = 'replaced'
                WHERE execution = ? AND status = 'Active'";
            sqlx::query(replace)
                .bind(rows::to_file(new.created_ms))
                .bind(&new.execution)
                .execute(&mut *connection)
                .await?;
            let insert = "INSERT INTO signed_session (id, execution, agent, context, workload, tenant, owner, attested_by,
                vouched, public_key, patterns, created_ms, expires_ms, status, ended_ms, reason)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'Active', 0, '')";
            sqlx::query(insert)
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
            let forget = "DELETE FROM signed_session WHERE status <> 'Active' AND ended_ms < ?";
            let before = rows::to_file(new.created_ms.saturating_sub(KEPT_MS));
            let forgotten = sqlx::query(forget)
                .bind(before)
                .execute(&mut *connection)
                .await?
                .rows_affected();
            if forgotten > 0 {
                used::forget_orphans(connection).await
            } else {
                Ok(())
            }
        };
        let done = done.await;
        turn.settle(done).await.map_err(|error| self.error(&error))
    }

    /// Ends a session; durable when this returns. `false`: it had ended before, or never was.
    pub async fn end_signed(
        &self,
        id: &str,
        status: SignedStatus,
        reason: &str,
        now_ms: u64,
    ) -> Result<bool, StateError> {
        let mut turn = self.turn().await?;
        let connection = turn.begin().await.map_err(|error| self.error(&error))?;
        let end = "UPDATE signed_session SET status = ?, reason = ?, ended_ms = ? WHERE id = ? AND status = 'Active'";
        let ended = sqlx::query(end)
            .bind(status.as_str())
            .bind(reason)
            .bind(rows::to_file(now_ms))
            .bind(id)
            .execute(connection)
            .await
            .map(|done| done.rows_affected() > 0);
        turn.settle(ended).await.map_err(|error| self.error(&error))
    }

    /// Every session that is kept, ended ones too, oldest first.
    pub async fn signed_sessions(&self) -> Result<Vec<SavedSigned>, StateError> {
        let mut turn = self.turn().await?;
        let read = async {
            let all = "SELECT * FROM signed_session ORDER BY created_ms, id";
            sqlx::query(all)
                .fetch_all(turn.connection())
                .await?
                .iter()
                .map(signed)
                .collect::<Result<Vec<_>, _>>()
        };
        read.await.map_err(|error| self.error(&error))
    }

    pub async fn add_workload(&self, new: &Workload) -> Result<(), StateError> {
        let mut turn = self.turn().await?;
        let connection = turn.begin().await.map_err(|error| self.error(&error))?;
        let insert = "INSERT INTO workload (id, digest, context, agent, tenant, made_by, created_ms, expires_ms, uses_left)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let done = async {
            let dead = "DELETE FROM workload WHERE expires_ms < ? OR uses_left = 0";
            sqlx::query(dead)
                .bind(rows::to_file(new.created_ms))
                .execute(&mut *connection)
                .await?;
            sqlx::query(insert)
                .bind(&new.id)
                .bind(&new.digest[..])
                .bind(&new.context)
                .bind(&new.agent)
                .bind(&new.tenant)
                .bind(&new.made_by)
                .bind(rows::to_file(new.created_ms))
                .bind(rows::to_file(new.expires_ms))
                .bind(i64::from(new.uses_left))
                .execute(connection)
                .await
                .map(drop)
        };
        let done = done.await;
        turn.settle(done).await.map_err(|error| self.error(&error))
    }

    /// Every workload that may still be used.
    pub async fn workloads(&self, now_ms: u64) -> Result<Vec<Workload>, StateError> {
        let mut turn = self.turn().await?;
        let find = "SELECT * FROM workload WHERE uses_left > 0 AND expires_ms > ?";
        let found = sqlx::query(find)
            .bind(rows::to_file(now_ms))
            .fetch_all(turn.connection())
            .await;
        found
            .and_then(|rows| rows.iter().map(workload).collect())
            .map_err(|error| self.error(&error))
    }

    /// The workload of this id, with one use fewer left, if `proves` says that its secret was shown and it may still be used. A
    /// proven use is gone even if what follows fails; an unproven one writes nothing.
    pub async fn use_workload(
        &self,
        id: &str,
        now_ms: u64,
        proves: impl FnOnce(&Workload) -> bool,
    ) -> Result<Option<Workload>, StateError> {
        let mut turn = self.turn().await?;
        let find = "SELECT * FROM workload WHERE id = ? AND uses_left > 0 AND expires_ms > ?";
        let found = sqlx::query(find)
            .bind(id)
            .bind(rows::to_file(now_ms))
            .fetch_optional(turn.connection())
            .await;
        let found = found
            .and_then(|row| row.as_ref().map(workload).transpose())
            .map_err(|error| self.error(&error))?;
        let Some(found) = found.filter(proves) else {
            return Ok(None);
        };
        // Nobody else writes while we have the turn, so it is still as it was found.
        let connection = turn.begin().await.map_err(|error| self.error(&error))?;
        let spent = sqlx::query("UPDATE workload SET uses_left = uses_left - 1 WHERE id = ?")
            .bind(id)
            .execute(connection)
            .await;
        turn.settle(spent.map(drop))
            .await
            .map_err(|error| self.error(&error))?;
        Ok(Some(found))
    }
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
