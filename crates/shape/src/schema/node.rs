//! How the checker sees an instance: straight on the [`Tape`], without a tree in between.

use std::{borrow::Cow, collections::HashSet, str::FromStr};

use jsonschema::{
    JsonType,
    json::{Array, Json, JsonNumber, Node, NodeIdentity, Object},
};
use serde_json::{Number, Value};
use wire::{Kind, write::quote};

use super::tape::{Entry, Tape};

/// The representation, as the checker calls it.
#[derive(Debug)]
pub(super) struct Taped;

#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'a> {
    Value {
        tape: &'a Tape<'a>,
        at: u32,
        entry: Entry,
    },
    /// A property name, checked as if it were a value.
    Name(&'a str),
}

impl<'a> Place<'a> {
    pub(super) fn root(tape: &'a Tape<'a>) -> Option<Self> {
        Self::at(tape, 0)
    }

    fn at(tape: &'a Tape<'a>, at: u32) -> Option<Self> {
        tape.entry(at).map(|entry| Self::Value {
            tape,
            at,
            entry: *entry,
        })
    }

    /// Looking costs one step. With nothing left there is nothing to see.
    fn look(&self, wanted: Kind) -> Option<Span<'a>> {
        match *self {
            Self::Value { tape, at, entry } if entry.kind == wanted && tape.pay(1) => Some(Span {
                tape,
                at: at + 1,
                end: entry.next,
                count: entry.count,
            }),
            _ => None,
        }
    }
}

impl Place<'_> {
    /// A text that equal values share, however they are written, and different values do not.
    fn normal_form(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_normal(&mut out);
        out
    }

    fn write_normal(&self, out: &mut Vec<u8>) {
        if let Some(object) = self.as_object() {
            let mut members: Vec<_> = object.members().collect();
            members.sort_by(|(a, _), (b, _)| a.cmp(b));
            out.push(b'{');
            for (name, value) in members {
                quote(out, &name);
                value.write_normal(out);
            }
        } else if let Some(array) = self.as_array() {
            out.push(b'[');
            array.elements().for_each(|item| item.write_normal(out));
            out.push(b']');
        } else if let Some(text) = self.as_string() {
            quote(out, &text);
        } else if let Some(number) = self.as_number() {
            out.extend_from_slice(number.normal_form().as_bytes());
            out.push(b',');
        } else {
            out.extend_from_slice(match self.as_boolean() {
                Some(true) => b"t",
                Some(false) => b"f",
                None => b"n",
            });
        }
    }
}

impl Json for Taped {
    type Node<'a> = Place<'a>;
    type PreparedKey = Box<str>;
    type StringBuffer = ();

    const KEYS_PER_LOOKUP: usize = 4;

    fn prepare_key(key: &str) -> Box<str> {
        key.into()
    }

    fn with_string_node<T>((): &mut (), string: &str, f: impl FnOnce(Place<'_>) -> T) -> T {
        f(Place::Name(string))
    }
}

impl<'a> Node<'a, Taped> for Place<'a> {
    type Object = Span<'a>;
    type Array = Span<'a>;
    type Number = Written<'a>;

    fn as_object(&self) -> Option<Span<'a>> {
        self.look(Kind::Object)
    }

    fn as_array(&self) -> Option<Span<'a>> {
        self.look(Kind::Array)
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        match *self {
            Self::Value { tape, entry, .. } => {
                (entry.kind == Kind::String).then(|| tape.string(&entry))
            }
            Self::Name(name) => Some(Cow::Borrowed(name)),
        }
    }

    fn as_number(&self) -> Option<Written<'a>> {
        match *self {
            Self::Value { tape, entry, .. } if entry.kind == Kind::Number => {
                let text = std::str::from_utf8(tape.raw(&entry)).unwrap_or("0");
                Some(Written(if tape.pay(1 + text.len() as u64 / 16) {
                    text
                } else {
                    "0"
                }))
            }
            _ => None,
        }
    }

    fn as_boolean(&self) -> Option<bool> {
        match *self {
            Self::Value { tape, entry, .. } if entry.kind == Kind::Bool => {
                Some(tape.raw(&entry) == b"true")
            }
            _ => None,
        }
    }

    fn is_null(&self) -> bool {
        self.json_type() == JsonType::Null
    }

    fn is_number(&self) -> bool {
        self.json_type() == JsonType::Number
    }

    fn json_type(&self) -> JsonType {
        match self {
            Self::Value { tape, entry, .. } => {
                tape.pay(1);
                match entry.kind {
                    Kind::Object => JsonType::Object,
                    Kind::Array => JsonType::Array,
                    Kind::String => JsonType::String,
                    Kind::Number => JsonType::Number,
                    Kind::Bool => JsonType::Boolean,
                    Kind::Null => JsonType::Null,
                }
            }
            Self::Name(_) => JsonType::String,
        }
    }

    /// Built only for `const`, `enum` and `uniqueItems`, and paid for by the size of what is built.
    fn to_value(&self) -> Cow<'a, Value> {
        Cow::Owned(match *self {
            Self::Value { tape, at, entry } => {
                let size =
                    u64::from(entry.next.saturating_sub(at)) + tape.raw(&entry).len() as u64 / 16;
                let value = tape
                    .pay(size * 2)
                    .then(|| serde_json::from_slice(tape.raw(&entry)).ok());
                value.flatten().unwrap_or(Value::Null)
            }
            Self::Name(name) => Value::String(name.to_owned()),
        })
    }

    fn equals_value(&self, expected: &Value) -> bool {
        match (self, expected) {
            (_, Value::String(expected)) => self
                .as_string()
                .is_some_and(|text| text == expected.as_str()),
            (_, Value::Bool(expected)) => self.as_boolean() == Some(*expected),
            (_, Value::Null) => self.is_null(),
            (
                Self::Value {
                    entry:
                        Entry {
                            kind: Kind::Object | Kind::Array | Kind::Number,
                            ..
                        },
                    ..
                },
                _,
            ) => jsonschema::json::cmp::equal(&self.to_value(), expected),
            _ => false,
        }
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Some(match self {
            Self::Value { tape, at, .. } => {
                NodeIdentity::tagged(std::ptr::from_ref(*tape) as usize, *at)
            }
            Self::Name(name) => NodeIdentity::tagged(name.as_ptr() as usize, u32::MAX),
        })
    }
}

/// The fields of an object or the items of an array, and an iterator over them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span<'a> {
    tape: &'a Tape<'a>,
    at: u32,
    end: u32,
    count: u32,
}

impl<'a> Object<'a, Taped> for Span<'a> {
    type Node = Place<'a>;
    type MemberName = Cow<'a, str>;
    type MembersIter = Members<'a>;

    fn len(&self) -> usize {
        self.count as usize
    }

    fn get(&self, key: &Box<str>) -> Option<Place<'a>> {
        let mut at = self.at;
        while at < self.end && self.tape.pay(1) {
            let name = self.tape.entry(at)?;
            let raw = self.tape.raw(name);
            let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
            if inner == key.as_bytes()
                || (inner.contains(&b'\\') && self.tape.string(name) == **key)
            {
                return Place::at(self.tape, at + 1);
            }
            at = self.tape.entry(at + 1)?.next;
        }
        None
    }

    fn members(&self) -> Members<'a> {
        Members(*self)
    }
}

#[derive(Debug)]
pub(super) struct Members<'a>(Span<'a>);

impl<'a> Iterator for Members<'a> {
    type Item = (Cow<'a, str>, Place<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let Span { tape, at, end, .. } = self.0;
        if at >= end || !tape.pay(1) {
            return None;
        }
        let value = Place::at(tape, at + 1)?;
        self.0.at = tape.entry(at + 1)?.next;
        Some((tape.name(tape.entry(at)?), value))
    }
}

impl<'a> Array<'a, Taped> for Span<'a> {
    type Node = Place<'a>;
    type ElementsIter = Elements<'a>;

    fn len(&self) -> usize {
        self.count as usize
    }

    fn elements(&self) -> Elements<'a> {
        Elements(*self)
    }

    fn is_unique(&self) -> bool {
        let mut seen = HashSet::with_capacity(self.count as usize);
        self.elements().all(|item| seen.insert(item.normal_form()))
    }
}

#[derive(Debug)]
pub(super) struct Elements<'a>(Span<'a>);

impl<'a> Iterator for Elements<'a> {
    type Item = Place<'a>;

    fn next(&mut self) -> Option<Place<'a>> {
        let Span { tape, at, end, .. } = self.0;
        if at >= end || !tape.pay(1) {
            return None;
        }
        self.0.at = tape.entry(at)?.next;
        Place::at(tape, at)
    }
}

/// A number as it is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written<'a>(&'a str);

impl Written<'_> {
    /// A number too large for a double counts as the largest one.
    fn double(self) -> f64 {
        f64::from_str(self.0)
            .unwrap_or_default()
            .clamp(f64::MIN, f64::MAX)
    }
}

impl Written<'_> {
    /// Whole numbers by their digits, whether they were written `10`, `10.0` or `1e1`; others as doubles.
    fn normal_form(self) -> String {
        let whole = self
            .as_i64()
            .map(|whole| whole.to_string())
            .or_else(|| self.as_u64().map(|whole| whole.to_string()));
        whole.unwrap_or_else(|| match self.double() {
            0.0 => "0".to_owned(),
            double if double.fract() == 0.0 => format!("{double:.0}"),
            double => double.to_string(),
        })
    }
}

impl JsonNumber for Written<'_> {
    fn as_u64(&self) -> Option<u64> {
        self.0.parse().ok()
    }

    fn as_i64(&self) -> Option<i64> {
        self.0.parse().ok()
    }

    fn as_f64(&self) -> Option<f64> {
        Some(self.double())
    }

    fn as_str(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.0)
    }

    fn to_number(&self) -> Cow<'_, Number> {
        let whole = self
            .as_u64()
            .map(Number::from)
            .or_else(|| self.as_i64().map(Number::from));
        Cow::Owned(
            whole
                .or_else(|| Number::from_f64(self.double()))
                .unwrap_or_else(|| Number::from(0)),
        )
    }

    fn is_integer(&self) -> bool {
        self.as_i64().is_some() || self.as_u64().is_some() || self.double().fract() == 0.0
    }
}
