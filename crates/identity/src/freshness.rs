//! How old an envelope may be, and how far ahead.

use thiserror::Error;

/// The window around the gate's clock in which an envelope is fresh, the same to both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freshness {
    seconds: u64,
}

/// Signed too long ago, or by a clock that is too far ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("signed {} by the gate's clock; the window is {window} s to either side, so check the clock and sign again", when(*.age))]
pub struct Stale {
    /// Negative for an envelope from the future.
    pub age: i64,
    pub window: u64,
}

fn when(age: i64) -> String {
    if age < 0 {
        format!("{} s in the future", age.unsigned_abs())
    } else {
        format!("{age} s ago")
    }
}

impl Freshness {
    /// What the public clients and gateways of the protocol use.
    pub const STANDARD: Self = Self { seconds: 30 };

    #[must_use]
    pub const fn new(seconds: u64) -> Self {
        Self { seconds }
    }

    #[must_use]
    pub const fn seconds(self) -> u64 {
        self.seconds
    }

    /// Compares whole seconds, because whole seconds are what is signed.
    pub fn check(self, signed_at: u64, now_ms: u64) -> Result<(), Stale> {
        let now = now_ms / 1000;
        if now.abs_diff(signed_at) <= self.seconds {
            return Ok(());
        }
        let age = i64::try_from(now)
            .unwrap_or(i64::MAX)
            .saturating_sub(i64::try_from(signed_at).unwrap_or(i64::MAX));
        Err(Stale {
            age,
            window: self.seconds,
        })
    }
}

impl Default for Freshness {
    fn default() -> Self {
        Self::STANDARD
    }
}
