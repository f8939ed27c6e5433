//! The counters of this gate: 31 for each address, each of a thirtieth of the window.
//!
//! The oldest is counted whole, so no window of the length that was promised ever holds more than the limit, wherever it begins; somebody who
//! comes steadily gets a thirtieth less than it. There is room for [`MOST`] addresses; beyond it those go that came longest ago.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Counters in a window, besides the one that is being filled.
pub(super) const PARTS: u64 = 30;
const COUNTERS: usize = 31;
/// Addresses that are counted at once, about 16 MB of them.
const MOST: usize = 100_000;
const SHARDS: usize = 16;

#[derive(Debug)]
pub(super) struct Local {
    /// How long one counter counts, in milliseconds.
    step: u64,
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
}

/// Two generations, so that the oldest go without being looked for: when one is full, the one before it is dropped.
#[derive(Debug, Default)]
struct Shard {
    now: HashMap<IpAddr, Box<Counts>>,
    before: HashMap<IpAddr, Box<Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    newest: u64,
    counts: [u32; COUNTERS],
    refused: u32,
}

pub(super) enum Taken {
    /// It is the so-manieth in its window, counted in this counter.
    Yes {
        so_far: u32,
        bucket: u64,
    },
    No {
        retry: Duration,
        in_a_row: u32,
    },
}

impl Counts {
    fn slot(&mut self, bucket: u64) -> Option<&mut u32> {
        let at = usize::try_from(bucket % COUNTERS as u64).unwrap_or(0);
        self.counts.get_mut(at)
    }

    /// Empties the counters of times that have passed.
    fn roll(&mut self, bucket: u64) {
        let passed = bucket.saturating_sub(self.newest).min(COUNTERS as u64);
        for later in 1..=passed {
            let emptied = self.newest.wrapping_add(later);
            // After a long silence all of them are emptied, whichever they are.
            if let Some(count) = self.slot(emptied) {
                *count = 0;
            }
        }
        self.newest = self.newest.max(bucket);
    }

    /// Counters until so many have passed out of the window that there is room for one more.
    fn until_room(&mut self, limit: u32) -> u64 {
        let mut left: u32 = self.counts.iter().sum();
        let oldest = self.newest.saturating_sub(PARTS);
        for bucket in oldest..=self.newest {
            left -= self.slot(bucket).map_or(0, |count| *count);
            if left < limit {
                return bucket + PARTS + 1;
            }
        }
        self.newest + PARTS + 1
    }
}

impl Local {
    pub(super) fn new(window: Duration) -> Self {
        let window = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
        Self {
            step: (window / PARTS).max(1),
            hasher: RandomState::new(),
            shards: Default::default(),
        }
    }

    /// How long one counter counts.
    pub(super) fn step(&self) -> Duration {
        Duration::from_millis(self.step)
    }

    fn shard(&self, address: IpAddr) -> MutexGuard<'_, Shard> {
        let [first, ..] = &self.shards;
        let at = usize::try_from(self.hasher.hash_one(address) % SHARDS as u64);
        let shard = at.ok().and_then(|at| self.shards.get(at));
        shard
            .unwrap_or(first)
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        let held = |shard: &Mutex<Shard>| {
            let shard = shard.lock().unwrap();
            shard.now.len() + shard.before.len()
        };
        self.shards.iter().map(held).sum()
    }

    pub(super) fn take(&self, address: IpAddr, limit: u32, now_ms: u64) -> Taken {
        let bucket = now_ms / self.step;
        let mut shard = self.shard(address);
        let counts = shard.of(address);
        counts.roll(bucket);
        let sum: u32 = counts.counts.iter().sum();
        if sum >= limit {
            counts.refused = counts.refused.saturating_add(1);
            let at = counts.until_room(limit) * self.step;
            return Taken::No {
                retry: Duration::from_millis(at.saturating_sub(now_ms).max(1)),
                in_a_row: counts.refused,
            };
        }
        counts.refused = 0;
        if let Some(count) = counts.slot(bucket) {
            *count += 1;
        }
        Taken::Yes {
            so_far: sum + 1,
            bucket,
        }
    }

    /// Uncounts one that was refused after all; how many were in a row.
    pub(super) fn give_back(&self, address: IpAddr, bucket: u64) -> u32 {
        let mut shard = self.shard(address);
        let counts = shard.of(address);
        if counts.newest.saturating_sub(bucket) <= PARTS
            && let Some(count) = counts.slot(bucket)
        {
            *count = count.saturating_sub(1);
        }
        // What passed here and was refused by the store was refused.
        counts.refused = counts.refused.saturating_add(1);
        counts.refused
    }
}

impl Shard {
    fn of(&mut self, address: IpAddr) -> &mut Counts {
        if !self.now.contains_key(&address) {
            if self.now.len() >= MOST / SHARDS / 2 {
                self.before = std::mem::take(&mut self.now);
            }
            if let Some(counts) = self.before.remove(&address) {
                self.now.insert(address, counts);
            }
        }
        self.now.entry(address).or_default()
    }
}
