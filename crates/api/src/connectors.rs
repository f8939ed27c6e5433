//! Servers as host programs add and remove them over HTTP: `/mcp/connectors`, and reading the configuration again, `/reload-config`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Input, Problem};

/// The way profiles are kept, as clients of this interface know it.
pub const MODE: &str = "settings_profiles_v2";
/// There is one profile: this home's.
pub const PROFILE: &str = "default";

/// Every server that the configuration has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Connectors {
    pub mode: String,
    pub profile_id: String,
    /// By id.
    pub servers: Vec<Connector>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Connector {
    pub id: String,
    pub source_profile: String,
    /// The layer it is in: `user`, `corp` or `imported`.
    pub source: String,
    /// It is in the person's own file, so it can be removed here.
    pub direct: bool,
    /// No lock of a company's is above it.
    pub editable: bool,
    /// Its keys, as the file has them: secrets are references.
    pub server: serde_json::Value,
}

/// A server to add to the person's own file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct NewConnector {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Values are texts or secret references.
    pub headers: BTreeMap<String, String>,
    /// A secret reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bearer: Option<String>,
    /// Only where the configuration lets HTTP clients add programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

impl Input for NewConnector {
    fn check(&self) -> Result<(), Problem> {
        match (&self.url, &self.command) {
            (Some(_), None) | (None, Some(_)) => Ok(()),
            _ => Err(Problem::invalid(
                "a connector has either `url` or `command`",
            )),
        }
    }
}

/// A server that was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ConnectorRemoved {
    pub mode: String,
    pub profile_id: String,
    pub server_id: String,
    pub removed: bool,
}

/// The configuration was read again and is in force, whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Reloaded {
    pub success: bool,
    pub reloaded: bool,
    pub failed_session_count: u64,
    pub failed_session_ids: Vec<String>,
    pub failures: Vec<String>,
    pub message: String,
}
