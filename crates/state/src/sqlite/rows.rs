//! Between rows and values. Numbers are `u64` outside and `i64` in the file; what does not fit stops at the end of the range.

use sqlx::{Row, sqlite::SqliteRow};
use vocab::{Integrity, Level, Mark, ServerId};

use crate::{Approval, SavedSession};

pub(crate) fn to_file(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn from_file(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// The two columns of a mark.
pub(crate) fn mark_columns(mark: Mark) -> (i64, i64) {
    (
        i64::from(mark.secrecy as u8),
        i64::from(mark.integrity == Integrity::Untrusted),
    )
}

/// A mark that makes no sense is the highest there is.
pub(crate) fn mark(row: &SqliteRow) -> Result<Mark, sqlx::Error> {
    let (secrecy, untrusted): (i64, i64) = (row.try_get("secrecy")?, row.try_get("untrusted")?);
    Ok(Mark {
        secrecy: u8::try_from(secrecy)
            .ok()
            .and_then(Level::from_rank)
            .unwrap_or(Level::Restricted),
        integrity: if untrusted == 0 {
            Integrity::Trusted
        } else {
            Integrity::Untrusted
        },
    })
}

pub(crate) fn session(row: &SqliteRow) -> Result<SavedSession, sqlx::Error> {
    Ok(SavedSession {
        caller: row.try_get("caller")?,
        epoch: from_file(row.try_get("epoch")?),
        label: vocab::Label {
            mark: mark(row)?,
            origins: Default::default(),
        },
        head: row.try_get("head")?,
    })
}

/// The gate itself is an origin too, and no server may have its name.
pub(crate) fn origin(text: &str) -> Result<ServerId, sqlx::Error> {
    if text == ServerId::BUILT_IN {
        return Ok(ServerId::built_in());
    }
    ServerId::parse(text).map_err(|error| sqlx::Error::Decode(error.to_string().into()))
}

pub(crate) fn list(texts: &[String]) -> String {
    serde_json::to_string(texts).unwrap_or_else(|_| "[]".to_owned())
}

pub(crate) fn texts(row: &SqliteRow, column: &str) -> Result<Vec<String>, sqlx::Error> {
    let text: &str = row.try_get(column)?;
    serde_json::from_str(text).map_err(|error| sqlx::Error::Decode(error.into()))
}

pub(crate) fn approval(row: &SqliteRow) -> Result<Approval, sqlx::Error> {
    let state: &str = row.try_get("state")?;
    let digest: &[u8] = row.try_get("digest")?;
    Ok(Approval {
        id: row.try_get("id")?,
        digest: digest
            .try_into()
            .map_err(|error| sqlx::Error::Decode(Box::new(error)))?,
        state: state
            .parse()
            .map_err(|error: crate::ApprovalStateError| sqlx::Error::Decode(error.into()))?,
        caller: row.try_get("caller")?,
        caller_name: row.try_get("caller_name")?,
        action: row.try_get("action")?,
        server: row.try_get("server")?,
        target: row.try_get("target")?,
        definition: row.try_get("definition")?,
        arguments: row.try_get("arguments")?,
        label: row.try_get("label")?,
        lineage: texts(row, "lineage")?,
        why: texts(row, "why")?,
        bundle: row.try_get("bundle")?,
        asked_ms: from_file(row.try_get("asked_ms")?),
        expires_ms: from_file(row.try_get("expires_ms")?),
        answered_by: row.try_get("answered_by")?,
        answered_ms: from_file(row.try_get("answered_ms")?),
        reason: row.try_get("reason")?,
    })
}

pub(crate) fn approvals(rows: &[SqliteRow]) -> Result<Vec<Approval>, sqlx::Error> {
    rows.iter().map(approval).collect()
}
