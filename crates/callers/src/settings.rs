//! What is said of callers: who may use something and how often, whose access tokens are taken, and what sessions of signed calls
//! stand on. Plain data.

use std::{fmt, sync::Arc, time::Duration};

/// Who may use something. Naming nobody means everybody.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Access {
    pub users: Vec<String>,
    pub departments: Vec<String>,
    pub agents: Vec<String>,
}

impl Access {
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.users.is_empty() && self.departments.is_empty() && self.agents.is_empty()
    }
}

/// So many calls in so much time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate {
    pub calls: u32,
    pub per: Duration,
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

/// Identity providers whose access tokens are taken. Replaced with the rules. `K` says where their keys are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuth<K = KeySource> {
    /// The address under which clients know this gate; what a token must be for.
    pub resource: String,
    /// Scopes that every token must have.
    pub scopes: Vec<String>,
    pub proofs: ProofDemand,
    pub issuers: Vec<Issuer<K>>,
}

impl<K> OAuth<K> {
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

    /// The same providers with other keys; the first that fails ends it.
    pub fn with_keys<L, E>(&self, keys: impl Fn(&K) -> Result<L, E>) -> Result<OAuth<L>, E> {
        let issuer = |own: &Issuer<K>| {
            Ok(Issuer {
                issuer: own.issuer.clone(),
                keys: keys(&own.keys)?,
                audience: own.audience.clone(),
                user_claim: own.user_claim.clone(),
                tenant_claim: own.tenant_claim.clone(),
                departments_claim: own.departments_claim.clone(),
                operator_scope: own.operator_scope.clone(),
            })
        };
        Ok(OAuth {
            resource: self.resource.clone(),
            scopes: self.scopes.clone(),
            proofs: self.proofs,
            issuers: self.issuers.iter().map(issuer).collect::<Result<_, E>>()?,
        })
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
pub struct Issuer<K = KeySource> {
    pub issuer: String,
    pub keys: K,
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

/// How sessions of signed calls begin and are recognised. Replaced as a whole.
pub struct Seal {
    /// They sign our tokens and recognise them.
    pub keys: identity::TokenKeys,
    pub terms: SealTerms,
}

/// What sessions of signed calls stand on.
pub struct Signing {
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

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seal")
            .field("terms", &self.terms)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Signing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signing")
            .field("replay", &self.replay)
            .finish_non_exhaustive()
    }
}
