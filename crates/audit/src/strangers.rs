//! Refusals of callers who never said who they are, counted instead of recorded.
//!
//! From Verify on every outcome is a record; before it, a stranger could fill the disk with one line per packet. So these
//! are folded into one `change` record per minute and reason. It must never grow with what strangers send: reasons
//! beyond the limit count as `other`.

use crate::error::LedgerUnavailable;
use crate::ledger::Ledger;
use crate::record::Change;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

const REASONS: usize = 32;
pub(crate) const MINUTE_MS: u64 = 60_000;

#[derive(Debug, Default)]
pub struct StrangerCounter {
    tally: Mutex<Tally<Kind>>,
}

/// The door, and why.
type Kind = (&'static str, &'static str);

/// What is counted in one minute.
#[derive(Debug)]
pub(crate) struct Tally<K> {
    minute: u64,
    counts: BTreeMap<K, u64>,
}

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Self {
            minute: 0,
            counts: BTreeMap::new(),
        }
    }
}

impl StrangerCounter {
    pub fn new() -> StrangerCounter {
        StrangerCounter::default()
    }

    /// Counts one refusal. The first one of a new minute writes the summary of the minute before.
    pub fn note(
        &self,
        ledger: &Ledger,
        door: &'static str,
        reason: &'static str,
    ) -> Result<(), LedgerUnavailable> {
        let minute = ledger.now().unix_ms / MINUTE_MS;
        let finished = {
            let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
            let finished = tally.finish_before(minute);
            tally.add((door, reason), 1, REASONS, || ("", "other"));
            finished
        };
        self.write(ledger, finished)
    }

    /// Writes a finished minute's summary; call it every few seconds so that the last one does not wait for a visitor.
    pub fn flush(&self, ledger: &Ledger) -> Result<(), LedgerUnavailable> {
        let minute = ledger.now().unix_ms / MINUTE_MS;
        let finished = self
            .tally
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .finish_before(minute);
        self.write(ledger, finished)
    }

    /// Writes what is counted so far, at shutdown.
    pub fn close(&self, ledger: &Ledger) -> Result<(), LedgerUnavailable> {
        let finished = self
            .tally
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .finish_before(u64::MAX);
        self.write(ledger, finished)
    }

    fn write(&self, ledger: &Ledger, finished: Vec<(Kind, u64)>) -> Result<(), LedgerUnavailable> {
        if finished.is_empty() {
            return Ok(());
        }
        let changes: Vec<Change<'_>> = finished
            .iter()
            .map(|((door, reason), count)| Change {
                action: "strangers.refused",
                door,
                violation: reason,
                count: Some(*count),
                detail: "callers without a valid credential, in one minute",
                ..Change::default()
            })
            .collect();
        let result = ledger.append(&changes).map(drop);
        if result.is_err() {
            // Not lost: they count into the next summary that can be written.
            let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
            for (kind, count) in finished {
                tally.add(kind, count, REASONS, || ("", "other"));
            }
        }
        result
    }
}

impl<K: Ord> Tally<K> {
    /// The counts of an earlier minute.
    pub(crate) fn finish_before(&mut self, minute: u64) -> Vec<(K, u64)> {
        if self.minute >= minute {
            return Vec::new();
        }
        if minute != u64::MAX {
            self.minute = minute;
        }
        std::mem::take(&mut self.counts).into_iter().collect()
    }

    /// Beyond `most` kinds, further ones count as `other`.
    pub(crate) fn add(&mut self, kind: K, by: u64, most: usize, other: impl FnOnce() -> K) {
        let known = self.counts.contains_key(&kind);
        let kind = if known || self.counts.len() < most {
            kind
        } else {
            other()
        };
        let count = self.counts.entry(kind).or_default();
        *count = count.saturating_add(by);
    }
}
