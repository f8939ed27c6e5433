//! Durations, sizes and rates as people write them.

use std::time::Duration;

/// `30s`, `500ms`, `2m`, `1h`, `90d`, or a bare number of seconds.
#[must_use]
pub fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text)?;
    let scale = match unit {
        "ms" => 1.0,
        "" | "s" => 1_000.0,
        "m" => 60_000.0,
        "h" => 3_600_000.0,
        "d" => 86_400_000.0,
        _ => return None,
    };
    let ms = (number * scale).round();
    // A float holds every whole number up to 2^53; nobody waits longer.
    (ms <= 9_007_199_254_740_992.0).then(|| Duration::from_millis(ms as u64))
}

/// A bare number of bytes, or a whole number of `KiB`, `MiB`, `GiB`.
#[must_use]
pub fn size(text: &str) -> Option<u64> {
    let (number, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => text.split_at_checked(at)?,
        None => (text, ""),
    };
    let scale: u64 = match unit.trim_start_matches(' ') {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(scale)
}

/// The shortest way to write a duration that [`duration`] reads back.
#[must_use]
pub fn show_duration(duration: Duration) -> String {
    let ms = duration.as_millis();
    match ms {
        0 => "0s".to_owned(),
        _ if ms.is_multiple_of(86_400_000) => format!("{}d", ms / 86_400_000),
        _ if ms.is_multiple_of(3_600_000) => format!("{}h", ms / 3_600_000),
        _ if ms.is_multiple_of(60_000) && ms >= 120_000 => format!("{}m", ms / 60_000),
        _ if ms.is_multiple_of(1_000) => format!("{}s", ms / 1_000),
        _ => format!("{ms}ms"),
    }
}

/// The shortest way to write a size that [`size`] reads back.
#[must_use]
pub fn show_size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS
        .iter()
        .find(|(scale, _)| bytes >= *scale && bytes.is_multiple_of(*scale))
    {
        Some((scale, unit)) => format!("{} {unit}", bytes / scale),
        None => bytes.to_string(),
    }
}

/// `5/s`, `60/min`, `1000/h`: calls, and the time they are for.
#[must_use]
pub fn rate(text: &str) -> Option<(u32, Duration)> {
    let (calls, per) = text.split_once('/')?;
    let seconds = match per.trim_start() {
        "s" => 1,
        "min" => 60,
        "h" => 3_600,
        _ => return None,
    };
    let calls = calls.trim_end();
    let is_number = !calls.is_empty() && calls.bytes().all(|byte| byte.is_ascii_digit());
    let calls = if is_number {
        calls
            .parse()
            .ok()
            .filter(|calls| (1..=MAX_RATE).contains(calls))?
    } else {
        return None;
    };
    Some((calls, Duration::from_secs(seconds)))
}

/// More than this in any time is no limit.
pub const MAX_RATE: u32 = 1_000_000;

fn split_unit(text: &str) -> Option<(f64, &str)> {
    let at = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(at)?;
    Some((number.parse().ok()?, unit.trim_start_matches(' ')))
}
