//! How many calls an execution has made, and up to how many are on disk as used up.
//!
//! **Invariant: where there is a limit, a call goes on only if it is on disk as used up.** To spare the hot path, the disk is told in
//! steps ahead of the count: a crash may cost an execution a few calls, and never gives one back. Tests
//! `what_an_execution_used_up_survives_a_killed_gate`, `never_more_than_the_limit`.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

/// Tools that are counted one by one; further ones share a count.
const MAX_TOOLS: usize = 1024;
/// The name of that count, which no tool has.
const OTHERS: &str = "*";
/// So much of a limit is put on disk at once, and so many calls at most.
const STEP_OF_LIMIT: u64 = 64;
const MAX_STEP: u64 = 64;

/// How many calls one execution may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    pub all: Option<u64>,
    /// The lowest of what single tools may be called.
    pub of_tool: Option<u64>,
}

/// How many calls of the execution came before this one, and of this tool among them.
#[derive(Debug, Clone, Copy, Default)]
pub struct SoFar {
    pub calls: u64,
    pub of_tool: u64,
}

/// Calls of one kind.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    made: u64,
    /// So many are on disk as used up.
    kept: u64,
}

impl Tally {
    const fn resumed(kept: u64) -> Self {
        Self { made: kept, kept }
    }

    /// How many to put on disk before one more goes on; `None` if enough are.
    fn wanted(self, limit: Option<u64>) -> Option<u64> {
        let limit = limit.filter(|_| self.made > self.kept)?;
        let step = (limit / STEP_OF_LIMIT).clamp(1, MAX_STEP);
        let ahead = self.made.saturating_add(step - 1);
        Some(if self.made <= limit {
            ahead.min(limit)
        } else {
            ahead
        })
    }
}

#[derive(Debug, Default)]
struct Tallies {
    all: Tally,
    by_tool: HashMap<String, Tally>,
}

impl Tallies {
    /// Under which a tool is counted.
    fn key<'a>(&self, tool: &'a str) -> &'a str {
        if self.by_tool.len() < MAX_TOOLS || self.by_tool.contains_key(tool) {
            tool
        } else {
            OTHERS
        }
    }
}

/// Calls that were let in, or may be yet.
#[derive(Debug, Default)]
pub struct Calls {
    tallies: Mutex<Tallies>,
    /// Held while the disk is told.
    pub keeping: tokio::sync::Mutex<()>,
}

impl Calls {
    /// Goes on from what is on disk: the number for each tool, and for none of them the number for all.
    pub fn resume(&self, used: impl IntoIterator<Item = (String, u64)>) {
        self.with(|tallies| {
            for (tool, calls) in used {
                match tool.as_str() {
                    "" => tallies.all = Tally::resumed(calls),
                    _ => drop(tallies.by_tool.insert(tool, Tally::resumed(calls))),
                }
            }
        });
    }

    fn with<T>(&self, look: impl FnOnce(&mut Tallies) -> T) -> T {
        look(&mut self.tallies.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts a call of a tool; gives what came before it.
    pub fn begin(&self, tool: &str) -> SoFar {
        self.with(|tallies| {
            let key = tallies.key(tool).to_owned();
            let of_tool = tallies.by_tool.entry(key).or_default();
            let so_far = SoFar {
                calls: tallies.all.made,
                of_tool: of_tool.made,
            };
            of_tool.made += 1;
            tallies.all.made += 1;
            so_far
        })
    }

    pub fn so_far(&self, tool: &str) -> SoFar {
        self.with(|tallies| {
            let of_tool = tallies
                .by_tool
                .get(tallies.key(tool))
                .map_or(0, |tally| tally.made);
            SoFar {
                calls: tallies.all.made,
                of_tool,
            }
        })
    }

    /// A call was not let in after all.
    pub fn give_back(&self, tool: &str) {
        self.with(|tallies| {
            tallies.all.made = tallies.all.made.saturating_sub(1);
            let key = tallies.key(tool);
            if let Some(tally) = tallies.by_tool.get_mut(key) {
                tally.made = tally.made.saturating_sub(1);
                if tally.made == 0 && tally.kept == 0 {
                    tallies.by_tool.remove(key);
                }
            }
        });
    }

    /// What must be on disk before a call of this tool goes on, as [`resume`](Calls::resume) takes it; nothing if it is.
    pub fn wanted(&self, tool: &str, limits: Limits) -> Vec<(String, u64)> {
        self.with(|tallies| {
            let key = tallies.key(tool);
            let of_tool = tallies
                .by_tool
                .get(key)
                .and_then(|tally| tally.wanted(limits.of_tool));
            let all = tallies
                .all
                .wanted(limits.all)
                .map(|calls| (String::new(), calls));
            all.into_iter()
                .chain(of_tool.map(|calls| (key.to_owned(), calls)))
                .collect()
        })
    }

    /// It is on disk.
    pub fn kept(&self, used: &[(String, u64)]) {
        self.with(|tallies| {
            for (tool, calls) in used {
                let tally = match tool.as_str() {
                    "" => &mut tallies.all,
                    _ => tallies.by_tool.entry(tool.clone()).or_default(),
                };
                tally.kept = tally.kept.max(*calls);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn calls_of(all: u64) -> Limits {
        Limits {
            all: Some(all),
            of_tool: None,
        }
    }

    #[test]
    fn a_small_limit_is_kept_call_by_call_and_a_large_one_in_steps() {
        for (limit, expected) in [(3, 1), (127, 1), (200, 3), (1_000_000, 64)] {
            let calls = Calls::default();
            calls.begin("a__b");
            assert_eq!(
                calls.wanted("a__b", calls_of(limit)),
                [(String::new(), expected)],
                "{limit}"
            );
        }
        let calls = Calls::default();
        calls.begin("a__b");
        assert_eq!(calls.wanted("a__b", Limits::default()), [], "nobody asks");
        let both = calls.wanted(
            "a__b",
            Limits {
                all: Some(3),
                of_tool: Some(2),
            },
        );
        assert_eq!(both, [(String::new(), 1), ("a__b".to_owned(), 1)]);
        calls.kept(&both);
        assert_eq!(
            calls.wanted(
                "a__b",
                Limits {
                    all: Some(3),
                    of_tool: Some(2)
                }
            ),
            []
        );
    }

    #[test]
    fn a_limit_that_comes_later_finds_what_was_made_before() {
        let calls = Calls::default();
        for _ in 0..5 {
            calls.begin("a__b");
        }
        assert_eq!(calls.wanted("a__b", calls_of(3)), [(String::new(), 5)]);
    }

    #[test]
    fn what_is_kept_is_not_forgotten_when_a_call_is_given_back() {
        let calls = Calls::default();
        calls.begin("a__b");
        calls.kept(&[("a__b".to_owned(), 1)]);
        calls.give_back("a__b");
        calls.begin("a__b");
        assert_eq!(
            calls.wanted(
                "a__b",
                Limits {
                    all: None,
                    of_tool: Some(9)
                }
            ),
            []
        );
    }

    proptest! {
        /// Whenever it stops and is resumed, no more are let in than the limit, and a clean run gets all of them.
        #[test]
        fn never_more_than_the_limit(limit in 1_u64..400, stops in proptest::collection::vec(0_u64..90, 0..6)) {
            let (mut disk, mut let_in) = (0, 0);
            for run in stops.iter().copied().chain([u64::MAX]) {
                let calls = Calls::default();
                calls.resume([(String::new(), disk)]);
                for _ in 0..run.min(limit + 1) {
                    if calls.begin("a__b").calls >= limit {
                        calls.give_back("a__b");
                        break;
                    }
                    let wanted = calls.wanted("a__b", calls_of(limit));
                    disk = wanted.first().map_or(disk, |(_, used)| *used);
                    calls.kept(&wanted);
                    let_in += 1;
                }
                prop_assert!(let_in <= disk && disk <= limit, "{let_in} of {limit}, {disk} on disk");
            }
            let step = (limit / STEP_OF_LIMIT).clamp(1, MAX_STEP);
            prop_assert!(let_in + (step - 1) * stops.len() as u64 >= limit, "{let_in} of {limit}");
        }
    }
}
