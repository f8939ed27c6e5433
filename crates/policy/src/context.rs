//! Security contexts: what a signed session may do, step by step.
//!
//! A context lists capabilities and denials; an agent's own list of tools narrows them, and the ceilings of the node bound both.
//! [`examine`] weighs one call against all of it, once, and the rows of the check table read the [`Boundary`] that comes out. Pure:
//! names and arguments in, verdicts out. It must never guess: a text that cannot be read the one way its check reads it is refused,
//! and a value of another type than expected never skips a check.

mod address;
mod bounds;
mod command;
mod denial;
mod domain;
mod examine;
mod keys;
mod mail;
mod path;
mod pattern;
mod reach;
pub(crate) mod refusal;

pub use address::WebAddress;
pub use command::Subcommands;
pub use denial::Denial;
pub use domain::DomainPattern;
pub use examine::{Boundary, Call, Scope, examine};
pub use mail::AccountPattern;
pub use path::{PathPattern, PathProblem, path_names};
pub use pattern::ToolPattern;
pub use refusal::{too_many, too_many_at_once};

use std::{collections::HashMap, fmt, time::Duration};

/// Why a text of the configuration is not what it should be, and how to write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadPattern(pub &'static str);

impl fmt::Display for BadPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for BadPattern {}

/// What sessions of one name may do. Nothing that no capability matches; nothing that a denial matches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SecurityContext {
    pub name: String,
    pub description: String,
    pub capabilities: Vec<Capability>,
    pub deny_list: Vec<Denial>,
    /// Whose it is; `None`: of the node.
    pub tenant: Option<String>,
}

impl SecurityContext {
    /// The tenant that a name speaks for: `tenant-{slug}-…`. A slug with a dash in it must be said beside the name.
    #[must_use]
    pub fn tenant_of(name: &str) -> Option<&str> {
        let (slug, rest) = name.strip_prefix("tenant-")?.split_once('-')?;
        (!slug.is_empty() && !rest.is_empty()).then_some(slug)
    }

    /// Whether a session of this tenant may be in this context.
    #[must_use]
    pub fn admits_tenant(&self, tenant: Option<&str>) -> bool {
        self.tenant.is_none() || self.tenant.as_deref() == tenant
    }

    /// Whether the context alone would let a tool of this name be called with some arguments: for lists of tools, never for deciding.
    #[must_use]
    pub fn may_call(&self, tool: &str) -> bool {
        self.capabilities
            .iter()
            .any(|capability| capability.tool_pattern.matches(tool))
            && !self
                .deny_list
                .iter()
                .any(|denial| denial.denies_all_of(tool))
    }
}

/// Some tools, and within which bounds. What is `None` is not bounded; an empty list allows nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Capability {
    pub tool_pattern: ToolPattern,
    pub path_allowlist: Option<Vec<PathPattern>>,
    pub command_allowlist: Option<Vec<String>>,
    pub subcommand_allowlist: Option<Subcommands>,
    pub domain_allowlist: Option<Vec<DomainPattern>>,
    pub account_allowlist: Option<Vec<AccountPattern>>,
    pub rate_limit: Option<RateLimit>,
    /// Bytes.
    pub max_response_size: Option<u64>,
    pub max_concurrent: Option<u32>,
}

/// So many calls in so many seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    pub calls: u32,
    pub per_seconds: u32,
}

/// What an agent's manifest lists. No tools means none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentTools {
    pub name: String,
    pub tools: Vec<AgentTool>,
    pub max_calls_per_execution: Option<u64>,
    pub subcommand_allowlist: Option<Subcommands>,
    /// The context it asks for.
    pub security_context: Option<String>,
    pub tenant: Option<String>,
}

/// One entry of an agent's list, with what it takes back of the context.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentTool {
    pub pattern: ToolPattern,
    /// Only this server's tools.
    pub server: Option<String>,
    pub subcommand_allowlist: Option<Subcommands>,
    pub max_calls_per_execution: Option<u64>,
    pub allowed_paths: Option<Vec<PathPattern>>,
    pub allowed_domains: Option<Vec<DomainPattern>>,
    pub timeout_ceiling_secs: Option<u64>,
    pub max_output_bytes: Option<u64>,
    /// Variables its commands are not given.
    pub env_denylist: Vec<String>,
}

/// As it is written in a list: `fs.read`, `mcp:search`, or a tool of one server, `fs.read of mcp:search`.
impl fmt::Display for AgentTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.pattern, &self.server) {
            (pattern, None) => write!(f, "{pattern}"),
            (ToolPattern::Any, Some(server)) => write!(f, "mcp:{server}"),
            (pattern, Some(server)) => write!(f, "{pattern} of mcp:{server}"),
        }
    }
}

/// What no manifest and no context exceeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ceilings {
    /// What a command gets that asks for no time of its own.
    pub default_timeout_secs: u64,
    pub max_timeout_ceiling_secs: u64,
    pub max_output_bytes: u64,
    pub max_concurrent_per_execution: u32,
    /// How much the workspace of one caller may hold.
    pub workspace_bytes: u64,
    pub subcommand_allowlist: Option<Subcommands>,
    /// Variables that no command is given.
    pub env_denylist: Vec<String>,
    /// Tools that are switched off on this node.
    pub disabled: Vec<ToolPattern>,
    /// Where `web.search` asks; its arguments do not say.
    pub search_host: String,
}

impl Default for Ceilings {
    fn default() -> Self {
        Self {
            default_timeout_secs: 60,
            max_timeout_ceiling_secs: 300,
            max_output_bytes: 512 << 10,
            max_concurrent_per_execution: 1,
            workspace_bytes: 2 << 30,
            subcommand_allowlist: None,
            env_denylist: Vec::new(),
            disabled: Vec::new(),
            search_host: "html.duckduckgo.com".to_owned(),
        }
    }
}

impl Ceilings {
    #[must_use]
    pub const fn max_timeout(&self) -> Duration {
        Duration::from_secs(self.max_timeout_ceiling_secs)
    }
}

/// Everything configured about signed calls, by name. Immutable; replaced as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Contexts {
    contexts: HashMap<String, SecurityContext>,
    agents: HashMap<String, AgentTools>,
    ceilings: Ceilings,
}

impl Contexts {
    #[must_use]
    pub fn new(
        contexts: impl IntoIterator<Item = SecurityContext>,
        agents: impl IntoIterator<Item = AgentTools>,
        ceilings: Ceilings,
    ) -> Self {
        Self {
            contexts: contexts
                .into_iter()
                .map(|context| (context.name.clone(), context))
                .collect(),
            agents: agents
                .into_iter()
                .map(|agent| (agent.name.clone(), agent))
                .collect(),
            ceilings,
        }
    }

    #[must_use]
    pub fn context(&self, name: &str) -> Option<&SecurityContext> {
        self.contexts.get(name)
    }

    #[must_use]
    pub fn agent(&self, name: &str) -> Option<&AgentTools> {
        self.agents.get(name)
    }

    #[must_use]
    pub const fn ceilings(&self) -> &Ceilings {
        &self.ceilings
    }

    /// The contexts, in the order of their names.
    #[must_use]
    pub fn all(&self) -> Vec<&SecurityContext> {
        let mut all: Vec<&SecurityContext> = self.contexts.values().collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.contexts.is_empty()
    }
}

#[cfg(test)]
mod tests;
