//! Finding the fields of a long object in pieces, for a process that has one thread and other things to do.
//!
//! It only tells strings from what is between them and counts brackets, so what it gives is where fields are, never that they are JSON:
//! whoever uses one validates it. A validation cannot be cut into pieces so easily, because it remembers every key.

use std::ops::Range;

use super::{Json, RawField};

/// Fields an object may have to be searched; a message has four.
const MAX_FIELDS: usize = 64;

/// A look at an object that can be interrupted.
#[derive(Debug)]
pub struct FieldSearch<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    key: Option<Range<usize>>,
    /// Where the string or the value that is being stepped over begins.
    begins: usize,
    in_value: bool,
    fields: Vec<(Range<usize>, Range<usize>)>,
    /// No line break was met.
    pub one_line: bool,
}

/// How far a look has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchStep {
    /// There is more to look at.
    More,
    Done,
    /// It is no object, or has more fields than a message.
    Failed,
}

impl<'a> FieldSearch<'a> {
    #[must_use]
    pub fn new(text: &'a [u8]) -> Self {
        let text = text.trim_ascii();
        Self {
            text,
            at: 0,
            depth: 0,
            in_string: false,
            is_escaped: false,
            key: None,
            begins: 0,
            in_value: false,
            fields: Vec::new(),
            one_line: true,
        }
    }

    /// Looks at about so many bytes more.
    pub fn go_on(&mut self, bytes: usize) -> SearchStep {
        let stop = self.at.saturating_add(bytes).min(self.text.len());
        while self.at < stop {
            if self.in_string {
                self.string(stop);
                continue;
            }
            let Some(byte) = self.text.get(self.at) else {
                return SearchStep::Failed;
            };
            if self.depth == 0 && (*byte != b'{' || self.at > 0) {
                return SearchStep::Failed;
            }
            match byte {
                b'"' => {
                    (self.in_string, self.begins) =
                        (true, if self.in_value { self.begins } else { self.at })
                }
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth == 1 => {
                    let is_last = self.at + 1 == self.text.len();
                    let is_whole = self.field() && *byte == b'}' && is_last;
                    return if is_whole {
                        SearchStep::Done
                    } else {
                        SearchStep::Failed
                    };
                }
                b'}' | b']' => self.depth -= 1,
                b',' if self.depth == 1 && !self.field() => return SearchStep::Failed,
                b':' if self.depth == 1 && !self.in_value => {
                    (self.in_value, self.begins) = (true, self.at + 1)
                }
                b'\n' | b'\r' => self.one_line = false,
                _ => {}
            }
            self.at += 1;
        }
        if self.at < self.text.len() {
            SearchStep::More
        } else {
            SearchStep::Failed
        }
    }

    /// Steps over a string, or as far as `stop`.
    fn string(&mut self, stop: usize) {
        if std::mem::take(&mut self.is_escaped) {
            self.at += 1;
            return;
        }
        let rest = self.text.get(self.at..stop).unwrap_or_default();
        match memchr::memchr2(b'"', b'\\', rest) {
            None => self.at = stop,
            Some(found) => {
                let is_end = rest.get(found) == Some(&b'"');
                self.at += found + 1;
                (self.in_string, self.is_escaped) = (!is_end, !is_end);
                if is_end && self.depth == 1 && !self.in_value {
                    self.key = Some(self.begins..self.at);
                }
            }
        }
    }

    /// Keeps the field that ends here; `false` if it is none, or one too many.
    fn field(&mut self) -> bool {
        let (Some(key), true) = (self.key.take(), std::mem::take(&mut self.in_value)) else {
            return self.fields.is_empty();
        };
        self.fields.push((key, self.begins..self.at));
        self.fields.len() <= MAX_FIELDS
    }

    /// The fields, once it is done. None of them has been validated.
    #[must_use]
    pub fn fields(&self) -> Vec<RawField<'a>> {
        let part = |place: &Range<usize>| {
            self.text
                .get(place.clone())
                .unwrap_or_default()
                .trim_ascii()
        };
        self.fields
            .iter()
            .map(|(key, value)| (part(key), Json(part(value))))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Limits;

    fn found(text: &[u8], piece: usize) -> Option<Vec<RawField<'_>>> {
        let mut search = FieldSearch::new(text);
        loop {
            match search.go_on(piece) {
                SearchStep::More => {}
                SearchStep::Done => return Some(search.fields()),
                SearchStep::Failed => return None,
            }
        }
    }

    #[test]
    fn it_finds_the_fields_of_a_message_in_pieces_of_any_size() {
        let text = br#" {"jsonrpc":"2.0", "id" : 7,"result":{"a\"}":["]}\\",{"b":"\u0022,"}],"c":-1.5e3}, "x":[ ] } "#;
        let json = Json::parse(text, Limits::default()).unwrap();
        for piece in 1..200 {
            assert_eq!(found(text, piece).unwrap(), json.raw_fields(), "{piece}");
        }
        assert_eq!(found(b"{}", 1), Some(Vec::new()));
        for bad in [
            "",
            "[]",
            "{",
            "{\"a\":1",
            "{\"a\":1}}",
            "{\"a\":1} {}",
            "1",
            "{\"a\":\"",
            "{\"a\":1]",
        ] {
            assert_eq!(found(bad.as_bytes(), 3), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_valid_has_the_fields_it_has(text in r#"\{("[a-c]{1,2}":(1|"[\\\\"a]{0,3}"|\[\]|\{"x":"\}"\}),?){0,4}\}"#, piece in 1_usize..9) {
            if let Ok(json) = Json::parse(text.as_bytes(), Limits::default()) {
                prop_assert_eq!(found(text.as_bytes(), piece), Some(json.raw_fields()));
            }
        }

        #[test]
        fn no_text_makes_it_panic_or_run_for_ever(text: Vec<u8>, piece in 1_usize..9) {
            let _ = found(&text, piece);
        }
    }
}
