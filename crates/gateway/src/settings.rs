//! What the gate is told: limits, the worker's program, and the servers behind it. Plain data; the program that wires the gate
//! reads files and environment, this crate never does.

mod target;

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use policy::{Budget, Bundle, Influence};
use state::State;
use vocab::{Redacted, ServerId};

pub use target::{
    Access, Allow, Arrivals, Health, HealthMethod, HttpKind, Rate, ServerSpec, Standing,
    TargetSpec, Text, ToolRule, Transport,
};

use crate::{Credential, Pins};

/// A user's own credential for a server, if the user has connected an account there.
pub type Accounts =
    Arc<dyn Fn(&ServerId, &str) -> Result<Option<Redacted<String>>, String> + Send + Sync>;

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
    /// A reader that takes nothing for this long is let go.
    pub write_timeout: Duration,
    /// A server's question to a client waits this long for its answer.
    pub question_timeout: Duration,
    /// How many descriptors this process may have open.
    pub descriptors: usize,
}

#[derive(Clone)]
pub struct WorkerSettings {
    pub program: PathBuf,
    pub args: Vec<String>,
    /// The `PATH` that stdio servers get; nothing else of the host's environment is passed on.
    pub path: String,
    pub total_bytes: usize,
}

/// What every request and call is held to besides the rules. Replaced on the fly; whoever needs one looks it up when it counts.
#[derive(Debug, Clone)]
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

/// A configuration that takes the place of the one in force.
#[derive(Debug)]
pub struct Configuration {
    pub servers: Vec<ServerSpec>,
    pub credentials: Vec<Credential>,
    pub rules: Rules,
    pub terms: Terms,
    /// Keys whose new values a running gate cannot take; it goes on with those it has.
    pub awaiting_restart: Vec<&'static str>,
}

pub struct Settings {
    pub terms: Terms,
    pub worker: WorkerSettings,
    pub servers: Vec<ServerSpec>,
    /// Where catalog snapshots rest between runs.
    pub snapshots: PathBuf,
    /// 32 bytes that wrap what clients carry for us.
    pub wrapper_key: [u8; 32],
    pub vault: Vault,
    pub accounts: Accounts,
    pub rules: Rules,
    /// Sessions and approvals, kept over restarts.
    pub state: State,
    /// The approved definitions.
    pub pins: Arc<Pins>,
    pub signing: Signing,
    /// Proofs that came with access tokens.
    pub proofs: Proofs,
}

/// Proofs of possession that were spent.
pub struct Proofs {
    pub replay: Arc<identity::Replay>,
    /// Keeps the file that stands behind it short; called every so often.
    pub tidy: Tidy,
}

impl fmt::Debug for Proofs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proofs")
            .field("replay", &self.replay)
            .finish_non_exhaustive()
    }
}

/// Identity providers whose access tokens are taken. Replaced with the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuth {
    /// The address under which clients know this gate; what a token must be for.
    pub resource: String,
    /// Scopes that every token must have.
    pub scopes: Vec<String>,
    pub proofs: ProofDemand,
    pub issuers: Vec<Issuer>,
}

impl OAuth {
    /// Scheme, host and port of the resource.
    #[must_use]
    pub fn origin(&self) -> &str {
        let after_scheme = self.resource.find("://").map_or(0, |at| at + 3);
        let end = self
            .resource
            .get(after_scheme..)
            .and_then(|rest| rest.find('/'))
            .map(|slash| after_scheme + slash);
        end.and_then(|end| self.resource.get(..end))
            .unwrap_or(&self.resource)
    }

    /// Host and port of the resource, as a `Host` header names them.
    #[must_use]
    pub fn authority(&self) -> &str {
        self.origin()
            .split_once("://")
            .map_or("", |(_, authority)| authority)
    }

    /// The path of the resource; empty if it is the whole origin.
    #[must_use]
    pub fn path(&self) -> &str {
        self.resource
            .strip_prefix(self.origin())
            .unwrap_or_default()
            .trim_end_matches('/')
    }

    /// Every scope there is a use for here.
    #[must_use]
    pub fn all_scopes(&self) -> Vec<&str> {
        let mut all: Vec<&str> = self.scopes.iter().map(String::as_str).collect();
        for scope in self
            .issuers
            .iter()
            .filter_map(|issuer| issuer.operator_scope.as_deref())
        {
            if !all.contains(&scope) {
                all.push(scope);
            }
        }
        all
    }
}

/// Whether access tokens are bound to keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProofDemand {
    Off,
    Allowed,
    Required,
}

impl ProofDemand {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Allowed => "allowed",
            Self::Required => "required",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer {
    pub issuer: String,
    pub keys: KeySource,
    /// What its tokens must be for, where that is not the resource.
    pub audience: Option<String>,
    /// The claims that name the user, the tenant and the departments; the user is the subject if none is named.
    pub user_claim: Option<String>,
    pub tenant_claim: Option<String>,
    pub departments_claim: Option<String>,
    /// The scope that makes its holder an operator.
    pub operator_scope: Option<String>,
}

#[derive(Debug, Clone)]
pub enum KeySource {
    /// Fetched by the worker, and again when they change.
    Url(String),
    /// From a file, as it was when the configuration was read.
    Given(Arc<identity::Jwks>),
}

impl PartialEq for KeySource {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Url(a), Self::Url(b)) => a == b,
            (Self::Given(a), Self::Given(b)) => a.ring() == b.ring(),
            _ => false,
        }
    }
}

impl Eq for KeySource {}

/// Keeps what stands behind the replay window short.
pub type Tidy = Box<dyn Fn(&identity::Replay) -> std::io::Result<()> + Send + Sync>;

/// What sessions of signed calls stand on.
pub struct Signing {
    /// They sign our tokens and recognise them.
    pub keys: identity::TokenKeys,
    pub terms: SealTerms,
    /// The envelopes that were used, of earlier runs too.
    pub replay: Arc<identity::Replay>,
    /// Keeps the file that stands behind it short; called every so often.
    pub tidy: Tidy,
    pub random: secrets::Entropy,
    /// Of earlier runs.
    pub sessions: Vec<state::SavedSigned>,
    /// What their executions have used up.
    pub used: Vec<state::UsedCalls>,
    /// Workloads that were launched and may still attest.
    pub workloads: Vec<state::Workload>,
}

/// What sessions of signed calls begin under. Replaced as a whole; sessions that have begun keep their time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealTerms {
    /// Tokens say that they are of this issuer; others are not accepted.
    pub issuer: String,
    pub audiences: Vec<String>,
    /// How long a session lasts.
    pub ttl: Duration,
    pub max_sessions_per_workload: usize,
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
            .field("terms", &self.terms)
            .field("servers", &self.servers)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for WorkerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerSettings")
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Signing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signing")
            .field("terms", &self.terms)
            .finish_non_exhaustive()
    }
}
