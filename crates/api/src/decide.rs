//! What the gate says about its decisions: sessions, approvals, explanations.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a credential has been shown since its last reset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Session {
    pub caller: String,
    pub name: String,
    pub user: Option<String>,
    pub label: String,
    /// The servers it has read from.
    pub origins: Vec<String>,
    pub epoch: u64,
    /// The last result it was shown, by its call.
    pub head: Option<String>,
    pub calls: u64,
}

impl Session {
    /// The last result it was shown; nothing if it was shown none.
    #[must_use]
    pub fn head(&self) -> Option<&str> {
        self.head.as_deref().filter(|head| !head.is_empty())
    }
}

/// What a session was before it began anew, and is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SessionReset {
    pub caller: String,
    pub was: String,
    pub label: String,
    pub epoch: u64,
}

/// A question to a person, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Approval {
    pub id: String,
    /// `pending`, `approved`, `denied`, `expired` or `used`.
    pub state: String,
    pub caller: String,
    pub name: String,
    /// The method of the call that asks.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub action: String,
    pub server: String,
    pub tool: String,
    /// Canonical, with everything escaped that could deceive an eye.
    pub arguments: String,
    pub label: String,
    /// The calls whose results the session had read, latest first.
    pub lineage: Vec<String>,
    /// Every policy and check that asked, in its own words.
    pub why: Vec<String>,
    /// `read` or `consequential`, who says so, and whether strangers can write what its server returns; absent where it has gone.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub effect: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub effect_from: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
    /// Whether a call waits for the answer at this moment.
    pub awaited: bool,
    /// What a yes that lasts would cover, where one can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub may_last: Option<String>,
    pub asked_ms: u64,
    pub expires_ms: u64,
    pub answered_by: Option<String>,
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_ms: Option<u64>,
    pub bundle: String,
    pub definition: String,
}

/// A yes that lasts for a conversation: to a tool with these targets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LastingAnswer {
    /// The approval that it was the answer to.
    pub id: String,
    pub caller: String,
    pub name: String,
    pub server: String,
    pub tool: String,
    /// Whom, what and how much it covers: these and no others.
    pub covers: Vec<String>,
    /// Who said yes, and when.
    pub by: String,
    pub said_ms: u64,
}

/// An approval that a person has just answered.
pub type Answered = Approval;

/// Which call to explain: one that was made, by its id, or an imagined one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Explain {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<serde_json::Map<String, Value>>")
    )]
    pub arguments: Option<Value>,
    /// A credential's id or name, or an execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// The security context that the call would be in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// What every stage says of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Explanation {
    /// What the gate would do with it now.
    pub verdict: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The name it was asked for by, where that is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// The security context it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// What it was explained without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
    /// What it did with it then, as the ledger has it; nothing for a call that was not made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<RecordedVerdict>,
    pub stages: Vec<CheckedStage>,
}

/// How a call ended when it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct RecordedVerdict {
    pub call: String,
    pub time: String,
    pub verdict: String,
    pub stage: String,
    pub violation: String,
    pub detail: String,
    pub label: String,
    pub bundle: String,
}

/// What the checks of one stage say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CheckedStage {
    pub stage: String,
    pub checks: Vec<Check>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Check {
    pub name: String,
    /// `ok`, `refused`, `ask` or `skipped`.
    pub verdict: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What would have let it through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}
