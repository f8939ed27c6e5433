//! Time as a value. The ledger asks a closure for it, so that tests own the clock.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use vocab::calendar::date_of;

/// One reading of both clocks: the calendar for people, the monotonic one for durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub unix_ms: u64,
    /// Microseconds since an arbitrary start; never goes back.
    pub mono_us: u64,
}

pub type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// The machine's own clocks.
pub fn system_clock() -> Clock {
    let start = Instant::now();
    Arc::new(move || Moment {
        unix_ms: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| {
                u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
            }),
        mono_us: u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX),
    })
}

/// `2026-11-15T10:47:05.123Z`, for any time before the year 10000.
pub fn rfc3339(unix_ms: u64) -> String {
    let mut out = Vec::with_capacity(24);
    write_rfc3339(&mut out, unix_ms);
    String::from_utf8(out).unwrap_or_default()
}

/// 9999-12-31T23:59:59.999Z: a clock set beyond it is written as it, so that the text keeps its width.
const LAST_MS: u64 = 253_402_300_799_999;

pub(crate) fn write_rfc3339(out: &mut Vec<u8>, unix_ms: u64) {
    let unix_ms = unix_ms.min(LAST_MS);
    let (days, in_day) = (unix_ms / 86_400_000, unix_ms % 86_400_000);
    let (year, month, day) = date_of(days);
    digits(out, year, 4);
    out.push(b'-');
    digits(out, month, 2);
    out.push(b'-');
    digits(out, day, 2);
    out.push(b'T');
    digits(out, in_day / 3_600_000, 2);
    out.push(b':');
    digits(out, in_day / 60_000 % 60, 2);
    out.push(b':');
    digits(out, in_day / 1_000 % 60, 2);
    out.push(b'.');
    digits(out, in_day % 1_000, 3);
    out.push(b'Z');
}

fn digits(out: &mut Vec<u8>, mut value: u64, width: usize) {
    let start = out.len();
    for _ in 0..width {
        out.push(b'0' + (value % 10) as u8);
        value /= 10;
    }
    if let Some(written) = out.get_mut(start..) {
        written.reverse();
    }
}
