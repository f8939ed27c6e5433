//! The four secrecy levels, lowest to highest.

use std::{fmt, str::FromStr};

/// How secret data is. The order of the variants is the order of the lattice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Level {
    #[default]
    Public = 0,
    Internal = 1,
    Confidential = 2,
    Restricted = 3,
}

/// The text was not one of the four level names, in upper case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownLevel(pub String);

impl Level {
    pub const ALL: [Self; 4] = [
        Self::Public,
        Self::Internal,
        Self::Confidential,
        Self::Restricted,
    ];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Public => "PUBLIC",
            Self::Internal => "INTERNAL",
            Self::Confidential => "CONFIDENTIAL",
            Self::Restricted => "RESTRICTED",
        }
    }

    /// The level with this rank, if there is one.
    #[must_use]
    pub fn from_rank(rank: u8) -> Option<Self> {
        Self::ALL.get(usize::from(rank)).copied()
    }

    /// May data of this level be sent to a place that takes at most `ceiling`?
    #[must_use]
    pub fn flows_to(self, ceiling: Self) -> bool {
        self <= ceiling
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Level {
    type Err = UnknownLevel;

    fn from_str(text: &str) -> Result<Self, UnknownLevel> {
        Self::ALL
            .into_iter()
            .find(|level| level.as_str() == text)
            .ok_or_else(|| UnknownLevel(text.to_owned()))
    }
}

impl fmt::Display for UnknownLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a level; use PUBLIC, INTERNAL, CONFIDENTIAL or RESTRICTED",
            self.0
        )
    }
}

impl std::error::Error for UnknownLevel {}
