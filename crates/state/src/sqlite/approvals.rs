//! Approvals, as rows. Each step is one statement or one transaction.

use sqlx::{Row, sqlite::SqliteConnection};

use super::{Sqlite, rows};
use crate::{
    Answer, Approval, ApprovalState, Approvals, AskOutcome, PersonsAnswer, Placed, Question,
};

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

impl Approvals for Sqlite {
    fn ask<'a>(&'a self, question: &'a Question) -> Answer<'a, AskOutcome> {
        Box::pin(self.change(async move |connection| {
            // One that is over time must not stand in for the new one.
            let expire = sqlx::query(EXPIRE).bind(rows::to_file(question.approval.asked_ms));
            let expired = rows::approvals(&expire.fetch_all(&mut *connection).await?)?;
            let asked = place(connection, question).await?;
            Ok(AskOutcome { expired, asked })
        }))
    }

    fn answer<'a>(&'a self, answer: PersonsAnswer<'a>) -> Answer<'a, Option<Approval>> {
        let state = if answer.approve {
            ApprovalState::Approved
        } else {
            ApprovalState::Denied
        };
        Box::pin(self.change(async move |connection| {
            let answer = sqlx::query(ANSWER)
                .bind(answer.id)
                .bind(state.as_str())
                .bind(answer.who)
                .bind(answer.reason)
                .bind(rows::to_file(answer.now_ms));
            let changed = answer.fetch_optional(connection).await?;
            changed.as_ref().map(rows::approval).transpose()
        }))
    }

    fn spend<'a>(&'a self, digest: &'a [u8; 32], now_ms: u64) -> Answer<'a, Option<Approval>> {
        Box::pin(self.change(async move |connection| {
            let spend = sqlx::query(SPEND)
                .bind(digest.as_slice())
                .bind(rows::to_file(now_ms));
            let changed = spend.fetch_optional(connection).await?;
            changed.as_ref().map(rows::approval).transpose()
        }))
    }

    fn expire(&self, now_ms: u64) -> Answer<'_, Vec<Approval>> {
        Box::pin(self.change(async move |connection| {
            let expire = sqlx::query(EXPIRE).bind(rows::to_file(now_ms));
            rows::approvals(&expire.fetch_all(connection).await?)
        }))
    }

    fn forget_closed(&self, before_ms: u64) -> Answer<'_, ()> {
        Box::pin(self.change(async move |connection| {
            let forget = sqlx::query(FORGET).bind(rows::to_file(before_ms));
            forget.execute(connection).await.map(drop)
        }))
    }

    fn approval<'a>(&'a self, id: &'a str) -> Answer<'a, Option<Approval>> {
        Box::pin(self.look(async move |connection| {
            let find = sqlx::query("SELECT * FROM approval WHERE id = ?").bind(id);
            let found = find.fetch_optional(connection).await?;
            found.as_ref().map(rows::approval).transpose()
        }))
    }

    fn last_approval<'a>(&'a self, digest: &'a [u8; 32]) -> Answer<'a, Option<Approval>> {
        Box::pin(self.look(async move |connection| last(connection, digest).await))
    }

    fn approvals(&self) -> Answer<'_, Vec<Approval>> {
        Box::pin(self.look(async |connection| {
            let all = sqlx::query("SELECT * FROM approval ORDER BY asked_ms, rowid");
            rows::approvals(&all.fetch_all(connection).await?)
        }))
    }
}

async fn place(
    connection: &mut SqliteConnection,
    question: &Question,
) -> Result<Placed, sqlx::Error> {
    if let Some(approval) = open(connection, &question.approval.digest).await? {
        return Ok(Placed::AlreadyOpen(approval));
    }
    let (own, all) = pending(connection, &question.approval.caller).await?;
    if own >= i64::from(question.limit_per_caller) {
        return Ok(Placed::TooManyOfCaller);
    }
    if all >= i64::from(question.limit) {
        return Ok(Placed::TooMany);
    }
    for id in &question.ids {
        let approval = Approval {
            id: id.clone(),
            ..question.approval.clone()
        };
        if insert(connection, &approval).await? {
            return Ok(Placed::Added(approval));
        }
    }
    Ok(Placed::NoFreeId)
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

/// `false`: its id is taken.
async fn insert(
    connection: &mut SqliteConnection,
    approval: &Approval,
) -> Result<bool, sqlx::Error> {
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
        .execute(connection)
        .await?;
    Ok(inserted.rows_affected() == 1)
}
