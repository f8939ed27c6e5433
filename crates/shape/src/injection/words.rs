//! The words of the table: whether one could be in a text as it came, and where they are in a text that was folded.
//!
//! Most arguments hold none of them, in no disguise; seeing that must cost no more than reading them. A first look is taken at the raw
//! JSON text. It may see words where there are none, never the other way round: what it cannot be sure of, it takes for a word.

use std::ops::{ControlFlow, Range};

use super::{
    RULES,
    fold::{Fold, Letters},
};
use crate::sieve::{Core, Seen, Sieve, Spelling, frequency};

/// A character by its number: it could be anything.
const BY_NUMBER: &[u8] = b"\\u";
/// What white space in a raw text begins with, and what it ends with: itself or an escape.
const BEGINS: &[u8] = b" \\";
const ENDS: &[u8] = b" fnrt";
/// The bits that tell that a byte is not ASCII.
const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);
/// Parts of words that are shorter stand in every other sentence.
const LONG: usize = 4;

#[derive(Debug)]
pub(super) struct Words {
    /// In no order that matters.
    words: Vec<&'static [u8]>,
    /// For every word the rules it belongs to.
    rules: Vec<Vec<usize>>,
    /// What is looked for.
    needles: Vec<Needle>,
    sieve: Sieve,
}

/// Part of a word as it stands in a raw text.
#[derive(Debug)]
struct Needle {
    text: Vec<u8>,
    /// Which word; none for [`BY_NUMBER`].
    word: usize,
    /// Where in the word that part begins,
    from: usize,
    /// and where in the text of the needle.
    lead: usize,
}

impl Words {
    pub(super) fn new() -> Self {
        let mut words: Vec<&str> = RULES.iter().flat_map(|rule| rule.words).copied().collect();
        words.sort_unstable();
        words.dedup();
        let rules_of = |word: &&str| {
            (0..RULES.len())
                .filter(|at| RULES.get(*at).is_some_and(|rule| rule.words.contains(word)))
                .collect()
        };
        let rules = words.iter().map(rules_of).collect();
        let words: Vec<&[u8]> = words.into_iter().map(str::as_bytes).collect();
        let mut needles: Vec<Needle> = words
            .iter()
            .enumerate()
            .flat_map(|(at, word)| needles(at, word))
            .collect();
        needles.push(Needle {
            text: BY_NUMBER.to_vec(),
            word: usize::MAX,
            from: 0,
            lead: 0,
        });
        let texts: Vec<&[u8]> = needles
            .iter()
            .map(|needle| needle.text.as_slice())
            .collect();
        Self {
            sieve: Sieve::new(&texts, Spelling::AnyCase),
            words,
            rules,
            needles,
        }
    }

    /// Whether a word, or anything that the hidden rules care about, could be in a validated JSON text.
    pub(super) fn could_be_in(&self, text: &[u8]) -> bool {
        let seen = self.sieve.sift(text, |seen| {
            let suspicious = match seen {
                Seen::Core(at, core) => self.needles.get(core.needle).is_some_and(|needle| {
                    let Some(word) = self.words.get(needle.word) else {
                        return true;
                    };
                    let parts = needle
                        .part_at(at, core)
                        .zip(word.split_at_checked(needle.from));
                    parts.is_some_and(|(start, (before, rest))| {
                        is_written(text, start, before, rest)
                    })
                }),
                Seen::NotAscii(range) => changes_in_fold(text, range),
            };
            if suspicious {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        seen.is_some()
    }

    /// Calls `found` with every place of every word in a folded text, and the rules it belongs to.
    pub(super) fn find(&self, folded: &[u8], mut found: impl FnMut(usize, usize, &[usize])) {
        let _all: Option<()> = self.sieve.sift(folded, |seen| {
            if let Seen::Core(at, core) = seen
                && let Some(needle) = self.needles.get(core.needle)
                && let (Some(word), Some(rules)) =
                    (self.words.get(needle.word), self.rules.get(needle.word))
                && let Some(start) = needle
                    .part_at(at, core)
                    .and_then(|part| part.checked_sub(needle.from))
                && folded
                    .get(start..)
                    .is_some_and(|rest| rest.starts_with(word))
            {
                found(start, start + word.len(), rules);
            }
            ControlFlow::Continue(())
        });
    }
}

impl Needle {
    /// Where its part of the word begins, if its core is at a place.
    fn part_at(&self, at: usize, core: &Core) -> Option<usize> {
        (at + self.lead).checked_sub(core.offset)
    }
}

/// What to look for so that no spelling of a word is missed: a part of it without white space, and if all parts are short, a part
/// together with the white space beside it.
fn needles(at: usize, word: &'static [u8]) -> Vec<Needle> {
    let parts = parts(word);
    let needle = |text: Vec<u8>, from: usize, lead: usize| Needle {
        text,
        word: at,
        from,
        lead,
    };
    let rarest = |shortest: usize| {
        let long = parts.iter().filter(move |(_, part)| part.len() >= shortest);
        long.min_by(|a, b| rarity(a.1).total_cmp(&rarity(b.1)))
            .map(|(from, part)| needle(part.to_vec(), *from, 0))
    };
    if let Some(needle) = rarest(LONG) {
        return vec![needle];
    }
    match parts.as_slice() {
        [(0, first), (from, second)] if *from > first.len() => {
            if rarity(first) <= rarity(second) {
                BEGINS
                    .iter()
                    .map(|space| needle([first, &[*space][..]].concat(), 0, 0))
                    .collect()
            } else {
                ENDS.iter()
                    .map(|space| needle([&[*space][..], second].concat(), *from, 1))
                    .collect()
            }
        }
        _ => rarest(1).into_iter().collect(),
    }
}

/// The parts of a word that are written the same way in every raw text, but for case. A slash may have a backslash before it, so it
/// only begins a part.
fn parts(word: &'static [u8]) -> Vec<(usize, &'static [u8])> {
    let starts = (0..word.len()).filter(|at| {
        let (before, here) = (
            at.checked_sub(1).and_then(|before| word.get(before)),
            word.get(*at),
        );
        here == Some(&b'/') || here != Some(&b' ') && matches!(before, None | Some(b' '))
    });
    let part = |start: usize| {
        let rest = word.get(start..).unwrap_or_default();
        let end = rest
            .iter()
            .skip(1)
            .position(|byte| matches!(byte, b' ' | b'/'))
            .map_or(rest.len(), |end| end + 1);
        (start, rest.get(..end).unwrap_or_default())
    };
    starts.map(part).collect()
}

/// How often a part stands in ordinary texts, more or less.
fn rarity(part: &[u8]) -> f32 {
    part.iter().map(|byte| frequency(*byte)).product()
}

/// Whether a stretch of text holds a character that folding changes.
fn changes_in_fold(text: &[u8], stretch: Range<usize>) -> bool {
    let letters = Letters::get();
    let mut at = stretch.start;
    while at < stretch.end {
        let rest = text.get(at..stretch.end).unwrap_or_default();
        let ascii = rest
            .first_chunk::<8>()
            .map(|word| u64::from_le_bytes(*word) & HIGHS);
        match (ascii, rest.first()) {
            (Some(0), _) => at += 8,
            (_, Some(0xc0..)) => {
                let (fold, len) = letters.first(text.get(at..).unwrap_or_default());
                if fold != Fold::Same {
                    return true;
                }
                at += len;
            }
            _ => at += 1,
        }
    }
    false
}

/// Whether a word is written around a place of a raw text: one part of it before the place and the rest from there on.
fn is_written(text: &[u8], at: usize, before: &[u8], rest: &[u8]) -> bool {
    // The place is after the backslash that a slash may have.
    let back = usize::from(
        rest.first() == Some(&b'/') && text.get(..at).is_some_and(|text| text.ends_with(b"\\")),
    );
    // Words share parts, so what differs is looked at first.
    ends_with(text, at - back, before) && begins_with(text, at, rest)
}

/// Whether this part of a word is written in a raw text from `at` on.
fn begins_with(text: &[u8], mut at: usize, part: &[u8]) -> bool {
    for byte in part {
        let len = match (byte, text.get(at..).unwrap_or_default()) {
            (b' ', rest) => spaces(rest),
            (b'/', [b'\\', b'/', ..]) => 2,
            (byte, [other, ..]) => usize::from(other.eq_ignore_ascii_case(byte)),
            (_, []) => 0,
        };
        if len == 0 {
            return false;
        }
        at += len;
    }
    true
}

/// How many bytes of white space a raw text begins with.
fn spaces(text: &[u8]) -> usize {
    let mut len = 0;
    loop {
        len += match text.get(len..) {
            Some([b' ', ..]) => 1,
            Some([b'\\', b'f' | b'n' | b'r' | b't', ..]) => 2,
            _ => return len,
        }
    }
}

/// Whether this part of a word is written in a raw text right before `at`.
fn ends_with(text: &[u8], mut at: usize, part: &[u8]) -> bool {
    for byte in part.iter().rev() {
        let len = match (byte, text.get(..at).unwrap_or_default()) {
            (b' ', before) => spaces_at_end(before),
            (b'/', [.., b'\\', b'/']) => 2,
            (byte, [.., other]) => usize::from(other.eq_ignore_ascii_case(byte)),
            (_, []) => 0,
        };
        if len == 0 {
            return false;
        }
        at -= len;
    }
    true
}

/// How many bytes of white space a raw text ends with. Whether a backslash is itself escaped is not asked.
fn spaces_at_end(text: &[u8]) -> usize {
    let mut len = 0;
    loop {
        len += match text.get(..text.len() - len) {
            Some([.., b'\\', b'f' | b'n' | b'r' | b't']) => 2,
            Some([.., b' ']) => 1,
            _ => return len,
        }
    }
}
