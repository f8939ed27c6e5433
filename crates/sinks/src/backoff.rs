//! How long to wait after a failure: doubled each time, up to half a minute, and a little at random.

use std::time::Duration;

use vocab::Backoff;

const PAUSES: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));

/// The pause after the n-th failure in a row: between half of it and all of it, as the dice fall.
pub(crate) fn pause_after(failures: u32, dice: u32) -> Duration {
    let half = PAUSES.doubled(failures.saturating_sub(1)) / 2;
    half + half.mul_f64(f64::from(dice) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_differ() {
        assert_eq!(pause_after(1, u32::MAX), Duration::from_millis(250));
        assert_eq!(pause_after(1, 0), Duration::from_millis(125));
        assert_eq!(pause_after(3, u32::MAX), Duration::from_secs(1));
        assert_eq!(pause_after(1_000, u32::MAX), Duration::from_secs(30));
        assert_eq!(pause_after(1_000, 0), Duration::from_secs(15));
    }
}
