//! Moments as people read them.

/// A moment of the day, UTC, from milliseconds since 1970.
pub(crate) fn clock(ms: u64) -> String {
    let seconds = ms / 1000;
    let (hours, minutes, rest) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{hours:02}:{minutes:02}:{rest:02}")
}

/// How long ago, in one word and a number.
pub(crate) fn ago(now_ms: u64, then_ms: u64) -> String {
    match now_ms.saturating_sub(then_ms) / 1000 {
        0..=1 => "now".to_owned(),
        seconds @ 2..=119 => format!("{seconds} s ago"),
        seconds @ 120..=7_199 => format!("{} min ago", seconds / 60),
        seconds @ 7_200..=172_799 => format!("{} h ago", seconds / 3600),
        seconds => format!("{} days ago", seconds / 86_400),
    }
}

/// How much is left, in one word and a number.
pub(crate) fn left(now_ms: u64, until_ms: u64) -> String {
    match until_ms.saturating_sub(now_ms) / 1000 {
        0 => "over".to_owned(),
        seconds @ 1..=119 => format!("{seconds} s left"),
        seconds => format!("{} min left", seconds / 60),
    }
}

/// A duration from microseconds.
pub(crate) fn took(us: u64) -> String {
    match us {
        0..=999 => format!("{us} µs"),
        1_000..=999_999 => format!("{}.{} ms", us / 1_000, us % 1_000 / 100),
        _ => format!("{}.{} s", us / 1_000_000, us % 1_000_000 / 100_000),
    }
}
