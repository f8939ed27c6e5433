//! Looking for many needles in a long text at once, at about the speed of reading it.
//!
//! Every needle has a *core*, up to four of its bytes. Three steps tell where cores are, each dearer than the one before and reached by
//! fewer places: tables of bytes over 64 places at once, a table of what cores begin with, and the cores themselves. Whether the rest
//! of a needle stands around its core is for the caller to see. Every place of a core is reported, and nothing else, in order.
//!
//! **Invariant: searching fast finds no less.** The plain searches that the sieve took the place of stand beside it in
//! the tests. Tests `finds_what_is_found_by_hand`, `whatever_was_suspected_is_suspected`,
//! `whatever_was_redacted_is_redacted`, `it_comes_to_the_same`.
//!
//! **Invariant: the cost of a search grows with the text, whatever is in it.** Test
//! `the_cost_of_a_text_of_nothing_but_beginnings_grows_with_its_length_only`.

mod blocks;
mod places;
mod plan;
#[cfg(test)]
mod tests;

use std::ops::{ControlFlow, Range};

use fearless_simd::Level;
use wire::vector::level;

use blocks::{AHEAD, BLOCK, BLOCKS, POSITIONS, Tables};
use places::{Beginnings, Places};
use plan::Plan;
pub(crate) use plan::frequency;

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

/// A core as it is looked up.
#[derive(Clone)]
struct Entry {
    key: u64,
    /// Its bytes; where the spelling does not matter, in the form with `case` added.
    bytes: u32,
    case: u32,
    core: Core,
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
    beginnings: Box<Beginnings>,
    /// In the order of the slots their keys belong to.
    cores: Vec<Entry>,
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
            beginnings: Box::default(),
            cores: Vec::with_capacity(needles.len()),
            slots: Vec::new(),
            lengths: [false; POSITIONS],
        };
        for (core, bucket) in sieve.plan.place_well(needles) {
            sieve.add(
                core,
                bucket,
                needles.get(core.needle).copied().unwrap_or_default(),
            );
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
        self.cores
            .sort_unstable_by_key(|entry| (slot(entry.key), entry.core.needle));
        self.slots = (0..=SLOTS)
            .map(|start| self.cores.partition_point(|entry| slot(entry.key) < start))
            .collect();
        self.lengths =
            std::array::from_fn(|at| self.cores.iter().any(|entry| entry.core.len == at + 1));
        self
    }

    fn add(&mut self, core: Core, bucket: usize, needle: &[u8]) {
        let bytes = core.bytes(needle);
        let bucket = u8::try_from(bucket).unwrap_or_default();
        for (position, byte) in bytes.iter().enumerate() {
            match byte {
                Some(byte) => self
                    .spelling
                    .forms(*byte)
                    .into_iter()
                    .for_each(|byte| self.tables.add(position, byte, bucket)),
                None => (0..=u8::MAX).for_each(|byte| self.tables.add(position, byte, bucket)),
            }
        }
        beginnings(bytes).for_each(|begins| self.beginnings.add(self.spelling, begins));
        let bytes = bytes.map(Option::unwrap_or_default);
        let (key, case) = (
            self.spelling.key(bytes, core.len),
            self.spelling.case(bytes),
        );
        self.cores.push(Entry {
            key,
            bytes: u32::from_le_bytes(bytes) | case,
            case,
            core,
        });
    }

    /// Reports every core, and every stretch that is not ASCII, until told to stop.
    pub(crate) fn sift<B>(
        &self,
        text: &[u8],
        seen: impl FnMut(Seen<'_>) -> ControlFlow<B>,
    ) -> Option<B> {
        self.sift_with(level(), text, seen)
    }

    fn sift_with<B>(
        &self,
        level: Level,
        text: &[u8],
        mut seen: impl FnMut(Seen<'_>) -> ControlFlow<B>,
    ) -> Option<B> {
        let mut places = Places::default();
        let mut at = 0;
        while at < text.len() {
            let rest = text.get(at..).unwrap_or_default();
            // The last places are looked at in a copy with room after it.
            let looked_at = if rest.len() >= BLOCK + AHEAD {
                places.find(level, self, rest);
                ((rest.len() - AHEAD) / BLOCK).min(BLOCKS) * BLOCK
            } else {
                places.find(level, self, &padded(rest));
                rest.len()
            };
            if !places.are_in_ascii()
                && let ControlFlow::Break(done) = seen(Seen::NotAscii(at..at + looked_at))
            {
                return Some(done);
            }
            for place in places.iter() {
                if let ControlFlow::Break(done) = self.look(text, at + place, &mut seen) {
                    return Some(done);
                }
            }
            at += looked_at;
        }
        None
    }

    /// Reports the cores that stand at a place.
    fn look<B>(
        &self,
        text: &[u8],
        at: usize,
        seen: &mut impl FnMut(Seen<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let rest = text.get(at..).unwrap_or_default();
        let bytes = rest
            .first_chunk::<POSITIONS>()
            .copied()
            .unwrap_or_else(|| short(rest));
        for (len, _) in (1..=rest.len().min(POSITIONS))
            .zip(self.lengths)
            .filter(|(_, has_any)| *has_any)
        {
            let key = self.spelling.key(bytes, len);
            let slot = slot(key);
            let (from, to) = (
                self.slots.get(slot).copied(),
                self.slots.get(slot + 1).copied(),
            );
            let there = from
                .zip(to)
                .and_then(|(from, to)| self.cores.get(from..to))
                .unwrap_or_default();
            for entry in there
                .iter()
                .filter(|entry| entry.key == key && entry.is(bytes, len))
            {
                seen(Seen::Core(at, &entry.core))?;
            }
        }
        ControlFlow::Continue(())
    }
}

impl Spelling {
    /// The bits in which the forms of these bytes differ.
    fn case(self, bytes: [u8; POSITIONS]) -> u32 {
        let [one, other] = [bytes, bytes.map(|byte| self.forms(byte)[1])].map(u32::from_le_bytes);
        one ^ other
    }

    /// The first `len` bytes and `len` itself, as one number. Letters in either case have the same, and so may a few other characters.
    #[inline]
    fn key(self, bytes: [u8; POSITIONS], len: usize) -> u64 {
        let case = if self == Self::AnyCase {
            0x2020_2020
        } else {
            0
        };
        let kept =
            u64::from(u32::from_le_bytes(bytes) | case) & ((1 << (8 * len.min(POSITIONS))) - 1);
        kept | (len as u64) << 32
    }

    fn forms(self, byte: u8) -> [u8; 2] {
        [
            byte,
            if self == Self::AnyCase {
                byte.to_ascii_uppercase()
            } else {
                byte
            },
        ]
    }
}

impl Entry {
    /// Whether these bytes begin with its core.
    fn is(&self, bytes: [u8; POSITIONS], len: usize) -> bool {
        let counts = u32::MAX >> (8 * (POSITIONS - len.clamp(1, POSITIONS)));
        ((u32::from_le_bytes(bytes) | self.case) ^ self.bytes) & counts == 0
    }
}

impl Core {
    /// The cores a needle could have.
    fn all(needle_at: usize, needle: &[u8]) -> impl Iterator<Item = Self> + use<> {
        let len = needle.len().min(POSITIONS);
        let last = if len > 0 { needle.len() - len + 1 } else { 0 };
        (0..last).map(move |offset| Self {
            needle: needle_at,
            offset,
            len,
        })
    }

    /// Its bytes; positions beyond its end are open.
    fn bytes(&self, needle: &[u8]) -> [Option<u8>; POSITIONS] {
        let core = needle
            .get(self.offset..self.offset + self.len)
            .unwrap_or_default();
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
