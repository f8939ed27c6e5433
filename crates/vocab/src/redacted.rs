//! A value that must not be printed.

use std::fmt;

use zeroize::Zeroize;

/// Holds a value, prints as `[redacted]`, and overwrites it when dropped.
pub struct Redacted<T: Zeroize>(T);

impl<T: Zeroize> Redacted<T> {
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself, for the one place that spends it.
    pub const fn expose(&self) -> &T {
        &self.0
    }
}

impl<T: Zeroize> fmt::Debug for Redacted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl<T: Zeroize> Drop for Redacted<T> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}
