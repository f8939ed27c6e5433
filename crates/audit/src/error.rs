//! What can go wrong with the ledger, in words for the person who must fix it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// No record, no action: the ledger cannot write, so effects stop until it can.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the ledger cannot record: {reason}; effects are stopped until it can")]
pub struct LedgerUnavailable {
    pub reason: Arc<str>,
}

/// Why a ledger could not be opened, or not be reopened after a failure.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "the ledger in {} is open in another process{}; stop that one, or choose another --home",
        dir.display(), pid.map(|pid| format!(" ({pid})")).unwrap_or_default()
    )]
    InUse {
        dir: PathBuf,
        /// Which, if it said so.
        pid: Option<u32>,
    },
    #[error("{what} {} failed", path.display())]
    Disk {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error(
        "{}, line {line}: {reason}, and whole records follow it, so this is damage and not an interrupted write; \
         run `portcullis audit verify`, keep a copy, and move the ledger directory aside to start a new one",
        path.display()
    )]
    Corrupt {
        path: PathBuf,
        line: u64,
        reason: String,
    },
    #[error(
        "the disk no longer holds record {acknowledged}, which was acknowledged; restart the gate to go on from what \
         is left, and compare with your last copy of the ledger"
    )]
    Lost { acknowledged: u64 },
    #[error(
        "the signed checkpoint covers {checkpoint} records and the ledger in {} holds {found}: records were removed, or an older \
         copy was put back; restore the ledger, or move its file `checkpoint` aside to go on from what is left",
        dir.display()
    )]
    RolledBack {
        dir: PathBuf,
        checkpoint: u64,
        found: u64,
    },
}

impl OpenError {
    /// For `map_err`: which step, on which file.
    pub(crate) fn disk(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> OpenError {
        let path = path.into();
        move |source| OpenError::Disk { what, path, source }
    }
}
