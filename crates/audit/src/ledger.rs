//! The ledger as the gate holds it: open, record, sync, recover.
//!
//! Handles are cheap to clone. Every method blocks, at most for a `write(2)` ([`Ledger::sync`], [`Ledger::tend`] and
//! [`Ledger::reopen`] for as long as the disk takes, so those belong on a blocking thread). It must never acknowledge a
//! record that the kernel has not taken.

use crate::chain::Hash;
use crate::clock::{Clock, Moment, system_clock};
use crate::disk::{Disk, Lock, RealDisk};
use crate::encode;
use crate::error::{LedgerUnavailable, OpenError};
use crate::record::{Change, Draft, Kind, Verdict};
use crate::recover::{self, Tail, segment_path};
use crate::write::{Segment, State, Writer, new_segment};
use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vocab::Stage;

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// A segment that has reached this size is followed by a new one.
    pub segment_bytes: u64,
}

impl Default for Options {
    /// 16 MiB, because opening the ledger reads the last segment and must not delay the first call.
    fn default() -> Options {
        Options { segment_bytes: 16 << 20 }
    }
}

/// Where a record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub seq: u64,
    pub hash: Hash,
}

/// A batch that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// First and last `seq`; equal for one record.
    pub first: u64,
    pub last: u64,
    pub head: Hash,
}

/// The ledger's condition, for `status` and `doctor`.
#[derive(Clone, Debug)]
pub struct Status {
    /// How many records have been acknowledged since the ledger began.
    pub records: u64,
    /// How many of them are known to survive a power cut.
    pub synced: u64,
    pub head: Hash,
    pub open_intents: usize,
    /// Why it cannot record, if it cannot.
    pub broken: Option<Arc<str>>,
}

#[derive(Clone)]
pub struct Ledger {
    shared: Arc<Shared>,
}

struct Shared {
    writer: Writer,
    synced: AtomicU64,
    _lock: Lock,
}

thread_local! {
    /// Encoding happens outside the lock, in a buffer that each thread keeps.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Ledger {
    /// The ledger in `dir` on the real disk and clock, with default options.
    pub fn at(dir: impl Into<PathBuf>) -> Result<Ledger, OpenError> {
        Ledger::with(dir, Box::new(RealDisk), system_clock(), Options::default())
    }

    /// Opens or creates the ledger in `dir`, takes it for this process, cuts a torn tail and records what it found:
    /// the cut, and every intent whose outcome will never be known.
    pub fn with(dir: impl Into<PathBuf>, disk: Box<dyn Disk>, clock: Clock, options: Options) -> Result<Ledger, OpenError> {
        let dir = dir.into();
        disk.create_dir(&dir).map_err(OpenError::disk("creating the ledger directory", &dir))?;
        let lock = disk.lock(&dir).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => OpenError::InUse { dir: dir.clone() },
            _ => OpenError::disk("locking the ledger directory", &dir)(error),
        })?;
        let tail = recover::find_tail(&*disk, &dir, None)?;
        let segment = segment_at(&*disk, &dir, &tail)?;
        let state = State::new(segment, tail.next_seq, tail.head);
        let writer = Writer::new(disk, dir, clock, options.segment_bytes, state);
        write_findings(&writer, &mut writer.lock(), &tail, &[])?;
        let synced = AtomicU64::new(writer.written());
        let shared = Shared { writer, synced, _lock: lock };
        Ok(Ledger { shared: Arc::new(shared) })
    }

    /// Records a change and returns its place once the kernel has it.
    pub fn change(&self, change: &Change<'_>) -> Result<Position, LedgerUnavailable> {
        self.record(&change.draft())
    }

    /// Records changes together, in order, with one write; all of them or an error.
    pub fn append(&self, changes: &[Change<'_>]) -> Result<Appended, LedgerUnavailable> {
        let drafts: Vec<Draft<'_>> = changes.iter().map(Change::draft).collect();
        self.record_all(&drafts)
    }

    /// Writes one record.
    pub(crate) fn record(&self, draft: &Draft<'_>) -> Result<Position, LedgerUnavailable> {
        self.record_at(self.now(), draft)
    }

    /// [`Ledger::record`] by a caller who has just looked at the clock.
    pub(crate) fn record_at(&self, now: Moment, draft: &Draft<'_>) -> Result<Position, LedgerUnavailable> {
        let writer = &self.shared.writer;
        let written = with_scratch(|scratch| {
            encode::fields(scratch, now.unix_ms, draft);
            writer.submit(std::iter::once((draft, scratch.as_slice())))
        })?;
        // One draft in, one place out; an empty answer would be a bug, and is refused rather than acknowledged.
        let (seq, hash) = written.ok_or_else(nothing_written)?;
        Ok(Position { seq, hash })
    }

    fn record_all(&self, drafts: &[Draft<'_>]) -> Result<Appended, LedgerUnavailable> {
        let now = self.now().unix_ms;
        let encoded: Vec<Vec<u8>> = drafts
            .iter()
            .map(|draft| {
                let mut fields = Vec::with_capacity(512);
                encode::fields(&mut fields, now, draft);
                fields
            })
            .collect();
        let pairs = drafts.iter().zip(encoded.iter().map(Vec::as_slice));
        let (last, head) = self.shared.writer.submit(pairs)?.ok_or_else(nothing_written)?;
        let first = last + 1 - drafts.len() as u64;
        Ok(Appended { first, last, head })
    }

    /// Makes everything acknowledged so far survive a power cut; returns how many records that is.
    pub fn sync(&self) -> Result<u64, LedgerUnavailable> {
        let writer = &self.shared.writer;
        let (file, written) = {
            let state = writer.lock();
            if let Some(reason) = state.broken.clone() {
                return Err(LedgerUnavailable { reason });
            }
            (Arc::clone(&state.segment.file), writer.written())
        };
        if self.shared.synced.load(Ordering::Acquire) >= written {
            return Ok(written);
        }
        // A segment that was finished since its last sync was synced when it was finished.
        if let Err(error) = file.sync() {
            let mut state = writer.lock_idle();
            writer.fail(&mut state, "syncing", &error);
            let reason = state.broken.clone().unwrap_or_default();
            return Err(LedgerUnavailable { reason });
        }
        self.shared.synced.fetch_max(written, Ordering::AcqRel);
        Ok(written)
    }

    /// After a failure: reads the tail again, cuts what was never acknowledged, and goes on. Does nothing if not broken.
    pub fn reopen(&self) -> Result<(), OpenError> {
        let writer = &self.shared.writer;
        let mut state = writer.lock_idle();
        let Some(reason) = state.broken.clone() else {
            return Ok(());
        };
        let expected = state.acknowledged;
        let tail = recover::find_tail(&*writer.disk, &writer.dir, expected)?;
        if let (false, Some((acknowledged, _))) = (tail.holds_expected, expected) {
            return Err(OpenError::Lost { acknowledged });
        }
        let segment = segment_at(&*writer.disk, &writer.dir, &tail)?;
        state.resume_at(segment, tail.next_seq, tail.head);
        writer.set_written(tail.next_seq);
        let recovered = Draft { action: "ledger.recovered", detail: &reason, ..Draft::default() };
        let result = write_findings(writer, &mut state, &tail, &[recovered]);
        if result.is_err() {
            state.broken = Some(reason);
        } else {
            self.shared.synced.store(writer.written(), Ordering::Release);
        }
        result
    }

    /// What a blocking thread calls now and then: sync, or try to recover.
    pub fn tend(&self) -> Result<(), LedgerUnavailable> {
        if self.status().broken.is_some() {
            return self.reopen().map_err(|error| LedgerUnavailable { reason: with_cause(&error).into() });
        }
        self.sync().map(drop)
    }

    pub fn status(&self) -> Status {
        let writer = &self.shared.writer;
        let state = writer.lock();
        Status {
            records: writer.written(),
            synced: self.shared.synced.load(Ordering::Acquire),
            head: state.acknowledged.map_or(Hash::GENESIS, |(_, hash)| hash),
            open_intents: state.live.len(),
            broken: state.broken.clone(),
        }
    }

    pub fn dir(&self) -> &Path {
        &self.shared.writer.dir
    }

    pub(crate) fn now(&self) -> Moment {
        (self.shared.writer.clock)()
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("dir", &self.dir()).field("status", &self.status()).finish()
    }
}

fn with_scratch<T>(use_it: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    SCRATCH.with(|cell| match cell.try_borrow_mut() {
        Ok(mut scratch) => {
            scratch.clear();
            use_it(&mut scratch)
        }
        // Only a record made while another is being encoded on the same thread comes here.
        Err(_) => use_it(&mut Vec::new()),
    })
}

fn nothing_written() -> LedgerUnavailable {
    LedgerUnavailable { reason: "there was nothing to write".into() }
}

fn with_cause(error: &OpenError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// Opens the segment that `tail` ends in, without what was torn.
fn segment_at(disk: &dyn Disk, dir: &Path, tail: &Tail) -> Result<Segment, OpenError> {
    let path = segment_path(dir, tail.segment);
    let mut segment = new_segment(disk, dir, tail.segment).map_err(OpenError::disk("opening the ledger segment", &path))?;
    if tail.torn.is_some() {
        segment
            .file
            .truncate(tail.size)
            .and_then(|()| segment.file.sync())
            .map_err(OpenError::disk("cutting the torn tail of", &path))?;
    }
    segment.size = tail.size;
    Ok(segment)
}

/// Records what recovery found: first `extra`, then the cut, then one outcome per intent that nobody can conclude.
fn write_findings(writer: &Writer, state: &mut State, tail: &Tail, extra: &[Draft<'_>]) -> Result<(), OpenError> {
    let mut drafts = extra.to_vec();
    let cut = tail.torn.as_ref().map(|torn| {
        format!(
            "cut {} bytes of an interrupted write after {} records; sha256 of the cut {}",
            torn.bytes, tail.next_seq, torn.digest
        )
    });
    drafts.extend(cut.as_ref().map(|detail| Draft { action: "ledger.torn_tail_cut", detail, ..Draft::default() }));
    let orphans = tail.outstanding.iter().filter(|(seq, _)| !state.live.contains_key(*seq));
    drafts.extend(orphans.map(|(seq, call)| Draft {
        kind: Kind::Outcome,
        call,
        intent: Some(*seq),
        stage: Some(Stage::Dispatch),
        verdict: Some(Verdict::Indeterminate),
        detail: "the gate stopped between intent and outcome; the effect may or may not have happened",
        ..Draft::default()
    }));
    if drafts.is_empty() {
        return Ok(());
    }
    let path = segment_path(&writer.dir, state.segment.first_seq);
    writer.write_alone(state, &drafts).map_err(OpenError::disk("recording the recovery in", path))
}
