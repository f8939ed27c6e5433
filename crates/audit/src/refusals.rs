//! Refusals of callers we know, counted where they are many.
//!
//! Each refusal is a record of its own as long as there are few. A caller that is refused over and over would fill the disk with them, so
//! beyond a burst, which is the gate's to choose, they are counted here and become one `credential.refused` record per minute, caller,
//! door and rule. That something was refused is never lost, and what one caller can write is bounded.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{
    error::LedgerUnavailable,
    evidence::Opened,
    ledger::Ledger,
    record::Change,
    strangers::{MINUTE_MS, Tally},
};

/// Callers, doors and rules that are counted one by one; what comes beyond counts as one.
const KINDS: usize = 4096;
/// The name of that count.
const OTHER: &str = "other";

/// Whose refusals, at which door, by which rule.
type Kind = (String, &'static str, &'static str);

#[derive(Debug, Default)]
pub struct RefusalCounter {
    tally: Mutex<Tally<Kind>>,
}

/// Evidence that a refusal was counted. Needed to reply where there is no record of it alone.
#[derive(Debug)]
#[must_use = "a counted refusal is what allows the reply"]
pub struct Counted(());

impl RefusalCounter {
    /// Ends a call that was refused before it had an effect, without a record of its own. A call that has an intent is not for counting.
    pub fn count(
        &self,
        mut opened: Opened,
        door: &'static str,
        rule: &'static str,
    ) -> Result<Counted, LedgerUnavailable> {
        if opened.has_intent() {
            return Err(LedgerUnavailable {
                reason: "a call that has an intent cannot be counted".into(),
            });
        }
        let (ledger, caller) = (opened.ledger().clone(), opened.facts.caller.to_string());
        opened.forgo();
        self.note(&ledger, caller, door, rule)
    }

    /// Counts one refusal. While the ledger cannot be written, nothing is told that nobody could read up later.
    pub fn note(
        &self,
        ledger: &Ledger,
        caller: String,
        door: &'static str,
        rule: &'static str,
    ) -> Result<Counted, LedgerUnavailable> {
        if let Some(reason) = ledger.status().broken {
            return Err(LedgerUnavailable { reason });
        }
        let minute = ledger.now().unix_ms / MINUTE_MS;
        let finished = {
            let mut tally = self.tally();
            let finished = tally.finish_before(minute);
            tally.add((caller, door, rule), 1, KINDS, || {
                (String::new(), "", OTHER)
            });
            finished
        };
        self.write(ledger, finished).map(|()| Counted(()))
    }

    /// Writes a finished minute's counts; call it every few seconds so that the last ones do not wait for another refusal.
    pub fn flush(&self, ledger: &Ledger) -> Result<(), LedgerUnavailable> {
        let finished = self.tally().finish_before(ledger.now().unix_ms / MINUTE_MS);
        self.write(ledger, finished)
    }

    /// Writes what is counted so far, at shutdown.
    pub fn close(&self, ledger: &Ledger) -> Result<(), LedgerUnavailable> {
        let finished = self.tally().finish_before(u64::MAX);
        self.write(ledger, finished)
    }

    fn tally(&self) -> MutexGuard<'_, Tally<Kind>> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, ledger: &Ledger, finished: Vec<(Kind, u64)>) -> Result<(), LedgerUnavailable> {
        if finished.is_empty() {
            return Ok(());
        }
        let changes: Vec<Change<'_>> = finished
            .iter()
            .map(|((caller, door, rule), count)| Change {
                action: "credential.refused",
                door,
                caller,
                violation: rule,
                count: Some(*count),
                detail: "further refusals in one minute, beyond those on record one by one",
                ..Change::default()
            })
            .collect();
        let result = ledger.append(&changes).map(drop);
        if result.is_err() {
            // Not lost: they count into the next summary that can be written.
            let mut tally = self.tally();
            for (kind, count) in finished {
                tally.add(kind, count, KINDS, || (String::new(), "", OTHER));
            }
        }
        result
    }
}
