use std::{
    io,
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use proptest::prelude::*;

use crate::{Bounds, Entry, Journal, Replay, Restored, Spent};

const NOW: u64 = 1_800_000_000;
const DAY: u64 = 86_400;

/// A journal in memory that can break, and that outlives the window it belongs to.
#[derive(Default, Clone)]
struct Paper(Arc<Sheet>);

#[derive(Default)]
struct Sheet {
    entries: Mutex<Vec<[u8; Entry::LEN]>>,
    broken: AtomicBool,
}

impl Journal for Paper {
    fn append(&self, entry: &[u8; Entry::LEN]) -> io::Result<()> {
        if self.0.broken.load(Ordering::Acquire) {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        self.0.entries.lock().unwrap().push(*entry);
        Ok(())
    }
}

impl Paper {
    fn entries(&self) -> Vec<[u8; Entry::LEN]> {
        self.0.entries.lock().unwrap().clone()
    }

    fn window(&self, bounds: Bounds) -> Replay {
        Replay::new(Box::new(self.clone()), bounds)
    }

    /// What a new process knows.
    fn restarted(&self, now: u64) -> (Replay, Restored) {
        let replay = self.window(Bounds::default());
        let restored = replay.restore(self.entries(), now * 1000);
        (replay, restored)
    }
}

fn signature(at: u64) -> [u8; 64] {
    let mut signature = [0x5a; 64];
    signature[..8].copy_from_slice(&at.to_le_bytes());
    signature
}

fn spend(replay: &Replay, session: &str, at: u64, second: u64, now: u64) -> Result<(), Spent> {
    replay.spend(session, &signature(at), second, now * 1000)
}

#[track_caller]
fn replayed(result: Result<(), Spent>) {
    assert!(matches!(result, Err(Spent::Replayed)), "{result:?}");
}

#[track_caller]
fn before_horizon(result: Result<(), Spent>) {
    assert!(matches!(result, Err(Spent::BeforeHorizon)), "{result:?}");
}

#[test]
fn an_envelope_is_accepted_once() {
    let replay = Paper::default().window(Bounds::default());
    spend(&replay, "s", 1, NOW, NOW).unwrap();
    replayed(spend(&replay, "s", 1, NOW, NOW));
    spend(&replay, "s", 2, NOW, NOW).unwrap();
    spend(&replay, "t", 1, NOW, NOW).unwrap();
    assert_eq!(replay.len(), 3);
}

/// A million attempts with `REPLAY_ATTEMPTS=1000000`; the count here keeps the ordinary run short.
#[test]
fn of_64_threads_with_the_same_envelopes_exactly_one_wins_each() {
    let attempts: u64 = option_env!("REPLAY_ATTEMPTS")
        .and_then(|count| count.parse().ok())
        .unwrap_or(128_000);
    let each = attempts / 64;
    let paper = Paper::default();
    let replay = paper.window(Bounds::default());
    let wins: Vec<AtomicUsize> = (0..each).map(|_| AtomicUsize::new(0)).collect();
    let start = Barrier::new(64);
    thread::scope(|scope| {
        for thread in 0..64 {
            let (replay, wins, start) = (&replay, &wins, &start);
            scope.spawn(move || {
                start.wait();
                for step in 0..each {
                    // Half of them walk the other way, so that they meet everywhere.
                    let at = if thread % 2 == 0 {
                        step
                    } else {
                        each - 1 - step
                    };
                    let session = if at % 3 == 0 { "one" } else { "other" };
                    if spend(replay, session, at, NOW + at % 30, NOW + 5).is_ok() {
                        wins[usize::try_from(at).unwrap()].fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert!(wins.iter().all(|wins| wins.load(Ordering::Relaxed) == 1));
    assert_eq!(paper.entries().len() as u64, each);
    // And after the process is killed, none.
    let (replay, restored) = paper.restarted(NOW + 5);
    assert_eq!(
        restored,
        Restored {
            entries: usize::try_from(each).unwrap(),
            damaged: 0
        }
    );
    for at in 0..each {
        replayed(spend(
            &replay,
            if at % 3 == 0 { "one" } else { "other" },
            at,
            NOW + at % 30,
            NOW + 5,
        ));
    }
}

#[test]
fn a_clock_set_back_readmits_nothing() {
    let paper = Paper::default();
    let replay = paper.window(Bounds::default());
    // An hour of calls; most of them are forgotten on the way.
    for second in 0..3600 {
        spend(&replay, "old", second, NOW + second, NOW + second).unwrap();
    }
    assert!(replay.len() <= 62, "{} kept", replay.len());
    let compacted: Vec<_> = replay.live_entries();
    assert!(compacted.len() <= 64);
    let fresh = Paper::default();
    let from_compacted = fresh.window(Bounds::default());
    from_compacted.restore(compacted, NOW * 1000);
    let (restarted, _) = paper.restarted(NOW);
    for replay in [&replay, &restarted, &from_compacted] {
        for back in [3600, 1800, 100, 61, 60, 30, 1, 0] {
            let now = NOW + 3599 - back;
            for second in (now.max(NOW + 30) - 30..=now.min(NOW + 3599)).step_by(5) {
                let refused = spend(replay, "old", second - NOW, second, now);
                assert!(
                    matches!(refused, Err(Spent::Replayed | Spent::BeforeHorizon)),
                    "{back} s back: {refused:?}"
                );
            }
        }
        // A day back, as far as the clock is concerned all that is new; but not for this session.
        before_horizon(spend(replay, "old", 1 << 40, NOW - DAY, NOW - DAY));
    }
}

#[test]
fn a_session_that_begins_after_the_clock_was_set_back_works() {
    let paper = Paper::default();
    let replay = paper.window(Bounds::default());
    spend(&replay, "old", 1, NOW, NOW).unwrap();
    let then = NOW - DAY;
    for second in 0..200 {
        for call in 0..3 {
            spend(
                &replay,
                "new",
                second * 10 + call,
                then + second,
                then + second,
            )
            .unwrap();
            replayed(spend(
                &replay,
                "new",
                second * 10 + call,
                then + second,
                then + second,
            ));
        }
    }
    before_horizon(spend(&replay, "new", 0, then, then));
    before_horizon(spend(&replay, "old", 2, then, then));
    let (replay, _) = paper.restarted(then + 200);
    spend(&replay, "new", 1 << 50, then + 200, then + 200).unwrap();
    replayed(spend(&replay, "new", 1990, then + 199, then + 200));
}

#[test]
fn no_record_no_win() {
    let paper = Paper::default();
    let replay = paper.window(Bounds::default());
    paper.0.broken.store(true, Ordering::Release);
    assert!(matches!(
        spend(&replay, "s", 1, NOW, NOW),
        Err(Spent::Journal(_))
    ));
    paper.0.broken.store(false, Ordering::Release);
    replayed(spend(&replay, "s", 1, NOW, NOW));
    spend(&replay, "s", 2, NOW, NOW).unwrap();
}

#[test]
fn a_full_window_refuses_and_room_comes_with_time() {
    let bounds = Bounds {
        spent: 100,
        spent_per_session: 60,
        ..Bounds::default()
    };
    let replay = Paper::default().window(bounds);
    for at in 0..60 {
        spend(&replay, "greedy", at, NOW, NOW).unwrap();
    }
    assert!(matches!(
        spend(&replay, "greedy", 60, NOW, NOW),
        Err(Spent::Full)
    ));
    for at in 0..40 {
        spend(&replay, &format!("modest {at}"), at, NOW, NOW).unwrap();
    }
    assert!(matches!(
        spend(&replay, "another", 0, NOW, NOW),
        Err(Spent::Full)
    ));
    replayed_or_full(spend(&replay, "greedy", 0, NOW, NOW));
    spend(&replay, "another", 0, NOW + 61, NOW + 61).unwrap();
    assert_eq!(replay.len(), 1);
    before_horizon(spend(&replay, "greedy", 0, NOW, NOW));
}

#[track_caller]
fn replayed_or_full(result: Result<(), Spent>) {
    assert!(
        matches!(result, Err(Spent::Replayed | Spent::Full)),
        "{result:?}"
    );
}

#[test]
fn too_many_sessions_make_room_without_forgetting() {
    let bounds = Bounds {
        sessions: 64,
        ..Bounds::default()
    };
    let replay = Paper::default().window(bounds);
    for at in 0..64 {
        spend(&replay, &format!("s{at}"), at, NOW + at / 2, NOW + at / 2).unwrap();
    }
    assert!(
        matches!(
            spend(&replay, "one more", 0, NOW + 40, NOW + 40),
            Err(Spent::Full)
        ),
        "none was idle for long enough"
    );
    let later = NOW + 200;
    spend(&replay, "one more", 0, later, later).unwrap();
    // Those that went left a floor behind: no clock brings their envelopes back.
    for at in 0..64 {
        let back = spend(&replay, &format!("s{at}"), at, NOW + at / 2, NOW + at / 2);
        assert!(
            matches!(back, Err(Spent::Replayed | Spent::BeforeHorizon)),
            "{at}: {back:?}"
        );
    }
    replay.forget("one more");
    spend(&replay, "one more still", 0, later, later).unwrap();
}

#[test]
fn a_torn_or_changed_journal_is_noticed_and_nothing_is_readmitted() {
    let paper = Paper::default();
    let replay = paper.window(Bounds::default());
    for at in 0..50 {
        spend(&replay, "s", at, NOW + at / 10, NOW + at / 10).unwrap();
    }
    let bytes = paper.entries().concat();
    // Torn anywhere in the last entry: that one was never told to anybody.
    for cut in bytes.len() - Entry::LEN..bytes.len() {
        let replay = Paper::default().window(Bounds::default());
        let (whole, _) = bytes[..cut].as_chunks::<{ Entry::LEN }>();
        assert_eq!(
            replay.restore(whole.iter().copied(), (NOW + 5) * 1000),
            Restored {
                entries: 49,
                damaged: 0
            }
        );
        replayed(spend(&replay, "s", 48, NOW + 4, NOW + 5));
        spend(&replay, "s", 49, NOW + 4, NOW + 5).unwrap();
    }
    // Changed anywhere: everything that it may have stood for is refused by its time.
    for at in (0..Entry::LEN).map(|byte| 20 * Entry::LEN + byte) {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        let replay = Paper::default().window(Bounds::default());
        let (whole, _) = changed.as_chunks::<{ Entry::LEN }>();
        assert_eq!(
            replay.restore(whole.iter().copied(), (NOW + 5) * 1000),
            Restored {
                entries: 49,
                damaged: 1
            }
        );
        before_horizon(spend(&replay, "s", 20, NOW + 2, NOW + 5));
        before_horizon(spend(&replay, "s", 77, NOW + 5, NOW + 5));
        spend(&replay, "s", 78, NOW + 100, NOW + 100).unwrap();
    }
}

#[test]
fn a_lost_journal_can_be_made_up_for() {
    let replay = Paper::default().window(Bounds::default());
    replay.raise_floor(NOW + 31);
    before_horizon(spend(&replay, "s", 1, NOW + 30, NOW));
    spend(&replay, "s", 1, NOW + 31, NOW + 31).unwrap();
    let again = Paper::default().window(Bounds::default());
    again.restore(replay.live_entries(), (NOW + 31) * 1000);
    before_horizon(spend(&again, "s", 1, NOW + 30, NOW));
    replayed(spend(&again, "s", 1, NOW + 31, NOW + 31));
}

proptest! {
    /// Whatever the clock does, and however often the process dies or compacts, nothing is accepted twice.
    #[test]
    fn nothing_is_accepted_twice(steps in proptest::collection::vec((0..4_u64, 0..60_u64, -200..200_i64, 0..10_u8), 1..200)) {
        let mut paper = Paper::default();
        let mut replay = paper.window(Bounds::default());
        let mut now = NOW;
        let mut accepted = std::collections::HashSet::new();
        for (session, age, jump, event) in steps {
            now = now.checked_add_signed(jump).unwrap();
            match event {
                0 => replay = paper.restarted(now).0,
                1 => {
                    let live = replay.live_entries();
                    paper = Paper::default();
                    paper.0.entries.lock().unwrap().extend(live);
                    replay = paper.restarted(now).0;
                }
                2 => replay.sweep(now * 1000),
                _ => {}
            }
            // Fresh by the clock, as envelopes are when they come here. One signature per session and second makes many repeats.
            let second = now + 30 - age;
            if spend(&replay, &session.to_string(), second, second, now).is_ok() {
                prop_assert!(accepted.insert((session, second)), "accepted twice");
            }
        }
    }
}
