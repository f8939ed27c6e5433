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
        self.folded.make_ascii_lowercase();
        self.folded = single_spaced(self.folded);
        self
    }
}

/// Runs of white space as one character: a line break if there is one in it, so that a word and the next stand one apart.
fn single_spaced(text: String) -> String {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c);
    let needed =
        text.as_bytes().windows(2).any(|two| two.iter().all(is_space)) || text.bytes().any(|byte| byte == b'\t' || byte == b'\r');
    if !needed {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut space: Option<char> = None;
    for c in text.chars() {
        if c.is_ascii() && is_space(&(c as u8)) {
            let breaks = c == '\n' || c == '\r' || space == Some('\n');
            space = Some(if breaks { '\n' } else { ' ' });
        } else {
            out.extend(space.take());
            out.push(c);
        }
    }
    out.extend(space);
    out
}
