//! Many callers, one file, one write at a time: flat combining.
//!
//! A caller chains its record into the pending buffer under a short lock. If nobody is writing, it becomes the writer
//! and writes everything pending with one `write(2)`, lock released; otherwise it waits for the few microseconds that
//! takes and finds its record either written or pending, in which case it may become the writer itself. So a batch grows
//! by itself under load, and a lone caller pays one write and no hand-over.
//!
//! INVARIANT: only the thread that set `writing` touches the segment file; bytes reach it in `seq` order.

use crate::bodies::Bodies;
use crate::chain::Hash;
use crate::clock::Clock;
use crate::disk::{Disk, SegmentFile};
use crate::encode;
use crate::error::LedgerUnavailable;
use crate::record::{Draft, Kind};
use crate::recover::{ROTATED, carry, segment_path};
use crate::tree::Tree;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A writer hands over after this many batches, so that serving others cannot hold one caller for long.
const BATCHES_PER_TURN: u32 = 8;
/// How often a waiting caller looks before it sleeps; a write usually ends sooner.
const LOOKS_BEFORE_SLEEP: u32 = 200;
/// Room in one `ledger.rotated` record for the intents it carries.
const CARRIED_BYTES: usize = 3500;

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

#[derive(Debug)]
pub(crate) struct State {
    pending: Vec<u8>,
    /// The previous batch's buffer, kept for its capacity.
    spare: Vec<u8>,
    /// The hashes of the pending records.
    leaves: Vec<Hash>,
    pub(crate) next_seq: u64,
    pub(crate) head: Hash,
    /// Over all records that are written; pending ones are not in it.
    pub(crate) tree: Tree,
    /// The last record that was written, for [`crate::Ledger::reopen`].
    pub(crate) acknowledged: Option<(u64, Hash)>,
    pub(crate) segment: Segment,
    writing: bool,
    waiting: u32,
    pub(crate) broken: Option<Arc<str>>,
    /// While broken: the first segment of which the kernel may have dropped pages.
    pub(crate) suspect: Option<u64>,
    /// Counts failures: a caller that waited across one must not mistake a later record for its own.
    failures: u64,
    /// Intents that this process may still conclude: `seq` → call.
    pub(crate) live: HashMap<u64, Box<str>>,
}

/// The file being appended to.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) first_seq: u64,
    pub(crate) size: u64,
    pub(crate) file: Arc<dyn SegmentFile>,
}

impl State {
    pub(crate) fn new(segment: Segment, next_seq: u64, head: Hash, tree: Tree) -> State {
        State {
            pending: Vec::new(),
            spare: Vec::new(),
            leaves: Vec::new(),
            next_seq,
            head,
            tree,
            acknowledged: next_seq.checked_sub(1).map(|seq| (seq, head)),
            segment,
            writing: false,
            waiting: 0,
            broken: None,
            suspect: None,
            failures: 0,
            live: HashMap::new(),
        }
    }

    /// Gives the record its place in the chain; it is pending from here on.
    fn chain(&mut self, fields: &[u8]) -> (u64, Hash) {
        let seq = self.next_seq;
        self.head = encode::line(&mut self.pending, seq, &self.head, fields);
        self.leaves.push(self.head);
        self.next_seq += 1;
        (seq, self.head)
    }

    fn unavailable(&self) -> Option<LedgerUnavailable> {
        let reason = self.broken.clone()?;
        Some(LedgerUnavailable { reason })
    }

    pub(crate) fn resume_at(&mut self, segment: Segment, next_seq: u64, head: Hash, tree: Tree) {
        self.pending.clear();
        self.leaves.clear();
        self.tree = tree;
        self.segment = segment;
        self.next_seq = next_seq;
        self.head = head;
        self.acknowledged = next_seq.checked_sub(1).map(|seq| (seq, head));
        self.suspect = None;
        self.broken = None;
    }

    /// Recovery failed half way.
    pub(crate) fn break_again(&mut self, reason: Arc<str>) {
        self.broken = Some(reason);
        self.suspect_from(self.segment.first_seq);
        self.pending.clear();
        self.leaves.clear();
    }

    fn suspect_from(&mut self, first_seq: u64) {
        self.suspect = Some(self.suspect.map_or(first_seq, |earlier| earlier.min(first_seq)));
    }

    /// The first `count` pending records are written now.
    fn acknowledge(&mut self, count: usize, next_seq: u64, head: Hash) {
        for leaf in self.leaves.drain(..count.min(self.leaves.len())) {
            self.tree.push(&leaf);
        }
        self.acknowledged = next_seq.checked_sub(1).map(|seq| (seq, head));
    }
}

impl Writer {
    pub(crate) fn new(disk: Box<dyn Disk>, dir: PathBuf, clock: Clock, segment_limit: u64, state: State) -> Writer {
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

    /// Records `drafts`, already encoded by [`encode::fields`], in one piece; returns the last one's place.
    pub(crate) fn submit<'d>(
        &self,
        drafts: impl Iterator<Item = (&'d Draft<'d>, &'d [u8])>,
    ) -> Result<Option<(u64, Hash)>, LedgerUnavailable> {
        let mut state = self.lock();
        if let Some(unavailable) = state.unavailable() {
            // Nobody tries again to conclude these: recovery must, and says `indeterminate`.
            drafts.filter_map(|(draft, _)| draft.intent).for_each(|intent| drop(state.live.remove(&intent)));
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
            last = Some((seq, hash));
        }
        if let Some((seq, _)) = last {
            self.settle(state, seq)?;
        }
        Ok(last)
    }

    /// Returns when record `seq` is written, writing it if nobody else does.
    fn settle<'a>(&'a self, mut state: MutexGuard<'a, State>, seq: u64) -> Result<(), LedgerUnavailable> {
        let failures = state.failures;
        let mut may_look = true;
        loop {
            if state.failures != failures {
                let reason = state.broken.clone();
                let reason = reason.unwrap_or_else(|| "it failed while this record was waiting".into());
                return Err(LedgerUnavailable { reason });
            }
            if self.written() > seq {
                return Ok(());
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
        let mut state = self.turn.wait(state).unwrap_or_else(PoisonError::into_inner);
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
        let (first_seq, next_seq, head, count) = (self.written(), state.next_seq, state.head, state.leaves.len());
        let mut segment = state.segment.clone();
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
        append_all(&*segment.file, batch)?;
        segment.size += batch.len() as u64;
        Ok(())
    }

    /// [`Writer::fail`] by a caller who does not hold the lock.
    pub(crate) fn break_down(&self, doing: &str, error: &io::Error, segment: Option<u64>) -> LedgerUnavailable {
        let mut state = self.lock_idle();
        self.fail(&mut state, doing, error);
        segment.into_iter().for_each(|first_seq| state.suspect_from(first_seq));
        LedgerUnavailable { reason: state.broken.clone().unwrap_or_default() }
    }

    /// From here on nothing is acknowledged until the tail has been read again.
    fn fail(&self, state: &mut State, doing: &str, error: &io::Error) {
        let written = self.written();
        let path = segment_path(&self.dir, state.segment.first_seq);
        state.broken = Some(format!("{doing} {} failed: {error}", path.display()).into());
        let suspect = state.segment.first_seq;
        state.suspect_from(suspect);
        state.failures += 1;
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
        append_all(&*state.segment.file, &batch)?;
        state.segment.file.sync()?;
        state.segment.size += batch.len() as u64;
        let (count, next_seq, head) = (state.leaves.len(), state.next_seq, state.head);
        state.acknowledge(count, next_seq, head);
        self.set_written(next_seq);
        Ok(())
    }
}

/// Ends the batch that opens a new segment with the list of intents still open; `count` is how many parts follow, and the last
/// one holds the peaks of the tree over everything before it. So recovery reads one segment.
fn carry_open_intents(state: &mut State, unix_ms: u64) {
    let mut details = vec![String::new()];
    for (seq, call) in &state.live {
        let item = carry(*seq, call);
        match details.last_mut() {
            Some(detail) if detail.len() + item.len() <= CARRIED_BYTES => detail.push_str(&item),
            _ => details.push(item),
        }
    }
    let mut fields = Vec::new();
    for (part, detail) in details.iter().enumerate() {
        let following = details.len() - part - 1;
        let tree = if following == 0 { tree_with_pending(state).to_hex() } else { String::new() };
        let draft = Draft { action: ROTATED, detail, count: Some(following as u64), tree: &tree, ..Draft::default() };
        fields.clear();
        encode::fields(&mut fields, unix_ms, &draft);
        state.chain(&fields);
    }
}

fn tree_with_pending(state: &State) -> Tree {
    let mut tree = state.tree.clone();
    state.leaves.iter().for_each(|leaf| tree.push(leaf));
    tree
}

pub(crate) fn new_segment(disk: &dyn Disk, dir: &Path, first_seq: u64) -> io::Result<Segment> {
    let file = disk.open(&segment_path(dir, first_seq))?;
    disk.sync_dir(dir)?;
    Ok(Segment { first_seq, size: 0, file })
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
