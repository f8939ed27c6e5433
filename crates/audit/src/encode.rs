//! The canonical line: fixed key order, absent values left out, one spelling for every string.
//!
//! Written by hand into a reused buffer because it runs twice per call. It must never let a string break out of its
//! line or reach a terminal: see [`must_escape`].

use crate::chain::{Hash, hex_digit};
use crate::clock::write_rfc3339;
use crate::record::Draft;

/// A longer text is cut here, at a character, and ends in `…`: a caller's text cannot make a record of any size.
const TEXT_LIMIT: usize = 512;
const DETAIL_LIMIT: usize = 4096;

/// Everything between `seq` and `prev`; needs no lock, because it depends on no other record.
pub(crate) fn fields(out: &mut Vec<u8>, unix_ms: u64, draft: &Draft<'_>) {
    number(out, b",\"ms\":", Some(unix_ms));
    out.extend_from_slice(b",\"time\":\"");
    write_rfc3339(out, unix_ms);
    out.push(b'"');
    text(out, b",\"kind\":", draft.kind.as_str());
    columns(out, draft);
}

/// Writes one column by its kind.
macro_rules! write_value {
    (text $out:ident $key:expr, $value:expr) => {
        text($out, $key, $value)
    };
    (long $out:ident $key:expr, $value:expr) => {
        bounded($out, $key, $value, DETAIL_LIMIT)
    };
    (number $out:ident $key:expr, $value:expr) => {
        number($out, $key, $value)
    };
    ($word:ident $out:ident $key:expr, $value:expr) => {
        text($out, $key, $value.map_or("", |value| value.as_str()))
    };
}

macro_rules! draw_columns {
    ([] $({ $name:ident $kind:ident $title:tt $what:literal })*) => {
        fn columns(out: &mut Vec<u8>, draft: &Draft<'_>) {
            $(write_value!($kind out concat!(",\"", stringify!($name), "\":").as_bytes(), draft.$name);)*
        }
    };
}
vocab::record_columns!(all => draw_columns []);

/// Completes the line around `fields` and returns its hash.
pub(crate) fn line(out: &mut Vec<u8>, seq: u64, previous: &Hash, fields: &[u8]) -> Hash {
    let start = out.len();
    number(out, b"{\"v\":1,\"seq\":", Some(seq));
    out.extend_from_slice(fields);
    out.extend_from_slice(b",\"prev\":\"");
    previous.write_hex(out);
    out.push(b'"');
    let hash = Hash::link(previous, out.get(start..).unwrap_or_default());
    out.extend_from_slice(b",\"hash\":\"");
    hash.write_hex(out);
    out.extend_from_slice(b"\"}\n");
    hash
}

/// `text` as it may be shown on a terminal: what must be escaped in the ledger is escaped here too.
pub fn printable(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    for c in text.chars() {
        if must_escape(c) {
            escape(&mut out, c);
        } else {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    String::from_utf8(out).unwrap_or_default()
}

fn number(out: &mut Vec<u8>, key: &[u8], value: Option<u64>) {
    let Some(mut value) = value else { return };
    out.extend_from_slice(key);
    let start = out.len();
    loop {
        out.push(b'0' + (value % 10) as u8);
        value /= 10;
        if value == 0 {
            break;
        }
    }
    if let Some(digits) = out.get_mut(start..) {
        digits.reverse();
    }
}

fn text(out: &mut Vec<u8>, key: &[u8], value: &str) {
    bounded(out, key, value, TEXT_LIMIT);
}

fn bounded(out: &mut Vec<u8>, key: &[u8], value: &str, limit: usize) {
    if value.is_empty() {
        return;
    }
    out.extend_from_slice(key);
    out.push(b'"');
    let kept = value.floor_char_boundary(limit);
    let (shown, cut) = value.split_at(kept);
    string_body(out, shown);
    if !cut.is_empty() {
        out.extend_from_slice("…".as_bytes());
    }
    out.push(b'"');
}

fn string_body(out: &mut Vec<u8>, value: &str) {
    // No early exit: without one the compiler looks at many bytes at once.
    let plain = |b: &u8| (0x20..=0x7e).contains(b) & (*b != b'"') & (*b != b'\\');
    let all_plain = value.as_bytes().iter().fold(true, |all, b| all & plain(b));
    if all_plain {
        out.extend_from_slice(value.as_bytes());
        return;
    }
    for c in value.chars() {
        match c {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            c if must_escape(c) => escape(out, c),
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// Characters that end lines, drive terminals, reorder text or are not seen at all.
fn must_escape(c: char) -> bool {
    matches!(c,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}'              // C0, DEL, C1
        | '\u{ad}' | '\u{34f}' | '\u{61c}'                 // soft hyphen, joiner, Arabic letter mark
        | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' // blank letters
        | '\u{180b}'..='\u{180f}'                          // Mongolian selectors
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' // zero width, marks, separators, embeddings
        | '\u{2060}'..='\u{206f}'                          // joiners, invisible operators, isolates
        | '\u{3164}' | '\u{ffa0}'                          // Hangul fillers
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'             // variation selectors, byte order mark
        | '\u{fff0}'..='\u{fffb}'                          // interlinear annotation
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' // shorthand and music controls
        | '\u{e0000}'..='\u{e0fff}') // tags, more variation selectors
}

/// `\uXXXX`, lower case; two of them, a surrogate pair, beyond the basic plane.
fn escape(out: &mut Vec<u8>, c: char) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        out.extend_from_slice(b"\\u");
        for shift in [12, 8, 4, 0] {
            out.push(hex_digit((*unit >> shift & 15) as u8));
        }
    }
}
