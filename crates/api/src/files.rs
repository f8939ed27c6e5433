//! What the files of a home say: the configuration and the policies.

use serde::{Deserialize, Serialize};

/// What is wrong with the configuration file, if anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ConfigCheck {
    /// Whether the file can be used.
    pub ok: bool,
    pub file: String,
    pub servers: u64,
    pub findings: Vec<Finding>,
}

/// One thing to repair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Finding {
    /// `error` or `warning`.
    pub severity: String,
    /// Where it is in another file than the one that was checked.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file: String,
    pub line: u64,
    pub column: u64,
    pub what: String,
    pub fix: String,
    /// The line itself; what looks like a credential is left out of it.
    pub excerpt: String,
}

/// One value of the configuration in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ConfigValue {
    pub key: String,
    pub value: String,
    /// `portcullis.yaml:12`, `default`, or the option that set it.
    pub origin: String,
    /// `built-in`, `corp`, `user` or `imported`.
    pub layer: String,
    /// The company's lock, where nobody else can change this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<String>,
    /// The gate that runs goes on with another value until it is started anew.
    pub awaiting_restart: bool,
}

/// Policies to look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct BundleText {
    /// The text of Cedar policies; without it, the bundle of the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policies: Option<String>,
}

/// Whether a bundle can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BundleCheck {
    pub ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policies: Option<u64>,
    pub problems: Vec<BundleMistake>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BundleMistake {
    pub file: String,
    pub line: u32,
    pub column: u32,
    pub message: String,
    pub fix: String,
}

/// Which recorded calls other policies are held against.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct PolicyDiffQuery {
    /// The text of the other Cedar policies.
    pub policies: String,
    /// A credential's id or name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// From then on: `30m`, `2h` or `7d` ago, or a date or time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

/// The recorded calls that other policies would decide otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PolicyDiff {
    /// The versions of the bundles.
    pub before: String,
    pub after: String,
    /// How many calls were judged.
    pub calls: u64,
    pub changed: Vec<PolicyChange>,
    /// Calls that a check before the policies had stopped.
    pub stopped_before: u64,
    /// Calls whose arguments were not kept, or whose server is gone.
    pub unknown: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PolicyChange {
    pub call: String,
    pub caller: Option<String>,
    pub server: Option<String>,
    pub target: Option<String>,
    pub before: Decided,
    pub after: Decided,
}

/// What a bundle decided, and by which policies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Decided {
    pub decision: String,
    pub policies: Vec<String>,
}

/// Which recorded calls a bundle is written from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct PolicySuggestQuery {
    /// A credential's id or name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// From then on: `30m`, `2h` or `7d` ago, or a date or time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

/// A bundle that allows what was permitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Suggestion {
    pub calls: u64,
    pub unknown: u64,
    /// Cedar policies.
    pub bundle: String,
}
