//! The windows of some sessions, behind one lock.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Entry, Spent};

/// The sessions whose keys fall into one part.
#[derive(Default)]
pub(super) struct Shard {
    sessions: HashMap<[u8; 16], Window>,
}

/// What one session has spent, by the second it was signed in.
///
/// Everything from `newest` less the time to keep on is in `spent`; what is stamped earlier is refused. `newest` only rises.
#[derive(Default)]
struct Window {
    /// The latest second the window knows of.
    newest: u64,
    /// The latest second in which something was spent, or tried.
    used: u64,
    spent: BTreeMap<u64, HashSet<[u8; 32]>>,
    count: usize,
}

impl Window {
    /// Moves the window forward; gives how many digests left it.
    fn advance(&mut self, now: u64, keep: u64) -> usize {
        self.newest = self.newest.max(now);
        let horizon = self.newest.saturating_sub(keep);
        let mut removed = 0;
        while let Some(oldest) = self
            .spent
            .first_entry()
            .filter(|oldest| *oldest.key() < horizon)
        {
            removed += oldest.remove().len();
        }
        self.count -= removed;
        removed
    }
}

impl Shard {
    pub(super) fn knows(&self, session: &[u8; 16]) -> bool {
        self.sessions.contains_key(session)
    }

    pub(super) fn advance(&mut self, session: &[u8; 16], now: u64, keep: u64) -> usize {
        let window = self.sessions.entry(*session).or_default();
        window.used = window.used.max(now);
        window.advance(now, keep)
    }

    /// Adds a digest to a session's window; gives how many were added. The one place that decides who wins.
    pub(super) fn spend(&mut self, entry: &Entry, keep: u64, room: usize) -> Result<usize, Spent> {
        let window = self.sessions.entry(entry.session).or_default();
        if !entry.is_spent() {
            return Ok(0);
        }
        if entry.seconds < window.newest.saturating_sub(keep) {
            return Err(Spent::BeforeHorizon);
        }
        let signed_then = window.spent.entry(entry.seconds).or_default();
        if signed_then.contains(&entry.digest) {
            return Err(Spent::Replayed);
        }
        if window.count >= room {
            return Err(Spent::Full);
        }
        signed_then.insert(entry.digest);
        window.count += 1;
        Ok(1)
    }

    pub(super) fn sweep(&mut self, now: u64, keep: u64) -> usize {
        self.sessions
            .values_mut()
            .map(|window| window.advance(now, keep))
            .sum()
    }

    pub(super) fn forget(&mut self, session: &[u8; 16]) -> Option<usize> {
        self.sessions.remove(session).map(|window| window.count)
    }

    /// When each session was used last.
    pub(super) fn used(&self) -> Vec<u64> {
        self.sessions.values().map(|window| window.used).collect()
    }

    /// Drops the sessions that were last used by a second; gives how many there were, and how many digests they had.
    pub(super) fn drop_used_by(&mut self, second: u64) -> (usize, usize) {
        let (mut sessions, mut spent) = (0, 0);
        self.sessions.retain(|_, window| {
            let stays = window.used > second;
            sessions += usize::from(!stays);
            spent += if stays { 0 } else { window.count };
            stays
        });
        (sessions, spent)
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        let windows = self.sessions.iter();
        windows
            .flat_map(|(session, window)| {
                let spent = window.spent.iter().flat_map(|(second, digests)| {
                    digests.iter().map(move |digest| (*second, *digest))
                });
                let spent = spent.map(|(second, digest)| Entry::spent(*session, digest, second));
                spent.chain([Entry::newest(*session, window.newest)])
            })
            .collect()
    }
}
