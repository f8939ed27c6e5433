//! How much time on the processor the processes of a jail have used, and how long they stand still when that is more than their share.
//!
//! What everybody used is added up as memory is: what lives and what those that live have waited for. Above the share every process of the
//! jail is stopped for as long as it takes to be within it again, so over a second or more the share holds, whatever they start. Not seen is
//! what lives for less than a look and is waited for by nobody, because its parent ignores how its children end.

use std::{
    fs,
    os::unix::ffi::OsStrExt as _,
    time::{Duration, Instant},
};

/// How often a jail that works is looked at; and one that does nothing.
const LOOK: Duration = Duration::from_millis(50);
const LOOK_AT_IDLE: Duration = Duration::from_millis(200);
/// The longest that processes stand still before they are looked at again.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How much of what was not used is kept for later, as time.
const SAVED: Duration = Duration::from_millis(100);
/// The unit in which Linux tells programs how long they ran, on every architecture.
const TICK_MICROS: u64 = 10_000;

/// The share of the processor that a jail has, and what it has used of it.
pub(super) struct Share {
    millicores: u64,
    seen: u64,
    at: Instant,
    /// Microseconds on the processor that were used and not earned yet; below zero what is saved.
    debt: i64,
}

/// What follows from a look.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// All may run; the next look is due after this.
    Run(Duration),
    /// All stand still for so long.
    Pause(Duration),
}

impl Share {
    pub(super) fn new(millicores: u64, now: Instant) -> Self {
        Self {
            millicores: millicores.max(1),
            seen: 0,
            at: now,
            debt: 0,
        }
    }

    /// `used`: microseconds that all have used together so far.
    pub(super) fn look(&mut self, now: Instant, used: u64) -> Next {
        // Less than before: somebody ended whom nobody waited for. What comes now counts from there.
        let more = signed(used.saturating_sub(self.seen));
        let earned = self.of(now.saturating_duration_since(self.at));
        self.seen = used;
        self.at = now;
        self.debt = (self.debt + more - earned).max(-self.of(SAVED));
        match u64::try_from(self.debt) {
            Ok(debt @ 1..) => {
                let wait = Duration::from_micros(debt.saturating_mul(1000) / self.millicores);
                Next::Pause(wait.clamp(Duration::from_millis(1), LONGEST_PAUSE))
            }
            _ if more == 0 => Next::Run(LOOK_AT_IDLE),
            _ => Next::Run(LOOK),
        }
    }

    /// Microseconds on the processor that are earned in a while.
    fn of(&self, time: Duration) -> i64 {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        signed(micros.saturating_mul(self.millicores) / 1000)
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX / 4)
}

/// Microseconds that all processes here have used, those that ended included.
pub(super) fn used() -> u64 {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            let name = entry.file_name();
            name.as_bytes().first().is_some_and(u8::is_ascii_digit)
        })
        .filter_map(|entry| ticks(&fs::read_to_string(entry.path().join("stat")).ok()?))
        .fold(0, u64::saturating_add)
        .saturating_mul(TICK_MICROS)
}

/// What a process has used, and what those have that it waited for.
fn ticks(stat: &str) -> Option<u64> {
    // The name before it may hold anything, parentheses too.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let mut sum = 0_u64;
    for _ in 0..4 {
        sum = sum.saturating_add(fields.next()?.parse().ok()?);
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_a_process_are_found() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 3 4 5 6 20 0 1 0 99 0 0";
        assert_eq!(ticks(stat), Some(18));
        assert_eq!(ticks("7 (a) S 1"), None);
        assert!(used() < 1 << 60);
    }

    /// Whoever wants two cores all the time gets the share and no more, over seconds.
    #[test]
    fn a_share_holds_over_time() {
        for millicores in [50, 500, 1000] {
            let begun = Instant::now();
            let mut share = Share::new(millicores, begun);
            let (mut now, mut used) = (begun, 0_u64);
            let end = begun + Duration::from_secs(60);
            while now < end {
                match share.look(now, used) {
                    Next::Run(time) => {
                        now += time;
                        used += 2 * u64::try_from(time.as_micros()).unwrap();
                    }
                    Next::Pause(time) => now += time,
                }
            }
            let most = (now - begun).as_micros() as u64 * millicores / 1000;
            assert!(
                used <= most + 500_000 && used >= most * 9 / 10,
                "{millicores}: {used} of {most}"
            );
        }
    }

    #[test]
    fn who_stays_below_the_share_is_never_stopped_and_saves_little() {
        let begun = Instant::now();
        let mut share = Share::new(500, begun);
        let mut used = 0;
        for round in 1..1000 {
            used += 20_000;
            let now = begun + Duration::from_millis(50) * round;
            assert_eq!(share.look(now, used), Next::Run(LOOK), "{round}");
        }
        let now = begun + Duration::from_secs(3600);
        assert_eq!(share.look(now, used), Next::Run(LOOK_AT_IDLE));
        let now = now + LOOK_AT_IDLE;
        assert!(matches!(share.look(now, used + 400_000), Next::Pause(_)));
    }

    #[test]
    fn what_ended_unseen_costs_nobody_later() {
        let begun = Instant::now();
        let mut share = Share::new(1000, begun);
        let at = |ms| begun + Duration::from_millis(ms);
        share.look(at(50), 50_000);
        assert_eq!(share.look(at(100), 10_000), Next::Run(LOOK_AT_IDLE));
        assert_eq!(share.look(at(150), 60_000), Next::Run(LOOK));
    }
}
