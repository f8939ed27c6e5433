//! Exports: a run of records that proves itself, to somebody who has nothing but the ledger's public key.
//!
//! It is a text: what it is, the hashes of the subtrees on the left and on the right of the run, the signed checkpoint, and the records as
//! they stand in the ledger. The tree over left, records and right has the root that was signed, so no record can be left out, added or
//! changed. [`super::check_export`] needs no files and reads line by line.

use super::ProofError;
use super::base::Base;
use crate::checkpoint::{read_checkpoint, read_public_key};
use crate::record::Record;
use crate::tree::Tree;
use crate::verify::Head;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use std::io::Write;
use std::ops::Range;
use std::path::Path;

pub(super) const EXPORT: &str = "portcullis ledger export v1";

/// What an export holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    pub first: u64,
    pub records: u64,
    /// The times of the first and of the last record.
    pub since: String,
    pub until: String,
    /// The signed head that covers them.
    pub head: Head,
    /// The public key the export names.
    pub key: String,
    /// What was asked and could be neither shown nor refuted, in words.
    pub unproven: Option<String>,
}

/// Writes records `run` of the ledger in `dir`, as far as its signed head covers them. Nothing is written if there is none.
pub fn export(dir: &Path, run: Range<u64>, out: &mut dyn Write) -> Result<Exported, ProofError> {
    let (Some(note), Some(key)) = (read_checkpoint(dir)?, read_public_key(dir)?) else {
        return Err(ProofError::NotCovered { seq: run.start });
    };
    let head = Head::verified(&note, &key)?;
    let base = Base::of(dir)?;
    let run = run.start.max(base.tree.size())..run.end.min(head.size);
    if run.is_empty() {
        return Err(ProofError::NotCovered { seq: run.start });
    }
    let mut outside = Vec::new();
    ranges_outside(&run, 0..head.size, &mut outside);
    let mut outside: Vec<(Range<u64>, Tree)> =
        outside.into_iter().map(|range| base.begin(range)).collect();
    base.fill(dir, head.size, &mut outside, |_, _| Ok(()))?;
    let records = run.end - run.start;
    write!(
        out,
        "{EXPORT}\nkey {key}\nfirst {}\nrecords {records}\n",
        run.start
    )?;
    for (range, tree) in &outside {
        let side = if range.end <= run.start {
            "left"
        } else {
            "right"
        };
        writeln!(out, "{side} {}", BASE64.encode(tree.root().bytes()))?;
    }
    write!(out, "\n{note}\n")?;
    let (mut since, mut until) = (String::new(), String::new());
    base.fill(dir, run.end, &mut outside, |seq, line| {
        let record: Record = serde_json::from_slice(line)?;
        if seq == run.start {
            since.clone_from(&record.time);
        }
        until = record.time;
        out.write_all(line)?;
        out.write_all(b"\n")
    })?;
    out.flush()?;
    Ok(Exported {
        first: run.start,
        records,
        since,
        until,
        head,
        key,
        unproven: None,
    })
}

/// The subtrees that hold nothing of `run`, each as large as can be, from left to right.
fn ranges_outside(run: &Range<u64>, within: Range<u64>, found: &mut Vec<Range<u64>>) {
    if within.end <= run.start || within.start >= run.end {
        return found.push(within);
    }
    if within.end - within.start > 1 {
        let middle = middle(&within);
        ranges_outside(run, within.start..middle, found);
        ranges_outside(run, middle..within.end, found);
    }
}

pub(super) fn middle(range: &Range<u64>) -> u64 {
    range.start + (range.end - range.start).next_power_of_two() / 2
}
