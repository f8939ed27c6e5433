//! The configuration as the rest of the program reads it: plain data, every default filled in.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};

use policy::{
    SecurityContext,
    context::{AgentTools, Ceilings},
};
use secrets::SecretRef;
use vocab::{Effect, Level, ServerId};

use super::{
    finding::{Finding, Place},
    secret::Text,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    pub listen: SocketAddr,
    pub authentication: Authentication,
    pub allowed_origins: Vec<String>,
    pub bundle: Bundle,
    pub untrusted_influence: Influence,
    pub approvals: Approvals,
    pub audit: Audit,
    pub sinks: Vec<sinks::Spec>,
    pub limits: Limits,
    pub trust: Trust,
    pub retry: Retry,
    /// In the order of the file; those that are skipped or disabled included.
    pub servers: Vec<ServerEntry>,
    pub contexts: Vec<SecurityContext>,
    pub agents: Vec<AgentEntry>,
    pub dispatchers: Dispatchers,
    pub seal: Seal,
    pub oauth: Option<OAuth>,
    /// What works but should be looked at.
    pub warnings: Vec<Finding>,
}

impl Resolved {
    #[must_use]
    pub fn server(&self, id: &str) -> Option<&ServerEntry> {
        self.servers.iter().find(|server| server.id.as_str() == id)
    }
}

/// Whose access tokens are taken, and for which address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuth {
    pub resource: String,
    pub scopes: Vec<String>,
    pub dpop: Dpop,
    pub issuers: Vec<OAuthIssuer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dpop {
    Off,
    Allowed,
    Required,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuthIssuer {
    pub issuer: String,
    pub keys: IssuerKeys,
    pub audience: Option<String>,
    pub user_claim: Option<String>,
    pub tenant_claim: Option<String>,
    pub departments_claim: Option<String>,
    pub operator_scope: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IssuerKeys {
    Url(String),
    File(PathBuf),
}

/// An agent, with the manifest its tools are to be read from, if they are not in this file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentEntry {
    pub agent: AgentTools,
    pub manifest: Option<PathBuf>,
    /// Where the entry stands in the file.
    pub place: Place,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dispatchers {
    pub ceilings: Ceilings,
    /// What is said about single built-in tools.
    pub capabilities: Vec<Capability>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seal {
    pub issuer: String,
    pub audiences: Vec<String>,
    pub token_ttl: Duration,
    /// `None`: the gate makes a key of its own.
    pub private_key: Option<NamedFile>,
    pub public_key: Option<NamedFile>,
    pub max_sessions_per_workload: usize,
}

/// A file that the configuration names, and where it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFile {
    pub path: PathBuf,
    pub place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authentication {
    Bearer,
    None,
}

/// Where the policies come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bundle {
    /// One that comes with the program.
    Shipped(&'static str),
    /// A `.cedar` file, or a directory of them.
    At(PathBuf),
}

/// What a session's having read untrusted data does to its consequential calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Influence {
    Off,
    Ask,
    Block,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Approvals {
    pub expiry: Duration,
    pub in_client: bool,
}

/// How long the ledger is kept. `None` is for ever, and without limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Audit {
    pub retention: Option<Duration>,
    pub max_bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub max_body_bytes: u64,
    pub max_depth: usize,
    pub max_header_bytes: u64,
    pub max_result_bytes: u64,
    pub max_concurrent_calls: usize,
    pub max_concurrent_calls_per_caller: usize,
    pub max_sessions: usize,
    pub question_timeout: Duration,
    pub write_timeout: Duration,
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
    /// Why nothing of it may be used, if so.
    pub blocked: Option<String>,
    pub state: State,
    pub access: Access,
    pub rate: Option<Rate>,
    /// `None`: the gate judges by what the server offers.
    pub open_world: Option<bool>,
    pub injection_scan: bool,
    pub redact_results: bool,
    pub definitions: Definitions,
    pub timeout: Duration,
    pub tools: ToolRules,
    pub health: Health,
    pub allow: Allow,
    pub max_result_bytes: u64,
    pub capabilities: Vec<Capability>,
    pub tenant: Option<String>,
    pub resources: Option<Resources>,
    /// Where the entry stands in the file.
    pub place: Place,
}

impl ServerEntry {
    /// Says the same, wherever it is written: a reload need not reconnect it.
    #[must_use]
    pub fn same_as(&self, other: &Self) -> bool {
        let placeless = |entry: &Self| {
            let mut entry = entry.clone();
            entry.place = Place::start();
            entry
                .capabilities
                .iter_mut()
                .for_each(|capability| capability.place = Place::start());
            entry
        };
        placeless(self) == placeless(other)
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

/// Callers by who they are. All empty: everyone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Access {
    pub users: Vec<String>,
    pub departments: Vec<String>,
    pub agents: Vec<String>,
}

impl Access {
    #[must_use]
    pub fn lists_nobody(&self) -> bool {
        self.users.is_empty() && self.departments.is_empty() && self.agents.is_empty()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub calls: u32,
    pub per: Duration,
}

/// What happens to a definition that is not as it was pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    Quarantine,
    Accept,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definitions {
    pub new: Arrivals,
    pub narrowed: Arrivals,
    pub recheck: Duration,
}

/// Who may call a tool, how often, and what calling it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRule {
    pub permission: Permission,
    pub access: Access,
    pub rate: Option<Rate>,
    /// `None`: as noted when the tool was pinned.
    pub effect: Option<Effect>,
    pub requires_user_auth: bool,
}

impl Default for ToolRule {
    fn default() -> Self {
        Self {
            permission: Permission::Permitted,
            access: Access::default(),
            rate: None,
            effect: None,
            requires_user_auth: false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolRules {
    /// For tools that are not listed.
    pub default: ToolRule,
    pub listed: BTreeMap<String, ToolRule>,
}

impl ToolRules {
    #[must_use]
    pub fn rule(&self, tool: &str) -> &ToolRule {
        self.listed.get(tool).unwrap_or(&self.default)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    Off,
    Every {
        interval: Duration,
        timeout: Duration,
        method: HealthMethod,
    },
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
    /// Where it stands, so that two that meet can both be named.
    pub place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    pub cpu_millicores: u64,
    pub memory_mb: u64,
}
