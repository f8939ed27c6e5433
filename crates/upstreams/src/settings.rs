//! What a call can lead to: the terms that every target has, and what only a connection to a server has.

use std::{collections::BTreeMap, fmt, ops::Deref, path::PathBuf, sync::Arc, time::Duration};

use policy::{Budget, Permission};
use sandbox::jailer::Protected;
use vocab::{Effect, Level, ServerId};

pub use callers::settings::{Access, Rate};
pub use sandbox::jailer::{Profile, is_runtime as is_container_runtime};

pub use crate::logins::{Holder, LoginStore};

use crate::{Board, Pins};

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
        env: BTreeMap<String, Text>,
        cwd: Option<PathBuf>,
        /// `None`: an operator said that it runs without one.
        jail: Option<JailSpec>,
    },
    Http {
        url: String,
        kind: HttpKind,
        headers: BTreeMap<String, Text>,
        bearer: Option<Text>,
    },
    /// The entry names neither a command nor a URL.
    Nothing,
}

/// The jail that a stdio server runs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JailSpec {
    pub profile: Profile,
    /// What it sees besides its own home and what its entry names.
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    /// Protected places that it may see all the same.
    pub unprotect: Vec<PathBuf>,
    /// TCP ports it may connect to besides 443 and 53.
    pub ports: Vec<u16>,
    pub listen: bool,
    pub namespaces: bool,
    /// How many bytes its own home may hold on the disk.
    pub home_bytes: u64,
    /// Bytes.
    pub memory: Option<u64>,
    /// Thousandths of a core.
    pub millicores: Option<u64>,
    /// Package runners use what they have, and do not ask for newer versions.
    pub offline_packages: bool,
    /// The socket of the container runtime, if the operator named it.
    pub container_socket: Option<PathBuf>,
}

impl JailSpec {
    /// Whether paths among arguments, variables and as working directory are granted.
    #[must_use]
    pub fn implies_grants(&self) -> bool {
        !self.is_strict() && !self.is_container()
    }

    #[must_use]
    pub fn is_container(&self) -> bool {
        self.profile == Profile::Container
    }

    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.profile == Profile::Strict
    }
}

/// What jails are built with.
#[derive(Debug, Clone)]
pub struct Jails {
    /// The worker program, one of whose roles builds jails.
    pub program: PathBuf,
    /// Where servers have their own homes.
    pub homes: PathBuf,
    /// What no jail sees.
    pub protected: Protected,
    /// Variables that the operator set for the gate, so that programs find certificates.
    pub certificates: Vec<(String, String)>,
    /// Where container runtimes listen, where no entry says.
    pub container_sockets: Vec<PathBuf>,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allow {
    pub sampling: bool,
    pub roots: bool,
    pub elicitation: bool,
}

/// As long as a person may need: nobody's budget, and still an end, so that nothing is kept for ever.
const WITHOUT_BUDGET: Duration = Duration::from_secs(366 * 24 * 3600);

/// What an operator said about one tool, or about all that have no rule of their own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolRule {
    pub permission: Permission,
    pub access: Access,
    pub rate: Option<Rate>,
    /// `None`: as the lock file says.
    pub effect: Option<Effect>,
    /// Whether its results come from outside our trust. `None`: as those of its server.
    pub open_world: Option<bool>,
    /// The longest one call may take. `None`: as at its server.
    pub timeout: Option<Duration>,
    /// It waits for a person itself, so without a time of its own it has as long as it needs.
    pub is_hitl: bool,
    /// Called with the user's own credential for the server, never with the gate's.
    pub requires_user_auth: bool,
    /// What its arguments are for, by path. What is not here is guessed.
    pub roles: BTreeMap<String, provenance::Role>,
    /// Whether callers get its texts sealed.
    pub sealed: Sealing,
}

/// Whether callers get the texts of a result sealed, so that they can pass them on without reading them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sealing {
    Never,
    /// Where a caller asks for it.
    #[default]
    Asked,
    Always,
}

/// What becomes of a definition that was not there, or not like this, when the server was classified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Arrivals {
    #[default]
    Quarantine,
    Accept,
}

/// What an operator said of something that can be called, whoever executes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetSpec {
    pub id: ServerId,
    /// What its results carry.
    pub classification: Option<Level>,
    /// The most secret data it takes. `None`: as its results carry.
    pub accepts: Option<Level>,
    /// Why it is BLOCKED; beats its classification.
    pub blocked: Option<String>,
    pub standing: Standing,
    /// What one call may cost.
    pub budget: Budget,
    pub access: Access,
    pub rate: Option<Rate>,
    pub default_rule: ToolRule,
    pub rules: BTreeMap<String, ToolRule>,
    pub injection_scan: bool,
    pub redact_results: bool,
    /// The tenant it belongs to; for others it does not exist. `None`: it is everybody's.
    pub tenant: Option<String>,
}

impl TargetSpec {
    /// Nobody has said anything of it yet: switched on, UNTRUSTED, and everything is looked at.
    #[must_use]
    pub fn new(id: ServerId, budget: Budget) -> Self {
        Self {
            id,
            classification: None,
            accepts: None,
            blocked: None,
            standing: Standing::Enabled,
            budget,
            access: Access::default(),
            rate: None,
            default_rule: ToolRule::default(),
            rules: BTreeMap::new(),
            injection_scan: true,
            redact_results: true,
            tenant: None,
        }
    }

    #[must_use]
    pub fn rule(&self, tool: &str) -> &ToolRule {
        self.rules.get(tool).unwrap_or(&self.default_rule)
    }

    /// The level, if a person has approved it and nobody has blocked it or switched it off.
    #[must_use]
    pub fn approved(&self) -> Option<Level> {
        self.classification
            .filter(|_| self.blocked.is_none() && self.standing != Standing::Disabled)
    }

    /// The most secret data that may be sent to it.
    #[must_use]
    pub fn ceiling(&self) -> Level {
        self.accepts.or(self.classification).unwrap_or_default()
    }

    /// What one call of a tool may cost, and whether that is held to the most that any call may take: its own time; else none where it
    /// waits for a person; else its server's.
    #[must_use]
    pub fn tool_budget(&self, tool: &str) -> (Budget, bool) {
        let rule = self.rule(tool);
        let (time, is_bounded) = match (rule.timeout, rule.is_hitl) {
            (Some(own), _) => (own, true),
            (None, true) => (WITHOUT_BUDGET, false),
            (None, false) => (self.budget.time, true),
        };
        (
            Budget {
                time,
                ..self.budget
            },
            is_bounded,
        )
    }

    /// What stands between a call and this target.
    #[must_use]
    pub fn admission(&self) -> policy::ServerState<'_> {
        match self.state() {
            policy::ServerState::Blocked(reason) => policy::ServerState::Blocked(reason),
            _ if self.standing == Standing::Disabled => policy::ServerState::Disabled,
            state => state,
        }
    }

    /// UNTRUSTED, CLASSIFIED or BLOCKED.
    #[must_use]
    pub fn state(&self) -> policy::ServerState<'_> {
        match (&self.blocked, self.classification) {
            (Some(reason), _) => policy::ServerState::Blocked(reason),
            (None, Some(level)) => policy::ServerState::Classified(level),
            (None, None) => policy::ServerState::Untrusted,
        }
    }
}

/// One entry of `mcp_servers`, as meant: a target, and how it is connected. It dereferences to the target, so whatever asks only for that
/// takes a server as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSpec {
    pub target: Arc<TargetSpec>,
    pub transport: Transport,
    /// How long one attempt to connect may take. `None`: as is usual for its kind.
    pub connect_timeout: Option<Duration>,
    /// Whether its results come from outside our trust. `None`: nobody has said, so they do.
    pub open_world: Option<bool>,
    pub new_definitions: Arrivals,
    pub narrowed_definitions: Arrivals,
    /// A list of definitions older than this is fetched again before a call.
    pub recheck: Duration,
    pub health: Option<Health>,
    pub allow: Allow,
    /// Dotted names it serves: `web.fetch`, or `web.*` for all of a kind.
    pub capabilities: Vec<String>,
    /// How often a secret that it uses was found changed in its store: another number is another connection.
    pub rotation: u64,
}

impl Deref for ServerSpec {
    type Target = TargetSpec;

    fn deref(&self) -> &TargetSpec {
        &self.target
    }
}

#[cfg(test)]
impl std::ops::DerefMut for ServerSpec {
    fn deref_mut(&mut self) -> &mut TargetSpec {
        Arc::make_mut(&mut self.target)
    }
}

impl ServerSpec {
    /// A server of which nobody has said how it is connected, or anything else.
    #[must_use]
    pub fn new(target: TargetSpec) -> Self {
        Self {
            rotation: 0,
            target: Arc::new(target),
            transport: Transport::Nothing,
            connect_timeout: None,
            open_world: None,
            new_definitions: Arrivals::Quarantine,
            narrowed_definitions: Arrivals::Quarantine,
            recheck: Duration::from_secs(1),
            health: None,
            allow: Allow::default(),
            capabilities: Vec::new(),
        }
    }

    /// The address of a remote server.
    #[must_use]
    pub fn url(&self) -> Option<&str> {
        match &self.transport {
            Transport::Http { url, .. } => Some(url),
            _ => None,
        }
    }

    /// The address that a login would be for: of a remote server that the operator gave no credential.
    #[must_use]
    pub fn login_address(&self) -> Option<&str> {
        match &self.transport {
            Transport::Http {
                url,
                headers,
                bearer: None,
                ..
            } if !headers
                .iter()
                .any(|(_, value)| matches!(value, Text::Secret(_))) =>
            {
                Some(url)
            }
            _ => None,
        }
    }

    /// Whether the gate starts and connects it. What a person blocked or switched off is not started and gets no credential.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.blocked.is_none() && self.standing == Standing::Enabled
    }

    /// Does a change from `self` to `other` need a new connection, or only new rules?
    #[must_use]
    pub fn connects_like(&self, other: &Self) -> bool {
        self.transport == other.transport
            && self.rotation == other.rotation
            && self.standing == other.standing
            && self.runs() == other.runs()
            && self.allow == other.allow
            && self.budget.result_bytes == other.budget.result_bytes
            && self.health == other.health
    }
}

/// Where secrets are leased, at the moment they are spent.
pub type Secrets = Arc<dyn secrets::Store>;

/// The worker's program, and what servers get of the host.
#[derive(Clone)]
pub struct WorkerSettings {
    pub program: PathBuf,
    pub args: Vec<String>,
    /// The `PATH` that stdio servers get; nothing else of the host's environment is passed on.
    pub path: String,
    pub total_bytes: usize,
}

impl fmt::Debug for WorkerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerSettings")
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

/// What the hub stands on.
pub struct HubSettings {
    /// The gate's name and version, as servers are told them.
    pub name: &'static str,
    pub version: &'static str,
    /// The `PATH` that stdio servers get.
    pub host_path: String,
    pub jails: Jails,
    /// Where catalog snapshots rest between runs.
    pub snapshots: PathBuf,
    pub secrets: Secrets,
    pub logins: LoginStore,
    /// The approved definitions.
    pub pins: Arc<Pins>,
    /// Where the servers in force stand.
    pub board: Arc<dyn Board>,
}

impl fmt::Debug for HubSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HubSettings")
            .field("snapshots", &self.snapshots)
            .finish_non_exhaustive()
    }
}
