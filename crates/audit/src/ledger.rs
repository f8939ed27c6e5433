//! The ledger as the gate holds it: open, record, sync, recover.
//!
//! Handles are cheap to clone. Every method blocks, at most for a `write(2)` ([`Ledger::sync`], [`Ledger::tend`] and
//! [`Ledger::reopen`] for as long as the disk takes, so those belong on a blocking thread). It must never acknowledge a
//! record that the kernel has not taken.

use crate::chain::Hash;
use crate::checkpoint::Heads;
use crate::clock::{Moment, system_clock};
use crate::commit::{Commits, Synced};
use crate::disk::{Lock, RealDisk};
use crate::encode;
use crate::error::{LedgerUnavailable, OpenError};
use crate::record::{Change, Draft, Record};
use crate::write::Writer;
use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// A segment that has reached this size is followed by a new one.
    pub segment_bytes: u64,
}

impl Default for Options {
    /// 16 MiB, because opening the ledger reads the last segment and must not delay the first call.
    fn default() -> Options {
        Options {
            segment_bytes: 16 << 20,
        }
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
    pub(crate) shared: Arc<Shared>,
}

/// A ledger that may be closed meanwhile.
pub(crate) struct WeakLedger(Weak<Shared>);

impl WeakLedger {
    pub(crate) fn upgrade(&self) -> Option<Ledger> {
        Some(Ledger {
            shared: self.0.upgrade()?,
        })
    }
}

pub(crate) struct Shared {
    pub(crate) writer: Writer,
    /// Every record below this survives a power cut.
    pub(crate) synced: AtomicU64,
    pub(crate) commits: Commits,
    pub(crate) heads: Heads,
    pub(crate) scrub: OnceLock<Scrub>,
    /// Why it is not known whether this is the whole ledger, if it is not.
    pub(crate) unsigned: Option<String>,
    pub(crate) _lock: Lock,
}

/// Takes secrets out of a JSON text; `None` if there are none in it.
pub type Scrub = Box<dyn Fn(&[u8]) -> Option<Vec<u8>> + Send + Sync>;

thread_local! {
    /// Encoding happens outside the lock, in a buffer that each thread keeps.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Ledger {
    /// The ledger in `dir` on the real disk and clock, with default options.
    pub fn at(dir: impl Into<PathBuf>) -> Result<Ledger, OpenError> {
        Ledger::with(dir, Box::new(RealDisk), system_clock(), Options::default())
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

    /// From now on every record goes through `scrub` before it is written: whatever a caller, a server or a person says, no secret that it
    /// knows reaches the disk. The first one given counts.
    pub fn scrub_with(&self, scrub: Scrub) {
        let _is_first = self.shared.scrub.set(scrub);
    }

    /// Encodes `draft` anew without its secrets, if `fields`, as it was encoded, holds any.
    fn scrub(&self, fields: &mut Vec<u8>, unix_ms: u64, draft: &Draft<'_>) {
        let Some(scrub) = self.shared.scrub.get() else {
            return;
        };
        let Some((_, members)) = fields.split_first() else {
            return;
        };
        let object = [b"{", members, b"}"].concat();
        let Some(clean) = scrub(&object) else { return };
        // What cannot be read back is not worth a secret: then the free texts are left out.
        let clean: Record = serde_json::from_slice(&clean).unwrap_or_default();
        fields.clear();
        encode::fields(fields, unix_ms, &draft.with_texts_of(&clean));
    }

    /// Writes one record.
    pub(crate) fn record(&self, draft: &Draft<'_>) -> Result<Position, LedgerUnavailable> {
        self.record_at(self.now(), draft)
    }

    /// [`Ledger::record`] by a caller who has just looked at the clock.
    pub(crate) fn record_at(
        &self,
        now: Moment,
        draft: &Draft<'_>,
    ) -> Result<Position, LedgerUnavailable> {
        let writer = &self.shared.writer;
        let written = with_scratch(|scratch| {
            encode::fields(scratch, now.unix_ms, draft);
            self.scrub(scratch, now.unix_ms, draft);
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
                self.scrub(&mut fields, now, draft);
                fields
            })
            .collect();
        let pairs = drafts.iter().zip(encoded.iter().map(Vec::as_slice));
        let (last, head) = self
            .shared
            .writer
            .submit(pairs)?
            .ok_or_else(nothing_written)?;
        let first = last + 1 - drafts.len() as u64;
        Ok(Appended { first, last, head })
    }

    /// Keeps a call's redacted arguments apart from the chain, sealed under a key of their own, and returns the digest that the
    /// call's record must name. They are written together with the next record, so keep first and intend afterwards.
    /// More than [`BODY_LIMIT`](crate::BODY_LIMIT) bytes are cut, with a mark.
    pub fn keep_body(&self, call: &str, redacted: &[u8]) -> Result<Hash, LedgerUnavailable> {
        self.shared.writer.bodies.keep(call, redacted)
    }

    /// Destroys the key of a call's kept arguments, after recording who does it and why; `change.call` says which call. The
    /// record of the call stands, and so does the proof of it. Returns how many bodies were erased.
    pub fn erase_body(&self, change: &Change<'_>) -> Result<u64, LedgerUnavailable> {
        // The record comes first; writing it also brings a body that is still in memory to its file.
        self.change(&Change {
            action: "body.erased",
            ..*change
        })?;
        let writer = &self.shared.writer;
        writer
            .bodies
            .erase(&*writer.disk, &writer.dir, change.call)
            .map_err(|error| LedgerUnavailable {
                reason: format!(
                    "destroying the key of the arguments of {} failed: {error}",
                    change.call
                )
                .into(),
            })
    }

    /// Makes everything acknowledged so far survive a power cut; returns how many records that is.
    pub fn sync(&self) -> Result<u64, LedgerUnavailable> {
        self.shared.sync()
    }

    /// Ready when record `seq` survives a power cut. All who wait share one sync; nobody blocks a thread.
    pub fn synced(&self, seq: u64) -> Synced {
        Synced::new(self.clone(), seq)
    }

    /// The answer that needs no waiting: already synced, or broken.
    pub(crate) fn reach(&self, seq: u64) -> Option<Result<(), LedgerUnavailable>> {
        if self.shared.synced.load(Ordering::Acquire) > seq {
            return Some(Ok(()));
        }
        let reason = self.shared.writer.lock().broken.clone()?;
        Some(Err(LedgerUnavailable { reason }))
    }

    pub(crate) fn commits(&self) -> &Commits {
        &self.shared.commits
    }

    pub(crate) fn downgrade(&self) -> WeakLedger {
        WeakLedger(Arc::downgrade(&self.shared))
    }

    /// What a blocking thread calls now and then: sync and sign the head, or try to recover.
    pub fn tend(&self) -> Result<(), LedgerUnavailable> {
        if self.status().broken.is_some() {
            return self.reopen().map_err(|error| LedgerUnavailable {
                reason: with_cause(&error).into(),
            });
        }
        self.sync()?;
        let writer = &self.shared.writer;
        writer
            .bodies
            .sync()
            .map_err(|error| writer.break_down("syncing the bodies beside", &error, None))?;
        self.shared.sign_if_due()
    }

    /// Signs and stores the head of everything acknowledged so far, after syncing it; returns the text to publish elsewhere.
    pub fn checkpoint(&self) -> Result<String, LedgerUnavailable> {
        self.shared.checkpoint()
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

    /// What a person must be told who opens this ledger: it had no signed head, so nobody knows whether records are missing from its end.
    pub fn unsigned(&self) -> Option<&str> {
        self.shared.unsigned.as_deref()
    }

    pub fn dir(&self) -> &Path {
        &self.shared.writer.dir
    }

    pub(crate) fn now(&self) -> Moment {
        (self.shared.writer.clock)()
    }
}

impl Shared {
    pub(crate) fn sync(&self) -> Result<u64, LedgerUnavailable> {
        let writer = &self.writer;
        let (segment, written) = {
            let state = writer.lock();
            if let Some(reason) = state.broken.clone() {
                return Err(LedgerUnavailable { reason });
            }
            (state.segment.clone(), writer.written())
        };
        if self.synced.load(Ordering::Acquire) >= written {
            return Ok(written);
        }
        // A segment that was finished since its last sync was synced when it was finished.
        segment
            .file
            .sync()
            .map_err(|error| writer.break_down("syncing", &error, Some(segment.first_seq)))?;
        self.synced.fetch_max(written, Ordering::AcqRel);
        Ok(written)
    }
}

impl Drop for Shared {
    /// A ledger that is closed, not killed, says how far it is durable: what is missing or wrong later is damage.
    fn drop(&mut self) {
        // A ledger that cannot be closed cleanly is one that was killed; it recovers as that.
        let _ = self.sign_if_new();
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger")
            .field("dir", &self.dir())
            .field("status", &self.status())
            .finish()
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
    LedgerUnavailable {
        reason: "there was nothing to write".into(),
    }
}

fn with_cause(error: &OpenError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
