//! What the gate is told: limits, the worker's program, and the servers behind it. Plain data; the program that wires the gate
//! reads files and environment, this crate never does.

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc, time::Duration};

use policy::{Budget, Permission};
use vocab::{Level, Redacted, ServerId};

/// Turns a secret reference into its value, or into a sentence that says how to provide it.
pub type Vault = Arc<dyn Fn(&str) -> Result<Redacted<String>, String> + Send + Sync>;

#[derive(Debug, Clone)]
pub struct DoorSettings {
    pub name: &'static str,
    pub version: &'static str,
    pub max_body_bytes: usize,
    pub max_depth: usize,
    pub max_header_bytes: usize,
    pub max_sessions: usize,
    pub allowed_origins: Vec<String>,
    /// Host names accepted besides loopback ones.
    pub allowed_hosts: Vec<String>,
    /// `false` only when the operator turned authentication off.
    pub requires_credential: bool,
}

#[derive(Clone)]
pub struct WorkerSettings {
    pub program: PathBuf,
    pub args: Vec<String>,
    /// The `PATH` that stdio servers get; nothing else of the host's environment is passed on.
    pub path: String,
    pub total_bytes: usize,
}

#[derive(Clone)]
pub struct Settings {
    pub door: DoorSettings,
    pub worker: WorkerSettings,
    /// No call gets more than this.
    pub ceiling: Budget,
    pub max_concurrent_calls: usize,
    /// Connection attempts before a server is `failed`.
    pub attempts: u32,
    pub servers: Vec<ServerSpec>,
    /// Where catalog snapshots rest between runs.
    pub snapshots: PathBuf,
    /// 32 bytes that seal what clients carry for us.
    pub seal_key: [u8; 32],
    pub vault: Vault,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("door", &self.door).field("servers", &self.servers).finish_non_exhaustive()
    }
}

impl fmt::Debug for WorkerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerSettings").field("program", &self.program).finish_non_exhaustive()
    }
}

/// A literal, or the name of a secret.
#[derive(Clone, PartialEq, Eq)]
pub enum Text {
    Literal(String),
    Secret(String),
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // A literal may still be private, so its value is not for logs.
            Self::Literal(_) => f.write_str("literal"),
            Self::Secret(reference) => f.write_str(reference),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    Stdio {
        command: String,
        args: Vec<String>,
        env: Vec<(String, Text)>,
        cwd: Option<PathBuf>,
    },
    Http {
        url: String,
        kind: HttpKind,
        headers: Vec<(String, Text)>,
        bearer: Option<Text>,
    },
    /// The entry names neither a command nor a URL.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpKind {
    Auto,
    Streamable,
    Sse,
}

impl HttpKind {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Streamable => "streamable-http",
            Self::Sse => "sse",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    Enabled,
    Disabled,
    Skipped(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthMethod {
    Ping,
    ListTools,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Health {
    pub interval: Duration,
    /// How long the server may take to answer.
    pub timeout: Duration,
    pub method: HealthMethod,
}

/// What a server may ask of the caller in the middle of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allow {
    pub sampling: bool,
    pub roots: bool,
    pub elicitation: bool,
}

/// One entry of `mcp_servers`, as meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSpec {
    pub id: ServerId,
    pub transport: Transport,
    pub classification: Option<Level>,
    pub standing: Standing,
    pub timeout: Duration,
    pub max_result_bytes: usize,
    pub default_permission: Permission,
    pub permissions: BTreeMap<String, Permission>,
    pub health: Option<Health>,
    pub allow: Allow,
}

impl ServerSpec {
    #[must_use]
    pub fn permission(&self, tool: &str) -> Permission {
        self.permissions.get(tool).copied().unwrap_or(self.default_permission)
    }

    #[must_use]
    pub fn budget(&self) -> Budget {
        Budget { time: self.timeout, result_bytes: self.max_result_bytes }
    }

    /// Does a change from `self` to `other` need a new connection, or only new rules?
    #[must_use]
    pub fn connects_like(&self, other: &Self) -> bool {
        self.transport == other.transport
            && self.standing == other.standing
            && self.allow == other.allow
            && self.max_result_bytes == other.max_result_bytes
            && self.health == other.health
    }
}
