//! All strings of a value as one text, which is what patterns are matched against.
//!
//! Long texts are gone through 64 bytes at a time: what is ASCII and needs nothing but lower case is copied as a block. Only escapes,
//! a second space and what is not ASCII are looked at one by one.

use fearless_simd::{Level, dispatch, prelude::*, u8x64};
use wire::{json::decode_key, vector::level};

use super::fold::{Fold, Letters, fold};

/// Between strings; no pattern matches across it.
pub(super) const BETWEEN: u8 = 0x1f;

const BLOCK: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Strings {
    /// Every string and key, folded. Text, too.
    pub(super) folded: Vec<u8>,
    /// Those that hold something a person does not see, as they came.
    pub(super) unusual: String,
}

impl Strings {
    /// In a validated text a quote outside a string opens one, so strings are found without looking at what is between them.
    pub(super) fn gather(text: &[u8]) -> Self {
        Self::gather_with(level(), text)
    }

    pub(super) fn gather_with(level: Level, text: &[u8]) -> Self {
        let mut folding = Folding {
            letters: Letters::get(),
            text,
            at: 0,
            out: Vec::with_capacity(text.len() + BLOCK),
            hides: false,
        };
        let mut unusual = String::new();
        while let Some(open) = memchr::memchr(b'"', folding.rest()) {
            let start = folding.at + open;
            folding.at = start + 1;
            folding.hides = false;
            dispatch!(level, simd => folding.string(simd));
            folding.out.push(BETWEEN);
            if folding.hides {
                unusual.push_str(&decode_key(text.get(start..folding.at).unwrap_or_default()));
                unusual.push(char::from(BETWEEN));
            }
        }
        Self {
            folded: folding.out,
            unusual,
        }
    }

    pub(super) fn of(text: &str) -> Self {
        Self::gather(&wire::write::quoted(text))
    }
}

/// A text on its way to being folded.
struct Folding<'a> {
    letters: &'static Letters,
    text: &'a [u8],
    at: usize,
    out: Vec<u8>,
    /// Whether the present string holds characters that the hidden rules care about.
    hides: bool,
}

impl Folding<'_> {
    fn rest(&self) -> &[u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// From inside a string to after its end.
    #[inline(always)]
    fn string<S: Simd>(&mut self, simd: S) {
        loop {
            self.blocks(simd);
            // Escapes stand together, and so do spaces: a block is not worth loading between two of them.
            loop {
                match self.text.get(self.at) {
                    None => return,
                    Some(b'"') => {
                        self.at += 1;
                        return;
                    }
                    Some(b'\\') => self.escape(),
                    Some(b' ') if self.out.last() == Some(&b' ') => self.at += 1,
                    Some(0x80..) => self.beyond_ascii(),
                    Some(b' '..) if self.rest().len() >= BLOCK => break,
                    Some(byte) => {
                        self.ascii(*byte);
                        self.at += 1;
                    }
                }
            }
        }
    }

    /// Copies whole blocks in lower case, up to the first byte that needs a closer look.
    #[inline(always)]
    fn blocks<S: Simd>(&mut self, simd: S) {
        let mut lowered = [0; BLOCK];
        while let Some(bytes) = self.rest().first_chunk::<BLOCK>() {
            let block = u8x64::load_array_ref(simd, bytes);
            let spaces = block.simd_eq(splat(simd, b' ')).to_bitmask();
            let after_space = spaces << 1 | u64::from(self.out.last() == Some(&b' '));
            let special = block.simd_eq(splat(simd, b'"'))
                | block.simd_eq(splat(simd, b'\\'))
                | block.simd_ge(splat(simd, 0x80))
                | block.simd_lt(splat(simd, b' '));
            let stops = special.to_bitmask() | (spaces & after_space);
            let is_upper = (block - splat(simd, b'A')).simd_lt(splat(simd, 26));
            is_upper
                .select(block | splat(simd, 0x20), block)
                .store_array(&mut lowered);
            // A whole block is faster to copy than part of one.
            let plain = stops.trailing_zeros() as usize;
            self.out.extend_from_slice(&lowered);
            self.at += plain;
            if plain < BLOCK {
                self.out.truncate(self.out.len() - (BLOCK - plain));
                return;
            }
        }
    }

    /// An escape, from its backslash on.
    fn escape(&mut self) {
        let letter = self.text.get(self.at + 1).copied().unwrap_or_default();
        self.at += 2;
        match letter {
            b'b' => self.out.push(0x08),
            b'f' | b'n' | b'r' | b't' => self.ascii(b' '),
            b'u' => {
                let c = self.unit();
                self.character(c);
            }
            other => self.ascii(other),
        }
    }

    /// The character of an escape by number, or by two that belong together.
    fn unit(&mut self) -> char {
        let high = self.hex4(self.at);
        self.at += 4;
        if let 0xd800..0xdc00 = high
            && self.rest().starts_with(b"\\u")
            && let low @ 0xdc00..0xe000 = self.hex4(self.at + 2)
        {
            self.at += 6;
            return char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))
                .unwrap_or(char::REPLACEMENT_CHARACTER);
        }
        char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER)
    }

    fn hex4(&self, at: usize) -> u32 {
        let digits = self.text.get(at..).unwrap_or_default().iter().take(4);
        digits.fold(0, |unit, digit| {
            unit << 4 | char::from(*digit).to_digit(16).unwrap_or_default()
        })
    }

    fn character(&mut self, c: char) {
        match (u8::try_from(c).ok().filter(u8::is_ascii), fold(c)) {
            (Some(byte), _) | (None, Fold::Becomes(byte)) => self.ascii(byte),
            (None, Fold::Nothing) => self.hides = true,
            (None, Fold::Same) => self
                .out
                .extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }

    /// Characters that are not ASCII, and single ones between them that are.
    fn beyond_ascii(&mut self) {
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            match *rest {
                [0x80..=0xff, ..] => {
                    let (fold, len) = self.letters.first(rest);
                    self.at += len;
                    match (fold, rest) {
                        (Fold::Becomes(byte), _) => self.ascii(byte),
                        (Fold::Nothing, _) => self.hides = true,
                        (Fold::Same, [a, b, c, ..]) if len == 3 => {
                            self.out.extend_from_slice(&[*a, *b, *c])
                        }
                        (Fold::Same, [a, b, ..]) if len == 2 => {
                            self.out.extend_from_slice(&[*a, *b])
                        }
                        (Fold::Same, _) => self
                            .out
                            .extend_from_slice(rest.get(..len).unwrap_or_default()),
                    }
                }
                [b'"' | b'\\', ..] => return,
                [byte, 0x80..=0xff, ..] => {
                    self.at += 1;
                    self.ascii(byte);
                }
                _ => return,
            }
        }
    }

    /// One ASCII character: in lower case, and white space only where there is none yet.
    fn ascii(&mut self, byte: u8) {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => {
                if self.out.last() != Some(&b' ') {
                    self.out.push(b' ');
                }
            }
            byte => {
                self.hides |= matches!(byte, 0 | 0x1b);
                self.out.push(byte.to_ascii_lowercase());
            }
        }
    }
}

// A function, because a closure need not be inlined into what `dispatch` compiles for each kind of processor.
#[inline(always)]
fn splat<S: Simd>(simd: S, byte: u8) -> u8x64<S> {
    u8x64::splat(simd, byte)
}
