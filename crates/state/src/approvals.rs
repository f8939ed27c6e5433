//! Asking people. **Invariants: for one digest there is at most one open approval; an approval is answered once and spent once.**
//! Each step is one statement or one transaction, so it holds under any concurrency.

use sqlx::{Row, sqlite::SqliteConnection};

use crate::{
    AnswerError, Approval, ApprovalState, Asked, NewApproval, SpendError, State, StateError, rows,
    writer::Writer,
};

/// The longest arguments that can be put before a person.
pub const ARGUMENTS_LIMIT: usize = 1 << 20;
/// How many questions of one caller may wait for an answer, so that none can fill the disk or tire people.
pub const PENDING_LIMIT_PER_CALLER: u32 = 64;
/// How many may wait in all.
pub const PENDING_LIMIT: u32 = 1024;
/// How long what is closed is kept here. The ledger keeps it for good.
pub const KEPT_MS: u64 = 30 * 24 * 60 * 60 * 1000;

const INSERT: &str = "
    INSERT INTO approval (id, digest, state, caller, caller_name, action, server, target, definition, arguments, label, lineage, why,
        bundle, asked_ms, expires_ms, answered_by, answered_ms, reason)
    VALUES (?, ?, 'pending', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', 0, '')
    ON CONFLICT (id) DO NOTHING";

const SPEND: &str = "
    UPDATE approval SET state = 'used' WHERE digest = ?1 AND state = 'approved' AND expires_ms > ?2 RETURNING *";

const ANSWER: &str = "
    UPDATE approval SET state = ?2, answered_by = ?3, reason = ?4, answered_ms = ?5
    WHERE id = ?1 AND state = 'pending' AND expires_ms > ?5 RETURNING *";

const EXPIRE: &str = "
    UPDATE approval SET state = 'expired' WHERE state IN ('pending', 'approved') AND expires_ms <= ?1 RETURNING *";

const FORGET: &str = "
    DELETE FROM approval WHERE state IN ('denied', 'expired', 'used') AND max(expires_ms, answered_ms) < ?1";

impl State {
    /// The open approval for this digest; makes it if there is none.
    pub async fn ask(&self, new: NewApproval) -> Result<Asked, StateError> {
        let bytes = new.arguments.len();
        if bytes > ARGUMENTS_LIMIT {
            return Err(StateError::TooLarge {
                what: "the text of the arguments",
                bytes,
                limit: ARGUMENTS_LIMIT,
            });
        }
        let mut turn = self.turn().await?;
        let connection = turn.begin().await.map_err(|error| self.error(&error))?;
        let done = ask(connection, new).await;
        let (expired, asked) = turn
            .settle(done)
            .await
            .map_err(|error| self.error(&error))?;
        expired
            .iter()
            .for_each(|approval| self.0.watchers.tell(approval));
        asked
    }

    /// Records a person's answer; durable when this returns. Only the first one counts.
    pub async fn answer(
        &self,
        id: &str,
        approve: bool,
        who: &str,
        reason: &str,
        now_ms: u64,
    ) -> Result<Approval, AnswerError> {
        let mut turn = self.turn().await?;
        let state = if approve {
            ApprovalState::Approved
        } else {
            ApprovalState::Denied
        };
        let answer = sqlx::query(ANSWER)
            .bind(id)
            .bind(state.as_str())
            .bind(who)
            .bind(reason)
            .bind(rows::to_file(now_ms));
        if let Some(approval) = self.change(&mut turn, answer).await?.pop() {
            return Ok(approval);
        }
        let approval = self
            .find(turn.connection(), id)
            .await?
            .ok_or(AnswerError::Unknown)?;
        Err(match approval.at(now_ms) {
            approval if approval.state == ApprovalState::Expired => {
                AnswerError::Expired(Box::new(approval))
            }
            approval => AnswerError::AlreadyAnswered(Box::new(approval)),
        })
    }

    /// Uses up the approval for this digest. Of any number who try, exactly one gets it, once.
    pub async fn spend(&self, digest: &[u8; 32], now_ms: u64) -> Result<Approval, SpendError> {
        let mut turn = self.turn().await?;
        let spend = sqlx::query(SPEND)
            .bind(digest.as_slice())
            .bind(rows::to_file(now_ms));
        if let Some(approval) = self.change(&mut turn, spend).await?.pop() {
            return Ok(approval);
        }
        let last = last(turn.connection(), digest)
            .await
            .map_err(|error| self.error(&error))?;
        let approval = Box::new(last.ok_or(SpendError::NotAsked)?.at(now_ms));
        Err(match approval.state {
            ApprovalState::Pending | ApprovalState::Approved => SpendError::NotApproved(approval),
            ApprovalState::Denied => SpendError::Denied(approval),
            ApprovalState::Expired => SpendError::Expired(approval),
            ApprovalState::Used => SpendError::AlreadyUsed(approval),
        })
    }

    /// Closes what is over time, tells those who wait, and gives back what it closed. Also forgets what was closed long ago.
    pub async fn expire(&self, now_ms: u64) -> Result<Vec<Approval>, StateError> {
        let mut turn = self.turn().await?;
        let expired = self
            .change(&mut turn, sqlx::query(EXPIRE).bind(rows::to_file(now_ms)))
            .await?;
        let before = rows::to_file(now_ms.saturating_sub(KEPT_MS));
        self.change(&mut turn, sqlx::query(FORGET).bind(before))
            .await?;
        Ok(expired)
    }

    /// The open approvals, or all that are still kept, in the order they were asked.
    pub async fn approvals(&self, all: bool, now_ms: u64) -> Result<Vec<Approval>, StateError> {
        let mut turn = self.turn().await?;
        let found = sqlx::query("SELECT * FROM approval ORDER BY asked_ms, rowid")
            .fetch_all(turn.connection())
            .await;
        let mut approvals = found
            .and_then(|found| rows::approvals(&found))
            .map_err(|error| self.error(&error))?;
        approvals = approvals
            .into_iter()
            .map(|approval| approval.at(now_ms))
            .collect();
        approvals.retain(|approval| all || approval.state.is_open());
        Ok(approvals)
    }

    /// The approval with this id, as it was written down last.
    pub async fn get(&self, id: &str) -> Result<Option<Approval>, StateError> {
        let mut turn = self.turn().await?;
        self.find(turn.connection(), id).await
    }

    pub(crate) async fn find(
        &self,
        connection: &mut SqliteConnection,
        id: &str,
    ) -> Result<Option<Approval>, StateError> {
        let row = sqlx::query("SELECT * FROM approval WHERE id = ?")
            .bind(id)
            .fetch_optional(connection)
            .await;
        row.and_then(|row| row.as_ref().map(rows::approval).transpose())
            .map_err(|error| self.error(&error))
    }

    /// Makes a change, tells those who wait, and gives back what changed.
    async fn change(
        &self,
        turn: &mut Writer,
        change: Query<'_>,
    ) -> Result<Vec<Approval>, StateError> {
        let connection = turn.begin().await.map_err(|error| self.error(&error))?;
        let done = change
            .fetch_all(connection)
            .await
            .and_then(|changed| rows::approvals(&changed));
        let changed = turn
            .settle(done)
            .await
            .map_err(|error| self.error(&error))?;
        changed
            .iter()
            .for_each(|approval| self.0.watchers.tell(approval));
        Ok(changed)
    }
}

type Query<'q> = sqlx::query::Query<'q, sqlx::Sqlite, sqlx::sqlite::SqliteArguments>;

/// What expired on the way, and what was asked or why it was not.
type Answered = (Vec<Approval>, Result<Asked, StateError>);

async fn ask(connection: &mut SqliteConnection, new: NewApproval) -> Result<Answered, sqlx::Error> {
    // One that is over time must not stand in for the new one.
    let expired = sqlx::query(EXPIRE)
        .bind(rows::to_file(new.asked_ms))
        .fetch_all(&mut *connection)
        .await?;
    let expired = rows::approvals(&expired)?;
    if let Some(approval) = open(connection, &new.digest).await? {
        return Ok((
            expired,
            Ok(Asked {
                approval,
                is_new: false,
            }),
        ));
    }
    let (own, all) = pending(connection, &new.caller).await?;
    if own >= i64::from(PENDING_LIMIT_PER_CALLER) {
        let whose = format!("caller `{}`", new.caller_name);
        return Ok((
            expired,
            Err(StateError::TooMany {
                whose,
                limit: PENDING_LIMIT_PER_CALLER,
            }),
        ));
    }
    if all >= i64::from(PENDING_LIMIT) {
        return Ok((
            expired,
            Err(StateError::TooMany {
                whose: "all callers".to_owned(),
                limit: PENDING_LIMIT,
            }),
        ));
    }
    let approval = insert(connection, new).await?;
    Ok((
        expired,
        Ok(Asked {
            approval,
            is_new: true,
        }),
    ))
}

async fn open(
    connection: &mut SqliteConnection,
    digest: &[u8; 32],
) -> Result<Option<Approval>, sqlx::Error> {
    let sql = "SELECT * FROM approval WHERE digest = ? AND state IN ('pending', 'approved')";
    let row = sqlx::query(sql)
        .bind(digest.as_slice())
        .fetch_optional(connection)
        .await?;
    row.as_ref().map(rows::approval).transpose()
}

async fn last(
    connection: &mut SqliteConnection,
    digest: &[u8; 32],
) -> Result<Option<Approval>, sqlx::Error> {
    let sql = "SELECT * FROM approval WHERE digest = ? ORDER BY rowid DESC LIMIT 1";
    let row = sqlx::query(sql)
        .bind(digest.as_slice())
        .fetch_optional(connection)
        .await?;
    row.as_ref().map(rows::approval).transpose()
}

async fn pending(
    connection: &mut SqliteConnection,
    caller: &str,
) -> Result<(i64, i64), sqlx::Error> {
    let sql = "SELECT coalesce(sum(caller = ?), 0), count(*) FROM approval WHERE state = 'pending'";
    let row = sqlx::query(sql).bind(caller).fetch_one(connection).await?;
    Ok((row.try_get(0)?, row.try_get(1)?))
}

async fn insert(
    connection: &mut SqliteConnection,
    new: NewApproval,
) -> Result<Approval, sqlx::Error> {
    let entropy = new.entropy;
    let mut approval = Approval::asked(new, String::new());
    for bytes in entropy.chunks_exact(8) {
        approval.id = short_id(bytes);
        let inserted = sqlx::query(INSERT)
            .bind(&approval.id)
            .bind(approval.digest.as_slice())
            .bind(&approval.caller)
            .bind(&approval.caller_name)
            .bind(&approval.action)
            .bind(&approval.server)
            .bind(&approval.target)
            .bind(&approval.definition)
            .bind(&approval.arguments)
            .bind(&approval.label)
            .bind(rows::list(&approval.lineage))
            .bind(rows::list(&approval.why))
            .bind(&approval.bundle)
            .bind(rows::to_file(approval.asked_ms))
            .bind(rows::to_file(approval.expires_ms))
            .execute(&mut *connection)
            .await?;
        if inserted.rows_affected() == 1 {
            return Ok(approval);
        }
    }
    Err(sqlx::Error::Protocol(
        "no free id for an approval: the source of randomness repeats itself".to_owned(),
    ))
}

/// Ten characters of five bits each, none of which looks like another.
fn short_id(bytes: &[u8]) -> String {
    const ALPHABET: [char; 32] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h',
        'j', 'k', 'm', 'n', 'p', 'q', 'r', 's', 't', 'v', 'w', 'x', 'y', 'z',
    ];
    let mut bits = bytes
        .iter()
        .fold(0_u64, |bits, byte| (bits << 8) | u64::from(*byte));
    let mut id = String::with_capacity(10);
    for _ in 0..10 {
        id.extend(ALPHABET.get((bits & 31) as usize));
        bits >>= 5;
    }
    id
}
