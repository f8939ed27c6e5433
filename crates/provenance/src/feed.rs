//! Taking in a result: its records, the values in their fields, and those inside texts.

use wire::{Json, Kind, Limits, letters::name_words};

use crate::{
    digest::Key,
    entries::{Entry, Place, Record},
    form::{self, Class, Form, Reading},
    index::{Index, Read},
    said, scan,
};

/// Values of one result that are taken in; a longer result is cut, and then names nothing.
pub(crate) const MAX_VALUES: usize = 4_096;
/// How much of a result is looked at.
const MAX_BYTES: usize = 1 << 20;
const MAX_DEPTH: usize = 16;
/// A field that is longer is a text.
const MAX_FIELD: usize = 256;
/// A field with more words is a text.
const MAX_FIELD_WORDS: usize = 12;

/// Ends of the names of fields that a record is addressed by.
const IDENTIFIERS: [&str; 12] = [
    "id", "ids", "uuid", "guid", "key", "number", "no", "nr", "sha", "hash", "ref", "handle",
];
/// Ends of the names of fields that say what people call a record.
const NAMES: [&str; 12] = [
    "title", "name", "subject", "filename", "label", "topic", "summary", "slug", "channel",
    "username", "file", "headline",
];

pub(crate) struct Feed<'i, 'r> {
    index: &'i mut Index,
    read: &'r Read,
    source: u16,
    entries: Vec<Entry>,
    bytes: usize,
    is_cut: bool,
}

impl<'i, 'r> Feed<'i, 'r> {
    pub(crate) fn new(index: &'i mut Index, read: &'r Read, source: u16) -> Self {
        Self {
            index,
            read,
            source,
            entries: Vec::new(),
            bytes: 0,
            is_cut: false,
        }
    }

    pub(crate) fn finish(self) -> (Vec<Entry>, bool) {
        (self.entries, self.is_cut)
    }

    /// A result as MCP has it: texts in `content`, or `contents`, or `messages`, and records in `structuredContent`.
    pub(crate) fn take(&mut self, result: Json<'_>) {
        if !result.is_object() {
            return self.value("", result, Record::NONE, 0);
        }
        for (key, value) in result.fields() {
            match &*key {
                "content" | "contents" | "messages" => {
                    for item in value.items() {
                        self.item(item, 0);
                    }
                }
                "_meta" => {}
                _ => self.value("", value, Record::NONE, 0),
            }
        }
    }

    /// One part of a content: the text in it is read as records where it is JSON.
    fn item(&mut self, item: Json<'_>, depth: usize) {
        if depth > 2 {
            return;
        }
        for (key, value) in item.fields() {
            match (&*key, value.kind()) {
                ("text", Kind::String) => {
                    let text = value.as_str().unwrap_or_default();
                    let limits = Limits::new(MAX_BYTES, MAX_DEPTH * 2);
                    let is_record = text.trim_start().starts_with(['{', '[']);
                    match is_record.then(|| Json::parse(text.as_bytes(), limits)) {
                        Some(Ok(json)) => self.value("", json, Record::NONE, 0),
                        _ => self.text(&text),
                    }
                }
                ("resource" | "content", Kind::Object) => self.item(value, depth + 1),
                ("uri", Kind::String) => self.value("uri", value, Record::NONE, 1),
                _ => {}
            }
        }
    }

    fn value(&mut self, key: &str, value: Json<'_>, record: Record, depth: usize) {
        if depth > MAX_DEPTH || self.is_cut {
            self.is_cut = true;
            return;
        }
        match value.kind() {
            Kind::Object => self.object(value, record, depth),
            Kind::Array => {
                for item in value.items() {
                    // Each object of a list is a record of its own.
                    let inner = if item.is_object() {
                        Record::NONE
                    } else {
                        record
                    };
                    self.value(key, item, inner, depth + 1);
                }
            }
            Kind::String => self.string(key, &value.as_str().unwrap_or_default(), record),
            Kind::Number => self.number(key, value, record),
            Kind::Bool | Kind::Null => {}
        }
    }

    /// An object inside a record belongs to it; any other is a record.
    fn object(&mut self, object: Json<'_>, outer: Record, depth: usize) {
        let record = if outer == Record::NONE {
            let (key, names) = self.identity(object);
            self.index.record(key, &names)
        } else {
            outer
        };
        for (key, value) in object.fields() {
            self.value(&key, value, record, depth + 1);
        }
    }

    /// What names a record for its server, and what people call it.
    fn identity(&self, object: Json<'_>) -> (u64, Vec<String>) {
        let (mut id, mut all, mut names) = (None, String::new(), Vec::new());
        for (key, value) in object.fields() {
            if matches!(value.kind(), Kind::Object | Kind::Array) {
                continue;
            }
            if id.is_none() && is_identifier(&key) && !value.is_null() {
                id = Some(format!("{key}={}", value.text()));
            }
            if all.len() < MAX_FIELD * 4 {
                all.push_str(&key);
                all.push_str(value.text());
            }
            let text = value.as_str().filter(|text| text.len() <= MAX_FIELD);
            let called = text.filter(|_| ends_with(&key, &NAMES) || is_identifier(&key));
            names.extend(called.as_deref().and_then(said::phrase));
        }
        (
            self.key().record(&self.read.server, &id.unwrap_or(all)),
            names,
        )
    }

    fn key(&self) -> &Key {
        self.index.key()
    }

    fn string(&mut self, key: &str, text: &str, record: Record) {
        if text.len() > MAX_FIELD {
            return self.text(text);
        }
        self.bytes += text.len();
        let Reading::Values(forms) = form::read(text) else {
            return;
        };
        let is_name = ends_with(key, &NAMES);
        let by_key = is_identifier(key) || is_name;
        for form in forms {
            if form.class == Class::Phrase && form.text.split(' ').count() > MAX_FIELD_WORDS {
                return self.text(text);
            }
            let by_class = !matches!(form.class, Class::Phrase | Class::Number | Class::Moment);
            let place = Place {
                is_typed: true,
                is_identifier: by_key || by_class,
                is_name: is_name || is_identifier(key),
            };
            self.note(&form, place, record);
        }
    }

    fn number(&mut self, key: &str, value: Json<'_>, record: Record) {
        if let Some(number) = form::Number::read(value.text()) {
            let place = Place {
                is_typed: true,
                is_identifier: is_identifier(key),
                is_name: false,
            };
            self.note(&Form::new(Class::Number, number.text()), place, record);
        }
    }

    /// What stands inside a text is of no record: who wrote the text wrote it.
    fn text(&mut self, text: &str) {
        self.bytes += text.len();
        let room = MAX_BYTES.saturating_sub(self.bytes.saturating_sub(text.len()));
        let end = text.floor_char_boundary(room);
        self.is_cut |= end < text.len();
        scan::values(text.get(..end).unwrap_or_default(), |found| {
            self.note(&found.form, Place::TEXT, Record::NONE);
        });
    }

    fn note(&mut self, form: &Form, place: Place, record: Record) {
        if self.entries.len() >= MAX_VALUES || self.bytes > MAX_BYTES {
            self.is_cut = true;
            return;
        }
        let digest = self.key().value(form);
        self.entries
            .push(Entry::new(digest, self.source, place, record));
    }
}

fn ends_with(name: &str, words: &[&str]) -> bool {
    name_words(name)
        .last()
        .is_some_and(|last| words.contains(&last.as_str()))
}

/// Whether a field of this name is what its record is addressed by.
pub(crate) fn is_identifier(name: &str) -> bool {
    ends_with(name, &IDENTIFIERS)
}
