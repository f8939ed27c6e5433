//! Walking a text that is already known to be valid. Nothing here panics on one that is not; it just finds nothing.

use std::borrow::Cow;

use super::{Json, Kind, strings::end as string_end};

fn space(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\n' | b'\r') = text.get(at) {
        at += 1;
    }
    at
}

/// The index after the value that starts at `at`.
fn value_end(text: &[u8], at: usize) -> usize {
    match text.get(at) {
        Some(b'"') => string_end(text, at),
        Some(b'{' | b'[') => nested_end(text, at),
        _ => {
            let mut end = at;
            while let Some(byte) = text.get(end) {
                if matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r') {
                    break;
                }
                end += 1;
            }
            end
        }
    }
}

fn nested_end(text: &[u8], mut at: usize) -> usize {
    let mut depth = 0usize;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                at = string_end(text, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// The key that starts at `at`, as written, and where its value starts.
fn key(text: &[u8], at: usize) -> Option<(&[u8], usize)> {
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let end = string_end(text, at);
    Some((text.get(at..end)?, space(text, space(text, end) + 1)))
}

/// Where the field or item after a value starts.
fn next_start(text: &[u8], value_end: usize) -> usize {
    let next = space(text, value_end);
    if text.get(next) == Some(&b',') {
        space(text, next + 1)
    } else {
        next
    }
}

/// One field, with its key as written.
fn field(text: &[u8], at: usize) -> Option<(&[u8], Json<'_>, usize)> {
    let (key, start) = key(text, at)?;
    let end = value_end(text, start);
    Some((key, Json(text.get(start..end)?), next_start(text, end)))
}

pub(super) fn get<'a>(text: &'a [u8], key: &str) -> Option<Json<'a>> {
    if text.first() != Some(&b'{') {
        return None;
    }
    let mut at = space(text, 1);
    while let Some((raw, value, next)) = field(text, at) {
        let inner = raw.get(1..raw.len().saturating_sub(1))?;
        if inner == key.as_bytes() || (memchr::memchr(b'\\', inner).is_some() && decode(raw) == key)
        {
            return Some(value);
        }
        at = next;
    }
    None
}

#[derive(Debug, Clone)]
pub struct Fields<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn of(text: &'a [u8]) -> Self {
        let at = if text.first() == Some(&b'{') {
            space(text, 1)
        } else {
            text.len()
        };
        Self { text, at }
    }

    /// The next field with its key exactly as written, quotes included.
    pub fn next_raw(&mut self) -> Option<(&'a [u8], Json<'a>)> {
        let (key, value, next) = field(self.text, self.at)?;
        self.at = next;
        Some((key, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (Cow<'a, str>, Json<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = self.next_raw()?;
        Some((decode(key), value))
    }
}

/// The names of an object's fields and of what kind their values are. A value is stepped over only on the way to the field after it, so
/// whoever stops at the field before a long one, or at that, does not pay for it.
#[derive(Debug, Clone)]
pub struct Heads<'a> {
    text: &'a [u8],
    at: usize,
    /// Where the value of the last field begins.
    value: Option<usize>,
}

impl<'a> Heads<'a> {
    pub(super) fn of(text: &'a [u8]) -> Self {
        let Fields { text, at } = Fields::of(text);
        Self {
            text,
            at,
            value: None,
        }
    }
}

impl<'a> Iterator for Heads<'a> {
    type Item = (Cow<'a, str>, Kind);

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(value) = self.value.take() {
            self.at = next_start(self.text, value_end(self.text, value));
        }
        let (key, value) = key(self.text, self.at)?;
        self.value = Some(value);
        Some((decode(key), Json(self.text.get(value..)?).kind()))
    }
}

#[derive(Debug, Clone)]
pub struct Items<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Items<'a> {
    pub(super) fn of(text: &'a [u8]) -> Self {
        let at = if text.first() == Some(&b'[') {
            space(text, 1)
        } else {
            text.len()
        };
        Self { text, at }
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Json<'a>;

    fn next(&mut self) -> Option<Json<'a>> {
        let start = self.at;
        if matches!(self.text.get(start), None | Some(b']')) {
            return None;
        }
        let end = value_end(self.text, start);
        self.at = next_start(self.text, end);
        self.text.get(start..end).map(Json)
    }
}

/// Decodes a quoted string.
pub(super) fn decode(raw: &[u8]) -> Cow<'_, str> {
    let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    let Ok(inner) = std::str::from_utf8(inner) else {
        return Cow::Borrowed("");
    };
    let Some((plain, mut rest)) = inner.split_once('\\') else {
        return Cow::Borrowed(inner);
    };
    let mut out = String::with_capacity(inner.len());
    out.push_str(plain);
    loop {
        let mut chars = rest.chars();
        match chars.next() {
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('u') => out.push(unescape_unit(&mut chars)),
            Some(other) => out.push(other),
            None => break,
        }
        let Some((plain, after)) = chars.as_str().split_once('\\') else {
            out.push_str(chars.as_str());
            break;
        };
        out.push_str(plain);
        rest = after;
    }
    Cow::Owned(out)
}

fn unescape_unit(chars: &mut std::str::Chars<'_>) -> char {
    let high = hex4(chars);
    if !(0xD800..0xDC00).contains(&high) {
        return char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER);
    }
    let mut ahead = chars.clone();
    if ahead.next() == Some('\\') && ahead.next() == Some('u') {
        let low = hex4(&mut ahead);
        if (0xDC00..0xE000).contains(&low) {
            *chars = ahead;
            return char::from_u32(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
                .unwrap_or(char::REPLACEMENT_CHARACTER);
        }
    }
    char::REPLACEMENT_CHARACTER
}

fn hex4(chars: &mut std::str::Chars<'_>) -> u32 {
    (0..4).fold(0, |unit, _| {
        (unit << 4) | chars.next().and_then(|c| c.to_digit(16)).unwrap_or(0)
    })
}
