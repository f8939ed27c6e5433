//! The values that reads brought, sorted by digest, sixteen bytes each.

use crate::digest::Digest;

/// One value of one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    high: u64,
    low: u32,
    /// The number of the source, and the four flags above it.
    place: u16,
    pub(crate) record: Record,
}

const _: () = assert!(size_of::<Entry>() == 16);

const SOURCE: u16 = 0x0fff;
const TYPED: u16 = 0x1000;
const HANDLE: u16 = 0x2000;
const NAME: u16 = 0x4000;
const CREATED: u16 = 0x8000;

/// How many numbers sources can have.
pub(crate) const SOURCES: u16 = SOURCE + 1;

/// The record a value stands in: one that the person's words name, by its number, or another, by a part of its digest; zero for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Record(u16);

impl Record {
    pub(crate) const NONE: Self = Self(0);

    /// The named record of this number, from one.
    pub(crate) fn named(number: usize) -> Self {
        Self(
            u16::try_from(number)
                .ok()
                .filter(|number| *number < 0x8000)
                .unwrap_or(0),
        )
    }

    pub(crate) fn unnamed(key: u64) -> Self {
        Self(0x8000 | (key & 0x7fff) as u16)
    }

    pub(crate) fn number(self) -> Option<usize> {
        (1..0x8000).contains(&self.0).then_some(usize::from(self.0))
    }
}

/// How a value stands in what was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// It is all there is in a field, not something inside a text.
    pub(crate) is_typed: bool,
    /// Its record is addressed by it: the record's own id or name, or an address of it, and nothing that stands deeper.
    pub(crate) is_handle: bool,
    /// It is what people call its record.
    pub(crate) is_name: bool,
    /// The conversation made what it is the id of.
    pub(crate) is_created: bool,
}

impl Place {
    pub(crate) const FIELD: Self = Self {
        is_typed: true,
        ..Self::TEXT
    };
    pub(crate) const TEXT: Self = Self {
        is_typed: false,
        is_handle: false,
        is_name: false,
        is_created: false,
    };
}

impl Entry {
    pub(crate) fn new(digest: Digest, source: u16, place: Place, record: Record) -> Self {
        let flag = |is: bool, flag: u16| if is { flag } else { 0 };
        Self {
            high: digest.high,
            low: digest.low,
            place: (source & SOURCE)
                | flag(place.is_typed, TYPED)
                | flag(place.is_handle, HANDLE)
                | flag(place.is_name, NAME)
                | flag(place.is_created, CREATED),
            record,
        }
    }

    pub(crate) const fn source(self) -> u16 {
        self.place & SOURCE
    }

    pub(crate) const fn place(self) -> Place {
        Place {
            is_typed: self.place & TYPED != 0,
            is_handle: self.place & HANDLE != 0,
            is_name: self.place & NAME != 0,
            is_created: self.place & CREATED != 0,
        }
    }

    const fn key(&self) -> (u64, u32) {
        (self.high, self.low)
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Entries(Vec<Entry>);

impl Entries {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Entry>()
    }

    /// Adds what one read brought. The old ones are sorted already, so this is one merge.
    pub(crate) fn add(&mut self, mut new: Vec<Entry>) {
        new.sort_unstable();
        new.dedup();
        self.0.reserve_exact(new.len());
        self.0.append(&mut new);
        self.0.sort();
    }

    pub(crate) fn of(&self, digest: Digest) -> &[Entry] {
        let key = (digest.high, digest.low);
        let start = self.0.partition_point(|entry| entry.key() < key);
        let rest = self.0.get(start..).unwrap_or_default();
        let count = rest.iter().take_while(|entry| entry.key() == key).count();
        rest.get(..count).unwrap_or_default()
    }

    /// Forgets everything of this source.
    pub(crate) fn forget(&mut self, source: u16) {
        self.0.retain(|entry| entry.source() != source);
    }

    pub(crate) fn shrink(&mut self) {
        self.0.shrink_to_fit();
    }
}
