//! Labels: what is known about where data has been. A lattice with a join; nothing here ever lowers one.

use std::{collections::BTreeSet, fmt, str::FromStr};

use crate::{Level, ServerId, UnknownLevel};

/// Whether data may have been shaped by someone outside our trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Integrity {
    #[default]
    Trusted,
    Untrusted,
}

/// The part of a label that decisions read: small enough to live in one atomic word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Mark {
    pub secrecy: Level,
    pub integrity: Integrity,
}

impl Mark {
    #[must_use]
    pub const fn trusted(secrecy: Level) -> Self {
        Self {
            secrecy,
            integrity: Integrity::Trusted,
        }
    }

    /// The least mark that is at least as high as both.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        Self {
            secrecy: self.secrecy.max(other.secrecy),
            integrity: self.integrity.max(other.integrity),
        }
    }

    /// One byte: the rank in the low bits, the integrity above them. Joining marks is not joining bytes; use [`Mark::join`].
    #[must_use]
    pub fn pack(self) -> u8 {
        (self.secrecy as u8)
            | if self.integrity == Integrity::Untrusted {
                0b100
            } else {
                0
            }
    }

    /// The inverse of [`Mark::pack`]. Bits that no mark has are ignored.
    #[must_use]
    pub fn unpack(byte: u8) -> Self {
        Self {
            secrecy: Level::from_rank(byte & 0b11).unwrap_or(Level::Restricted),
            integrity: if byte & 0b100 == 0 {
                Integrity::Trusted
            } else {
                Integrity::Untrusted
            },
        }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.integrity {
            Integrity::Trusted => write!(f, "{}", self.secrecy),
            Integrity::Untrusted => write!(f, "{}+untrusted", self.secrecy),
        }
    }
}

impl FromStr for Mark {
    type Err = UnknownLevel;

    fn from_str(text: &str) -> Result<Self, UnknownLevel> {
        let (level, integrity) = match text.strip_suffix("+untrusted") {
            Some(level) => (level, Integrity::Untrusted),
            None => (text, Integrity::Trusted),
        };
        Ok(Self {
            secrecy: level.parse()?,
            integrity,
        })
    }
}

/// A mark, and the servers the data came from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Label {
    pub mark: Mark,
    pub origins: BTreeSet<ServerId>,
}

impl Label {
    #[must_use]
    pub fn of(mark: Mark, origin: ServerId) -> Self {
        Self {
            mark,
            origins: BTreeSet::from([origin]),
        }
    }

    #[must_use]
    pub fn join(mut self, other: &Self) -> Self {
        self.join_in(other);
        self
    }

    /// The same in place.
    pub fn join_in(&mut self, other: &Self) {
        self.mark = self.mark.join(other.mark);
        self.origins.extend(other.origins.iter().cloned());
    }

    /// Whether joining the other would change nothing.
    #[must_use]
    pub fn includes(&self, other: &Self) -> bool {
        self.mark.join(other.mark) == self.mark && other.origins.is_subset(&self.origins)
    }
}
