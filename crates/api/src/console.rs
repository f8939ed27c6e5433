//! The console: codes that let a person in with a browser, and the visits that they began.

use serde::{Deserialize, Serialize};

use crate::{Input, Role};

/// What a visit shall be able to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ConsoleCodeWanted {
    /// `viewer`, `approver` or `operator`; without it, what the credential may do. Never more than that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
}

impl Input for ConsoleCodeWanted {}

/// A code that begins one visit of the console, once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ConsoleCode {
    /// Where the console is; without the code.
    pub url: String,
    pub code: String,
    /// What the visit will be able to do.
    pub role: Role,
    /// How long the code is good.
    pub expires_in_ms: u64,
}

impl std::fmt::Debug for ConsoleCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConsoleCode")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// A person at the console.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Visit {
    pub id: String,
    /// The credential, by id and name.
    pub caller: String,
    pub name: String,
    pub role: Role,
    pub since_ms: u64,
    pub seen_ms: u64,
    /// Whether its browser signs what it sends; if not, every act needs a fresh code.
    pub signs: bool,
}
