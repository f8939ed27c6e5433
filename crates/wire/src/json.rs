//! Strict JSON over borrowed bytes.
//!
//! [`Json::parse`] checks a whole text once: UTF-8, grammar, depth, and that no object has two keys that decode to the same
//! name. After that a [`Json`] is a slice that can be walked cheaply and forwarded byte for byte, so the bytes that were judged
//! are the bytes that travel. Numbers keep their text; nothing is ever rounded.
//!
//! **Invariant: what is not changed is not re-serialised.** Tests `arguments_and_results_pass_byte_for_byte`,
//! `replacing_fields_leaves_the_others_byte_for_byte`.

mod field_search;
mod scan;
mod strings;
mod walk;

use std::{borrow::Cow, fmt, ops::Range};

pub use field_search::{FieldSearch, SearchStep};
pub use walk::{Fields, Heads, Items};

/// What a text may cost before it is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub bytes: usize,
    pub depth: usize,
}

impl Limits {
    #[must_use]
    pub const fn new(bytes: usize, depth: usize) -> Self {
        Self { bytes, depth }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 4 << 20,
            depth: 64,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Object,
    Array,
    String,
    Number,
    Bool,
    Null,
}

/// Why a text was refused, and at which byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonError {
    pub at: usize,
    pub problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    TooLong {
        limit: usize,
    },
    TooDeep {
        limit: usize,
    },
    NotUtf8,
    DuplicateKey {
        key: String,
    },
    /// Something else stood where this was expected.
    Expected(&'static str),
    ControlCharacter,
    BadEscape,
    LoneSurrogate,
    TrailingText,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            Problem::TooLong { limit } => write!(f, "the text is longer than {limit} bytes"),
            Problem::TooDeep { limit } => {
                write!(f, "nested deeper than {limit} levels at byte {}", self.at)
            }
            Problem::NotUtf8 => write!(f, "not UTF-8 at byte {}", self.at),
            Problem::DuplicateKey { key } => write!(
                f,
                "duplicate key `{}` at byte {}",
                key.escape_debug(),
                self.at
            ),
            Problem::Expected(what) => write!(f, "expected {what} at byte {}", self.at),
            Problem::ControlCharacter => write!(
                f,
                "unescaped control character in a string at byte {}",
                self.at
            ),
            Problem::BadEscape => write!(f, "bad escape in a string at byte {}", self.at),
            Problem::LoneSurrogate => write!(f, "half a surrogate pair at byte {}", self.at),
            Problem::TrailingText => write!(f, "text after the value at byte {}", self.at),
        }
    }
}

impl std::error::Error for JsonError {}

/// A field: its key as written, quotes included, and its value.
pub type RawField<'a> = (&'a [u8], Json<'a>);

/// A validated value and what was met at its top while validating, so that nobody steps over long values again.
#[derive(Debug, Clone)]
pub struct Outline<'a> {
    pub json: Json<'a>,
    /// There is no line break in it.
    pub one_line: bool,
    outer: Vec<RawField<'a>>,
    inner: Vec<RawField<'a>>,
    /// The lists hold every field; an object with very many is walked instead.
    complete: bool,
}

impl<'a> Outline<'a> {
    /// The fields of the value, if it is an object.
    #[must_use]
    pub fn fields(&self) -> Cow<'_, [RawField<'a>]> {
        if self.complete {
            Cow::Borrowed(&self.outer)
        } else {
            Cow::Owned(self.json.raw_fields())
        }
    }

    /// The fields of one of its fields, if that is an object.
    #[must_use]
    pub fn fields_of(&self, value: Json<'a>) -> Vec<RawField<'a>> {
        if !self.complete {
            return value.raw_fields();
        }
        let inside = value.0.as_ptr_range();
        self.inner
            .iter()
            .filter(|(key, _)| inside.contains(&key.as_ptr()))
            .copied()
            .collect()
    }
}

/// Where the parts of an [`Outline`] are in its text: what it takes to have it on another thread than the one that made it.
#[derive(Debug, Clone)]
pub struct Places {
    json: Range<usize>,
    one_line: bool,
    outer: Vec<(Range<usize>, Range<usize>)>,
    inner: Vec<(Range<usize>, Range<usize>)>,
    complete: bool,
}

impl Outline<'_> {
    /// Where everything is in `text`, which this was parsed from.
    #[must_use]
    pub fn places(&self, text: &[u8]) -> Places {
        let place = |part: &[u8]| {
            let start = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
            start..start + part.len()
        };
        let fields = |fields: &[RawField<'_>]| {
            fields
                .iter()
                .map(|(key, value)| (place(key), place(value.0)))
                .collect()
        };
        Places {
            json: place(self.json.0),
            one_line: self.one_line,
            outer: fields(&self.outer),
            inner: fields(&self.inner),
            complete: self.complete,
        }
    }
}

impl Places {
    /// The outline again. Of another text it would be nonsense, and harmless.
    #[must_use]
    pub fn outline<'a>(&self, text: &'a [u8]) -> Outline<'a> {
        let part = |place: &Range<usize>| text.get(place.clone()).unwrap_or_default();
        let fields = |places: &[(Range<usize>, Range<usize>)]| {
            places
                .iter()
                .map(|(key, value)| (part(key), Json(part(value))))
                .collect()
        };
        Outline {
            json: Json(part(&self.json)),
            one_line: self.one_line,
            outer: fields(&self.outer),
            inner: fields(&self.inner),
            complete: self.complete,
        }
    }
}

/// The value of a field among some.
#[must_use]
pub fn find<'a>(fields: &[RawField<'a>], key: &str) -> Option<Json<'a>> {
    fields
        .iter()
        .find(|(raw, _)| decode_key(raw) == key)
        .map(|(_, value)| *value)
}

/// The decoded text of a key as written.
#[must_use]
pub fn decode_key(raw: &[u8]) -> Cow<'_, str> {
    walk::decode(raw)
}

/// The index after the string that opens at `start`, in a text that is known to be valid; the end of the text if it does not close.
/// There, a quote outside a string always opens one.
#[must_use]
pub fn string_end(text: &[u8], start: usize) -> usize {
    strings::end(text, start)
}

/// One validated JSON value: a slice of the text it was parsed from, without surrounding white space.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Json<'a>(&'a [u8]);

impl<'a> Json<'a> {
    pub const NULL: Json<'static> = Json(b"null");
    pub const EMPTY_OBJECT: Json<'static> = Json(b"{}");

    pub fn parse(text: &'a [u8], limits: Limits) -> Result<Self, JsonError> {
        scan::whole(text, limits, None).map(|whole| Self(whole.text))
    }

    /// Like [`Json::parse`], for a text that must stand on one line, too.
    pub fn parse_line(text: &'a [u8], limits: Limits) -> Result<Self, JsonError> {
        let whole = scan::whole(text, limits, None)?;
        if whole.one_line {
            Ok(Self(whole.text))
        } else {
            Err(JsonError {
                at: 0,
                problem: Problem::ControlCharacter,
            })
        }
    }

    /// Like [`Json::parse`], with the fields of the outermost object and of objects directly inside it, at no further cost.
    pub fn parse_fields(text: &'a [u8], limits: Limits) -> Result<Outline<'a>, JsonError> {
        let mut noted = scan::Noted::default();
        let whole = scan::whole(text, limits, Some(&mut noted))?;
        let json = Self(whole.text);
        let complete = noted.outer.len() < scan::MAX_NOTED && noted.inner.len() < scan::MAX_NOTED;
        Ok(Outline {
            json,
            one_line: whole.one_line,
            outer: noted.outer,
            inner: noted.inner,
            complete: complete && json.is_object(),
        })
    }

    /// The fields of an object that our own worker has validated. Checked again is only what splicing relies on: that it is text, on
    /// one line. Its structure is taken as it stands; a worker that lies about it harms nobody but the reader of its own words.
    pub fn skim_fields(text: &'a [u8]) -> Result<Vec<RawField<'a>>, JsonError> {
        if let Err(error) = simdutf8::compat::from_utf8(text) {
            return Err(JsonError {
                at: error.valid_up_to(),
                problem: Problem::NotUtf8,
            });
        }
        if memchr::memchr2(b'\n', b'\r', text).is_some() {
            return Err(JsonError {
                at: 0,
                problem: Problem::ControlCharacter,
            });
        }
        let json = Self(text.trim_ascii());
        match json.is_object() && json.0.last() == Some(&b'}') {
            true => Ok(json.raw_fields()),
            false => Err(JsonError {
                at: 0,
                problem: Problem::Expected("an object"),
            }),
        }
    }

    /// A value whose text was part of a value checked before, by us or by a process that uses this crate. Walking it is safe
    /// whatever it is; an unchecked text merely has no fields.
    #[must_use]
    pub const fn checked_before(text: &'a [u8]) -> Self {
        Self(text)
    }

    /// The exact text of the value.
    #[must_use]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    #[must_use]
    pub fn text(self) -> &'a str {
        // Checked when the value was parsed; slices of a value start and end at ASCII.
        std::str::from_utf8(self.0).unwrap_or_default()
    }

    #[must_use]
    pub fn kind(self) -> Kind {
        match self.0.first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'n') | None => Kind::Null,
            Some(_) => Kind::Number,
        }
    }

    #[must_use]
    pub fn is_object(self) -> bool {
        self.kind() == Kind::Object
    }

    #[must_use]
    pub fn is_array(self) -> bool {
        self.kind() == Kind::Array
    }

    #[must_use]
    pub fn is_null(self) -> bool {
        self.kind() == Kind::Null
    }

    /// The value of a field, if this is an object that has it.
    #[must_use]
    pub fn get(self, key: &str) -> Option<Json<'a>> {
        walk::get(self.0, key)
    }

    /// Follows a path of object fields.
    #[must_use]
    pub fn path(self, keys: &[&str]) -> Option<Json<'a>> {
        keys.iter().try_fold(self, |value, key| value.get(key))
    }

    /// Fields in the order of the text; empty if this is not an object.
    #[must_use]
    pub fn fields(self) -> Fields<'a> {
        Fields::of(self.0)
    }

    /// Names and kinds of the fields in the order of the text; empty if this is not an object.
    #[must_use]
    pub fn heads(self) -> Heads<'a> {
        Heads::of(self.0)
    }

    /// Fields with their keys as written; empty if this is not an object.
    #[must_use]
    pub fn raw_fields(self) -> Vec<RawField<'a>> {
        let mut fields = self.fields();
        std::iter::from_fn(|| fields.next_raw()).collect()
    }

    /// Items in order; empty if this is not an array.
    #[must_use]
    pub fn items(self) -> Items<'a> {
        Items::of(self.0)
    }

    /// The decoded text of a string.
    #[must_use]
    pub fn as_str(self) -> Option<Cow<'a, str>> {
        (self.kind() == Kind::String).then(|| walk::decode(self.0))
    }

    /// A non-negative integer written without fraction or exponent.
    #[must_use]
    pub fn as_u64(self) -> Option<u64> {
        (self.kind() == Kind::Number)
            .then(|| self.text().parse().ok())
            .flatten()
    }

    #[must_use]
    pub fn as_i64(self) -> Option<i64> {
        (self.kind() == Kind::Number)
            .then(|| self.text().parse().ok())
            .flatten()
    }

    #[must_use]
    pub fn as_bool(self) -> Option<bool> {
        match self.0 {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        }
    }
}

impl fmt::Debug for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}
