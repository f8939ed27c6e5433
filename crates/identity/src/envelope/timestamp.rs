//! RFC 3339 instants as whole seconds. The fraction is checked and dropped: it is not signed.

/// The last second of the year 9999.
pub(super) const LATEST: u64 = 253_402_300_799;

/// The second since 1970 in which an instant lies, for `YYYY-MM-DDTHH:MM:SS[.fraction](Z|±HH:MM)` from 1970 on.
pub(super) fn seconds(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    let (date_time, rest) = bytes.split_at_checked(19)?;
    let [
        y1,
        y2,
        y3,
        y4,
        b'-',
        o1,
        o2,
        b'-',
        d1,
        d2,
        b'T' | b't',
        h1,
        h2,
        b':',
        m1,
        m2,
        b':',
        s1,
        s2,
    ] = *date_time
    else {
        return None;
    };
    let year = number(&[y1, y2, y3, y4])?;
    let (month, day) = (number(&[o1, o2])?, number(&[d1, d2])?);
    let (hour, minute, second) = (number(&[h1, h2])?, number(&[m1, m2])?, number(&[s1, s2])?);
    if !(1970..=9999).contains(&year)
        || !(1..=12).contains(&month)
        || !(1..=days_in(year, month)).contains(&day)
    {
        return None;
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let offset = offset_seconds(without_fraction(rest)?)?;
    let local = ((days_before(year, month) + day - 1) * 24 + hour) * 3600 + minute * 60 + second;
    u64::try_from(local - offset)
        .ok()
        .filter(|seconds| *seconds <= LATEST)
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |sum, digit| {
        digit
            .is_ascii_digit()
            .then(|| sum * 10 + i64::from(digit - b'0'))
    })
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to the first of a month.
fn days_before(year: i64, month: i64) -> i64 {
    let years = year - 1;
    let leap_days = (years / 4 - years / 100 + years / 400) - (1969 / 4 - 1969 / 100 + 1969 / 400);
    let in_year: i64 = (1..month).map(|earlier| days_in(year, earlier)).sum();
    (year - 1970) * 365 + leap_days + in_year
}

/// What follows an optional fraction of one to nine digits.
fn without_fraction(rest: &[u8]) -> Option<&[u8]> {
    let Some(fraction) = rest.strip_prefix(b".") else {
        return Some(rest);
    };
    let digits = fraction
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    (1..=9)
        .contains(&digits)
        .then(|| fraction.get(digits..))
        .flatten()
}

fn offset_seconds(text: &[u8]) -> Option<i64> {
    match *text {
        [b'Z' | b'z'] => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (number(&[h1, h2])?, number(&[m1, m2])?);
            let offset = hours * 3600 + minutes * 60;
            (hours <= 23 && minutes <= 59).then_some(if sign == b'-' { -offset } else { offset })
        }
        _ => None,
    }
}
