//! Whether a worker that does not answer hangs, or only did not get to run.
//!
//! Killing a worker fails every call it works on, so silence must be proved. Time counts only while both could have done something:
//! the gate looked when it meant to, and the worker neither ran nor waited for the processor. A machine that is too busy to let
//! either of them run proves nothing.
//!
//! INVARIANT: whoever is called hung had been asked, and for [`MAX_STILL`] looks in a row in which the gate was on time it stood still;
//! or it used [`MAX_RUN`] of the processor without a word. What it said before it stood still was read many looks ago.

use std::time::{Duration, Instant};

use sandbox::inspect::Pulse;

/// How often a worker that owes an answer is looked at.
pub(super) const TICK: Duration = Duration::from_millis(25);
/// Looks in a row at which one that was asked stood still: 100 ms.
const MAX_STILL: u32 = 4;
/// The same for one that waits for a disk: 3 s.
const MAX_ON_DISK: u32 = 120;
/// How long one may use the processor without a word.
const MAX_RUN: Duration = Duration::from_secs(3);
/// A look this late means the machine is starved, or the gate was stopped: that look proves nothing.
const LATE: Duration = Duration::from_millis(30);

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Alive,
    /// It must be asked whether it is alive.
    Ask,
    Hung,
}

/// What was seen of a worker since a request began to wait.
#[derive(Debug, Default)]
pub(super) struct Vigil {
    asked: Option<Asked>,
}

#[derive(Debug)]
struct Asked {
    at: Instant,
    /// Its pulse then, and at the last look.
    first: Pulse,
    last: Pulse,
    /// Looks in a row at which it had not moved.
    still: u32,
}

impl Vigil {
    /// One look: how long after the one before it, at what, and how long ago the worker said something.
    pub(super) fn look(&mut self, gap: Duration, pulse: Pulse, silence: Duration) -> Seen {
        let Some(asked) = &mut self.asked else {
            self.asked = Some(Asked {
                at: Instant::now(),
                first: pulse,
                last: pulse,
                still: 0,
            });
            return Seen::Ask;
        };
        if silence < asked.at.elapsed() {
            self.asked = None;
            return Seen::Alive;
        }
        let has_moved = (pulse.ran, pulse.waited) != (asked.last.ran, asked.last.waited);
        asked.last = pulse;
        if has_moved {
            asked.still = 0;
        } else if gap <= TICK + LATE
            && (pulse.is_asleep() || pulse.is_stopped() || pulse.is_on_a_disk())
        {
            asked.still += 1;
        }
        let most = if pulse.is_on_a_disk() {
            MAX_ON_DISK
        } else {
            MAX_STILL
        };
        let ran = Duration::from_nanos(pulse.ran.saturating_sub(asked.first.ran));
        if asked.still >= most || ran >= MAX_RUN {
            Seen::Hung
        } else {
            Seen::Alive
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENT: Duration = Duration::from_secs(3600);

    fn pulse(state: char, ran: u64, waited: u64) -> Pulse {
        Pulse { state, ran, waited }
    }

    /// Looks on time until it is hung; after how many looks.
    fn hung_after(mut at: impl FnMut(u64) -> (Duration, Pulse), most: u64) -> Option<u64> {
        let mut vigil = Vigil::default();
        (0..most).find(|&look| {
            let (gap, pulse) = at(look);
            vigil.look(gap, pulse, SILENT) == Seen::Hung
        })
    }

    #[test]
    fn one_that_stands_still_is_noticed_at_once() {
        for state in ['S', 'T', 't'] {
            assert_eq!(
                hung_after(|_| (TICK, pulse(state, 7, 7)), 100),
                Some(u64::from(MAX_STILL)),
                "{state}"
            );
        }
    }

    #[test]
    fn time_in_which_the_worker_did_not_get_to_run_is_not_silence() {
        assert_eq!(
            hung_after(|_| (TICK, pulse('R', 7, 7)), 10_000),
            None,
            "it waits for the processor"
        );
        // It got to run in the end, for less than a clock tick, and sleeps: its answer is on its way.
        let late = |look| {
            if look < 90 {
                pulse('R', 7, 7)
            } else {
                pulse('S', 9, 2_000_000_000)
            }
        };
        assert_eq!(
            hung_after(|look| (TICK, late(look)), 93),
            None,
            "it had no time to stand still in"
        );
        // A little at a time, for as long as it takes.
        assert_eq!(
            hung_after(|look| (TICK, pulse('S', 7 + look / 3, 7)), 10_000),
            None
        );
    }

    #[test]
    fn time_in_which_the_gate_did_not_get_to_run_is_not_silence() {
        assert_eq!(
            hung_after(|_| (Duration::from_secs(2), pulse('S', 7, 7)), 1_000),
            None
        );
        let sometimes = |look: u64| {
            if look.is_multiple_of(2) {
                TICK
            } else {
                TICK + 2 * LATE
            }
        };
        let found = hung_after(|look| (sometimes(look), pulse('T', 7, 7)), 100);
        assert_eq!(
            found,
            Some(2 * u64::from(MAX_STILL)),
            "it is noticed all the same"
        );
    }

    #[test]
    fn one_that_uses_the_processor_without_a_word_is_given_longer() {
        let per_look = u64::try_from(TICK.as_nanos()).unwrap();
        let found = hung_after(|look| (TICK, pulse('R', look * per_look, 0)), 1_000).unwrap();
        assert_eq!(TICK * u32::try_from(found).unwrap(), MAX_RUN);
        // On half a processor it takes twice as long.
        assert_eq!(
            hung_after(|look| (TICK, pulse('R', look * per_look / 2, look)), 1_000),
            Some(2 * found)
        );
        assert_eq!(
            hung_after(|_| (TICK, pulse('D', 7, 7)), 1_000),
            Some(u64::from(MAX_ON_DISK))
        );
    }

    #[test]
    fn an_answer_ends_the_vigil() {
        let mut vigil = Vigil::default();
        for _ in 0..100 {
            assert_eq!(vigil.look(TICK, pulse('S', 7, 7), SILENT), Seen::Ask);
            std::thread::sleep(Duration::from_millis(1));
            assert_eq!(
                vigil.look(TICK, pulse('S', 7, 7), Duration::ZERO),
                Seen::Alive
            );
        }
    }
}
