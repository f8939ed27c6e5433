//! What one line of the ledger says: [`Change`] and [`Draft`] on the way in, [`Record`] on the way out.
//!
//! What goes in borrows everything and copies nothing. It must never carry a secret or an argument body: those are digests.
//! Drafts of intents and outcomes are made in `evidence` only, so that the two always pair. Which fields there are is one table,
//! `vocab::record_columns`.

use serde::{Deserialize, Serialize};
use vocab::{Effect, Stage};

/// `violation` of an outcome whose tool answered that it failed (`isError`).
pub const TOOL_ERROR: &str = "tool_error";
/// `violation` of an outcome whose server answered with a JSON-RPC error.
pub const UPSTREAM_ERROR: &str = "upstream_error";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A call is about to have its effect.
    Intent,
    /// How a call with an intent ended, or how one without was answered.
    Outcome,
    /// A call was refused before Intend: no effect was possible.
    Refusal,
    /// Something security-relevant changed: a server, a credential, the configuration, a session, the ledger.
    #[default]
    Change,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Intent => "intent",
            Kind::Outcome => "outcome",
            Kind::Refusal => "refusal",
            Kind::Change => "change",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Permitted,
    /// Not executed.
    Refused,
    /// Permitted, but something broke, or what came back may not be shown.
    Failed,
    /// Permitted and cancelled by the caller.
    Cancelled,
    /// The gate died between intent and outcome, or the worker in the middle of the call: the effect may or may not have happened.
    Indeterminate,
    /// The gate forgot to conclude: a bug in the gate.
    Abandoned,
}

impl Verdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Permitted => "permitted",
            Verdict::Refused => "refused",
            Verdict::Failed => "failed",
            Verdict::Cancelled => "cancelled",
            Verdict::Indeterminate => "indeterminate",
            Verdict::Abandoned => "abandoned",
        }
    }
}

/// How a value of a column is lent to a record to be.
macro_rules! lent_value {
    ($life:lifetime text) => { &$life str };
    ($life:lifetime long) => { &$life str };
    ($life:lifetime number) => { Option<u64> };
    ($life:lifetime effect) => { Option<Effect> };
    ($life:lifetime stage) => { Option<Stage> };
    ($life:lifetime verdict) => { Option<Verdict> };
}
pub(crate) use lent_value;

macro_rules! draw_change {
    ([] $({ $name:ident $kind:ident $title:tt $what:literal })*) => {
        /// Something security-relevant that changed outside a call. Empty text and `None` are left out of the line.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Change<'a> {
            $(#[doc = $what] pub $name: lent_value!('a $kind),)*
        }

        impl<'a> Change<'a> {
            pub(crate) fn draft(&self) -> Draft<'a> {
                Draft { kind: Kind::Change, $($name: self.$name,)* ..Draft::default() }
            }
        }
    };
}
vocab::record_columns!(change => draw_change []);

macro_rules! draw_draft {
    ([] $({ $name:ident $kind:ident $title:tt $what:literal })*) => {
        /// A record to be. Empty text and `None` are left out of the line.
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct Draft<'a> {
            pub(crate) kind: Kind,
            $(#[doc = $what] pub(crate) $name: lent_value!('a $kind),)*
        }
    };
}
vocab::record_columns!(all => draw_draft []);

macro_rules! draw_scrubbing {
    ([] $({ $name:ident $kind:ident $title:tt $what:literal })*) => {
        impl<'a> Draft<'a> {
            /// The same record with the free texts of `clean`, which is this record without its secrets. Ids we make, digests and signatures stay.
            pub(crate) fn with_texts_of<'b>(self, clean: &'b Record) -> Draft<'b>
            where
                'a: 'b,
            {
                Draft { $($name: &clean.$name,)* ..self }
            }
        }
    };
}
vocab::record_columns!(scrubbed => draw_scrubbing []);

macro_rules! draw_record {
    ([] $({ $name:ident $kind:ident $title:tt $what:literal })*) => {
        /// One line as read back. Keys this version does not know are ignored, so an older reader can show a newer ledger.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Record {
            pub v: u32,
            pub seq: u64,
            pub ms: u64,
            pub time: String,
            pub kind: String,
            $(#[doc = $what] #[serde(skip_serializing_if = "is_absent")] pub $name: vocab::record_value!($kind),)*
            pub prev: String,
            pub hash: String,
        }
    };
}
vocab::record_columns!(all => draw_record []);

fn is_absent<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Record {
    /// The level of the session after the record; empty where it concerns none.
    #[must_use]
    pub fn level(&self) -> &str {
        level_of(&self.label, &self.label_after)
    }

    /// Whether a call wrote this itself: its intent, its outcome or its refusal. A change may name a call and is not one.
    #[must_use]
    pub fn is_of_a_call(&self) -> bool {
        !self.call.is_empty() && matches!(self.kind.as_str(), "intent" | "outcome" | "refusal")
    }
}

/// The level in the later of two labels.
#[must_use]
pub fn level_of<'a>(label: &'a str, label_after: &'a str) -> &'a str {
    let label = if label_after.is_empty() {
        label
    } else {
        label_after
    };
    label.split('+').next().unwrap_or_default()
}
