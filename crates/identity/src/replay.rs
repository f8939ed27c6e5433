//! The replay window: of the envelopes with one signature, one is accepted, once, for good.
//!
//! What is spent is the digest of session and signature. It stays known for twice the freshness window after the latest time at which
//! its session was used; what lies further back is forgotten together, and from then on refused by its time alone. That horizon belongs
//! to the session and only moves forward, so a clock that is set back brings nothing forgotten to life again, while a session that
//! begins after that has no past and works.
//!
//! A win is journalled before it is told. Memory is bounded: when it is full, envelopes are refused, never forgotten early.
//!
//! **Invariant: nothing is accepted twice**, whatever the clock does and however often the process dies. Tests
//! `of_64_threads_with_the_same_envelopes_exactly_one_wins_each`, `a_clock_set_back_readmits_nothing`,
//! `nothing_is_accepted_twice`, `a_torn_or_changed_journal_is_noticed_and_nothing_is_readmitted`.

mod entry;
mod window;

use std::{
    fmt, io,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use sha2::{Digest, Sha256};
use thiserror::Error;

pub use entry::Entry;
use window::Shard;

/// Locks that sessions share. Signing costs the client more than this costs the gate, so one lock per session is enough.
const SHARDS: usize = 64;

/// Where wins are written down. An append must have reached the kernel when it returns: then it outlives the process.
///
/// To compact: let appends go to a new file too, copy [`Replay::live_entries`] into it, then put it in the place of the old one. The
/// order of entries does not matter, and having one twice does no harm.
pub trait Journal: Send + Sync {
    fn append(&self, entry: &[u8; Entry::LEN]) -> io::Result<()>;
}

/// How much is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The freshness window; digests are kept for twice as long.
    pub window_seconds: u64,
    /// Digests of all sessions together.
    pub spent: usize,
    /// Digests of one session, so that none can fill the window for the others.
    pub spent_per_session: usize,
    /// Sessions with a horizon; tell the window of those that ended with [`Replay::forget`].
    pub sessions: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            window_seconds: 30,
            spent: 1 << 20,
            spent_per_session: 1 << 17,
            sessions: 1 << 16,
        }
    }
}

/// Why an envelope is not accepted although it is signed.
#[derive(Debug, Error)]
pub enum Spent {
    #[error("this envelope was accepted before; sign a new one with another request id")]
    Replayed,
    #[error(
        "this envelope is older than what the gate remembers of its session; check the clock and sign a new one"
    )]
    BeforeHorizon,
    #[error("the gate cannot remember more envelopes at the moment; try again in a minute")]
    Full,
    #[error("the gate cannot write down that it accepted this envelope: {0}")]
    Journal(#[from] io::Error),
}

/// What became of a journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Restored {
    pub entries: usize,
    /// Entries that were not what was once written. Everything up to the newest time of the journal is then refused, because one of
    /// them may have been a win.
    pub damaged: usize,
}

/// The window. Shared by all threads.
pub struct Replay {
    shards: [Mutex<Shard>; SHARDS - 1],
    last_shard: Mutex<Shard>,
    bounds: Bounds,
    journal: Box<dyn Journal>,
    /// Digests in memory.
    spent: AtomicUsize,
    sessions: AtomicUsize,
    /// Envelopes of any session stamped before this second are refused.
    floor: AtomicU64,
    /// The second of the last sweep that was made because something was full.
    swept: AtomicU64,
}

impl Replay {
    #[must_use]
    pub fn new(journal: Box<dyn Journal>, bounds: Bounds) -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            last_shard: Mutex::default(),
            bounds,
            journal,
            spent: AtomicUsize::new(0),
            sessions: AtomicUsize::new(0),
            floor: AtomicU64::new(0),
            swept: AtomicU64::new(0),
        }
    }

    /// Accepts an envelope, if nobody did before. Its freshness and its signature have been checked.
    pub fn spend(
        &self,
        session: &str,
        signature: &[u8; 64],
        signed_at: u64,
        now_ms: u64,
    ) -> Result<(), Spent> {
        self.spend_digest(
            session,
            &digest(&[session.as_bytes(), signature]),
            signed_at,
            now_ms,
        )
    }

    /// Accepts anything that has a digest and a time, once per session.
    pub fn spend_digest(
        &self,
        session: &str,
        digest: &[u8; 32],
        at: u64,
        now_ms: u64,
    ) -> Result<(), Spent> {
        let now = now_ms / 1000;
        let session = entry::session_key(session);
        self.make_room(now)?;
        let entry = Entry::spent(session, *digest, at);
        self.note(&entry, now, &self.bounds)?;
        // Outside the lock: whoever comes second is refused by memory, not by the disk.
        Ok(self.journal.append(&entry.to_bytes())?)
    }

    /// Puts an entry where it belongs.
    fn note(&self, entry: &Entry, now: u64, bounds: &Bounds) -> Result<(), Spent> {
        let mut shard = self.shard(&entry.session);
        if entry.seconds < self.floor.load(Ordering::Acquire) {
            return Err(Spent::BeforeHorizon);
        }
        if !shard.knows(&entry.session) {
            if self.sessions.load(Ordering::Acquire) >= bounds.sessions {
                return Err(Spent::Full);
            }
            self.sessions.fetch_add(1, Ordering::AcqRel);
        }
        let removed = shard.advance(&entry.session, now, self.keep());
        self.spent.fetch_sub(removed, Ordering::AcqRel);
        let added = shard.spend(entry, self.keep(), bounds.spent_per_session)?;
        self.spent.fetch_add(added, Ordering::AcqRel);
        Ok(())
    }

    /// For how many seconds a digest is kept.
    fn keep(&self) -> u64 {
        self.bounds.window_seconds.saturating_mul(2)
    }

    /// Drops what is out of every window, if something is full and that was not just tried.
    fn make_room(&self, now: u64) -> Result<(), Spent> {
        let full = || self.spent.load(Ordering::Acquire) >= self.bounds.spent;
        let crowded = || self.sessions.load(Ordering::Acquire) >= self.bounds.sessions;
        if !full() && !crowded() {
            return Ok(());
        }
        if self.swept.swap(now, Ordering::AcqRel) != now {
            self.sweep(now.saturating_mul(1000));
            if crowded() {
                self.drop_oldest_sessions(now);
            }
        }
        if full() { Err(Spent::Full) } else { Ok(()) }
    }

    /// Forgets what no fresh envelope can repeat any more, in sessions that are idle too.
    pub fn sweep(&self, now_ms: u64) {
        for shard in self.all() {
            let removed = lock(shard).sweep(now_ms / 1000, self.keep());
            self.spent.fetch_sub(removed, Ordering::AcqRel);
        }
    }

    /// Makes room for new sessions by forgetting those that were idle longest, an eighth of all, if they were idle for so long that
    /// nothing they spent can be fresh. It is refused by its time from then on, in every session: so a clock that is set back cannot
    /// bring it to life here either.
    fn drop_oldest_sessions(&self, now: u64) {
        let mut used: Vec<u64> = self.all().flat_map(|shard| lock(shard).used()).collect();
        used.sort_unstable();
        let long_ago = now.saturating_sub(self.keep() + 1);
        let Some(cutoff) = used
            .get(used.len() / 8)
            .map(|cutoff| (*cutoff).min(long_ago))
        else {
            return;
        };
        // First the floor, then the sessions: nobody finds neither.
        self.raise_floor(cutoff.saturating_add(self.bounds.window_seconds + 1));
        for shard in self.all() {
            let (sessions, spent) = lock(shard).drop_used_by(cutoff);
            self.sessions.fetch_sub(sessions, Ordering::AcqRel);
            self.spent.fetch_sub(spent, Ordering::AcqRel);
        }
    }

    /// A session has ended for good and its id is never used again: what is known of it goes.
    pub fn forget(&self, session: &str) {
        let session = entry::session_key(session);
        if let Some(removed) = self.shard(&session).forget(&session) {
            self.sessions.fetch_sub(1, Ordering::AcqRel);
            self.spent.fetch_sub(removed, Ordering::AcqRel);
        }
    }

    /// Refuses everything stamped before a second, for a gate whose journal was lost.
    pub fn raise_floor(&self, second: u64) {
        self.floor.fetch_max(second, Ordering::AcqRel);
    }

    /// Takes in a journal, in any order. A half-written last entry was never told to anybody: leave it out.
    pub fn restore(
        &self,
        entries: impl IntoIterator<Item = [u8; Entry::LEN]>,
        now_ms: u64,
    ) -> Restored {
        // What was won is never given up for a bound; it was within one when it was written.
        let unbounded = Bounds {
            spent_per_session: usize::MAX,
            sessions: usize::MAX,
            ..self.bounds
        };
        let mut restored = Restored::default();
        let mut newest = 0;
        for bytes in entries {
            let Some(entry) = Entry::read(&bytes) else {
                restored.damaged += 1;
                continue;
            };
            restored.entries += 1;
            newest = newest.max(entry.seconds);
            if entry.is_floor() {
                self.raise_floor(entry.seconds);
            } else {
                // A digest that is there already, or lies before its session's horizon, is covered.
                let _ = self.note(&entry, entry.seconds, &unbounded);
            }
        }
        if restored.damaged > 0 {
            // The latest second that an envelope could carry which was accepted before now.
            self.raise_floor(newest.max(now_ms / 1000).saturating_add(self.keep() + 1));
        }
        restored
    }

    /// Everything that a new journal must hold. Wins during the walk are in the old journal and in the new one.
    #[must_use]
    pub fn live_entries(&self) -> Vec<[u8; Entry::LEN]> {
        let floor = self.floor.load(Ordering::Acquire);
        let mut entries: Vec<Entry> = (floor > 0)
            .then(|| Entry::floor(floor))
            .into_iter()
            .collect();
        for shard in self.all() {
            entries.extend(lock(shard).entries());
        }
        entries.into_iter().map(Entry::to_bytes).collect()
    }

    /// Digests that are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spent.load(Ordering::Acquire)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard(&self, session: &[u8; 16]) -> MutexGuard<'_, Shard> {
        let [first, ..] = *session;
        lock(
            self.shards
                .get(usize::from(first) % SHARDS)
                .unwrap_or(&self.last_shard),
        )
    }

    fn all(&self) -> impl Iterator<Item = &Mutex<Shard>> {
        self.shards.iter().chain([&self.last_shard])
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A digest of parts, each with its length, so that no two lists of parts share one.
pub(crate) fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Replay({} spent)", self.len())
    }
}
