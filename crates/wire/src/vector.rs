//! Which vector instructions are used: the best this processor has, or fewer where somebody measures what those cost.
//!
//! Every kernel takes its level from [`level`]. What comes out is the same at every level; only the time differs.

use std::{
    fmt,
    str::FromStr,
    sync::atomic::{AtomicU8, Ordering},
};

use fearless_simd::Level;

/// Levels that are told apart on x86, from the least to the most. Other processors have one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vectors {
    /// What every processor of this kind has: SSE2.
    Plain,
    Sse42,
    Avx2,
    Avx512,
}

/// The most that is used.
static CAP: AtomicU8 = AtomicU8::new(Vectors::BUILT as u8);

impl Vectors {
    pub const ALL: [Self; 4] = [Self::Plain, Self::Sse42, Self::Avx2, Self::Avx512];

    /// The most that this build uses. The features that lower it are for measuring.
    const BUILT: Self = if cfg!(feature = "at-most-plain") {
        Self::Plain
    } else if cfg!(feature = "at-most-sse42") {
        Self::Sse42
    } else if cfg!(feature = "at-most-avx2") {
        Self::Avx2
    } else {
        Self::Avx512
    };

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Sse42 => "sse4.2",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// What is used now.
    #[must_use]
    pub fn in_use() -> Self {
        Self::of(level())
    }

    /// Uses no more than this from now on, in the whole process. For benchmarks.
    pub fn cap(self) {
        CAP.store(self.min(Self::BUILT) as u8, Ordering::Relaxed);
    }

    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    fn of(level: Level) -> Self {
        match level {
            Level::Avx512(_) => Self::Avx512,
            Level::Avx2(_) => Self::Avx2,
            Level::Sse4_2(_) => Self::Sse42,
            _ => Self::Plain,
        }
    }

    #[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
    fn of(_only_one: Level) -> Self {
        Self::Plain
    }

    /// The level of this name, or the next lower one that the processor has.
    #[must_use]
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    pub fn level(self) -> Level {
        let best = Level::new();
        let lower = match self {
            Self::Avx512 => None,
            Self::Avx2 => best.as_avx2().map(Level::Avx2),
            Self::Sse42 => best.as_sse4_2().map(Level::Sse4_2),
            Self::Plain => best.as_sse2().map(Level::Sse2),
        };
        lower.unwrap_or(best)
    }

    #[must_use]
    #[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
    pub fn level(self) -> Level {
        Level::new()
    }
}

impl fmt::Display for Vectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Vectors {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let named = Self::ALL
            .into_iter()
            .find(|vectors| vectors.as_str() == name);
        named.ok_or_else(|| format!("`{name}` is none of plain, sse4.2, avx2, avx512"))
    }
}

/// The level that kernels run at.
#[inline]
#[must_use]
pub fn level() -> Level {
    let cap = CAP.load(Ordering::Relaxed);
    if cap == Vectors::Avx512 as u8 {
        return Level::new();
    }
    Vectors::ALL
        .into_iter()
        .find(|vectors| *vectors as u8 == cap)
        .unwrap_or(Vectors::Avx512)
        .level()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_names_and_the_best_is_used_unless_somebody_measures() {
        for vectors in Vectors::ALL {
            assert_eq!(vectors.to_string().parse(), Ok(vectors));
            assert!(Vectors::of(vectors.level()) <= vectors);
        }
        assert!("mmx".parse::<Vectors>().is_err());
        assert_eq!(
            Vectors::in_use(),
            Vectors::of(Level::new()).min(Vectors::BUILT)
        );
    }
}
