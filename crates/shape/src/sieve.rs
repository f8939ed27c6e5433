//! Looking for many needles in a long text at once, at about the speed of reading it.
//!
//! Every needle has a *core*, up to four of its bytes. Three steps tell where cores are, each dearer than the one before and reached by
//! fewer places: tables of bytes over 64 places at once, a table of what cores begin with, and the cores themselves. Whether the rest
//! of a needle stands around its core is for the caller to see. Every place of a core is reported, in order; where case does not
//! matter, a few places are reported that only look like one.

mod blocks;
mod plan;
#[cfg(test)]
mod tests;

use std::ops::{ControlFlow, Range};

use fearless_simd::Level;

use blocks::{AHEAD, BLOCK, BLOCKS, Marks, POSITIONS, Tables};
use plan::Plan;
pub(crate) use plan::frequency;

/// Hashes of what cores begin with, a bit for each.
const HASHES: usize = 1 << 16;
/// How many bytes that are.
const BEGINNING: usize = 3;
const SLOTS: usize = 1 << 10;

/// How needles may be written in the texts that are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// As they are.
    Exact,
    /// In either case; needles are given in lower case.
    AnyCase,
}

/// The bytes a needle is found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Core {
    /// Which needle, in the order in which they were given.
    pub(crate) needle: usize,
    /// Where in the needle it begins.
    pub(crate) offset: usize,
    len: usize,
}

/// What a search comes across.
#[derive(Debug)]
pub(crate) enum Seen<'a> {
    /// A core, and where it begins.
    Core(usize, &'a Core),
    /// A stretch that is not ASCII throughout. It may begin or end inside a character.
    NotAscii(Range<usize>),
}

/// Many needles, ready to be looked for.
#[derive(Clone)]
pub(crate) struct Sieve {
    spelling: Spelling,
    plan: Plan,
    tables: Tables,
    hashes: Box<[u64]>,
    /// With their keys, in the order of the slots those belong to.
    cores: Vec<(u64, Core)>,
    /// Where in `cores` each slot begins.
    slots: Vec<usize>,
    /// Whether there are cores of one byte, of two, and so on.
    lengths: [bool; POSITIONS],
}

impl Sieve {
    /// A needle that has no byte to be found by is never found.
    pub(crate) fn new(needles: &[&[u8]], spelling: Spelling) -> Self {
        let mut sieve = Self {
            spelling,
            plan: Plan::new(spelling),
            tables: Tables::empty(),
            hashes: vec![0; HASHES / 64].into(),
            cores: Vec::with_capacity(needles.len()),
            slots: Vec::new(),
            lengths: [false; POSITIONS],
        };
        for (core, bucket) in sieve.plan.place_well(needles) {
            sieve.add(core, bucket, needles.get(core.needle).copied().unwrap_or_default());
        }
        sieve.in_order()
    }

    /// The same with more needles, which count on from `first`.
    pub(crate) fn with(&self, first: usize, more: &[&[u8]]) -> Self {
        let mut sieve = self.clone();
        for (at, needle) in (first..).zip(more) {
            if let Some((core, bucket)) = sieve.plan.place(at, needle) {
                sieve.add(core, bucket, needle);
            }
        }
        sieve.in_order()
    }

    fn in_order(mut self) -> Self {
        self.cores.sort_unstable_by_key(|(key, core)| (slot(*key), core.needle));
        self.slots = (0..=SLOTS).map(|start| self.cores.partition_point(|(key, _)| slot(*key) < start)).collect();
        self.lengths = std::array::from_fn(|at| self.cores.iter().any(|(_, core)| core.len == at + 1));
        self
    }

    fn add(&mut self, core: Core, bucket: usize, needle: &[u8]) {
        let bytes = core.bytes(needle);
        let bucket = u8::try_from(bucket).unwrap_or_default();
        for (position, byte) in bytes.iter().enumerate() {
            match byte {
                Some(byte) => self.spelling.forms(*byte).into_iter().for_each(|byte| self.tables.add(position, byte, bucket)),
                None => (0..=u8::MAX).for_each(|byte| self.tables.add(position, byte, bucket)),
            }
        }
        for begins in beginnings(bytes) {
            let (word, bit) = hash(self.spelling.key(begins, BEGINNING));
            if let Some(word) = self.hashes.get_mut(word) {
                *word |= bit;
            }
        }
        let key = self.spelling.key(bytes.map(Option::unwrap_or_default), core.len);
        self.cores.push((key, core));
    }

    /// Reports every core, and every stretch that is not ASCII, until told to stop.
    pub(crate) fn sift<B>(&self, text: &[u8], seen: impl FnMut(Seen<'_>) -> ControlFlow<B>) -> Option<B> {
        self.sift_with(Level::new(), text, seen)
    }

    fn sift_with<B>(&self, level: Level, text: &[u8], mut seen: impl FnMut(Seen<'_>) -> ControlFlow<B>) -> Option<B> {
        let mut marks = Marks::default();
        let mut at = 0;
        while at < text.len() {
            let rest = text.get(at..).unwrap_or_default();
            // The last places are looked at in a copy with room after it.
            let (looked_at, copy);
            if rest.len() >= BLOCK + AHEAD {
                self.tables.mark(rest, level, &mut marks);
                looked_at = ((rest.len() - AHEAD) / BLOCK).min(BLOCKS) * BLOCK;
            } else {
                copy = padded(rest);
                self.tables.mark(&copy, level, &mut marks);
                looked_at = rest.len();
            }
            if !marks.is_ascii
                && let ControlFlow::Break(done) = seen(Seen::NotAscii(at..at + looked_at))
            {
                return Some(done);
            }
            while let Some(place) = marks.next() {
                if let ControlFlow::Break(done) = self.look(text, at + place, &mut seen) {
                    return Some(done);
                }
            }
            at += looked_at;
        }
        None
    }

    /// Reports the cores that stand at a place.
    #[inline]
    fn look<B>(&self, text: &[u8], at: usize, seen: &mut impl FnMut(Seen<'_>) -> ControlFlow<B>) -> ControlFlow<B> {
        let rest = text.get(at..).unwrap_or_default();
        let bytes = rest.first_chunk::<POSITIONS>().copied().unwrap_or_else(|| short(rest));
        let (word, bit) = hash(self.spelling.key(bytes, BEGINNING));
        if self.hashes.get(word).copied().unwrap_or_default() & bit == 0 {
            return ControlFlow::Continue(());
        }
        self.look_closer(rest.len().min(POSITIONS), bytes, |core| seen(Seen::Core(at, core)))
    }

    fn look_closer<B>(
        &self,
        available: usize,
        bytes: [u8; POSITIONS],
        mut found: impl FnMut(&Core) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        for (len, _) in (1..=available).zip(self.lengths).filter(|(_, has_any)| *has_any) {
            let key = self.spelling.key(bytes, len);
            let slot = slot(key);
            let (from, to) = (self.slots.get(slot).copied(), self.slots.get(slot + 1).copied());
            let there = from.zip(to).and_then(|(from, to)| self.cores.get(from..to)).unwrap_or_default();
            for (_, core) in there.iter().filter(|(other, _)| *other == key) {
                found(core)?;
            }
        }
        ControlFlow::Continue(())
    }
}

impl Spelling {
    /// How often this byte of a needle stands in an ordinary text, in whatever form.
    fn share(self, byte: u8) -> f32 {
        let [one, other] = self.forms(byte);
        if one == other { frequency(one) } else { frequency(one) + frequency(other) }
    }

    /// The first `len` bytes and `len` itself, as one number. Letters in either case have the same, and so may a few other characters.
    #[inline]
    fn key(self, bytes: [u8; POSITIONS], len: usize) -> u64 {
        let case = if self == Self::AnyCase { 0x2020_2020 } else { 0 };
        let kept = u64::from(u32::from_le_bytes(bytes) | case) & ((1 << (8 * len.min(POSITIONS))) - 1);
        kept | (len as u64) << 32
    }

    fn forms(self, byte: u8) -> [u8; 2] {
        [byte, if self == Self::AnyCase { byte.to_ascii_uppercase() } else { byte }]
    }
}

impl Core {
    /// The cores a needle could have.
    fn all(needle_at: usize, needle: &[u8]) -> impl Iterator<Item = Self> + use<> {
        let len = needle.len().min(POSITIONS);
        let last = if len > 0 { needle.len() - len + 1 } else { 0 };
        (0..last).map(move |offset| Self { needle: needle_at, offset, len })
    }

    /// Its bytes; positions beyond its end are open.
    fn bytes(&self, needle: &[u8]) -> [Option<u8>; POSITIONS] {
        let core = needle.get(self.offset..self.offset + self.len).unwrap_or_default();
        std::array::from_fn(|position| core.get(position).copied())
    }
}

/// What a text can begin with where a core stands; a core that is shorter may have any byte after it.
fn beginnings(core: [Option<u8>; POSITIONS]) -> impl Iterator<Item = [u8; POSITIONS]> {
    let forms = |byte: Option<u8>| byte.map_or(0..=u8::MAX, |byte| byte..=byte);
    let [first, second, third, _] = core;
    let first = first.unwrap_or_default();
    forms(second).flat_map(move |second| forms(third).map(move |third| [first, second, third, 0]))
}

/// Where in the table of hashes a key is noted.
const fn hash(key: u64) -> (usize, u64) {
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
    (hash as usize / 64, 1 << (hash % 64))
}

/// Where the cores with a key are found.
const fn slot(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize
}

fn short(rest: &[u8]) -> [u8; POSITIONS] {
    std::array::from_fn(|at| rest.get(at).copied().unwrap_or_default())
}

/// Fewer bytes than a block and what must follow it, with zeros after them.
fn padded(rest: &[u8]) -> [u8; 2 * BLOCK + AHEAD] {
    let mut copy = [0; 2 * BLOCK + AHEAD];
    copy.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    copy
}

impl std::fmt::Debug for Sieve {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sieve({} needles)", self.cores.len())
    }
}
