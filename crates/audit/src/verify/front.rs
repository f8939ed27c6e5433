//! The front of a ledger from which retention removed records: what can be known of what is gone.
//!
//! The first segment that is left carries, near its beginning, the peaks of the hash tree over everything before that point. Records from there
//! on are leaves of the signed tree; the few before it are bound to the first of those by the chain. A `ledger.trimmed` change, further
//! on, says that the removal was meant and gives the peaks exactly where the ledger now begins.

use super::line::Fields;
use super::tree::Levels;
use super::{Check, Expected};
use crate::chain::Hash;
use std::collections::{BTreeMap, HashSet};

#[derive(Clone, Default)]
pub(super) struct Front {
    /// The first record there is.
    first: u64,
    /// Hashes from there up to the record that carries the tree.
    lead: Vec<Hash>,
    /// The tree it carries.
    carried: Option<String>,
    /// That record was not read yet, so the tree is not known.
    pub(super) waits_for_tree: bool,
    /// Intents from before the front that ended while that was so.
    ended: HashSet<u64>,
    /// Heads over records of the lead: to be compared when the tree at the front is known.
    heads: Vec<Expected>,
    /// How many records from the beginning were removed with notice.
    announced: u64,
    /// The peaks at the beginning of every segment read so far, where they are known.
    starts: BTreeMap<u64, String>,
}

impl Check {
    /// The first segment does not begin with record 0.
    pub(super) fn begin_at(&mut self, first: u64) {
        self.report.first = first;
        self.report.records = first;
        self.front = Front {
            first,
            waits_for_tree: true,
            ..Front::default()
        };
        let (gone, rest): (Vec<_>, Vec<_>) = self
            .expected
            .drain(..)
            .partition(|expected| expected.head.size < first);
        self.expected = rest;
        for expected in gone {
            // A removal is signed before it is carried out, so the ledger's own head covers it.
            if self.report.checkpoint == Some(expected.head.size) {
                self.file = expected.place;
                let size = expected.head.size;
                self.found(format!("it covers {size} records, and the first one there is has the number {first}"), false);
            } else {
                self.unproven(&expected);
            }
        }
    }

    fn unproven(&mut self, expected: &Expected) {
        let (size, first) = (expected.head.size, self.report.first);
        self.report.unproven.push(format!(
            "{} covers the first {size} records, and retention has removed all before {first}. Its signature is good, but whether the records \
             that were removed are those it covers can no longer be computed: that takes an export, or a copy of the ledger, from before",
            expected.place.display()
        ));
    }

    /// A segment begins: remembers the tree there, for a removal that was announced and not carried out.
    pub(super) fn remember_start(&mut self) {
        if !self.front.waits_for_tree {
            self.front
                .starts
                .insert(self.report.records, self.levels.peaks_in_hex());
        }
    }

    /// A head over exactly the records read so far, while the tree is not known.
    pub(super) fn defer(&mut self, expected: Expected) {
        self.front.heads.push(expected);
    }

    /// While the tree is not known: a record with this hash was read.
    pub(super) fn lead(&mut self, hash: &Hash) {
        self.front.lead.push(*hash);
    }

    /// Whether the outcome of an intent from before the front may stand here.
    pub(super) fn ends_before_front(&mut self, intent: u64) -> bool {
        self.front.waits_for_tree && intent < self.front.first && self.front.ended.insert(intent)
    }

    /// The record `seq` that opens the first segment: it lists the intents that were open, and the last of them carries the tree.
    pub(super) fn rotation(&mut self, seq: u64, fields: &Fields<'_>) -> Result<(), String> {
        if !self.front.waits_for_tree || fields.action != b"ledger.rotated" {
            return Ok(());
        }
        let open = carried_intents(fields.detail).filter(|intent| *intent < self.front.first);
        self.open.extend(open);
        if fields.count == Some(0) {
            let levels = Levels::from_peaks(seq, fields.tree);
            self.levels = levels.ok_or(
                "the record carries no hash tree, and the records before it are not there",
            )?;
            self.front.carried = Some(self.levels.peaks_in_hex());
            self.front.waits_for_tree = false;
        }
        Ok(())
    }

    /// A change that says which records were removed.
    pub(super) fn trimmed(&mut self, fields: &Fields<'_>) -> Result<(), String> {
        let Some(count) = fields.count.filter(|count| *count < self.report.records) else {
            return Err("the record says that records were removed which come after it".to_owned());
        };
        self.front.announced = self.front.announced.max(count);
        if count == self.front.first && count > 0 {
            return self.compare_front(fields.tree);
        }
        match self.front.starts.get(&count) {
            Some(peaks) if peaks.as_bytes() != fields.tree => {
                Err("the record carries another hash tree than the records that were to be removed make".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// The peaks at the front must lead, over the first records, to the tree that was carried.
    fn compare_front(&mut self, peaks: &[u8]) -> Result<(), String> {
        let wrong =
            || "the record carries another hash tree than the ledger goes on from".to_owned();
        let mut levels = Levels::from_peaks(self.front.first, peaks).ok_or_else(wrong)?;
        let mut heads = std::mem::take(&mut self.front.heads);
        let mut size = self.front.first;
        let mut lead = self.front.lead.iter();
        loop {
            for expected in heads.extract_if(.., |expected| expected.head.size == size) {
                if expected.head.root != levels.root() {
                    return Err(format!(
                        "forked: the first {size} records are not those that {} covers",
                        expected.place.display()
                    ));
                }
            }
            let Some(hash) = lead.next() else { break };
            levels.push(hash);
            size += 1;
        }
        match self.front.carried.as_ref() {
            Some(carried) if *carried != levels.peaks_in_hex() => Err(wrong()),
            _ => Ok(()),
        }
    }

    /// At the end: what is missing at the front must have been announced.
    pub(super) fn front_at_end(&mut self) {
        for expected in std::mem::take(&mut self.front.heads) {
            self.unproven(&expected);
        }
        if self.report.finding.is_none() && self.front.announced < self.front.first {
            let first = self.front.first;
            self.line = 0;
            self.found(format!("the records before {first} are missing, and no record says that they were removed"), false);
        }
    }
}

/// The numbers at the beginning of each part; parts end with an escaped line feed.
fn carried_intents(detail: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let text = std::str::from_utf8(detail).unwrap_or_default();
    text.split("\\u000a")
        .filter_map(|item| item.split_once(' ')?.0.parse().ok())
}
