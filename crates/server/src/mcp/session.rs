//! Legacy sessions: 128 random bits that name a conversation, never a credential.
//!
//! A session belongs to the caller and the mount it began with; for anyone else it does not exist. Their number is bounded per
//! caller and overall, and the idle ones expire.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use vocab::ServerId;
use wire::mcp::Revision;

use super::{
    peer::{Peer, lock},
    stream::Streams,
};

/// Nothing was heard of a session for this long, and nobody reads a stream of it.
const IDLE: Duration = Duration::from_secs(8 * 3600);
/// Expired sessions are looked for this often, when there is room without ending them.
const SWEEP: Duration = Duration::from_secs(60);
const SHARDS: usize = 16;

pub(crate) struct Session {
    pub(crate) id: Arc<str>,
    pub(crate) caller: String,
    pub(crate) mount: Option<ServerId>,
    pub(crate) revision: Revision,
    pub(crate) capabilities: Bytes,
    pub(crate) peer: Arc<Peer>,
    pub(crate) streams: Arc<Streams>,
    used: AtomicU64,
}

impl Session {
    /// Streams begin with an event that has only an id, so that a client cut off early can resume. Older clients do not expect it.
    pub(crate) fn is_primed(&self) -> bool {
        self.revision >= Revision::V2025_11_25
    }

    fn is_idle(&self) -> bool {
        !self.peer.is_busy() && !self.streams.is_read()
    }
}

/// How a session begins.
pub(crate) struct Beginning {
    pub(crate) caller: String,
    pub(crate) mount: Option<ServerId>,
    pub(crate) revision: Revision,
    pub(crate) capabilities: Bytes,
}

pub(crate) struct Sessions {
    shards: [Mutex<HashMap<Arc<str>, Arc<Session>>>; SHARDS],
    hasher: RandomState,
    limit: AtomicUsize,
    epoch: Instant,
    swept: AtomicU64,
}

impl Sessions {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            shards: Default::default(),
            hasher: RandomState::new(),
            limit: AtomicUsize::new(limit.max(1)),
            epoch: Instant::now(),
            swept: AtomicU64::new(0),
        }
    }

    /// From the next session on there are at most so many.
    pub(crate) fn limit_to(&self, limit: usize) {
        self.limit.store(limit.max(1), Ordering::Relaxed);
    }

    fn shard(&self, id: &str) -> Option<&Mutex<HashMap<Arc<str>, Arc<Session>>>> {
        self.shards
            .get(usize::try_from(self.hasher.hash_one(id)).unwrap_or(0) % SHARDS)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Begins a session, making room by ending idle ones. Returns those that ended, whose subscriptions must be given back.
    /// `None`: there is no room and nothing idle to end.
    pub(crate) fn begin(&self, beginning: Beginning) -> Option<(Arc<Session>, Vec<Arc<Session>>)> {
        let ended = self.make_room(&beginning.caller)?;
        let session = Arc::new(Session {
            id: random_id()?,
            caller: beginning.caller,
            mount: beginning.mount,
            revision: beginning.revision,
            capabilities: beginning.capabilities,
            peer: Arc::default(),
            streams: Arc::default(),
            used: AtomicU64::new(self.now()),
        });
        lock(self.shard(&session.id)?).insert(Arc::clone(&session.id), Arc::clone(&session));
        Some((session, ended))
    }

    /// The session of that id, if it is this caller's at this mount.
    pub(crate) fn find(
        &self,
        id: &str,
        caller: &str,
        mount: Option<&ServerId>,
    ) -> Option<Arc<Session>> {
        let session = lock(self.shard(id)?).get(id).cloned()?;
        if session.caller != caller || session.mount.as_ref() != mount {
            return None;
        }
        session.used.store(self.now(), Ordering::Relaxed);
        Some(session)
    }

    pub(crate) fn end(&self, session: &Session) -> bool {
        self.shard(&session.id)
            .is_some_and(|shard| lock(shard).remove(&session.id).is_some())
    }

    /// How many sessions there are, in all and of this caller.
    fn count(&self, caller: &str) -> (usize, usize) {
        let counts = self.shards.iter().map(|shard| {
            let shard = lock(shard);
            (
                shard.len(),
                shard
                    .values()
                    .filter(|session| session.caller == caller)
                    .count(),
            )
        });
        counts.fold((0, 0), |(total, own), (more, more_own)| {
            (total + more, own + more_own)
        })
    }

    fn make_room(&self, caller: &str) -> Option<Vec<Arc<Session>>> {
        let (total, own) = self.count(caller);
        let limit = self.limit.load(Ordering::Relaxed);
        let per_caller = (limit / 4).max(16).min(limit);
        let due = self
            .now()
            .saturating_sub(self.swept.load(Ordering::Relaxed))
            > u64::try_from(SWEEP.as_millis()).unwrap_or(0);
        if own < per_caller && total < limit && !due {
            return Some(Vec::new());
        }
        self.swept.store(self.now(), Ordering::Relaxed);
        let mut all: Vec<Arc<Session>> = self
            .shards
            .iter()
            .flat_map(|shard| lock(shard).values().cloned().collect::<Vec<_>>())
            .collect();
        all.sort_by_key(|session| session.used.load(Ordering::Relaxed));
        let now = self.now();
        let idle_ms = u64::try_from(IDLE.as_millis()).unwrap_or(u64::MAX);
        let (mut total, mut own) = (total, own);
        let mut ended = Vec::new();
        for session in all {
            let is_own = session.caller == caller;
            let expired = now.saturating_sub(session.used.load(Ordering::Relaxed)) > idle_ms;
            // A caller at its limit gives up its own oldest; a full house takes the oldest of the same caller too, never a stranger's.
            let crowded = is_own && (own >= per_caller || total >= limit);
            if (expired || crowded) && session.is_idle() && self.end(&session) {
                total = total.saturating_sub(1);
                own = own.saturating_sub(usize::from(is_own));
                ended.push(session);
            }
        }
        (own < per_caller && total < limit).then_some(ended)
    }
}

/// 128 random bits in hex: visible ASCII, unguessable, without order.
fn random_id() -> Option<Arc<str>> {
    let mut bits = [0u8; 16];
    getrandom::fill(&mut bits).ok()?;
    Some(
        bits.iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
            .into(),
    )
}

#[cfg(test)]
mod tests;
