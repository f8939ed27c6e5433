//! The one pass that validates a text. Recursion is bounded by `Limits::depth`.
//!
//! **Invariant: a text with two readings has none.** Duplicate keys, however spelled, and lone surrogates are refused.
//! Tests `duplicate_keys_are_refused_at_every_depth`, `duplicate_keys_are_refused_at_any_depth_and_in_any_spelling`,
//! `smuggled_requests_are_not_run`.

use std::{borrow::Cow, ops::Range};

use super::{Json, JsonError, Limits, Problem, RawField, strings, walk};

/// Below this many keys, comparing each with each is cheaper than sorting.
const FEW_KEYS: usize = 12;

/// A text that was validated.
pub(super) struct Whole<'a> {
    /// Without surrounding white space.
    pub(super) text: &'a [u8],
    /// There is no line break in it. Inside strings there cannot be one, so only the space between tokens tells.
    pub(super) one_line: bool,
}

/// Validates a text. If it is an object, its fields are added to `fields`: whoever wants them then need not step over long values a
/// second time.
pub(super) fn whole<'a>(
    text: &'a [u8],
    limits: Limits,
    fields: Option<&mut Noted<'a>>,
) -> Result<Whole<'a>, JsonError> {
    if text.len() > limits.bytes {
        return Err(JsonError {
            at: limits.bytes,
            problem: Problem::TooLong {
                limit: limits.bytes,
            },
        });
    }
    let mut scan = Scan {
        text,
        at: 0,
        room: limits.depth,
        limits,
        keys: Vec::new(),
        fields,
        broken: false,
        valid_to: 0,
    };
    // Whatever else is wrong with it, a text that is not UTF-8 is refused as that.
    let scanned = scan
        .all()
        .map_err(|error| utf8(text, 0).err().unwrap_or(error));
    let (start, end, one_line) = scanned?;
    utf8(text.get(scan.valid_to..).unwrap_or_default(), scan.valid_to)?;
    Ok(Whole {
        text: text.get(start..end).unwrap_or_default(),
        one_line,
    })
}

/// Checks that a part of the text, which begins at `at`, is UTF-8.
fn utf8(part: &[u8], at: usize) -> Result<(), JsonError> {
    let checked = simdutf8::compat::from_utf8(part);
    checked.map(drop).map_err(|error| JsonError {
        at: at + error.valid_up_to(),
        problem: Problem::NotUtf8,
    })
}

/// Fields met while validating.
#[derive(Default)]
pub(super) struct Noted<'a> {
    pub(super) outer: Vec<RawField<'a>>,
    pub(super) inner: Vec<RawField<'a>>,
}

/// Fields kept per level; a message of ours has a handful.
pub(super) const MAX_NOTED: usize = 256;

struct Scan<'a, 'f> {
    text: &'a [u8],
    at: usize,
    /// Levels of nesting still allowed.
    room: usize,
    limits: Limits,
    /// Keys of every object that is still open; each object owns the tail from where it began.
    keys: Vec<Cow<'a, [u8]>>,
    fields: Option<&'f mut Noted<'a>>,
    /// A line break was met.
    broken: bool,
    /// The text up to here is UTF-8. Long strings are found to be ASCII in passing; the rest is checked at the end.
    valid_to: usize,
}

impl<'a> Scan<'a, '_> {
    /// The whole text: where its value begins and ends, and whether that is on one line.
    fn all(&mut self) -> Result<(usize, usize, bool), JsonError> {
        self.space();
        self.broken = false;
        let start = self.at;
        self.value()?;
        let (end, one_line) = (self.at, !self.broken);
        self.space();
        if self.at != self.text.len() {
            return Err(self.error(Problem::TrailingText));
        }
        Ok((start, end, one_line))
    }

    fn error(&self, problem: Problem) -> JsonError {
        JsonError {
            at: self.at,
            problem,
        }
    }

    fn expected<T>(&self, what: &'static str) -> Result<T, JsonError> {
        Err(self.error(Problem::Expected(what)))
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(byte @ (b' ' | b'\t' | b'\n' | b'\r')) = self.peek() {
            self.broken |= matches!(byte, b'\n' | b'\r');
            self.at += 1;
        }
    }

    fn value(&mut self) -> Result<(), JsonError> {
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.skip_string().map(drop),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            _ => self.expected("a value"),
        }
    }

    fn nested(&mut self, inside: fn(&mut Self) -> Result<(), JsonError>) -> Result<(), JsonError> {
        let Some(room) = self.room.checked_sub(1) else {
            return Err(self.error(Problem::TooDeep {
                limit: self.limits.depth,
            }));
        };
        self.room = room;
        self.at += 1;
        self.space();
        inside(self)?;
        self.room += 1;
        Ok(())
    }

    fn object(&mut self) -> Result<(), JsonError> {
        let first = self.keys.len();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            if self.peek() != Some(b'"') {
                return self.expected("a key");
            }
            let key_start = self.at;
            let key = self.key()?;
            let key_end = self.at;
            self.keys.push(key);
            self.space();
            if self.peek() != Some(b':') {
                return self.expected("`:`");
            }
            self.at += 1;
            self.space();
            let value_start = self.at;
            self.value()?;
            self.note(key_start..key_end, value_start..self.at);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return self.expected("`,` or `}`"),
            }
            self.space();
        }
        if let Some(key) = duplicate(self.keys.get_mut(first..).unwrap_or_default()) {
            return Err(self.error(Problem::DuplicateKey { key }));
        }
        self.keys.truncate(first);
        self.at += 1;
        Ok(())
    }

    /// Keeps a field of the outermost object, or of one directly inside it.
    fn note(&mut self, key: Range<usize>, value: Range<usize>) {
        let Some(fields) = &mut self.fields else {
            return;
        };
        let list = match self.limits.depth - self.room {
            1 => &mut fields.outer,
            2 => &mut fields.inner,
            _ => return,
        };
        if let (true, Some(key), Some(value)) = (
            list.len() < MAX_NOTED,
            self.text.get(key),
            self.text.get(value),
        ) {
            list.push((key, Json(value)));
        }
    }

    fn array(&mut self) -> Result<(), JsonError> {
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value()?;
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return self.expected("`,` or `]`"),
            }
            self.space();
        }
        self.at += 1;
        Ok(())
    }

    fn word(&mut self, word: &'static [u8]) -> Result<(), JsonError> {
        if self
            .text
            .get(self.at..)
            .is_some_and(|rest| rest.starts_with(word))
        {
            self.at += word.len();
            return Ok(());
        }
        self.expected("`true`, `false` or `null`")
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start {
            self.expected("a digit")
        } else {
            Ok(())
        }
    }

    fn number(&mut self) -> Result<(), JsonError> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    /// Steps over a key and returns its decoded bytes, borrowed when it has no escapes.
    fn key(&mut self) -> Result<Cow<'a, [u8]>, JsonError> {
        let open = self.at;
        let escaped = self.skip_string()?;
        let raw = self.text.get(open..self.at).unwrap_or_default();
        if !escaped {
            return Ok(Cow::Borrowed(raw.get(1..raw.len() - 1).unwrap_or_default()));
        }
        Ok(Cow::Owned(walk::decode(raw).into_owned().into_bytes()))
    }

    /// Steps over a string; returns whether it has escapes.
    fn skip_string(&mut self) -> Result<bool, JsonError> {
        self.at += 1;
        let long = self.at + strings::SHORT;
        let mut escaped = false;
        loop {
            if self.at < long {
                self.at += strings::plain_prefix(
                    self.text
                        .get(self.at..long.min(self.text.len()))
                        .unwrap_or_default(),
                );
            } else {
                let seen = strings::checked_run(self.text, self.at);
                if seen.ascii_to > self.at {
                    utf8(
                        self.text.get(self.valid_to..self.at).unwrap_or_default(),
                        self.valid_to,
                    )?;
                    self.valid_to = seen.ascii_to;
                }
                self.at = seen.at;
                escaped |= seen.escaped;
            }
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(0..0x20) => return Err(self.error(Problem::ControlCharacter)),
                // The short run ended at its bound; the vector search takes over.
                Some(_) => {}
                None => return self.expected("the end of a string"),
            }
        }
        self.at += 1;
        Ok(escaped)
    }

    fn escape(&mut self) -> Result<(), JsonError> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 1;
                Ok(())
            }
            Some(b'u') => match self.unit()? {
                0xD800..=0xDBFF => {
                    if self
                        .text
                        .get(self.at..)
                        .is_some_and(|rest| rest.starts_with(b"\\u"))
                    {
                        self.at += 1;
                        if let 0xDC00..=0xDFFF = self.unit()? {
                            return Ok(());
                        }
                    }
                    Err(self.error(Problem::LoneSurrogate))
                }
                0xDC00..=0xDFFF => Err(self.error(Problem::LoneSurrogate)),
                _ => Ok(()),
            },
            _ => Err(self.error(Problem::BadEscape)),
        }
    }

    /// Steps over `uXXXX`.
    fn unit(&mut self) -> Result<u16, JsonError> {
        let hex = self
            .text
            .get(self.at + 1..self.at + 5)
            .filter(|hex| hex.iter().all(u8::is_ascii_hexdigit));
        let unit = hex
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u16::from_str_radix(hex, 16).ok());
        let Some(unit) = unit else {
            return Err(self.error(Problem::BadEscape));
        };
        self.at += 5;
        Ok(unit)
    }
}

fn duplicate(keys: &mut [Cow<'_, [u8]>]) -> Option<String> {
    let twin = if keys.len() <= FEW_KEYS {
        let mut rest = &*keys;
        loop {
            let Some((key, others)) = rest.split_first() else {
                break None;
            };
            if others.contains(key) {
                break Some(key);
            }
            rest = others;
        }
    } else {
        keys.sort_unstable();
        keys.windows(2).find_map(|pair| match pair {
            [a, b] if a == b => Some(a),
            _ => None,
        })
    };
    twin.map(|key| String::from_utf8_lossy(key).into_owned())
}
