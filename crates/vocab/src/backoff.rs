//! How long to wait before something is tried again.

use std::time::Duration;

/// A pause that doubles with each failure, up to a longest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    shortest: Duration,
    longest: Duration,
}

impl Backoff {
    #[must_use]
    pub const fn new(shortest: Duration, longest: Duration) -> Self {
        Self { shortest, longest }
    }

    /// The shortest pause, doubled so many times.
    #[must_use]
    pub fn doubled(self, times: u32) -> Duration {
        let factor = 2_u32.saturating_pow(times);
        self.shortest.saturating_mul(factor).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_doubles_up_to_the_longest() {
        let backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(30));
        let pauses = [0, 1, 2, 3, 4, 5, 31, 32, u32::MAX].map(|times| backoff.doubled(times));
        assert_eq!(
            pauses.map(|pause| pause.as_secs()),
            [2, 4, 8, 16, 30, 30, 30, 30, 30]
        );
    }
}
