//! What the gate says about its decisions: definitions, sessions, approvals, explanations.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a server offers, held against what was approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct ReviewView {
    pub server: String,
    /// `UNTRUSTED`, `CLASSIFIED` or `BLOCKED`.
    pub state: String,
    pub classification: Option<String>,
    pub open_world: bool,
    pub open_world_why: String,
    pub definitions: Vec<DefinitionView>,
}

impl ReviewView {
    /// What waits for a person, by `kind:name`, with the digest it has here.
    #[must_use]
    pub fn waiting(&self) -> std::collections::BTreeMap<String, String> {
        let waiting = self
            .definitions
            .iter()
            .filter(|definition| definition.waits());
        waiting
            .filter_map(|one| Some((format!("{}:{}", one.kind, one.name), one.digest.clone()?)))
            .collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct DefinitionView {
    /// `tool`, `prompt`, `template` or `instructions`.
    pub kind: String,
    pub name: String,
    /// `pinned`, `changed`, `new` or `gone`.
    pub state: String,
    pub digest: Option<String>,
    pub pinned_digest: Option<String>,
    /// Of tools only: `read` or `consequential`.
    pub effect: Option<String>,
    /// Who says so: `entry`, `lock` or `name`.
    pub effect_from: String,
    pub description: Option<String>,
    pub takes_address: bool,
    /// What a person should look at twice.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub suspicions: Vec<String>,
    /// `same`, `narrowed`, `widened` or `reworded`.
    pub verdict: Option<String>,
    /// Lines that begin with `- ` were approved, with `+ ` are there now.
    pub diff: Vec<String>,
}

impl DefinitionView {
    /// Kept from callers until a person has looked.
    #[must_use]
    pub fn waits(&self) -> bool {
        matches!(self.state.as_str(), "changed" | "new")
    }
}

/// What a credential has been shown since its last reset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct SessionView {
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

impl SessionView {
    /// The last result it was shown; nothing if it was shown none.
    #[must_use]
    pub fn head(&self) -> Option<&str> {
        self.head.as_deref().filter(|head| !head.is_empty())
    }
}

/// A question to a person, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct ApprovalView {
    pub id: String,
    /// `pending`, `approved`, `denied`, `expired` or `used`.
    pub state: String,
    pub caller: String,
    pub name: String,
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
    pub asked_ms: u64,
    pub expires_ms: u64,
    pub answered_by: Option<String>,
    pub reason: Option<String>,
    pub bundle: String,
    pub definition: String,
}

/// What every stage says of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct ExplainView {
    /// What the gate would do with it now.
    pub verdict: String,
    pub call: Option<String>,
    pub tool: Option<String>,
    /// The name it was asked for by, where that is another.
    pub asked: Option<String>,
    pub caller: Option<String>,
    /// The security context it is in.
    pub context: Option<String>,
    pub label: Option<String>,
    pub arguments: Option<String>,
    /// What it was explained without.
    pub remark: Option<String>,
    /// What it did with it then, as the ledger has it; nothing for a call that was not made.
    pub recorded: Option<Value>,
    pub stages: Vec<StageView>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct StageView {
    pub stage: String,
    pub checks: Vec<CheckView>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct CheckView {
    pub name: String,
    /// `ok`, `refused`, `ask` or `skipped`.
    pub verdict: String,
    pub detail: Option<String>,
    /// What would have let it through.
    pub fix: Option<String>,
}
