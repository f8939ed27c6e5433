//! Many callers, one file, one write at a time: flat combining.
//!
//! A caller chains its record into the pending buffer under a short lock. If nobody is writing, it becomes the writer
//! and writes everything pending with one `write(2)`, lock released; otherwise it waits for the few microseconds that
//! takes and finds its record either written or pending, in which case it may become the writer itself. So a batch grows
//! by itself under load, and a lone caller pays one write and no hand-over.
//!
//! INVARIANT: only the thread that set `writing` touches the segment file; bytes reach it in `seq` order.

mod state;

pub(crate) use state::{Segment, State};

use crate::bodies::Bodies;
use crate::chain::Hash;
use crate::clock::Clock;
use crate::disk::{Disk, SegmentFile};
use crate::encode;
use crate::error::LedgerUnavailable;
use crate::record::{Draft, Kind};
use crate::recover::segment_path;
use state::carry_open_intents;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A writer hands over after this many batches, so that serving others cannot hold one caller for long.
const BATCHES_PER_TURN: u32 = 8;
/// How often a waiting caller looks before it sleeps; a write usually ends sooner.
const LOOKS_BEFORE_SLEEP: u32 = 200;

pub(crate) struct Writer {
    pub(crate) disk: Box<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) clock: Clock,
    /// Redacted arguments on their way to the disk.
    pub(crate) bodies: Bodies,
    segment_limit: u64,
    state: Mutex<State>,
    turn: Condvar,
    /// Every record below this is with the kernel.
    written: AtomicU64,
}

impl Writer {
    pub(crate) fn new(
        disk: Box<dyn Disk>,
        dir: PathBuf,
        clock: Clock,
        segment_limit: u64,
        state: State,
    ) -> Writer {
        Writer {
            disk,
            dir,
            clock,
            bodies: Bodies::new(segment_limit),
            segment_limit,
            written: AtomicU64::new(state.next_seq),
            state: Mutex::new(state),
            turn: Condvar::new(),
        }
    }

    /// A panic while the lock is held leaves plain data behind, and the chain itself is checked again at reopen.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    pub(crate) fn set_written(&self, next_seq: u64) {
        self.written.store(next_seq, Ordering::Release);
    }

    /// Waits until nobody writes, for work that needs the file for itself.
    pub(crate) fn lock_idle(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        while state.writing {
            state = self.sleep(state);
        }
        state
    }

    /// Waits, while the ledger is broken, until everybody who waited for a record knows how it went. Only then may numbers be given again:
    /// a record that was cut and the one that takes its place have the same.
    pub(crate) fn lock_settled(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock_idle();
        while state.broken.is_some() && state.settling > 0 {
            state = self.sleep(state);
        }
        state
    }

    /// Records `drafts`, already encoded by [`encode::fields`], in one piece; returns the last one's place.
    pub(crate) fn submit<'d>(
        &self,
        drafts: impl Iterator<Item = (&'d Draft<'d>, &'d [u8])>,
    ) -> Result<Option<(u64, Hash)>, LedgerUnavailable> {
        let mut state = self.lock();
        if let Some(unavailable) = state.unavailable() {
            for (draft, _) in drafts {
                state.unrecorded += u64::from(is_answer(draft));
                // Nobody tries again to conclude these: recovery must, and says `indeterminate`.
                draft
                    .intent
                    .into_iter()
                    .for_each(|intent| drop(state.live.remove(&intent)));
            }
            return Err(unavailable);
        }
        let mut last = None;
        for (draft, fields) in drafts {
            let (seq, hash) = state.chain(fields);
            match (draft.kind, draft.intent) {
                (Kind::Intent, _) => drop(state.live.insert(seq, draft.call.into())),
                (_, Some(intent)) => drop(state.live.remove(&intent)),
                _ => {}
            }
            state.pending_answers += u64::from(is_answer(draft));
            last = Some((seq, hash));
        }
        if let Some((seq, _)) = last {
            state.settling += 1;
            let (mut state, recorded) = self.settle(state, seq);
            state.settling -= 1;
            if state.settling == 0 && state.broken.is_some() {
                self.wake(&state);
            }
            recorded?;
        }
        Ok(last)
    }

    /// Returns when record `seq` is written, writing it if nobody else does. It may be written and the ledger broken since.
    fn settle<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        seq: u64,
    ) -> (MutexGuard<'a, State>, Result<(), LedgerUnavailable>) {
        let mut may_look = true;
        loop {
            if self.written() > seq {
                return (state, Ok(()));
            }
            if let Some(unavailable) = state.unavailable() {
                return (state, Err(unavailable));
            }
            if !state.writing {
                state = self.take_turn(state);
            } else if may_look {
                may_look = false;
                drop(state);
                self.look_for(seq);
                state = self.lock();
            } else {
                state = self.sleep(state);
            }
        }
    }

    fn look_for(&self, seq: u64) {
        for _ in 0..LOOKS_BEFORE_SLEEP {
            if self.written() > seq {
                return;
            }
            std::hint::spin_loop();
        }
    }

    fn sleep<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiting += 1;
        let mut state = self
            .turn
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        state
    }

    fn wake(&self, state: &State) {
        if state.waiting > 0 {
            self.turn.notify_all();
        }
    }

    /// Writes batch after batch until nothing is pending or the turn is over.
    fn take_turn<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.writing = true;
        for _ in 0..BATCHES_PER_TURN {
            if state.pending.is_empty() {
                break;
            }
            state = self.write_batch(state);
            self.wake(&state);
            if state.broken.is_some() {
                break;
            }
        }
        state.writing = false;
        self.wake(&state);
        state
    }

    fn write_batch<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let rolls = state.segment.size >= self.segment_limit;
        if rolls {
            carry_open_intents(&mut state, (self.clock)().unix_ms);
        }
        let spare = std::mem::take(&mut state.spare);
        let batch = std::mem::replace(&mut state.pending, spare);
        let (first_seq, next_seq, head, count) = (
            self.written(),
            state.next_seq,
            state.head,
            state.leaves.len(),
        );
        let mut segment = state.segment.clone();
        let answers = std::mem::take(&mut state.pending_answers);
        drop(state);

        let result = self.put(&mut segment, &batch, rolls.then_some(first_seq));

        let mut state = self.lock();
        let finished = std::mem::replace(&mut state.segment, segment);
        match result {
            Ok(()) => {
                state.acknowledge(count, next_seq, head);
                self.set_written(next_seq);
            }
            Err(error) => {
                state.unrecorded += answers;
                self.fail(&mut state, "writing", &error);
                state.suspect_from(finished.first_seq);
            }
        }
        state.spare = batch;
        state.spare.clear();
        state
    }

    /// Appends `batch` to the segment, or to a new one named `roll_to`.
    fn put(&self, segment: &mut Segment, batch: &[u8], roll_to: Option<u64>) -> io::Result<()> {
        self.bodies.flush(&*self.disk, &self.dir, self.written())?;
        if let Some(first_seq) = roll_to {
            segment.file.sync()?;
            *segment = new_segment(&*self.disk, &self.dir, first_seq)?;
        }
        append_or_cut(segment, batch)
    }

    /// [`Writer::fail`] by a caller who does not hold the lock.
    pub(crate) fn break_down(
        &self,
        doing: &str,
        error: &io::Error,
        segment: Option<u64>,
    ) -> LedgerUnavailable {
        let mut state = self.lock_idle();
        self.fail(&mut state, doing, error);
        segment
            .into_iter()
            .for_each(|first_seq| state.suspect_from(first_seq));
        LedgerUnavailable {
            reason: state.broken.clone().unwrap_or_default(),
        }
    }

    /// From here on nothing is acknowledged until the tail has been read again.
    fn fail(&self, state: &mut State, doing: &str, error: &io::Error) {
        let written = self.written();
        let path = segment_path(&self.dir, state.segment.first_seq);
        state.broken = Some(format!("{doing} {} failed: {error}", path.display()).into());
        let suspect = state.segment.first_seq;
        state.suspect_from(suspect);
        state.unrecorded += std::mem::take(&mut state.pending_answers);
        state.pending.clear();
        state.leaves.clear();
        state.live.retain(|seq, _| *seq < written);
    }

    /// Writes `drafts` while the caller keeps the lock: for recovery, when nobody else may come between.
    pub(crate) fn write_alone(&self, state: &mut State, drafts: &[Draft<'_>]) -> io::Result<()> {
        let unix_ms = (self.clock)().unix_ms;
        let mut fields = Vec::new();
        for draft in drafts {
            fields.clear();
            encode::fields(&mut fields, unix_ms, draft);
            state.chain(&fields);
        }
        let batch = std::mem::take(&mut state.pending);
        append_or_cut(&mut state.segment, &batch)?;
        state.segment.file.sync()?;
        let (count, next_seq, head) = (state.leaves.len(), state.next_seq, state.head);
        state.acknowledge(count, next_seq, head);
        self.set_written(next_seq);
        Ok(())
    }
}

/// How a call without an intent ended: what has an intent gets an outcome from recovery.
fn is_answer(draft: &Draft<'_>) -> bool {
    matches!(draft.kind, Kind::Refusal | Kind::Outcome) && draft.intent.is_none()
}

pub(crate) fn new_segment(disk: &dyn Disk, dir: &Path, first_seq: u64) -> io::Result<Segment> {
    let file = disk.open(&segment_path(dir, first_seq))?;
    disk.sync_dir(dir)?;
    Ok(Segment {
        first_seq,
        size: 0,
        file,
    })
}

/// Appends the whole batch, or leaves the segment as it was. Nobody is told that any of a batch is recorded that failed, so whole records
/// at its beginning must not stay either: changes that were written together were made together or not at all. Where the cut fails too,
/// and after a power cut, reading the tail again finds records that nobody was told of.
fn append_or_cut(segment: &mut Segment, batch: &[u8]) -> io::Result<()> {
    if let Err(error) = append_all(&*segment.file, batch) {
        let _cut = segment.file.truncate(segment.size);
        return Err(error);
    }
    segment.size += batch.len() as u64;
    Ok(())
}

pub(crate) fn append_all(file: &dyn SegmentFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.append(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(taken) => bytes = bytes.get(taken..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
