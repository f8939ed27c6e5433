//! Retention: the oldest segments go, whole, and what remains still verifies.
//!
//! First a `ledger.trimmed` change records which records go and the peaks of the hash tree over them; it is synced and covered by a signed
//! head. Only then do the arguments go, and the segments, oldest first, each removal durable before the next. So at every moment the ledger
//! is a whole run of records up to its end, and a record in it accounts for what is missing before it.
//!
//! It must never touch the segment being written, hold up a writer, or remove records whose tree does not fit what follows them.
//!
//! **Invariant: what is left of a ledger verifies, and accounts for what was removed.** Tests
//! `a_fault_at_every_operation_of_a_removal_leaves_a_ledger_that_verifies`, `a_front_that_nobody_announced_is_found`,
//! `an_export_proves_itself_and_nothing_else`.

mod segment;

use crate::bodies::tag;
use crate::disk::Disk;
use crate::error::LedgerUnavailable;
use crate::ledger::Ledger;
use crate::record::{Change, Draft};
use crate::recover::{segment_path, segment_seq};
use crate::tree::Tree;
use segment::Contents;
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

/// The change that says what was removed: `count` is how many records from the beginning, `tree` the peaks over them.
pub(crate) const TRIMMED: &str = "ledger.trimmed";

/// What must be kept. With neither, everything is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Segments whose records are all older than this, in milliseconds since 1970, may go.
    pub since_ms: Option<u64>,
    /// While segments and kept arguments take more than this, the oldest segment goes.
    pub max_bytes: Option<u64>,
    /// Somebody still reads from this record on, so age alone does not remove it. Size does: a reader that is gone for good must not
    /// fill the disk.
    pub read_from: Option<u64>,
}

/// What was removed, or would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// The oldest record that is kept.
    pub first_kept: u64,
    pub records: u64,
    pub segments: u64,
    /// Bytes of the segments; arguments come on top.
    pub bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum RetainError {
    #[error(transparent)]
    Unavailable(#[from] LedgerUnavailable),
    #[error("{what} {} failed: {source}", path.display())]
    Disk {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("nothing was removed: {} does not follow from the segments before it; run `portcullis audit verify`", path.display())]
    Damaged { path: PathBuf },
}

impl RetainError {
    fn disk(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> RetainError {
        let path = path.into();
        move |source| RetainError::Disk { what, path, source }
    }
}

/// Everything that goes, found out before anything is done.
struct Plan {
    trimmed: Trimmed,
    segments: Vec<u64>,
    /// Over the records that go.
    tree: Tree,
    /// The calls of which they hold the intent or the refusal.
    calls: HashSet<[u8; 16]>,
}

impl Ledger {
    /// Removes the oldest segments that `keep` does not want kept, after recording it; `change` says who and why. `None` if there is nothing to
    /// remove. Blocks for as long as the disk takes, and no writer with it.
    pub fn retain(&self, keep: &Keep, change: &Change<'_>) -> Result<Option<Trimmed>, RetainError> {
        let writer = &self.shared.writer;
        let (disk, dir) = (&*writer.disk, writer.dir.as_path());
        let Some(plan) = plan(disk, dir, keep)? else {
            return Ok(None);
        };
        self.announce(&plan, change)?;
        let forgotten = writer
            .bodies
            .forget(disk, dir, &plan.calls, plan.trimmed.first_kept);
        forgotten.map_err(RetainError::disk("forgetting the arguments below", dir))?;
        remove_cuts(disk, dir, plan.trimmed.first_kept)?;
        for first_seq in &plan.segments {
            let path = segment_path(dir, *first_seq);
            disk.remove(&path)
                .map_err(RetainError::disk("removing", &path))?;
            // One after the other: a power cut must not leave a hole between two that are there.
            disk.sync_dir(dir)
                .map_err(RetainError::disk("syncing the ledger directory", dir))?;
        }
        Ok(Some(plan.trimmed))
    }

    /// The record of the removal, durable and signed.
    fn announce(&self, plan: &Plan, change: &Change<'_>) -> Result<(), LedgerUnavailable> {
        let Trimmed {
            first_kept,
            records,
            segments,
            bytes,
        } = plan.trimmed;
        let detail = format!(
            "removed {records} records in {segments} segments, {bytes} bytes: {} to {}",
            first_kept - records,
            first_kept - 1
        );
        let tree = plan.tree.to_hex();
        let change = Change {
            action: TRIMMED,
            detail: &detail,
            count: Some(first_kept),
            ..*change
        };
        self.record(&Draft {
            tree: &tree,
            ..change.draft()
        })?;
        self.checkpoint().map(drop)
    }
}

/// What `keep` would remove from the ledger in `dir` now, without removing it.
pub fn removable(dir: &Path, keep: &Keep) -> Result<Option<Trimmed>, RetainError> {
    Ok(plan(&crate::disk::RealDisk, dir, keep)?.map(|plan| plan.trimmed))
}

fn plan(disk: &dyn Disk, dir: &Path, keep: &Keep) -> Result<Option<Plan>, RetainError> {
    let names = disk
        .list(dir)
        .map_err(RetainError::disk("listing the ledger directory", dir))?;
    let mut segments: Vec<u64> = names.iter().filter_map(|name| segment_seq(name)).collect();
    segments.sort_unstable();
    let mut sizes = Sizes::of(disk, dir, &segments)?;
    let mut plan = Plan {
        trimmed: Trimmed::default(),
        segments: Vec::new(),
        tree: Tree::default(),
        calls: HashSet::new(),
    };
    let read = |first_seq: u64| {
        let path = segment_path(dir, first_seq);
        disk.read(&path)
            .map(|bytes| Contents::of(first_seq, &bytes))
            .map_err(RetainError::disk("reading", &path))
    };
    for pair in segments.windows(2) {
        let &[first_seq, next_seq] = pair else {
            continue;
        };
        let too_much = keep.max_bytes.is_some_and(|most| sizes.taken > most);
        if !too_much && keep.since_ms.is_none() {
            break;
        }
        let contents = read(first_seq)?;
        let is_read = keep.read_from.is_some_and(|from| next_seq > from);
        let too_old = !is_read
            && keep
                .since_ms
                .is_some_and(|since| contents.newest_ms < since);
        if !too_old && !too_much {
            break;
        }
        contents.extend_tree(&mut plan.tree);
        plan.calls
            .extend(contents.calls.iter().map(|call| tag(call)));
        plan.segments.push(first_seq);
        plan.trimmed.first_kept = next_seq;
        plan.trimmed.records += next_seq - first_seq;
        plan.trimmed.segments += 1;
        plan.trimmed.bytes += contents.bytes;
        sizes.remove(contents.bytes, next_seq);
    }
    if plan.segments.is_empty() {
        return Ok(None);
    }
    // What follows must carry on from exactly this tree, or nothing would verify afterwards.
    if !read(plan.trimmed.first_kept)?.follows(&plan.tree) {
        return Err(RetainError::Damaged {
            path: segment_path(dir, plan.trimmed.first_kept),
        });
    }
    Ok(Some(plan))
}

/// What the ledger takes on the disk, and what goes with which segments.
struct Sizes {
    taken: u64,
    /// Pairs of body files, the oldest last: where the next one begins, and the bytes that go when everything before that went.
    pairs: Vec<(u64, u64)>,
}

impl Sizes {
    fn of(disk: &dyn Disk, dir: &Path, segments: &[u64]) -> Result<Sizes, RetainError> {
        let mut taken = 0;
        for first_seq in segments {
            let path = segment_path(dir, *first_seq);
            taken += disk
                .size(&path)
                .map_err(RetainError::disk("measuring", &path))?;
        }
        let bodies = crate::bodies::sizes(disk, dir)
            .map_err(RetainError::disk("measuring the arguments below", dir))?;
        taken += bodies.iter().map(|(_, bytes)| bytes).sum::<u64>();
        let ends = bodies.iter().skip(1).map(|(number, _)| *number);
        let mut pairs: Vec<(u64, u64)> = ends.zip(bodies.iter().map(|(_, bytes)| *bytes)).collect();
        pairs.reverse();
        Ok(Sizes { taken, pairs })
    }

    /// A segment of `bytes` goes, and with it every pair of body files that ends before `next_seq`.
    fn remove(&mut self, bytes: u64, next_seq: u64) {
        self.taken = self.taken.saturating_sub(bytes);
        while let Some((_, bytes)) = self.pairs.pop_if(|(end, _)| *end <= next_seq) {
            self.taken = self.taken.saturating_sub(bytes);
        }
    }
}

/// Tails that recovery cut and kept aside, of the time that is removed.
fn remove_cuts(disk: &dyn Disk, dir: &Path, first_kept: u64) -> Result<(), RetainError> {
    let names = disk
        .list(dir)
        .map_err(RetainError::disk("listing the ledger directory", dir))?;
    let is_old = |name: &&String| {
        let seq = name
            .strip_suffix(".cut")
            .and_then(|name| name.split_once('-'))
            .and_then(|(seq, _)| seq.parse::<u64>().ok());
        seq.is_some_and(|seq| seq < first_kept)
    };
    for name in names.iter().filter(is_old) {
        let path = dir.join(name);
        disk.remove(&path)
            .map_err(RetainError::disk("removing", &path))?;
    }
    Ok(())
}
