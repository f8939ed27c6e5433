//! Where the values of one conversation came from.
//!
//! **Invariant: nothing becomes said but what the outside road said.** [`Index::say`] is the only function that adds to it, and what is
//! forgotten is unknown. Test `no_value_becomes_said_that_no_outside_road_said`.
//!
//! **Invariant: a name that two records have names none.** Whether it does is never forgotten while the name counts. Test
//! `the_second_record_of_a_name_makes_it_ambiguous_for_good`.

use std::collections::VecDeque;

use wire::Json;

use crate::{
    digest::Key,
    entries::{Entries, Entry, Record, SOURCES},
    feed,
    flaw::{Flaw, has},
    form::{self, Class, Form, Number},
    said::{Said, Span, is_vague},
};

/// Values of reads that are kept.
pub(crate) const MAX_ENTRIES: usize = 10_000;
/// Reads whose values are kept.
pub(crate) const MAX_SOURCES: usize = 128;
/// Names of records that are kept; records beyond them are not named by anything.
const MAX_NAMES: usize = 256;
/// How long the names of a server, a tool and a call may be here.
const MAX_NAME: usize = 200;

/// Whether somebody outside may have shaped what was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trust {
    Trusted,
    Untrusted,
}

/// Which read something came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    pub server: Box<str>,
    pub tool: Box<str>,
    pub call: Box<str>,
    pub trust: Trust,
}

impl Read {
    #[must_use]
    pub fn new(server: &str, tool: &str, call: &str, trust: Trust) -> Self {
        let short = |text: &str| text.chars().take(MAX_NAME).collect::<String>().into();
        Self {
            server: short(server),
            tool: short(tool),
            call: short(call),
            trust,
        }
    }

    fn bytes(&self) -> usize {
        self.server.len() + self.tool.len() + self.call.len()
    }
}

/// What a value of a call is there for, as far as it matters to where the value came from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Use<'a> {
    /// The server that it would go to.
    pub(crate) server: &'a str,
    /// The argument's path.
    pub(crate) argument: &'a str,
}

/// Where a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin<'a> {
    /// The person said it.
    Said,
    /// It addresses, on the server that it would go to, the one record that the person's words name, or one that the conversation made.
    OfTheNamedRecord(&'a Read),
    /// It is an address in the one record that the person's words name, which a stranger may have written.
    InTheNamedRecord(&'a Read),
    /// A read brought it, as a field of its own.
    Field(&'a Read),
    /// A read brought it, inside a text.
    Text(&'a Read),
    /// Nobody knows any more.
    Forgotten,
    /// The agent made it: nobody said it and no read brought it.
    Made,
}

/// A record's name in the person's words.
#[derive(Debug, Clone, Copy)]
struct Name {
    span: Span,
    /// The record it names, and its number among named records.
    key: u64,
    record: Record,
    is_ambiguous: bool,
}

/// What an index keeps on the disk: digests of what was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved(pub Vec<u8>);

/// See the [module](self).
#[derive(Debug)]
pub struct Index {
    key: Key,
    said: Said,
    entries: Entries,
    sources: VecDeque<Read>,
    /// The number of the oldest source.
    first: u16,
    names: Vec<Name>,
    records: usize,
    /// Something was forgotten, so that what is not here may have been.
    has_forgotten: bool,
    /// Records that were read may be unknown, so that no further name is known to be one record's.
    may_name: bool,
    /// Bytes it may take.
    limit: usize,
}

impl Index {
    #[must_use]
    pub fn new(key: Key, limit: usize) -> Self {
        Self {
            key,
            said: Said::default(),
            entries: Entries::default(),
            sources: VecDeque::new(),
            first: 0,
            names: Vec::new(),
            records: 0,
            has_forgotten: false,
            may_name: true,
            limit,
        }
    }

    /// Adds what a person said. Only for words that came over a road which the agent does not have.
    pub fn say(&mut self, text: &str) {
        self.said.add(&self.key, text);
    }

    /// Whether a person said anything.
    #[must_use]
    pub fn has_words(&self) -> bool {
        !self.said.is_empty()
    }

    /// What of it belongs on the disk.
    #[must_use]
    pub fn save(&self) -> Saved {
        let mut out = vec![FORMAT];
        self.said.write(&mut out);
        Saved(out)
    }

    /// What was said, as it was saved. What was read is gone, so nothing else is known, and no name is known to be one record's.
    #[must_use]
    pub fn restore(key: Key, limit: usize, saved: &Saved) -> Self {
        let said = match saved.0.split_first() {
            Some((&FORMAT, rest)) => Said::read(rest).unwrap_or_default(),
            _ => Said::default(),
        };
        Self {
            said,
            has_forgotten: true,
            may_name: false,
            ..Self::new(key, limit)
        }
    }

    /// Takes in what a read brought. Must happen before its result is shown.
    pub fn read(&mut self, read: Read, result: Json<'_>) {
        self.take(read, None, result);
    }

    /// Takes in the result of a call that did something. If the tool makes things, the id of the one it made is the conversation's own.
    pub fn created(&mut self, read: Read, sent: Json<'_>, result: Json<'_>) {
        self.take(read, Some(sent), result);
    }

    fn take(&mut self, read: Read, sent: Option<Json<'_>>, result: Json<'_>) {
        if self.sources.len() >= MAX_SOURCES {
            self.forget_oldest();
        }
        let source = (self.first + u16::try_from(self.sources.len()).unwrap_or(0)) % SOURCES;
        let mut feed = feed::Feed::new(self, &read, source, sent);
        feed.take(result);
        let (entries, is_cut) = feed.finish();
        if is_cut {
            // Other records of any name may stand where nobody looked.
            self.pass_over();
            for name in &mut self.names {
                name.is_ambiguous = true;
            }
        }
        if has(Flaw::ReadsCountAsSaid) {
            wire_said(&mut self.said, &self.key, result);
        }
        self.sources.push_back(read);
        self.entries.add(entries);
        self.fit();
    }

    /// Notes that something was read and not looked at.
    pub fn pass_over(&mut self) {
        self.has_forgotten = true;
        self.may_name = false;
    }

    /// Changes what it may take, and forgets what does not fit any more.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        self.fit();
    }

    fn fit(&mut self) {
        let is_over =
            |index: &Self| index.bytes() > index.limit || index.entries.len() > MAX_ENTRIES;
        if has(Flaw::NothingIsForgotten) || !is_over(self) {
            return;
        }
        self.entries.shrink();
        while is_over(self) && !self.sources.is_empty() {
            self.forget_oldest();
            self.entries.shrink();
        }
    }

    fn forget_oldest(&mut self) {
        if self.sources.pop_front().is_some() {
            self.entries.forget(self.first);
            self.first = (self.first + 1) % SOURCES;
            self.has_forgotten = true;
            self.may_name = false;
        }
    }

    /// The record that stands for this key, given what people call it.
    pub(crate) fn record(&mut self, key: u64, phrases: &[String]) -> Record {
        let fingerprint = Record::unnamed(key);
        let mut record = fingerprint;
        for phrase in phrases {
            let Some(span) = self.said.naming(&self.key, phrase) else {
                continue;
            };
            record = self.name(span, key, phrase, record);
        }
        record
    }

    /// Notes that these words name this record; or that they name more than one.
    fn name(&mut self, span: Span, key: u64, phrase: &str, record: Record) -> Record {
        if let Some(at) = self.names.iter().position(|name| name.span == span) {
            if let Some(name) = self.names.get_mut(at) {
                if name.key == key {
                    return name.record;
                }
                name.is_ambiguous |= !has(Flaw::TwoRecordsAreOne);
            }
            return record;
        }
        if self.names.len() >= MAX_NAMES || !self.may_name {
            return record;
        }
        // It may have been read before the person said its name.
        let form = Form::new(Class::Words, phrase);
        let others = self.entries.of(self.key.value(&form));
        let is_ambiguous = others
            .iter()
            .any(|entry| entry.place().is_name && entry.record != Record::unnamed(key));
        let named = match record.number() {
            Some(_) => record,
            None => {
                self.records += 1;
                Record::named(self.records)
            }
        };
        self.names.push(Name {
            span,
            key,
            record: named,
            is_ambiguous,
        });
        named
    }

    pub(crate) const fn key(&self) -> &Key {
        &self.key
    }

    pub(crate) const fn said(&self) -> &Said {
        &self.said
    }

    /// Where a value came from, the best of what is known.
    pub(crate) fn origin(&self, form: &Form, used: Use<'_>) -> Origin<'_> {
        if self.is_said(form, used.argument) {
            return Origin::Said;
        }
        let entries = self.entries.of(self.key.value(form));
        let source = |entry: &&Entry| self.source(entry.source());
        let lends = |read: &&Read| {
            // An id says something to its own server alone; an address is one for everybody, if nobody strange can have written it.
            if form.class.is_address() {
                read.trust == Trust::Trusted
            } else {
                &*read.server == used.server
            }
        };
        let handles = || entries.iter().filter(|entry| self.is_handle(entry));
        if let Some(read) = handles().filter_map(|entry| source(&entry)).find(lends) {
            return Origin::OfTheNamedRecord(read);
        }
        let read = handles().find_map(|entry| source(&entry));
        if let Some(read) = read.filter(|_| form.class.is_address()) {
            return Origin::InTheNamedRecord(read);
        }
        let typed = entries.iter().find(|entry| entry.place().is_typed);
        if let Some(read) = typed.as_ref().and_then(source) {
            return Origin::Field(read);
        }
        if let Some(read) = entries.first().as_ref().and_then(source) {
            return Origin::Text(read);
        }
        if self.has_forgotten {
            if has(Flaw::ForgottenCountsAsSaid) {
                return Origin::Said;
            }
            return Origin::Forgotten;
        }
        Origin::Made
    }

    /// Whether nobody has said or read this value, as far as everything is known that was read.
    pub(crate) fn is_new(&self, form: &Form) -> bool {
        !self.has_forgotten && self.entries.of(self.key.value(form)).is_empty()
    }

    /// Whether a read of this tool brought the value: as a field of its own, or at least inside a text.
    pub(crate) fn is_from(
        &self,
        form: &Form,
        server: &str,
        tool: &str,
        must_be_field: bool,
    ) -> bool {
        if has(Flaw::AnyReadWillDo) {
            return !self.entries.of(self.key.value(form)).is_empty();
        }
        let is_of_tool = |read: &Read| &*read.server == server && &*read.tool == tool;
        self.entries
            .of(self.key.value(form))
            .iter()
            .filter(|entry| entry.place().is_typed || !must_be_field)
            .filter_map(|entry| self.source(entry.source()))
            .any(is_of_tool)
    }

    /// Whether the person said exactly this.
    pub(crate) fn is_said(&self, form: &Form, argument: &str) -> bool {
        if has(Flaw::LookAlikesAreEqual) && self.said.looks_like_one(&self.key, form) {
            return true;
        }
        match form.class {
            // A bare number is the name of nothing.
            Class::Number => Number::read(&form.text).is_some_and(|_| {
                let digits = whole(&form.text);
                digits.is_some_and(|digits| self.said.numbers(&self.key, &digits, argument))
            }),
            Class::Phrase if is_vague(&form::name(&form.text).text) => false,
            Class::Phrase => self.said.has_text(&self.key, &form.text),
            _ => self.said.has(&self.key, form),
        }
    }

    fn is_handle(&self, entry: &Entry) -> bool {
        let place = entry.place();
        if place.is_created {
            return true;
        }
        let Some(number) = entry.record.number() else {
            return false;
        };
        let mut names = self
            .names
            .iter()
            .filter(|name| name.record.number() == Some(number))
            .peekable();
        place.is_typed
            && place.is_handle
            && names.peek().is_some()
            && names.all(|name| !name.is_ambiguous)
    }

    fn source(&self, number: u16) -> Option<&Read> {
        let at = (number + SOURCES - self.first) % SOURCES;
        self.sources.get(usize::from(at))
    }

    /// How many values of reads it knows.
    #[must_use]
    pub fn values(&self) -> usize {
        self.entries.len()
    }

    /// What it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let sources: usize = self.sources.iter().map(Read::bytes).sum();
        size_of::<Self>()
            + self.said.bytes()
            + self.entries.bytes()
            + self.sources.capacity() * size_of::<Read>()
            + sources
            + self.names.capacity() * size_of::<Name>()
    }
}

/// The first byte of what is saved.
const FORMAT: u8 = 2;

/// The digits of a whole number in normal form.
fn whole(scaled: &str) -> Option<String> {
    scaled
        .strip_suffix("00000")
        .map(|digits| if digits.is_empty() { "0" } else { digits }.to_owned())
        .or_else(|| (scaled == "0").then(|| "0".to_owned()))
}

/// Only for a planted fault.
fn wire_said(said: &mut Said, key: &Key, result: Json<'_>) {
    said.add(key, result.text());
}
