//! Where an event stands: the record, and which of the record's events it is.

use std::fmt;
use std::str::FromStr;

/// Written `SEQ.INDEX`; `SEQ` alone is the record's first event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub seq: u64,
    pub index: u16,
}

impl Place {
    /// The first event of a record.
    #[must_use]
    pub fn start_of(seq: u64) -> Place {
        Place { seq, index: 0 }
    }

    /// The place right behind this one: the next event of the record, if it has one more, else of the next record.
    #[must_use]
    pub fn next(self) -> Place {
        match self.index.checked_add(1) {
            Some(index) => Place {
                seq: self.seq,
                index,
            },
            None => Place::start_of(self.seq.saturating_add(1)),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.seq, self.index)
    }
}

/// A text that is no place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a position is a number, or two with a dot between them, as in `1024.0`")]
pub struct NoPlace;

impl FromStr for Place {
    type Err = NoPlace;

    fn from_str(text: &str) -> Result<Place, NoPlace> {
        let (seq, index) = text.split_once('.').unwrap_or((text, "0"));
        let digits =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(seq) || !digits(index) {
            return Err(NoPlace);
        }
        Ok(Place {
            seq: seq.parse().map_err(|_| NoPlace)?,
            index: index.parse().map_err(|_| NoPlace)?,
        })
    }
}
