//! `portcullis audit report`: what happened in a period, counted from the ledger's records and nothing else.
//!
//! Pure: records in, a [`Summary`] out; each format is a function of it. It must never hold more than so many rows of anything, however
//! long the period and whatever callers make up: what is beyond is counted as "others".

pub(crate) mod charts;
pub(crate) mod collect;
pub(crate) mod csv;
pub(crate) mod html;
pub(crate) mod tally;
pub(crate) mod text;

use std::collections::BTreeMap;

use serde::Serialize;

pub(crate) use collect::Collector;
use tally::Row;

/// The newest changes of each sort that are listed one by one.
const LISTED: usize = 500;

#[derive(Debug, Default, Serialize)]
pub(crate) struct Summary {
    pub(crate) made_at: String,
    pub(crate) since: String,
    pub(crate) until: String,
    pub(crate) ledger: LedgerState,
    /// Records of the period, of any kind.
    pub(crate) records: u64,
    pub(crate) calls: Calls,
    /// The period in equal steps, oldest first.
    pub(crate) steps: Vec<Step>,
    pub(crate) refusals_by_rule: Vec<Row>,
    pub(crate) refusals_by_tool: Vec<Row>,
    pub(crate) failures_by_code: Vec<Row>,
    pub(crate) callers: Vec<Party>,
    pub(crate) servers: Vec<Party>,
    pub(crate) label_rises: Vec<Row>,
    pub(crate) write_down_refusals: Vec<Row>,
    pub(crate) approvals: Approvals,
    pub(crate) authentication_failures: Vec<Row>,
    pub(crate) definition_changes: Listed,
    pub(crate) configuration_changes: Listed,
    pub(crate) other_changes: Vec<Row>,
    pub(crate) indeterminate: Listed,
}

/// Whether the whole ledger verifies, and where it ends.
#[derive(Debug, Default, Serialize)]
pub(crate) struct LedgerState {
    pub(crate) verifies: bool,
    pub(crate) finding: Option<String>,
    pub(crate) first_record: u64,
    pub(crate) records: u64,
    pub(crate) head: String,
    pub(crate) root: String,
    /// How many records the signed head covers, and the head itself.
    pub(crate) checkpoint_covers: Option<u64>,
    pub(crate) checkpoint: Option<String>,
    pub(crate) public_key: Option<String>,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct Calls {
    pub(crate) total: u64,
    pub(crate) by_verdict: BTreeMap<String, u64>,
    /// Begun in the period, and not ended in it.
    pub(crate) under_way: u64,
}

#[derive(Debug, Default, Clone, Serialize)]
pub(crate) struct Step {
    pub(crate) from: String,
    pub(crate) permitted: u64,
    pub(crate) refused: u64,
    /// Failed, cancelled, indeterminate or abandoned.
    pub(crate) other: u64,
}

/// What one caller or server had to do with.
#[derive(Debug, Default, Clone, Serialize)]
pub(crate) struct Party {
    pub(crate) id: String,
    /// What people call it; of a server, its id.
    pub(crate) name: String,
    /// The persons and agents of a caller.
    pub(crate) also: Vec<String>,
    pub(crate) calls: u64,
    pub(crate) permitted: u64,
    pub(crate) refused: u64,
    pub(crate) other: u64,
    /// The highest level that sessions of its calls had.
    pub(crate) highest_level: String,
    /// On average, over the calls that were made, without the time a person took to approve one.
    pub(crate) mean_ms: f64,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct Approvals {
    pub(crate) asked: u64,
    pub(crate) approved: u64,
    pub(crate) denied: u64,
    pub(crate) expired: u64,
    /// `who: approved` and `who: denied`.
    pub(crate) by_person: Vec<Row>,
}

/// Some of many: how many there are, and the newest.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Listed {
    pub(crate) count: u64,
    pub(crate) newest: Vec<Item>,
}

impl Listed {
    fn push(&mut self, item: Item) {
        self.count += 1;
        if self.newest.len() == LISTED {
            self.newest.remove(0);
        }
        self.newest.push(item);
    }
}

#[derive(Debug, Default, Clone, Serialize)]
pub(crate) struct Item {
    pub(crate) seq: u64,
    pub(crate) time: String,
    pub(crate) what: String,
    pub(crate) about: String,
    pub(crate) by: String,
    pub(crate) detail: String,
    /// Whose definitions these are and how many, where several are one item.
    #[serde(skip)]
    server: String,
    #[serde(skip)]
    together: u64,
}

#[cfg(test)]
mod tests;
