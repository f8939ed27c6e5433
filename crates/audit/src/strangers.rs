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
const MINUTE_MS: u64 = 60_000;

#[derive(Debug, Default)]
pub struct StrangerCounter {
    tally: Mutex<Tally>,
}

#[derive(Debug, Default)]
struct Tally {
    minute: u64,
    counts: BTreeMap<(&'static str, &'static str), u64>,
}

impl StrangerCounter {
    pub fn new() -> StrangerCounter {
        StrangerCounter::default()
    }

    /// Counts one refusal. The first one of a new minute writes the summary of the minute before.
    pub fn note(&self, ledger: &Ledger, door: &'static str, reason: &'static str) -> Result<(), LedgerUnavailable> {
        let minute = ledger.now().unix_ms / MINUTE_MS;
        let finished = {
            let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
            let finished = tally.finish_before(minute);
            tally.add(door, reason, 1);
            finished
        };
        self.write(ledger, finished)
    }

    /// Writes a finished minute's summary; call it every few seconds so that the last one does not wait for a visitor.
    pub fn flush(&self, ledger: &Ledger) -> Result<(), LedgerUnavailable> {
        let minute = ledger.now().unix_ms / MINUTE_MS;
        let finished = self.tally.lock().unwrap_or_else(PoisonError::into_inner).finish_before(minute);
        self.write(ledger, finished)
    }

    /// Writes what is counted so far, at shutdown.
    pub fn close(&self, ledger: &Ledger) -> Result<(), LedgerUnavailable> {
        let finished = self.tally.lock().unwrap_or_else(PoisonError::into_inner).finish_before(u64::MAX);
        self.write(ledger, finished)
    }

    fn write(&self, ledger: &Ledger, finished: Finished) -> Result<(), LedgerUnavailable> {
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
            for ((door, reason), count) in finished {
                tally.add(door, reason, count);
            }
        }
        result
    }
}

type Finished = BTreeMap<(&'static str, &'static str), u64>;

impl Tally {
    fn finish_before(&mut self, minute: u64) -> Finished {
        if self.minute >= minute {
            return Finished::new();
        }
        if minute != u64::MAX {
            self.minute = minute;
        }
        std::mem::take(&mut self.counts)
    }

    fn add(&mut self, door: &'static str, reason: &'static str, by: u64) {
        let known = self.counts.contains_key(&(door, reason));
        let key = if known || self.counts.len() < REASONS { (door, reason) } else { ("", "other") };
        let count = self.counts.entry(key).or_default();
        *count = count.saturating_add(by);
    }
}
