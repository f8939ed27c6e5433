//! Servers, their tools, and what they define, as an operator sees them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ServerState {
    Connecting,
    Connected,
    Disconnected,
    /// Given up on; waits for a person.
    Failed,
    Disabled,
    /// Prohibited, so it is not started.
    Blocked,
    Skipped,
    #[default]
    #[serde(other)]
    Unknown,
}

impl ServerState {
    const ALL: [Self; 8] = [
        Self::Connecting,
        Self::Connected,
        Self::Disconnected,
        Self::Failed,
        Self::Disabled,
        Self::Blocked,
        Self::Skipped,
        Self::Unknown,
    ];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Disconnected => "disconnected",
            Self::Failed => "failed",
            Self::Disabled => "disabled",
            Self::Blocked => "blocked",
            Self::Skipped => "skipped",
            Self::Unknown => "unknown",
        }
    }

    /// The state of that name; [`ServerState::Unknown`] where there is none.
    #[must_use]
    pub fn named(text: &str) -> Self {
        let named = Self::ALL.into_iter().find(|state| state.as_str() == text);
        named.unwrap_or_default()
    }

    /// Whether the gate is meant to be connected to it.
    #[must_use]
    pub const fn is_wanted(self) -> bool {
        !matches!(self, Self::Disabled | Self::Blocked | Self::Skipped)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Server {
    pub id: String,
    pub state: ServerState,
    /// `stdio`, `http`, `sse`.
    pub transport: String,
    /// The protocol revision in use, once connected.
    pub protocol: Option<String>,
    /// Absent means UNTRUSTED.
    pub classification: Option<String>,
    /// `UNTRUSTED`, `CLASSIFIED` or `BLOCKED`; empty where no gate runs that could say.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub trust: String,
    /// Why nothing of it may be used, if so.
    pub blocked: Option<String>,
    /// Whether what it returns may be anyone's words, and why that is thought.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world_why: Option<String>,
    /// Definitions that wait for `portcullis servers approve`.
    pub quarantined: u64,
    pub tools: u64,
    pub resources: u64,
    pub prompts: u64,
    pub last_error: Option<String>,
    /// Where its login stands; absent if it wants none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub login: Option<Login>,
    pub attempt: u32,
    pub next_retry_ms: Option<u64>,
    /// What holds the server's process back, in a few words; absent for remote servers.
    pub confined: Option<String>,
    /// The last lines a program wrote to its standard error, when it is not connected.
    pub stderr: Option<String>,
    /// What was found wrong with what it offers, such as names that cannot be shown.
    pub remarks: Vec<String>,
}

/// A program that runs in a jail now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Jail {
    /// `server-ID` or `command-NUMBER`.
    pub id: String,
    /// `server` or `command`.
    pub kind: String,
    /// The server, or the caller whose command it is.
    pub of: String,
    /// What runs, in a few words.
    pub program: String,
    /// What holds it back, and what it was granted.
    pub confined: String,
    /// The process outside the jail that stands for it.
    pub pid: Option<u32>,
    /// For how long it has run.
    pub running_ms: Option<u64>,
}

/// Where the login to a server stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Login {
    /// `connected`, `renewal_failing`, `scope_required`, `login_required` or `expired`.
    pub state: String,
    /// The authorization server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// When the token that is used now ends, in seconds of the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// The rights that the server wants beyond those it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scopes: Option<String>,
    /// Why it cannot be renewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Tool {
    /// As the caller sees it.
    pub name: String,
    pub server: String,
    /// As the server calls it.
    pub original: String,
    pub description: Option<String>,
    /// `permitted`, `restricted` or `blocked`.
    pub permission: String,
    /// `read` or `consequential`.
    pub effect: String,
    /// How its server stands: `CLASSIFIED`, `UNTRUSTED`, `BLOCKED` or `DISABLED`.
    pub admission: String,
    /// Who says so: `entry`, `lock` or `name`.
    pub effect_from: String,
    pub open_world: Option<bool>,
    /// Not as approved, so nobody sees it until a person has looked.
    pub quarantined: bool,
    /// Whether callers see it at all.
    pub shown: Option<bool>,
    /// Why its name keeps everyone from seeing or calling it, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// What a server offers, held against what was approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Review {
    pub server: String,
    /// `UNTRUSTED`, `CLASSIFIED` or `BLOCKED`.
    pub state: String,
    pub classification: Option<String>,
    pub open_world: bool,
    /// Why that is so; the first word says whether it is `decided`, `assumed` or `guessed`.
    pub open_world_why: String,
    /// What a person who is asked is advised to say.
    pub open_world_suggested: bool,
    pub open_world_suggested_why: String,
    pub definitions: Vec<Definition>,
}

impl Review {
    /// What waits for a person, by `kind:name`, with the digest it has here.
    #[must_use]
    pub fn waiting(&self) -> BTreeMap<String, String> {
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Definition {
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
    /// `same`, `narrowed`, `widened`, `reworded` or `new`.
    pub verdict: Option<String>,
    /// Lines that begin with `- ` were approved, with `+ ` are there now.
    pub diff: Vec<String>,
}

impl Definition {
    /// Kept from callers until a person has looked.
    #[must_use]
    pub fn waits(&self) -> bool {
        matches!(self.state.as_str(), "changed" | "new")
    }
}

/// How a server stands after an operator changed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ServerChange {
    pub server: String,
    /// `CLASSIFIED` and a level, `BLOCKED` or `unblocked`.
    pub state: String,
    /// Definitions that were approved with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approved: Option<u64>,
}

/// How many definitions of a server were approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Approved {
    pub server: String,
    pub approved: u64,
}
