//! Assembling JSON text from parts, most of them copied verbatim.

use bytes::Bytes;

use crate::{
    Json, Text,
    json::{RawField, decode_key},
};

/// Values from this size on are worth not copying.
const LONG: usize = 32 << 10;

/// An object being written. Keys are ours, so they are plain ASCII; values are raw JSON text or escaped here.
#[derive(Debug)]
pub struct Object {
    out: Vec<u8>,
    /// Where this object's `{` stands in `out`.
    open: usize,
}

impl Default for Object {
    fn default() -> Self {
        Self::new()
    }
}

impl Object {
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(256)
    }

    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self::after(Vec::with_capacity(bytes))
    }

    /// Starts an object at the end of `out`.
    #[must_use]
    pub fn after(mut out: Vec<u8>) -> Self {
        let open = out.len();
        out.push(b'{');
        Self { out, open }
    }

    fn key(&mut self, key: &str) {
        if self.out.len() > self.open + 1 {
            self.out.push(b',');
        }
        quote(&mut self.out, key);
        self.out.push(b':');
    }

    /// A field whose value is JSON text already.
    pub fn raw(&mut self, key: &str, value: &[u8]) -> &mut Self {
        self.key(key);
        self.out.extend_from_slice(value);
        self
    }

    pub fn json(&mut self, key: &str, value: Json<'_>) -> &mut Self {
        self.raw(key, value.as_bytes())
    }

    pub fn str(&mut self, key: &str, value: &str) -> &mut Self {
        self.key(key);
        quote(&mut self.out, value);
        self
    }

    pub fn u64(&mut self, key: &str, value: u64) -> &mut Self {
        self.key(key);
        number(&mut self.out, value);
        self
    }

    pub fn i64(&mut self, key: &str, value: i64) -> &mut Self {
        self.key(key);
        if value < 0 {
            self.out.push(b'-');
        }
        number(&mut self.out, value.unsigned_abs());
        self
    }

    pub fn bool(&mut self, key: &str, value: bool) -> &mut Self {
        self.raw(key, if value { b"true" } else { b"false" })
    }

    /// A nested object.
    pub fn object(&mut self, key: &str, fill: impl FnOnce(&mut Self)) -> &mut Self {
        self.key(key);
        let mut inner = Self::after(std::mem::take(&mut self.out));
        fill(&mut inner);
        self.out = inner.finish();
        self
    }

    /// A field with its key as it was written elsewhere, quotes included.
    pub fn copied(&mut self, raw_key: &[u8], value: Json<'_>) -> &mut Self {
        if self.out.len() > self.open + 1 {
            self.out.push(b',');
        }
        self.out.extend_from_slice(raw_key);
        self.out.push(b':');
        self.out.extend_from_slice(value.as_bytes());
        self
    }

    fn copied_except(&mut self, fields: &[RawField<'_>], drop: &[&str]) {
        for (key, value) in fields {
            if !drop.contains(&&*decode_key(key)) {
                self.copied(key, *value);
            }
        }
    }

    /// Everything written so far, for someone else to complete.
    #[must_use]
    pub fn unfinished(self) -> Vec<u8> {
        self.out
    }

    /// Closes the object and returns everything written so far.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.out.push(b'}');
        self.out
    }
}

/// Copies every field of `object` verbatim and in order, except those named in `drop`; `fill` then appends its own.
#[must_use]
pub fn replace_fields(object: Json<'_>, drop: &[&str], fill: impl FnOnce(&mut Object)) -> Vec<u8> {
    splice_fields(&object.raw_fields(), drop, fill)
}

/// Like [`replace_fields`], for an object whose fields are known already.
#[must_use]
pub fn splice_fields(
    fields: &[RawField<'_>],
    drop: &[&str],
    fill: impl FnOnce(&mut Object),
) -> Vec<u8> {
    let mut out = Object::with_capacity(room_for(fields));
    out.copied_except(fields, drop);
    fill(&mut out);
    out.finish()
}

/// A text in three pieces: what is written anew stands around one long value that is not copied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pieces {
    head: Vec<u8>,
    long: Bytes,
    tail: Vec<u8>,
}

impl Pieces {
    #[must_use]
    pub fn len(&self) -> usize {
        self.head.len() + self.long.len() + self.tail.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// In order; some may be empty.
    #[must_use]
    pub fn all(&self) -> [&[u8]; 3] {
        [&self.head, &self.long, &self.tail]
    }
}

impl From<Vec<u8>> for Pieces {
    fn from(head: Vec<u8>) -> Self {
        Self {
            head,
            ..Self::default()
        }
    }
}

/// Like [`splice_fields`], on one line, for fields of an object that is part of `owner`. The fields that `fill` writes come before the
/// others: they are short, and whoever looks for one of them need not step over the rest.
#[must_use]
pub fn lead_fields(
    owner: &Text,
    fields: &[RawField<'_>],
    drop: &[&str],
    fill: impl FnOnce(&mut Object),
) -> Pieces {
    let one_line =
        |text: &[u8]| owner.is_one_line() || memchr::memchr2(b'\n', b'\r', text).is_none();
    let is_long = |value: &Json<'_>| value.as_bytes().len() >= LONG && one_line(value.as_bytes());
    let long = fields
        .iter()
        .position(|(key, value)| is_long(value) && !drop.contains(&&*decode_key(key)));
    let Some((before, (key, value), after)) =
        long.and_then(|at| Some((fields.get(..at)?, fields.get(at)?, fields.get(at + 1..)?)))
    else {
        let mut out = Object::with_capacity(room_for(fields));
        fill(&mut out);
        out.copied_except(fields, drop);
        let mut text = out.finish();
        flatten(&mut text);
        return text.into();
    };
    let mut out = Object::with_capacity(room_for(before));
    fill(&mut out);
    out.copied_except(before, drop);
    out.copied(key, Json::checked_before(b""));
    let mut head = out.unfinished();
    let mut rest = Object::with_capacity(room_for(after));
    rest.copied_except(after, drop);
    let mut tail = rest.finish();
    // The rest continues the object that `head` began: its fields follow a comma, not a brace.
    match tail.get_mut(..2) {
        Some([first, b'"']) => *first = b',',
        _ => tail = b"}".to_vec(),
    }
    flatten(&mut head);
    flatten(&mut tail);
    Pieces {
        head,
        long: owner.slice_ref(value.as_bytes()),
        tail,
    }
}

fn room_for(fields: &[RawField<'_>]) -> usize {
    fields
        .iter()
        .map(|(key, value)| key.len() + value.as_bytes().len() + 2)
        .sum::<usize>()
        + 128
}

pub fn number(out: &mut Vec<u8>, mut value: u64) {
    let start = out.len();
    loop {
        out.push(b'0' + u8::try_from(value % 10).unwrap_or(0));
        value /= 10;
        if value == 0 {
            break;
        }
    }
    if let Some(digits) = out.get_mut(start..) {
        digits.reverse();
    }
}

/// Writes `text` as a JSON string. Every control character is escaped, so the result never holds a line break.
pub fn quote(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut from = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let escape: &[u8] = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            b'\t' => b"\\t",
            0..=0x1f | 0x7f => &[],
            _ => continue,
        };
        out.extend_from_slice(bytes.get(from..at).unwrap_or_default());
        if escape.is_empty() {
            let hex =
                |nibble: u8| char::from_digit(u32::from(nibble), 16).map_or(b'0', |c| c as u8);
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[hex(byte >> 4), hex(byte & 0xf)]);
        } else {
            out.extend_from_slice(escape);
        }
        from = at + 1;
    }
    out.extend_from_slice(bytes.get(from..).unwrap_or_default());
    out.push(b'"');
}

/// Puts JSON text on one line: line breaks stand only between tokens in valid JSON, so each becomes a space.
pub fn flatten(text: &mut [u8]) {
    let mut at = 0;
    while let Some(found) = text
        .get(at..)
        .and_then(|rest| memchr::memchr2(b'\n', b'\r', rest))
    {
        at += found;
        if let Some(byte) = text.get_mut(at) {
            *byte = b' ';
        }
    }
}

/// `text` as a JSON string on its own.
#[must_use]
pub fn quoted(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    quote(&mut out, text);
    out
}
