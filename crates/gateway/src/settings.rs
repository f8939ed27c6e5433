//! What the gate is told: limits, the worker's program, and the servers behind it. Plain data; the program that wires the gate
//! reads files and environment, this crate never does.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use policy::{Budget, Bundle, Influence, context::WebAddress};
use state::State;
use vocab::{Redacted, ServerId};

pub use callers::settings::{
    Access, Issuer, KeySource, OAuth, ProofDemand, Proofs, Rate, Seal, SealTerms, Signing, Tidy,
};
pub use provenance::Role as ArgumentRole;
pub use storage::{Durability, VolumeSpec};
pub use upstreams::settings::{
    Allow, Arrivals, Health, HealthMethod, Holder, HttpKind, JailSpec, Jails, LoginStore, Profile,
    Sealing, Secrets, ServerSpec, Standing, TargetSpec, Text, ToolRule, Transport, WorkerSettings,
    is_container_runtime,
};
pub use upstreams::{commands::CommandSettings, executions::ExecutionSettings, web::WebSettings};

use crate::{Credential, Pins, Program};

/// A user's own account at a server.
#[derive(Debug)]
pub enum Account {
    /// A token that the user handed over.
    Token(Redacted<String>),
    /// A login, whose token is asked for when it is spent.
    Login,
}

/// A user's own account at a server, if the user has connected one there. A namesake in another tenant is another user.
pub type Accounts =
    Arc<dyn Fn(&ServerId, Option<&str>, &str) -> Result<Option<Account>, String> + Send + Sync>;

#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// A reader that takes nothing for this long is let go.
    pub write_timeout: Duration,
    /// A server's question to a client waits this long for its answer.
    pub question_timeout: Duration,
}

/// What every request and call is held to besides the rules. Replaced with the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    pub door: Arc<DoorSettings>,
    /// No call gets more than this.
    pub ceiling: Budget,
    pub max_concurrent_calls: usize,
    /// Calls in flight that one caller may have.
    pub max_calls_per_caller: usize,
    /// Connection attempts before a server is `failed`.
    pub attempts: u32,
}

/// A volume, where callers find it, and who they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeEntry {
    pub spec: VolumeSpec,
    /// The path beneath which callers see it, name by name.
    pub mount: Vec<String>,
    pub access: Access,
    /// The tenant it belongs to; for others it does not exist. `None`: it is everybody's.
    pub tenant: Option<String>,
}

/// What the tools for the web may do, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebTerms {
    /// Who may use them.
    pub access: Access,
    /// Hosts, each alone or with a port, that may also be at `networks`, or at that port.
    pub hosts: Vec<String>,
    /// Ranges of addresses that only those hosts may have.
    pub networks: Vec<String>,
    /// The most that is taken of one answer.
    pub max_bytes: usize,
    /// Requests to one host in a minute.
    pub per_minute: usize,
    /// Asked one after the other, until one has an answer.
    pub engines: Vec<Engine>,
}

/// A search engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Engine {
    pub kind: EngineKind,
    pub address: WebAddress,
    /// Whether the operator wrote the address, and so may have an engine inside.
    pub is_own: bool,
    pub key: Option<Text>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineKind {
    DuckDuckGo,
    SearXng,
    Brave,
}

impl EngineKind {
    pub const ALL: [Self; 3] = [Self::DuckDuckGo, Self::SearXng, Self::Brave];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DuckDuckGo => "duckduckgo",
            Self::SearXng => "searxng",
            Self::Brave => "brave",
        }
    }
}

/// A configuration that takes the place of the one in force.
#[derive(Debug)]
pub struct Configuration {
    pub servers: Vec<ServerSpec>,
    pub volumes: Vec<VolumeEntry>,
    pub web: Option<Arc<WebTerms>>,
    pub credentials: Vec<Credential>,
    pub rules: Rules,
    pub terms: Terms,
    pub seal: Arc<Seal>,
    /// Keys whose new values a running gate cannot take; it goes on with those it has.
    pub awaiting_restart: Vec<&'static str>,
}

pub struct Settings {
    /// The first that is in force.
    pub configuration: Configuration,
    /// What reads the next one.
    pub program: Arc<dyn Program>,
    /// Where the gate's HTTP door is.
    pub url: String,
    pub worker: WorkerSettings,
    pub jails: Jails,
    pub commands: CommandSettings,
    pub web: WebSettings,
    /// Directories of the gate's own, which no volume may hold or lie in.
    pub protected: Vec<PathBuf>,
    /// Where the gate keeps volumes of its own.
    pub own_volumes: PathBuf,
    pub executions: ExecutionSettings,
    /// Where catalog snapshots rest between runs.
    pub snapshots: PathBuf,
    /// Where digests of what people said rest between runs.
    pub said: PathBuf,
    /// 32 bytes that wrap what clients carry for us.
    pub wrapper_key: [u8; 32],
    pub secrets: Secrets,
    /// Where logins to servers rest.
    pub logins: LoginStore,
    pub accounts: Accounts,
    /// Sessions and approvals, kept over restarts.
    pub state: State,
    /// The approved definitions.
    pub pins: Arc<Pins>,
    pub signing: Signing,
    /// Proofs that came with access tokens.
    pub proofs: Proofs,
}

/// What decides besides the servers' own entries. Replaced as a whole.
#[derive(Debug, Clone)]
pub struct Rules {
    pub bundle: Arc<Bundle>,
    /// What becomes of a consequential call of a session that has read untrusted data.
    pub untrusted_influence: Influence,
    pub approvals: ApprovalSettings,
    /// Security contexts, agents' tool lists and the node's ceilings.
    pub contexts: Arc<policy::Contexts>,
    pub oauth: Option<Arc<OAuth>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApprovalSettings {
    /// How long a question to a person stays open.
    pub expiry: Duration,
    /// Whether the person at the client may answer, over the agent's own credential.
    pub in_client: bool,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("configuration", &self.configuration)
            .finish_non_exhaustive()
    }
}
