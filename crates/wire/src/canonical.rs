//! Canonical JSON: one spelling for each value, so that equal values have equal digests.
//!
//! Keys are sorted by code point, nothing stands between tokens, and a character is escaped only where JSON demands it. Numbers keep
//! their text: `1` and `1.0` are different texts to us, because rounding could make two calls look like one. Never used to forward a
//! value, only to compare, to digest and to show it.

use std::{borrow::Cow, cmp::Ordering, ops::Range};

use crate::{Json, json::decode_key};

/// How keys are sorted. The two differ only where characters outside the basic plane meet those from U+E000 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// As Python and Rust sort text; ours.
    CodePoint,
    /// As JavaScript does.
    Utf16,
}

impl Order {
    fn compare(self, a: &str, b: &str) -> Ordering {
        match self {
            Self::CodePoint => a.cmp(b),
            Self::Utf16 => a.encode_utf16().cmp(b.encode_utf16()),
        }
    }
}

/// Deeper values cannot come from [`Json::parse`] with any limit we use; they are copied as they stand.
const DEEPEST: usize = 512;

/// The canonical text of a validated value.
#[must_use]
pub fn canonical(json: Json<'_>) -> Vec<u8> {
    canonical_after(
        Vec::with_capacity(json.as_bytes().len()),
        json,
        Order::CodePoint,
    )
}

/// Writes the canonical text of a validated value at the end of `out`, with its keys in the order asked for.
#[must_use]
pub fn canonical_after(out: Vec<u8>, json: Json<'_>, order: Order) -> Vec<u8> {
    let mut writing = Writing {
        text: json.as_bytes(),
        at: 0,
        out,
        order,
    };
    writing.value(DEEPEST);
    writing.out
}

/// One pass over the text. Whatever the text is, each step moves on or ends.
struct Writing<'a> {
    text: &'a [u8],
    at: usize,
    out: Vec<u8>,
    order: Order,
}

impl<'a> Writing<'a> {
    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.text.get(self.at) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn value(&mut self, depth: usize) {
        match self.peek() {
            _ if depth == 0 => {
                self.out
                    .extend_from_slice(self.text.get(self.at..).unwrap_or_default());
                self.at = self.text.len();
            }
            Some(b'{') => self.object(depth - 1),
            Some(b'[') => self.array(depth - 1),
            Some(b'"') => {
                let raw = self.raw_string();
                string(&mut self.out, raw);
            }
            _ => {
                let rest = self.text.get(self.at..).unwrap_or_default();
                let length = rest
                    .iter()
                    .take_while(|byte| {
                        byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
                    })
                    .count();
                self.out
                    .extend_from_slice(rest.get(..length).unwrap_or_default());
                // A byte that cannot be here is stepped over, so that a text that was never checked ends too.
                self.at += length.max(1);
            }
        }
    }

    fn array(&mut self, depth: usize) {
        self.at += 1;
        self.out.push(b'[');
        let start = self.out.len();
        while !matches!(self.peek(), None | Some(b']')) {
            if self.out.len() > start {
                self.out.push(b',');
            }
            self.value(depth);
            if self.peek() == Some(b',') {
                self.at += 1;
            }
        }
        self.at += 1;
        self.out.push(b']');
    }

    fn object(&mut self, depth: usize) {
        self.at += 1;
        self.out.push(b'{');
        let start = self.out.len();
        let mut fields: Vec<(&'a [u8], Range<usize>)> = Vec::new();
        while self.peek() == Some(b'"') {
            let from = self.out.len();
            let key = self.raw_string();
            string(&mut self.out, key);
            self.out.push(b':');
            if self.peek() == Some(b':') {
                self.at += 1;
            }
            self.value(depth);
            self.out.push(b',');
            fields.push((key, from..self.out.len()));
            if self.peek() == Some(b',') {
                self.at += 1;
            }
        }
        self.at += usize::from(self.peek() == Some(b'}'));
        self.sort(start, &mut fields);
        if !fields.is_empty() {
            self.out.pop();
        }
        self.out.push(b'}');
    }

    /// Puts the fields that were written from `start` on in the order of their keys.
    fn sort(&mut self, start: usize, fields: &mut [(&'a [u8], Range<usize>)]) {
        // Without the closing quote, which would sort `"a"` after `"a!"`. UTF-8 sorts like its code points.
        let plain = |key: &'a [u8]| key.strip_suffix(b"\"").unwrap_or(key);
        let by_bytes =
            self.order == Order::CodePoint && !fields.iter().any(|(key, _)| key.contains(&b'\\'));
        if by_bytes {
            if fields.is_sorted_by(|(a, _), (b, _)| plain(a) <= plain(b)) {
                return;
            }
            fields.sort_unstable_by_key(|(key, _)| plain(key));
        } else {
            let order = self.order;
            fields.sort_by_cached_key(|(key, _)| Sorted(decode_key(key), order));
        }
        let mut sorted = Vec::with_capacity(self.out.len() - start);
        for (_, written) in &*fields {
            sorted.extend_from_slice(self.out.get(written.clone()).unwrap_or_default());
        }
        self.out.truncate(start);
        self.out.append(&mut sorted);
    }

    /// The string that opens here, quotes included.
    fn raw_string(&mut self) -> &'a [u8] {
        let start = self.at;
        let mut at = start + 1;
        while let Some(found) = self
            .text
            .get(at..)
            .and_then(|rest| memchr::memchr2(b'"', b'\\', rest))
        {
            at += found;
            if self.text.get(at) == Some(&b'"') {
                self.at = at + 1;
                return self.text.get(start..self.at).unwrap_or_default();
            }
            at += 2;
        }
        self.at = self.text.len();
        self.text.get(start..).unwrap_or_default()
    }
}

/// A key that sorts in an order.
#[derive(PartialEq, Eq)]
struct Sorted<'a>(Cow<'a, str>, Order);

impl Ord for Sorted<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.1.compare(&self.0, &other.0)
    }
}

impl PartialOrd for Sorted<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Writes a string, given as written, quotes included.
fn string(out: &mut Vec<u8>, raw: &[u8]) {
    if memchr::memchr(b'\\', raw).is_none() {
        out.extend_from_slice(raw);
        return;
    }
    out.push(b'"');
    for &byte in decode_key(raw).as_bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0..=0x1f => {
                out.extend_from_slice(if byte < 0x10 { b"\\u000" } else { b"\\u001" });
                out.push(
                    char::from_digit(u32::from(byte & 0xf), 16).map_or(b'0', |digit| digit as u8),
                );
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests;
