//! The second look: which of the marked places have what a core begins with.
//!
//! How many places of a block are marked cannot be foretold, so nothing here branches on it: places are written down four at a time,
//! whether there are that many or not, and those that do not count are written over.

use fearless_simd::{Level, dispatch, prelude::*};

use super::{
    Sieve, Spelling,
    blocks::{BLOCK, BLOCKS, Marks, POSITIONS, mark},
};

/// How many bytes of a core are its beginning.
const BEGINNING: usize = 3;
/// Hashes of beginnings, a bit for each.
const HASHES: usize = 1 << 16;
/// Places that are written down at once.
const BATCH: usize = 4;

/// What cores begin with.
#[derive(Clone)]
pub(super) struct Beginnings([u64; HASHES / 64]);

impl Default for Beginnings {
    fn default() -> Self {
        Self([0; HASHES / 64])
    }
}

impl Beginnings {
    pub(super) fn add(&mut self, spelling: Spelling, begins: [u8; POSITIONS]) {
        let (word, bit) = hash(spelling, begins);
        if let Some(word) = self.0.get_mut(word) {
            *word |= 1 << bit;
        }
    }

    #[inline(always)]
    fn has(&self, spelling: Spelling, begins: [u8; POSITIONS]) -> bool {
        let (word, bit) = hash(spelling, begins);
        self.0.get(word).copied().unwrap_or_default() >> bit & 1 == 1
    }
}

/// Where the bit of a beginning is.
#[inline(always)]
fn hash(spelling: Spelling, begins: [u8; POSITIONS]) -> (usize, u64) {
    let hash = spelling
        .key(begins, BEGINNING)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        >> 48;
    (hash as usize / 64, hash % 64)
}

/// The places of a stretch of text that are worth a closer look.
pub(super) struct Places {
    pub(super) marks: Marks,
    places: [u16; BLOCK * BLOCKS + BATCH],
    pub(super) len: usize,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            marks: Marks::default(),
            places: [0; BLOCK * BLOCKS + BATCH],
            len: 0,
        }
    }
}

impl Places {
    /// Looks at the whole blocks at the start of a text, as [`mark`] does.
    pub(super) fn find(&mut self, level: Level, sieve: &Sieve, text: &[u8]) {
        dispatch!(level, simd => self.find_with(simd, sieve, text));
    }

    #[inline(always)]
    fn find_with<S: Simd>(&mut self, simd: S, sieve: &Sieve, text: &[u8]) {
        mark(simd, &sieve.tables, text, &mut self.marks);
        self.len = 0;
        self.write_down();
        self.keep_beginnings(sieve, text);
    }

    #[inline(always)]
    fn write_down(&mut self) {
        let mut blocks = self.marks.blocks;
        while blocks != 0 {
            let block = blocks.trailing_zeros() as u16;
            blocks &= blocks - 1;
            let marked = self
                .marks
                .places
                .get(usize::from(block))
                .copied()
                .unwrap_or_default();
            let (mut left, mut at) = (marked, self.len);
            self.len += marked.count_ones() as usize;
            // Most blocks have fewer than a batch, so this is the same way nearly every time.
            while let Some(batch) = self.places.get_mut(at..at + BATCH) {
                for place in batch {
                    *place = block * BLOCK as u16 + left.trailing_zeros() as u16;
                    left &= left.wrapping_sub(1);
                }
                at += BATCH;
                if at >= self.len {
                    break;
                }
            }
        }
    }

    #[inline(always)]
    fn keep_beginnings(&mut self, sieve: &Sieve, text: &[u8]) {
        let mut kept = 0;
        for at in 0..self.len {
            let place = self.places.get(at).copied().unwrap_or_default();
            let begins = text
                .get(usize::from(place)..)
                .and_then(<[u8]>::first_chunk::<POSITIONS>);
            let counts = begins.is_some_and(|begins| sieve.beginnings.has(sieve.spelling, *begins));
            if let Some(slot) = self.places.get_mut(kept) {
                *slot = place;
            }
            kept += usize::from(counts);
        }
        self.len = kept;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        self.places
            .iter()
            .take(self.len)
            .map(|place| usize::from(*place))
    }

    /// Whether all of the stretch is ASCII.
    pub(super) const fn are_in_ascii(&self) -> bool {
        self.marks.is_ascii
    }
}
