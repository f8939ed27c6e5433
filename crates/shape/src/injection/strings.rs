//! All strings of a value as one text, which is what patterns are matched against.

use wire::json::decode_key;

use super::fold;
use crate::text::string_end;

/// Between strings; no pattern matches across it.
pub(super) const BETWEEN: char = '\u{1f}';

#[derive(Debug, Default)]
pub(super) struct Strings {
    /// Every string and key, folded.
    pub(super) folded: String,
    /// Those that hold something a person does not see, as they came.
    pub(super) unusual: String,
}

impl Strings {
    /// In a validated text a quote outside a string opens one, so strings are found without looking at what is between them.
    pub(super) fn gather(text: &str) -> Self {
        let mut strings = Self { folded: String::with_capacity(text.len()), unusual: String::new() };
        let mut at = 0;
        while let Some(open) = text.as_bytes().get(at..).and_then(|rest| memchr::memchr(b'"', rest)) {
            let start = at + open;
            at = string_end(text.as_bytes(), start);
            let quoted = text.get(start..at).unwrap_or_default();
            if memchr::memchr(b'\\', quoted.as_bytes()).is_some() {
                strings.add(&decode_key(quoted.as_bytes()));
            } else {
                strings.add(quoted.trim_matches('"'));
            }
        }
        strings.finish()
    }

    pub(super) fn of(text: &str) -> Self {
        let mut strings = Self::default();
        strings.add(text);
        strings.finish()
    }

    fn add(&mut self, text: &str) {
        let hides = if text.is_ascii() {
            self.folded.push_str(text);
            false
        } else {
            fold::fold(text, &mut self.folded)
        };
        self.folded.push(BETWEEN);
        if hides || memchr::memchr2(0, 0x1b, text.as_bytes()).is_some() {
            self.unusual.push_str(text);
            self.unusual.push(BETWEEN);
        }
    }

    fn finish(mut self) -> Self {
        let mut bytes = std::mem::take(&mut self.folded).into_bytes();
        for byte in &mut bytes {
            *byte = if matches!(byte, b'\t' | b'\n' | b'\r' | 0x0b | 0x0c) { b' ' } else { byte.to_ascii_lowercase() };
        }
        bytes.dedup_by(|next, before| *next == b' ' && *before == b' ');
        // Only ASCII was changed, so it is still text.
        self.folded = String::from_utf8(bytes).unwrap_or_default();
        self
    }
}
