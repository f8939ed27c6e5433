//! What verify says.

use crate::chain::Hash;
use std::path::PathBuf;

/// The first thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub file: PathBuf,
    /// Counted from 1; 0 where the file as a whole is meant.
    pub line: u64,
    /// The `seq` that belongs there.
    pub seq: u64,
    pub reason: String,
    /// The last line has no end: an interrupted write, or a ledger being written right now.
    pub incomplete_tail: bool,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}, line {}, record {}: {}",
            self.file.display(),
            self.line,
            self.seq,
            self.reason
        )
    }
}

/// What a ledger holds, up to the first finding.
#[derive(Clone, Debug)]
pub struct Report {
    pub segments: u64,
    /// The first record there is: retention has removed all before it.
    pub first: u64,
    /// How many records there have been since the ledger began, up to the last one there is.
    pub records: u64,
    pub bytes: u64,
    pub intents: u64,
    pub outcomes: u64,
    pub refusals: u64,
    pub changes: u64,
    /// Intents without an outcome: calls in flight, or a gate that has not been started since it stopped.
    pub open_intents: u64,
    pub head: Hash,
    /// The root of the hash tree over the records.
    pub root: Hash,
    /// How many records the ledger's own signed head covers, if it has one.
    pub checkpoint: Option<u64>,
    pub finding: Option<Finding>,
    /// What was asked and could be neither shown nor refuted, in words.
    pub unproven: Vec<String>,
}

impl Report {
    /// How many records are still there.
    pub fn kept(&self) -> u64 {
        self.records - self.first
    }

    pub fn is_clean(&self) -> bool {
        self.finding.is_none()
    }
}
