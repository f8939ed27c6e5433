//! How calls ended and how long they took, counted for whoever watches the gate.
//!
//! No label is a caller's text: servers are those that calls were resolved to, verdicts and rules are words of the catalogue. Counts lie in
//! shards, so that no lock is shared by all calls.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

const SHARDS: usize = 16;
/// Rows of a shard. There are as many as servers, verdicts and rules that meet; beyond it they are counted together.
const MOST_ROWS: usize = 2_000;
/// What stands for all that have no row of their own.
const OTHER: &str = "_OTHER";
/// Upper ends, in milliseconds.
const ENDS: [u64; 14] = [
    10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000,
];

/// Server, verdict, rule.
type Key = (String, &'static str, String);

#[derive(Debug, Default)]
pub(crate) struct Tally {
    shards: [Mutex<BTreeMap<Key, u64>>; SHARDS],
    turn: AtomicU64,
    /// One more than there are ends: the last is for what took longer.
    durations: [AtomicU64; ENDS.len() + 1],
    micros: AtomicU64,
}

/// What was counted since the gate opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tallied {
    /// Server (empty where none was found), verdict, rule (empty where none was broken), and how many.
    pub calls: Vec<(String, &'static str, String, u64)>,
    /// Upper end in milliseconds, and how many took no longer.
    pub durations: Vec<(u64, u64)>,
    pub count: u64,
    pub micros: u64,
}

impl Tally {
    pub(crate) fn count(&self, server: &str, verdict: &'static str, rule: &str, took: Duration) {
        let at = ENDS
            .iter()
            .position(|end| took <= Duration::from_millis(*end))
            .unwrap_or(ENDS.len());
        if let Some(count) = self.durations.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % SHARDS as u64;
        let Some(shard) = usize::try_from(turn)
            .ok()
            .and_then(|turn| self.shards.get(turn))
        else {
            return;
        };
        let mut rows = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (server.to_owned(), verdict, rule.to_owned());
        if rows.len() >= MOST_ROWS && !rows.contains_key(&key) {
            let other = (OTHER.to_owned(), verdict, OTHER.to_owned());
            *rows.entry(other).or_default() += 1;
            return;
        }
        *rows.entry(key).or_default() += 1;
    }

    pub(crate) fn read(&self) -> Tallied {
        let mut all: BTreeMap<Key, u64> = BTreeMap::new();
        for shard in &self.shards {
            let rows = shard.lock().unwrap_or_else(PoisonError::into_inner);
            for (key, count) in rows.iter() {
                *all.entry(key.clone()).or_default() += count;
            }
        }
        let mut count = 0;
        let mut durations = Vec::new();
        for (at, counter) in self.durations.iter().enumerate() {
            count += counter.load(Ordering::Relaxed);
            if let Some(end) = ENDS.get(at) {
                durations.push((*end, count));
            }
        }
        Tallied {
            calls: all
                .into_iter()
                .take(MOST_ROWS)
                .map(|((server, verdict, rule), count)| (server, verdict, rule, count))
                .collect(),
            durations,
            count,
            micros: self.micros.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_all_shards_are_one_and_rows_are_bounded() {
        let tally = Tally::default();
        for nth in 0..1_000_u64 {
            tally.count("a", "permitted", "", Duration::from_millis(nth));
        }
        let read = tally.read();
        assert_eq!(
            read.calls,
            [("a".to_owned(), "permitted", String::new(), 1_000)]
        );
        assert_eq!(
            (read.count, read.durations[0], read.durations[6]),
            (1_000, (10, 11), (1_000, 1_000))
        );
        for nth in 0..100_000 {
            tally.count(
                &format!("s{nth}"),
                "refused",
                "ToolNotFound",
                Duration::ZERO,
            );
        }
        let read = tally.read();
        assert!(read.calls.len() <= MOST_ROWS, "{}", read.calls.len());
        assert_eq!(read.count, 101_000);
    }
}
