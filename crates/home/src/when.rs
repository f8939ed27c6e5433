//! A time as people write it: how long ago, or when.

use std::time::Duration;

use vocab::calendar::days_of;

/// A point in time, before it is known what time it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    Ago(Duration),
    /// Milliseconds since 1970.
    At(u64),
}

impl When {
    /// `30m`, `2h`, `7d`; or `2026-11-15`, `2026-11-15T10:47`, `2026-11-15T10:47:05Z`, with a fraction and an offset if wanted. A time without
    /// an offset is UTC, as the ledger's own are.
    pub fn parse(text: &str) -> Result<Self, String> {
        ago(text).map(Self::Ago).or_else(|| at(text).map(Self::At)).ok_or_else(|| {
            "write how long ago, as in 30m, 2h or 7d, or when, as in 2026-11-15 or 2026-11-15T10:47:05Z".to_owned()
        })
    }

    /// The text itself, where it is a time.
    pub fn checked(text: &str) -> Result<String, String> {
        Self::parse(text).map(|_| text.to_owned())
    }

    /// In milliseconds since 1970, when it is `now_ms`.
    #[must_use]
    pub fn ms(self, now_ms: u64) -> u64 {
        match self {
            Self::Ago(span) => {
                now_ms.saturating_sub(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
            }
            Self::At(ms) => ms,
        }
    }
}

/// `30m`, `2h`, `7d`.
pub fn ago(text: &str) -> Option<Duration> {
    let days = text
        .strip_suffix('d')
        .and_then(|days| days.parse::<u64>().ok())
        .and_then(|days| days.checked_mul(86_400));
    let span = days.map(Duration::from_secs).or_else(|| {
        // A bare number could be anything.
        let has_unit = text.ends_with(|c: char| c.is_ascii_alphabetic());
        has_unit.then(|| config::units::duration(text)).flatten()
    });
    span.filter(|span| !span.is_zero())
}

fn at(text: &str) -> Option<u64> {
    let (date, time) = match text.split_once(['T', ' ']) {
        Some((date, time)) => (date, time),
        None => (text, "00:00"),
    };
    let mut parts = date.split('-');
    let (year, month, day) = (
        number(parts.next()?, 4)?,
        number(parts.next()?, 2)?,
        number(parts.next()?, 2)?,
    );
    let days = days_of(year.into(), month.into(), day.into()).filter(|_| parts.next().is_none())?;
    let (time, offset_minutes) = offset(time)?;
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut parts = clock.split(':');
    let (hour, minute) = (number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let second = parts.next().map_or(Some(0), |second| number(second, 2))?;
    let is_time = parts.next().is_none() && hour < 24 && minute < 60 && second < 60;
    if !is_time {
        return None;
    }
    let seconds = (i64::try_from(days).ok()? * 24 + i64::from(hour)) * 3600
        + i64::from(minute) * 60
        + i64::from(second);
    u64::try_from((seconds - offset_minutes * 60) * 1000 + milliseconds(fraction)?).ok()
}

/// The time without its offset, and the offset in minutes.
fn offset(time: &str) -> Option<(&str, i64)> {
    if let Some(time) = time.strip_suffix(['Z', 'z']) {
        return Some((time, 0));
    }
    let Some(sign) = time.rfind(['+', '-']) else {
        return Some((time, 0));
    };
    let (time, text) = time.split_at_checked(sign)?;
    let (hours, minutes) = text.get(1..)?.split_once(':')?;
    let (hours, minutes) = (
        number(hours, 2).filter(|hours| *hours < 24)?,
        number(minutes, 2).filter(|minutes| *minutes < 60)?,
    );
    let total = i64::from(hours) * 60 + i64::from(minutes);
    Some((time, if text.starts_with('-') { -total } else { total }))
}

fn number(text: &str, digits: usize) -> Option<u32> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// The first three digits of a fraction.
fn milliseconds(fraction: &str) -> Option<i64> {
    let is_number =
        (1..=9).contains(&fraction.len()) && fraction.bytes().all(|byte| byte.is_ascii_digit());
    is_number
        .then(|| format!("{fraction:0<3}").get(..3)?.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        assert_eq!(When::parse("2h"), Ok(When::Ago(Duration::from_secs(7200))));
        assert_eq!(
            When::parse("7d"),
            Ok(When::Ago(Duration::from_secs(7 * 86_400)))
        );
        assert_eq!(When::parse("1970-01-02"), Ok(When::At(86_400_000)));
        assert_eq!(
            When::parse("2026-11-15T10:47:05.123Z"),
            Ok(When::At(1_794_739_625_123))
        );
        assert_eq!(
            When::parse("2026-11-15T12:47:05.123+02:00"),
            Ok(When::At(1_794_739_625_123))
        );
        assert_eq!(
            When::parse("2026-11-15 10:47"),
            Ok(When::At(1_794_739_620_000))
        );
        assert_eq!(When::Ago(Duration::from_secs(1)).ms(5_000), 4_000);
        for wrong in [
            "",
            "yesterday",
            "7",
            "2026-02-29",
            "2026-13-01",
            "2026-1-1",
            "2026-11-15T25:00",
            "0d",
            "-2h",
            "2026-11-15T10",
            "é",
        ] {
            assert!(When::parse(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_the_ledger_writes_is_read_back(ms in 0..4_000_000_000_000_u64) {
            prop_assert_eq!(When::parse(&audit::rfc3339(ms)), Ok(When::At(ms)));
        }

        #[test]
        fn any_text_is_refused_or_read(text in ".{0,30}") {
            let _ = When::parse(&text);
        }
    }
}
