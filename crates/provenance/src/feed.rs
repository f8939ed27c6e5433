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

/// Words that begin the name of a tool that makes something new, and those that say that it may do otherwise.
const CREATING: [&str; 7] = [
    "create",
    "make",
    "new",
    "insert",
    "upload",
    "duplicate",
    "copy",
];
const OR_NOT: [&str; 9] = [
    "or", "update", "upsert", "set", "get", "find", "replace", "ensure", "if",
];

pub(crate) struct Feed<'i, 'r> {
    index: &'i mut Index,
    read: &'r Read,
    /// The words of the tool's name.
    tool: Vec<String>,
    source: u16,
    entries: Vec<Entry>,
    bytes: usize,
    is_cut: bool,
    /// The call made something new: what was sent with it, which is none of it.
    sent: Option<Json<'r>>,
}

/// Where in a result a value stands.
#[derive(Clone, Copy)]
struct Spot {
    record: Record,
    /// It is a field of its record, and not of something inside it.
    is_top: bool,
    /// Its record is not one of a list.
    is_only: bool,
    depth: usize,
}

impl Spot {
    const ROOT: Self = Self {
        record: Record::NONE,
        is_top: true,
        is_only: true,
        depth: 0,
    };

    const fn deeper(self) -> Self {
        Self {
            depth: self.depth + 1,
            ..self
        }
    }
}

impl<'i, 'r> Feed<'i, 'r> {
    /// `created`: the result is of a call that did something, with what was sent.
    pub(crate) fn new(
        index: &'i mut Index,
        read: &'r Read,
        source: u16,
        created: Option<Json<'r>>,
    ) -> Self {
        let tool = name_words(&read.tool);
        let is_creating = tool
            .first()
            .is_some_and(|first| CREATING.contains(&first.as_str()))
            && !tool.iter().any(|word| OR_NOT.contains(&word.as_str()));
        Self {
            index,
            read,
            tool,
            source,
            entries: Vec::new(),
            bytes: 0,
            is_cut: false,
            sent: created.filter(|_| is_creating),
        }
    }

    pub(crate) fn finish(self) -> (Vec<Entry>, bool) {
        (self.entries, self.is_cut)
    }

    /// A result as MCP has it: texts in `content`, or `contents`, or `messages`, and records in `structuredContent`.
    pub(crate) fn take(&mut self, result: Json<'_>) {
        if !result.is_object() {
            return self.value("", result, Spot::ROOT);
        }
        for (key, value) in result.fields() {
            match &*key {
                "content" | "contents" | "messages" => {
                    for item in value.items() {
                        self.item(item, 0);
                    }
                }
                "_meta" => {}
                _ => self.value("", value, Spot::ROOT),
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
                        Some(Ok(json)) => self.value("", json, Spot::ROOT),
                        _ => self.text(&text),
                    }
                }
                ("resource" | "content", Kind::Object) => self.item(value, depth + 1),
                ("uri", Kind::String) => self.value("uri", value, Spot::ROOT.deeper()),
                _ => {}
            }
        }
    }

    fn value(&mut self, key: &str, value: Json<'_>, spot: Spot) {
        if spot.depth > MAX_DEPTH || self.is_cut {
            self.is_cut = true;
            return;
        }
        match value.kind() {
            Kind::Object => self.object(value, spot),
            Kind::Array => {
                for item in value.items() {
                    // Each object of a list is a record of its own.
                    let inner = if item.is_object() {
                        Spot {
                            record: Record::NONE,
                            is_top: true,
                            is_only: false,
                            ..spot
                        }
                    } else {
                        spot
                    };
                    self.value(key, item, inner.deeper());
                }
            }
            Kind::String => self.string(key, &value.as_str().unwrap_or_default(), spot),
            Kind::Number => self.number(key, value, spot),
            Kind::Bool | Kind::Null => {}
        }
    }

    /// An object inside a record belongs to it; any other is a record, unless there is nothing in it but records.
    fn object(&mut self, object: Json<'_>, outer: Spot) {
        let is_wrapper = || {
            let mut fields = object.fields();
            fields.all(|(_, value)| matches!(value.kind(), Kind::Object | Kind::Array))
        };
        let spot = if outer.record != Record::NONE {
            Spot {
                is_top: false,
                ..outer
            }
        } else if is_wrapper() {
            let is_only = outer.is_only && object.fields().count() == 1;
            Spot { is_only, ..outer }
        } else {
            let (key, names) = self.identity(object);
            Spot {
                record: self.index.record(key, &names),
                is_top: true,
                ..outer
            }
        };
        for (key, value) in object.fields() {
            // Servers also list addresses by what they say of each: `{"ann@example.com": "may read"}`.
            if key.len() <= MAX_FIELD
                && let Reading::Values(forms) = form::read(&key)
            {
                for form in forms.iter().filter(|form| form.class.is_address()) {
                    self.note(form, Place::FIELD, spot.record);
                }
            }
            self.value(&key, value, spot.deeper());
        }
    }

    /// What names a record for its server, and what people call it.
    fn identity(&self, object: Json<'_>) -> (u64, Vec<String>) {
        let (mut own, mut id, mut all, mut names) = (None, None, String::new(), Vec::new());
        for (key, value) in object.fields() {
            if matches!(value.kind(), Kind::Object | Kind::Array) {
                continue;
            }
            if is_identifier(&key) && !value.is_null() {
                let field = || format!("{key}={}", value.text());
                if self.is_own(&key, &IDENTIFIERS) {
                    own.get_or_insert_with(field);
                }
                id.get_or_insert_with(field);
            }
            if all.len() < MAX_FIELD * 4 {
                all.push_str(&key);
                all.push_str(value.text());
            }
            let text = value.as_str().filter(|text| text.len() <= MAX_FIELD);
            let called = text.filter(|_| ends_with(&key, &NAMES) || is_identifier(&key));
            names.extend(called.as_deref().and_then(said::called));
        }
        let id = own.or(id).unwrap_or(all);
        (self.key().record(&self.read.server, &id), names)
    }

    /// Whether a field of this name is its record's own: `id`, and `issue_id` of what a tool for issues brought, but not `owner_id`.
    fn is_own(&self, key: &str, endings: &[&str]) -> bool {
        let is_of_tool = |word: &str| {
            let several = |of: &String| of.strip_suffix('s').is_some_and(|one| one == word);
            self.tool.iter().any(|of| of == word || several(of))
        };
        match name_words(key).as_slice() {
            [last] => endings.contains(&last.as_str()),
            [of, last] => endings.contains(&last.as_str()) && is_of_tool(of),
            _ => false,
        }
    }

    fn key(&self) -> &Key {
        self.index.key()
    }

    fn string(&mut self, key: &str, text: &str, spot: Spot) {
        if text.len() > MAX_FIELD {
            return self.text(text);
        }
        self.bytes += text.len();
        let Reading::Values(forms) = form::read(text) else {
            return;
        };
        let is_name = ends_with(key, &NAMES) || is_identifier(key);
        let is_own = self.is_own(key, &IDENTIFIERS) || self.is_own(key, &NAMES);
        for form in forms {
            if form.class == Class::Phrase && form.text.split(' ').count() > MAX_FIELD_WORDS {
                return self.text(text);
            }
            let is_address = form.class.is_address();
            let place = Place {
                is_typed: true,
                is_handle: spot.is_top && (is_own || is_address),
                is_name: false,
                is_created: !is_address && self.is_created(key, text, &form, spot),
            };
            self.note(&form, place, spot.record);
            if form.class == Class::Phrase {
                // A sentence is short, too.
                self.inside(text);
            }
        }
        // Names are compared by their words, so that no sign makes two of one.
        if is_name && let Some(words) = said::called(text) {
            let place = Place {
                is_name: true,
                ..Place::FIELD
            };
            self.note(&Form::new(Class::Words, words), place, spot.record);
        }
    }

    fn number(&mut self, key: &str, value: Json<'_>, spot: Spot) {
        if let Some(number) = form::Number::read(value.text()) {
            let form = Form::new(Class::Number, number.text());
            let place = Place {
                is_handle: spot.is_top && self.is_own(key, &IDENTIFIERS),
                is_created: self.is_created(key, value.text(), &form, spot),
                ..Place::FIELD
            };
            self.note(&form, place, spot.record);
        }
    }

    /// Whether this is the id of the one thing that the call made: it was not sent along, and nobody has seen it before.
    fn is_created(&self, key: &str, text: &str, form: &Form, spot: Spot) -> bool {
        let Some(sent) = self.sent else {
            return false;
        };
        spot.is_only
            && spot.is_top
            && self.is_own(key, &IDENTIFIERS)
            && self.index.is_new(form)
            && !holds(sent, text, MAX_DEPTH)
    }

    /// What stands inside a text is of no record: who wrote the text wrote it.
    fn text(&mut self, text: &str) {
        self.bytes += text.len();
        let room = MAX_BYTES.saturating_sub(self.bytes.saturating_sub(text.len()));
        let end = text.floor_char_boundary(room);
        self.is_cut |= end < text.len();
        self.inside(text.get(..end).unwrap_or_default());
    }

    fn inside(&mut self, text: &str) {
        scan::values(text, |found| {
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

/// Whether this text is one of the values.
fn holds(value: Json<'_>, text: &str, depth: usize) -> bool {
    match value.kind() {
        // What is too deep to look at may hold it.
        _ if depth == 0 => true,
        Kind::Object => value
            .fields()
            .any(|(_, inner)| holds(inner, text, depth - 1)),
        Kind::Array => value.items().any(|inner| holds(inner, text, depth - 1)),
        Kind::String => value.as_str().is_some_and(|own| own.trim() == text.trim()),
        Kind::Number => value.text() == text,
        Kind::Bool | Kind::Null => false,
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
