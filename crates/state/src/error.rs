//! What can go wrong with the state file, and what to do about it.

use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("cannot open the state file {}: {detail}. Create its directory, or give the user who runs the gate the right to write there", .file.display())]
    Unreachable { file: PathBuf, detail: String },
    #[error("the state file {} is damaged ({detail}). Restore it from a backup. If there is none, move it away and start again: every session then begins with a clean label and every pending approval is gone", .file.display())]
    Damaged { file: PathBuf, detail: String },
    #[error("{} is a database, but not one of Portcullis. Move it away, or choose another directory", .file.display())]
    Foreign { file: PathBuf },
    #[error("the state file {} has schema {found} and this program knows up to {known}: a newer Portcullis wrote it. Use that version, or restore a copy from before the upgrade", .file.display())]
    Newer {
        file: PathBuf,
        found: i64,
        known: i64,
    },
    #[error("the disk of the state file {} is full. Free some space; until then nothing that raises a label is shown", .file.display())]
    Full { file: PathBuf },
    #[error("the state file {} cannot be written ({detail}). Check the mount and the rights of the file and its directory", .file.display())]
    ReadOnly { file: PathBuf, detail: String },
    #[error("another program holds the state file {}. Stop it: only one gate may use a home directory", .file.display())]
    Busy { file: PathBuf },
    #[error("the state file {} failed: {detail}", .file.display())]
    Broken { file: PathBuf, detail: String },
    #[error(
        "the saved session of caller `{caller}` is in epoch {saved}, not {given}: another program changed it. Restart the gate"
    )]
    Superseded {
        caller: String,
        saved: u64,
        given: u64,
    },
    #[error(
        "{what} is {bytes} bytes and at most {limit} can be put before a person. Make the call with less"
    )]
    TooLarge {
        what: &'static str,
        bytes: usize,
        limit: usize,
    },
    #[error("the state contradicts itself: {detail}. Restart the gate")]
    Contradiction { detail: &'static str },
    #[error(
        "{limit} approvals of {whose} already wait for an answer. Answer some with `portcullis approvals`, or let them expire"
    )]
    TooMany { whose: String, limit: u32 },
}

/// SQLite's primary result codes that have a remedy of their own.
mod code {
    pub(super) const BUSY: i32 = 5;
    pub(super) const LOCKED: i32 = 6;
    pub(super) const READONLY: i32 = 8;
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const FULL: i32 = 13;
    pub(super) const CANTOPEN: i32 = 14;
    pub(super) const NOTADB: i32 = 26;
}

impl StateError {
    pub(crate) fn from_sqlx(file: &Path, error: &sqlx::Error) -> Self {
        let (file, detail) = (file.to_owned(), error.to_string());
        let extended = error
            .as_database_error()
            .and_then(|error| error.code())
            .and_then(|code| code.parse::<i32>().ok());
        // The low byte is the primary code; what is above it only refines it.
        match extended.map(|code| code & 0xff) {
            Some(code::BUSY | code::LOCKED) => Self::Busy { file },
            Some(code::READONLY) => Self::ReadOnly { file, detail },
            Some(code::CORRUPT | code::NOTADB) => Self::Damaged { file, detail },
            Some(code::FULL) => Self::Full { file },
            Some(code::CANTOPEN) => Self::Unreachable { file, detail },
            _ => Self::Broken { file, detail },
        }
    }
}
