//! RFC 3339 instants as whole seconds. The fraction is checked and dropped: it is not signed.

use vocab::calendar::days_of;

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
    let days = days_of(year, month, day)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let offset = offset_seconds(without_fraction(rest)?)?;
    let local = (days * 24 + hour) * 3600 + minute * 60 + second;
    local
        .checked_sub_signed(offset)
        .filter(|seconds| *seconds <= LATEST)
}

fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |sum, digit| {
        digit
            .is_ascii_digit()
            .then(|| sum * 10 + u64::from(digit - b'0'))
    })
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
            let offset = i64::try_from(hours * 3600 + minutes * 60).ok()?;
            (hours <= 23 && minutes <= 59).then_some(if sign == b'-' { -offset } else { offset })
        }
        _ => None,
    }
}
