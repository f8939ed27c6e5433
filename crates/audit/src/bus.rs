//! The bus: what happened, as events, for whoever listens.
//!
//! An event is a projection of a record and nothing else has to be kept for it. So the ledger's files are the queue: a listener
//! that was away reads on from its place, and one that is slow costs nobody any memory. This module must never know who
//! listens, and never show more than the record holds: arguments and results stay digests.
//!
//! Invariants kept here:
//! - every record gives at least one event, and always the same ones;
//! - places are in the order of the ledger, so "everything after this place" is well defined;
//! - an event is one line, whatever its texts contain.
//!
//! **Invariant: every record is events, always the same, one line each.** Tests
//! `every_record_is_told_and_an_event_is_one_line`, `a_feed_reads_every_event_once_in_order_from_any_place`,
//! `a_callers_words_cannot_forge_an_event`.

mod calls;
mod changes;
mod feed;
mod names;
mod newest;
mod place;
mod show;

use crate::record::Record;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

pub use changes::event_families;
pub use feed::{Batch, Feed};
pub use names::Severity;
pub use newest::newest_events;
pub use place::{NoPlace, Place};
pub use show::{render_event, render_event_head};

/// The keys of an event's payload, and their values.
pub type Payload = Map<String, Value>;

/// One thing that happened. Empty texts are left out where it is written down.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    pub position: Place,
    /// `MCPToolEvent::InvocationCompleted`
    pub event: String,
    /// `mcp_tool`
    pub family: String,
    pub time: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub call: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub caller: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub session: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub server: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tool: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub verdict: String,
    pub payload: Payload,
    /// The same instant as `time`, for those who want a number.
    #[serde(skip)]
    pub ms: u64,
    #[serde(skip)]
    pub severity: Severity,
}

impl Event {
    /// The event as one line of JSON, without a line end: nothing in it ends a line or drives a terminal.
    #[must_use]
    pub fn line(&self) -> String {
        // Maps with text keys and plain values always serialise.
        crate::encode::printable(&serde_json::to_string(self).unwrap_or_default())
    }
}

/// Everything that one record says, in the order of [`Place::index`]; never nothing.
#[must_use]
pub fn project(record: &Record) -> Vec<Event> {
    let told = match record.kind.as_str() {
        "intent" | "outcome" | "refusal" => calls::told(record),
        _ => changes::told(record),
    };
    told.into_iter()
        .zip(0..)
        .map(|(told, index)| told.event(record, index))
        .collect()
}

/// An event without what every event of the record shares.
struct Told {
    family: &'static str,
    name: String,
    severity: Severity,
    payload: Payload,
}

impl Told {
    fn new(
        family: &'static str,
        name: impl Into<String>,
        severity: Severity,
        payload: Payload,
    ) -> Told {
        Told {
            family,
            name: name.into(),
            severity,
            payload,
        }
    }

    fn event(self, record: &Record, index: u16) -> Event {
        let (kind, family) = names::family(self.family);
        Event {
            position: Place {
                seq: record.seq,
                index,
            },
            event: format!("{kind}::{}", self.name),
            family,
            time: record.time.clone(),
            call: record.call.clone(),
            caller: record.caller.clone(),
            session: record.session.clone(),
            tenant: record.tenant.clone(),
            server: record.server.clone(),
            tool: record.tool.clone(),
            verdict: record.verdict.clone(),
            payload: self.payload,
            ms: record.ms,
            severity: self.severity,
        }
    }
}

/// Collects a payload; what is empty or unknown is left out.
#[derive(Default)]
struct Keys(Payload);

impl Keys {
    fn text(mut self, key: &str, value: &str) -> Keys {
        if !value.is_empty() {
            self.0.insert(key.to_owned(), value.into());
        }
        self
    }

    fn number(mut self, key: &str, value: Option<u64>) -> Keys {
        if let Some(value) = value {
            self.0.insert(key.to_owned(), value.into());
        }
        self
    }

    fn value(mut self, key: &str, value: Value) -> Keys {
        if !value.is_null() {
            self.0.insert(key.to_owned(), value);
        }
        self
    }

    fn done(self) -> Payload {
        self.0
    }
}

/// What the rule looked at. A text that was cut is no JSON any more, and stays a text.
fn looked_at(record: &Record) -> Value {
    match record.payload.as_str() {
        "" => Value::Null,
        text => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
    }
}

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
