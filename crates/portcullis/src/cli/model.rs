//! What the gate's admin door answers, as the command line reads it.
//!
//! Fields that a gate of another version does not send have a default, and fields it sends in addition are ignored, so that a
//! command line and a gate need not be of one version.

use serde::{Deserialize, Serialize};

mod decide;

pub use decide::{
    ApprovalView, CheckView, DefinitionView, ExplainView, ReviewView, SessionView, StageView,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
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

    /// Whether the gate is meant to be connected to it.
    #[must_use]
    pub const fn is_wanted(self) -> bool {
        !matches!(self, Self::Disabled | Self::Blocked | Self::Skipped)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct ServerView {
    pub id: String,
    pub state: ServerState,
    /// `stdio`, `http`, `sse`.
    pub transport: String,
    /// The protocol revision in use, once connected.
    pub protocol: Option<String>,
    /// Absent means UNTRUSTED.
    pub classification: Option<String>,
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
    pub attempt: u32,
    pub next_retry_ms: Option<u64>,
    /// What holds the server's process back, in a few words; absent for remote servers.
    pub confined: Option<String>,
    /// The last lines a program wrote to its standard error, when it is not connected.
    pub stderr: Option<String>,
    /// What was found wrong with what it offers, such as names that cannot be shown.
    pub remarks: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct ToolView {
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct StatusView {
    pub version: String,
    pub pid: u32,
    pub url: String,
    pub uptime_ms: u64,
    pub authentication: String,
    /// Identity providers whose tokens are taken, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OAuthView>,
    /// Keys of the configuration whose values are in force only after a restart.
    pub awaiting_restart: Vec<String>,
    pub servers: Vec<ServerView>,
    pub callers: Vec<CallerView>,
    pub calls: CallCounts,
    /// The version of the policies in force.
    pub bundle: String,
    /// Calls that wait for a person.
    pub pending_approvals: u64,
    pub ledger: LedgerView,
    pub sinks: Vec<SinkView>,
    pub worker: WorkerView,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct OAuthView {
    pub resource: String,
    /// `off`, `allowed` or `required`.
    pub dpop: String,
    pub issuers: Vec<IssuerView>,
}

/// An identity provider, and what is known of its keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct IssuerView {
    pub issuer: String,
    pub keys: u64,
    /// Since they were last fetched, where they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// Why they could not be fetched again, and whether the last ones are still good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usable: Option<bool>,
}

/// Where events are sent, and how that is going.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct SinkView {
    pub name: String,
    pub kind: String,
    /// `delivering`, `idle`, `failing` or `stopped`.
    pub state: String,
    /// The next event; everything before it is done with.
    pub position: String,
    /// Records between that and the end of the ledger.
    pub lag: u64,
    pub delivered: u64,
    /// Records that were gone before they could be delivered.
    pub lost: u64,
    pub failures: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// A credential that has been used since the gate started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct CallerView {
    pub id: String,
    pub name: String,
    /// What its session has seen.
    pub label: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct CallCounts {
    pub in_flight: u64,
    pub answered: u64,
    pub refused: u64,
    pub failed: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct LedgerView {
    pub path: String,
    pub records: u64,
    /// Why nothing can be recorded, and therefore nothing done.
    pub broken: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct WorkerView {
    pub pid: Option<u32>,
    pub restarts: u64,
    pub confinement: Vec<ConfinementView>,
}

/// One restriction of the worker, and whether this kernel could apply it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct ConfinementView {
    pub name: String,
    pub applied: bool,
    pub detail: String,
}
