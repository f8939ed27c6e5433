//! Dates of the Gregorian calendar, as days counted from 1970-01-01. The one place that knows how long a year is.
//!
//! The calendar is ours and not a library's: records, envelopes and the command line need it, and crates that must not know what time it
//! is may not link one that does.

/// Days from 1 March of the year 0 to 1970-01-01. In years that begin in March the leap day comes last, and months repeat in groups of
/// 153 days.
const MARCH_0_TO_1970: u64 = 719_468;
const DAYS_IN_400_YEARS: u64 = 146_097;

/// Year, month and day of a day counted from 1970-01-01.
#[must_use]
pub const fn date_of(days: u64) -> (u64, u64, u64) {
    let days = days.saturating_add(MARCH_0_TO_1970);
    let (cycle, in_cycle) = (days / DAYS_IN_400_YEARS, days % DAYS_IN_400_YEARS);
    let year = (in_cycle - in_cycle / 1_460 + in_cycle / 36_524 - in_cycle / 146_096) / 365;
    let in_year = in_cycle - (365 * year + year / 4 - year / 100);
    let from_march = (5 * in_year + 2) / 153;
    let day = in_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    (year + cycle * 400 + (month <= 2) as u64, month, day)
}

/// The same day, counted from 1970-01-01. `None` if there is no such day, or if it is before 1970 or after 9999.
#[must_use]
pub fn days_of(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let march_year = year - u64::from(month <= 2);
    let (cycle, in_cycle) = (march_year / 400, march_year % 400);
    let in_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = cycle * DAYS_IN_400_YEARS + in_cycle * 365 + in_cycle / 4 - in_cycle / 100 + in_year;
    let days = days.checked_sub(MARCH_0_TO_1970)?;
    // The thirtieth of February is another day.
    (date_of(days) == (year, month, day)).then_some(days)
}

#[cfg(test)]
mod tests {
    use super::{date_of, days_of};

    #[test]
    fn every_day_until_9999_follows_the_one_before() {
        let is_leap = |year: u64| {
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
        };
        let (mut days, mut counted) = (0, 0);
        for year in 1970..=9999 {
            let february = if is_leap(year) { 29 } else { 28 };
            let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            for (month, length) in (1..).zip(lengths) {
                for day in 1..=length {
                    assert_eq!(date_of(days), (year, month, day));
                    assert_eq!(days_of(year, month, day), Some(days));
                    days += 1;
                }
                for day in length + 1..=32 {
                    assert_eq!(days_of(year, month, day), None, "{year}-{month}-{day}");
                }
                counted += 1;
            }
        }
        assert_eq!((counted, days), (8030 * 12, 2_932_897));
        for (year, month, day) in [(1969, 12, 31), (10_000, 1, 1), (2026, 0, 1), (2026, 13, 1)] {
            assert_eq!(days_of(year, month, day), None);
        }
        assert_eq!(days_of(2026, 1, 0), None);
    }
}
