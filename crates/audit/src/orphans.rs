//! Intents that nobody can conclude any more: what they said, so that the outcome which recovery writes for them can be found by the same words.
//!
//! It must never stand in the way of recovery: an intent that cannot be read gives an outcome that only names its call.

use crate::disk::Disk;
use crate::record::{Draft, Kind, Record, Verdict};
use crate::recover::{segment_path, segment_seq};
use std::collections::BTreeMap;
use std::path::Path;
use vocab::Stage;

const UNKNOWN: &str =
    "no outcome could be recorded for this intent; the effect may or may not have happened";

/// One intent without an outcome.
pub(crate) struct Orphan {
    seq: u64,
    call: String,
    /// Its record, empty where it cannot be read.
    intent: Record,
}

/// The intents with these numbers and calls. Each segment that holds some is read once.
pub(crate) fn find(disk: &dyn Disk, dir: &Path, wanted: &BTreeMap<u64, String>) -> Vec<Orphan> {
    let mut orphans: Vec<Orphan> = wanted
        .iter()
        .map(|(seq, call)| Orphan {
            seq: *seq,
            call: call.clone(),
            intent: Record::default(),
        })
        .collect();
    let names = disk.list(dir).unwrap_or_default();
    let mut segments: Vec<u64> = names.iter().filter_map(|name| segment_seq(name)).collect();
    segments.sort_unstable();
    for (index, first_seq) in segments.iter().enumerate() {
        let end = segments.get(index + 1).copied().unwrap_or(u64::MAX);
        if wanted.range(*first_seq..end).next().is_none() {
            continue;
        }
        let bytes = disk
            .read(&segment_path(dir, *first_seq))
            .unwrap_or_default();
        let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        for orphan in orphans
            .iter_mut()
            .filter(|orphan| (*first_seq..end).contains(&orphan.seq))
        {
            let line = usize::try_from(orphan.seq - first_seq)
                .ok()
                .and_then(|line| lines.get(line));
            let record = line.and_then(|line| serde_json::from_slice::<Record>(line).ok());
            // A carried call has lost its spaces, so the number alone decides.
            orphan.intent = record
                .filter(|record| record.seq == orphan.seq && record.kind == "intent")
                .unwrap_or_default();
        }
    }
    orphans
}

/// What an intent said, for its outcome to say again.
macro_rules! read_back {
    (text $value:expr) => {
        &$value
    };
    (long $value:expr) => {
        &$value
    };
    (number $value:expr) => {
        $value
    };
    (effect $value:expr) => {
        $value.parse().ok()
    };
}

macro_rules! draw_facts_of {
    ([] $({ $name:ident $kind:ident $title:tt $what:literal })*) => {
        fn facts_of(intent: &Record) -> Draft<'_> {
            Draft { $($name: read_back!($kind intent.$name),)* ..Draft::default() }
        }
    };
}
vocab::record_columns!(facts => draw_facts_of []);

impl Orphan {
    /// The outcome of a call whose end nobody saw.
    pub(crate) fn outcome(&self) -> Draft<'_> {
        let facts = facts_of(&self.intent);
        Draft {
            kind: Kind::Outcome,
            call: if facts.call.is_empty() {
                &self.call
            } else {
                facts.call
            },
            intent: Some(self.seq),
            stage: Some(Stage::Dispatch),
            verdict: Some(Verdict::Indeterminate),
            detail: UNKNOWN,
            ..facts
        }
    }
}
