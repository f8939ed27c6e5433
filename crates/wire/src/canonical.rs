//! Canonical JSON: one spelling for each value, so that equal values have equal digests.
//!
//! Keys are sorted by code point, nothing stands between tokens, and a character is escaped only where JSON demands it. Numbers keep
//! their text: `1` and `1.0` are different texts to us, because rounding could make two calls look like one. Never used to forward a
//! value, only to compare, to digest and to show it.

use crate::{
    Json, Kind,
    json::{RawField, decode_key},
};

/// Deeper values cannot come from [`Json::parse`] with any limit we use; they are copied as they stand.
const DEEPEST: usize = 512;

/// The canonical text of a validated value.
#[must_use]
pub fn canonical(json: Json<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.as_bytes().len());
    value(&mut out, json, DEEPEST);
    out
}

fn value(out: &mut Vec<u8>, json: Json<'_>, depth: usize) {
    match json.kind() {
        _ if depth == 0 => out.extend_from_slice(json.as_bytes()),
        Kind::Object => object(out, json, depth - 1),
        Kind::Array => {
            out.push(b'[');
            for (at, item) in json.items().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                value(out, item, depth - 1);
            }
            out.push(b']');
        }
        Kind::String => string(out, json.as_bytes()),
        Kind::Number | Kind::Bool | Kind::Null => out.extend_from_slice(json.as_bytes()),
    }
}

fn object(out: &mut Vec<u8>, json: Json<'_>, depth: usize) {
    let mut fields: Vec<RawField<'_>> = json.raw_fields();
    if fields.iter().any(|(key, _)| key.contains(&b'\\')) {
        fields.sort_by(|(a, _), (b, _)| decode_key(a).cmp(&decode_key(b)));
    } else {
        // Without the closing quote, which would sort `"a"` after `"a!"`; UTF-8 sorts like its code points.
        fields.sort_unstable_by_key(|(key, _)| key.strip_suffix(b"\"").unwrap_or(key));
    }
    out.push(b'{');
    for (at, (key, field)) in fields.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        string(out, key);
        out.push(b':');
        value(out, field, depth);
    }
    out.push(b'}');
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
                out.push(char::from_digit(u32::from(byte & 0xf), 16).map_or(b'0', |digit| digit as u8));
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests;
