//! The ledger, as an operator asks about it: records, reports, lineage.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

macro_rules! draw_records_query {
    ([] $({ $name:ident $kind:ident $asked:literal $what:literal })*) => {
        /// Which records. Conditions that are absent hold for every record.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(default, deny_unknown_fields)]
        pub struct RecordsQuery {
            /// Only this kind of record: intent, outcome, refusal or change; without it, calls
            #[serde(skip_serializing_if = "Option::is_none")]
            pub kind: Option<String>,
            /// Only where the session had reached this level
            #[serde(skip_serializing_if = "Option::is_none")]
            pub level: Option<String>,
            $(#[doc = $asked] #[serde(skip_serializing_if = "Option::is_none")] pub $name: Option<String>,)*
            /// From then on: `30m`, `2h` or `7d` ago, or a date or time.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub since: Option<String>,
            /// Before then.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub until: Option<String>,
            /// A call, and every call whose result may have influenced it.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub lineage: Option<String>,
            /// Everything: changes, and intents whose outcome is known.
            #[serde(deserialize_with = "crate::input::flag")]
            pub all: bool,
            /// At most this many, the newest; 100 without it.
            #[serde(deserialize_with = "crate::input::number")]
            #[serde(skip_serializing_if = "Option::is_none")]
            pub limit: Option<u32>,
        }

        impl RecordsQuery {
            /// The conditions on columns that are given, by name.
            pub fn columns(&self) -> impl Iterator<Item = (&'static str, &str)> {
                let all = [
                    ("kind", &self.kind),
                    ("level", &self.level),
                    $((stringify!($name), &self.$name),)*
                ];
                all.into_iter()
                    .filter_map(|(name, wanted)| Some((name, wanted.as_deref()?)))
            }
        }
    };
}
vocab::record_columns!(asked => draw_records_query []);

/// The records that match, in the order of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Records {
    pub records: Vec<LogRecord>,
    /// Whether more match than were asked for.
    pub more: bool,
}

macro_rules! draw_log_record {
    ([] $({ $name:ident $kind:ident $title:tt $what:literal })*) => {
        /// One record of the ledger. What does not apply to it is absent.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(default)]
        pub struct LogRecord {
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
vocab::record_columns!(all => draw_log_record []);

fn is_absent<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A time from which, and one before which; without them, from the beginning and until now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Period {
    /// `30m`, `2h` or `7d` ago, or a date or time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// What happened in a period, counted from the records of the ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Report {
    pub made_at: String,
    pub since: String,
    pub until: String,
    pub ledger: LedgerState,
    /// Records of the period, of any kind.
    pub records: u64,
    pub calls: CallCounts,
    /// The period in equal steps, oldest first.
    pub steps: Vec<Step>,
    pub refusals_by_rule: Vec<Row>,
    pub refusals_by_tool: Vec<Row>,
    pub failures_by_code: Vec<Row>,
    pub callers: Vec<Party>,
    pub servers: Vec<Party>,
    pub label_rises: Vec<Row>,
    pub write_down_refusals: Vec<Row>,
    pub approvals: ApprovalCounts,
    pub authentication_failures: Vec<Row>,
    pub definition_changes: Listed,
    pub configuration_changes: Listed,
    pub other_changes: Vec<Row>,
    pub indeterminate: Listed,
}

impl Report {
    /// Every list of names and counts, under its title.
    #[must_use]
    pub fn tables(&self) -> [(&'static str, &[Row]); 8] {
        [
            ("refusals by rule", &self.refusals_by_rule),
            ("refusals by tool", &self.refusals_by_tool),
            ("failures by code", &self.failures_by_code),
            ("label rises", &self.label_rises),
            ("write-down refusals", &self.write_down_refusals),
            ("answers by person", &self.approvals.by_person),
            ("authentication failures", &self.authentication_failures),
            ("other changes", &self.other_changes),
        ]
    }

    /// Every list of single events, under its title.
    #[must_use]
    pub fn lists(&self) -> [(&'static str, &Listed); 3] {
        [
            ("definition changes", &self.definition_changes),
            ("configuration changes", &self.configuration_changes),
            ("calls whose end is not known", &self.indeterminate),
        ]
    }
}

/// Whether the whole ledger verifies, and where it ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LedgerState {
    pub verifies: bool,
    pub finding: Option<String>,
    pub first_record: u64,
    pub records: u64,
    pub head: String,
    pub root: String,
    /// How many records the signed head covers, and the head itself.
    pub checkpoint_covers: Option<u64>,
    pub checkpoint: Option<String>,
    pub public_key: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CallCounts {
    pub total: u64,
    pub by_verdict: BTreeMap<String, u64>,
    /// Begun in the period, and not ended in it.
    pub under_way: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Step {
    pub from: String,
    pub permitted: u64,
    pub refused: u64,
    /// Failed, cancelled, indeterminate or abandoned.
    pub other: u64,
}

/// What one caller or server had to do with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Party {
    pub id: String,
    /// What people call it; of a server, its id.
    pub name: String,
    /// The persons and agents of a caller.
    pub also: Vec<String>,
    pub calls: u64,
    pub permitted: u64,
    pub refused: u64,
    pub other: u64,
    /// The highest level that sessions of its calls had.
    pub highest_level: String,
    /// On average, over the calls that were made, without the time a person took to approve one.
    pub mean_ms: f64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ApprovalCounts {
    pub asked: u64,
    pub approved: u64,
    pub denied: u64,
    pub expired: u64,
    /// `who: approved` and `who: denied`.
    pub by_person: Vec<Row>,
}

/// A name and how often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Row {
    pub name: String,
    pub count: u64,
}

/// Some of many: how many there are, and the newest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Listed {
    pub count: u64,
    pub newest: Vec<Item>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Item {
    pub seq: u64,
    pub time: String,
    pub what: String,
    pub about: String,
    pub by: String,
    pub detail: String,
}

/// One call, with what a person wants to know of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ShownCall {
    pub call: String,
    pub time: String,
    pub caller: String,
    pub server: String,
    pub tool: String,
    /// `permitted`, `refused`, …; empty while it is under way.
    pub verdict: String,
    /// What the session had seen when it was weighed, and when it was answered.
    pub label: String,
    pub label_after: String,
}

/// What may have influenced a call, or what its result may have: a bound, not a proof of use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Lineage {
    pub call: ShownCall,
    pub forward: bool,
    /// Latest first.
    pub calls: Vec<ShownCall>,
    /// Whether these are all: links may lead to calls that are not in the ledger any more, or too far.
    pub whole: bool,
}
