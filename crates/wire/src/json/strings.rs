//! Running over the inside of strings, which is most of every long text.
//!
//! Short strings are looked at eight bytes to a word. Long ones go through blocks of 64 bytes with whatever vector instructions the
//! processor has: prose with a line break or a quote in every sentence is no slower than an unbroken run. Nothing here decides what is
//! valid: it stops in front of everything it does not know, and the scanner says what that is.

use fearless_simd::{Level, dispatch, prelude::*, u8x64};

use crate::vector::level;

/// Strings up to this length are not worth the vector search.
pub(super) const SHORT: usize = 64;

const BLOCK: usize = 64;
/// Characters below this one must be escaped.
const CONTROLS: u8 = 0x20;
const EVEN: u64 = 0x5555_5555_5555_5555;

/// How far a run went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// The first byte that was not stepped over; never the second half of an escape.
    pub(super) at: usize,
    pub(super) escaped: bool,
    /// Up to here everything is ASCII; where the run began, if that is not known.
    pub(super) ascii_to: usize,
}

/// Steps over plain characters and two-character escapes, from `at` inside a string. Stops at the closing quote, at a control
/// character, at the backslash of any other escape, or at the end of the text.
pub(super) fn checked_run(text: &[u8], at: usize) -> Run {
    checked_run_with(level(), text, at)
}

fn checked_run_with(level: Level, text: &[u8], at: usize) -> Run {
    let rest = text.get(at..).unwrap_or_default();
    let mut run = dispatch!(level, simd => checked_blocks(simd, rest));
    run.at += at;
    run.ascii_to += at;
    loop {
        run.at += plain_prefix(text.get(run.at..).unwrap_or_default());
        match text.get(run.at..) {
            Some(
                [
                    b'\\',
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't',
                    ..,
                ],
            ) => {
                run.escaped = true;
                run.at += 2;
            }
            _ => return run,
        }
    }
}

/// The whole blocks of a text that begins inside a string.
#[inline(always)]
fn checked_blocks<S: Simd>(simd: S, text: &[u8]) -> Run {
    let mut run = Run {
        at: 0,
        escaped: false,
        ascii_to: 0,
    };
    let (mut carry, mut escapes) = (0, 0);
    let (mut seen, mut least) = (u8x64::splat(simd, 0), u8x64::splat(simd, u8::MAX));
    for bytes in text.as_chunks::<BLOCK>().0 {
        let block = u8x64::from_slice(simd, bytes);
        seen |= block;
        let (quotes, backslashes, newlines) = (
            equal(simd, block, b'"'),
            equal(simd, block, b'\\'),
            equal(simd, block, b'n'),
        );
        // Where no two backslashes stand together, what comes after one is escaped. Nearly every escape in prose is a quote or a line
        // break; only a block with another one, or with the end of the string, is looked at more closely.
        let after = (backslashes << 1) | carry;
        if (quotes ^ after) & !newlines == 0 {
            least = least.min(block);
            escapes |= after;
            carry = backslashes >> (BLOCK - 1);
            run.at += BLOCK;
            continue;
        }
        let (escaped, next_carry) = escaped(backslashes, carry);
        let letters = newlines
            | equal(simd, block, b'b')
            | equal(simd, block, b'f')
            | equal(simd, block, b'r')
            | equal(simd, block, b't');
        let known = quotes | backslashes | letters | equal(simd, block, b'/');
        let controls = block.simd_lt(u8x64::splat(simd, CONTROLS)).to_bitmask();
        let stops = (quotes & !escaped) | controls | (escaped & !known);
        if stops != 0 {
            let stop = stops.trailing_zeros();
            escapes |= escaped & ((1 << stop) - 1);
            // An escape is stopped at as a whole, from its backslash on.
            run.at = run.at + stop as usize - usize::from((escaped >> stop) & 1 == 1);
            carry = 0;
            break;
        }
        escapes |= escaped;
        carry = next_carry;
        run.at += BLOCK;
    }
    if least.simd_lt(u8x64::splat(simd, CONTROLS)).any_true() {
        // Somewhere on the way. Such a text is refused, so it does not matter that the place is found byte by byte.
        return Run {
            at: 0,
            escaped: false,
            ascii_to: 0,
        };
    }
    run.escaped = escapes != 0;
    run.at -= usize::from(carry == 1);
    run.ascii_to = if is_ascii(simd, seen) { run.at } else { 0 };
    run
}

// A function, because a closure need not be inlined into what `dispatch` compiles for each kind of processor.
#[inline(always)]
fn equal<S: Simd>(simd: S, block: u8x64<S>, byte: u8) -> u64 {
    block.simd_eq(u8x64::splat(simd, byte)).to_bitmask()
}

#[inline(always)]
fn is_ascii<S: Simd>(simd: S, seen: u8x64<S>) -> bool {
    seen.simd_lt(u8x64::splat(simd, 0x80)).all_true()
}

/// Which characters of a block come after a backslash that is not itself escaped; and whether the next block begins with one.
/// Adding a run's first backslash to the run carries out of it, which tells runs of odd length from those of even length.
#[inline(always)]
const fn escaped(backslashes: u64, carry: u64) -> (u64, u64) {
    if backslashes == 0 {
        return (carry, 0);
    }
    let backslashes = backslashes & !carry;
    let follows = (backslashes << 1) | carry;
    let odd_starts = backslashes & !EVEN & !follows;
    let (sum, overflow) = odd_starts.overflowing_add(backslashes);
    ((EVEN ^ (sum << 1)) & follows, overflow as u64)
}

/// The index after the string that opens at `at`, in a text that is known to be valid; the end of the text if it does not close.
pub(super) fn end(text: &[u8], at: usize) -> usize {
    end_with(level(), text, at)
}

fn end_with(level: Level, text: &[u8], at: usize) -> usize {
    let mut from = at + 1;
    let long = from + SHORT;
    while from < text.len() {
        if from >= long {
            from += dispatch!(level, simd => blocks_to_quote(simd, text.get(from..).unwrap_or_default()));
        }
        // What is left is short, or ends at the quote, or is an escape at the edge of a block.
        let until = if from < long {
            long.min(text.len())
        } else {
            text.len().min(from + SHORT)
        };
        while from < until {
            match text.get(from) {
                Some(b'"') => return from + 1,
                Some(b'\\') => from += 2,
                _ => from += 1,
            }
        }
    }
    text.len()
}

/// How many bytes come before the closing quote, or before the last bytes that fill no block.
#[inline(always)]
fn blocks_to_quote<S: Simd>(simd: S, text: &[u8]) -> usize {
    let (mut at, mut carry) = (0, 0);
    for bytes in text.as_chunks::<BLOCK>().0 {
        let block = u8x64::from_slice(simd, bytes);
        let (quotes, backslashes) = (equal(simd, block, b'"'), equal(simd, block, b'\\'));
        let after = (backslashes << 1) | carry;
        if (quotes & !after) | (backslashes & after) == 0 {
            carry = backslashes >> (BLOCK - 1);
        } else {
            let (escaped, next_carry) = escaped(backslashes, carry);
            let ends = quotes & !escaped;
            if ends != 0 {
                return at + ends.trailing_zeros() as usize;
            }
            carry = next_carry;
        }
        at += BLOCK;
    }
    at - usize::from(carry == 1)
}

/// How many bytes come before the first quote, backslash or control character.
pub(super) fn plain_prefix(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(word) = text.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let stops = stops(u64::from_le_bytes(*word));
        if stops != 0 {
            return at + stops.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = text.get(at..).unwrap_or_default();
    at + rest
        .iter()
        .position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))
        .unwrap_or(rest.len())
}

/// Sets the high bit of every byte that is a quote, a backslash or below 0x20. Bits above the lowest one may be set in error, so only
/// the lowest counts.
const fn stops(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGHS: u64 = ONES << 7;
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    let is_quote = quote.wrapping_sub(ONES) & !quote;
    let is_backslash = backslash.wrapping_sub(ONES) & !backslash;
    let is_control = word.wrapping_sub(ONES * 0x20) & !word;
    (is_quote | is_backslash | is_control) & HIGHS
}

#[cfg(test)]
mod tests;
