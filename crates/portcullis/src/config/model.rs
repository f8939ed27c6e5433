//! The configuration as the rest of the program reads it: plain data, every default filled in.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};

use secrets::SecretRef;
use vocab::{Level, ServerId};

use super::{
    finding::{Finding, Place},
    secret::Text,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    pub listen: SocketAddr,
    pub authentication: Authentication,
    pub allowed_origins: Vec<String>,
    pub limits: Limits,
    pub trust: Trust,
    pub retry: Retry,
    /// In the order of the file; those that are skipped or disabled included.
    pub servers: Vec<ServerEntry>,
    /// What works but should be looked at.
    pub warnings: Vec<Finding>,
}

impl Resolved {
    #[must_use]
    pub fn server(&self, id: &str) -> Option<&ServerEntry> {
        self.servers.iter().find(|server| server.id.as_str() == id)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authentication {
    Bearer,
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub max_body_bytes: u64,
    pub max_depth: usize,
    pub max_header_bytes: u64,
    pub max_result_bytes: u64,
    pub max_concurrent_calls: usize,
    pub max_sessions: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    pub ca_files: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    pub attempts: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerEntry {
    pub id: ServerId,
    pub transport: Transport,
    /// `None` is UNTRUSTED: connected and shown, never called.
    pub classification: Option<Level>,
    pub state: State,
    pub timeout: Duration,
    pub tools: ToolRules,
    pub health: Health,
    pub allow: Allow,
    pub max_result_bytes: u64,
    pub capabilities: Vec<Capability>,
    pub resources: Option<Resources>,
    /// Where the entry stands in the file.
    pub place: Place,
}

impl ServerEntry {
    /// Says the same, wherever it is written: a reload need not reconnect it.
    #[must_use]
    pub fn same_as(&self, other: &Self) -> bool {
        Self { place: other.place, ..self.clone() } == *other
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    Stdio(Stdio),
    Http(Http),
    /// Neither `command` nor `url`; such an entry is always skipped.
    Missing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stdio {
    pub command: String,
    pub args: Vec<String>,
    pub env: BTreeMap<String, Text>,
    pub cwd: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http {
    pub url: String,
    pub headers: BTreeMap<String, Text>,
    pub bearer: Option<SecretRef>,
    pub kind: HttpKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpKind {
    Auto,
    StreamableHttp,
    Sse,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Enabled,
    /// `enabled: false`.
    Disabled,
    /// Cannot be connected as written; the text says why.
    Skipped(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    Permitted,
    Restricted,
    Blocked,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRules {
    /// For tools that are not listed.
    pub default: Permission,
    pub listed: BTreeMap<String, Permission>,
}

impl ToolRules {
    #[must_use]
    pub fn permission(&self, tool: &str) -> Permission {
        self.listed.get(tool).copied().unwrap_or(self.default)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    Off,
    Every { interval: Duration, timeout: Duration, method: HealthMethod },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthMethod {
    Ping,
    ToolsList,
}

/// What the server may ask of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allow {
    pub sampling: bool,
    pub roots: bool,
    pub elicitation: bool,
}

/// A dotted name under which the server's tools can be addressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capability {
    pub name: String,
    pub skip_judge: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    pub cpu_millicores: u64,
    pub memory_mb: u64,
}
