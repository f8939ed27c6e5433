//! May they? The ordered checks of a call, and the permit that comes out of them.
//!
//! Synchronous and pure: facts in, evidence or a violation out. The checks are one constant table, run in its order; the first
//! that refuses wins, and no configuration removes a row. Only [`judge`] makes a [`Permit`], and it demands the evidence of
//! every earlier stage by value, so a call cannot reach its effect around a check. Cedar comes last and can only narrow, ask or
//! rewrite what the table let through.

pub mod cedar;
mod checks;
pub mod context;
mod permit;

pub use cedar::{Act, Bundle, Principal, Provenance, Question};
pub use checks::{CHECKS, Check, findings};
pub use context::{Boundary, Contexts, SecurityContext};
pub use permit::{
    Admitted, Asked, Binding, Bounded, Budget, Evidence, Judged, Permit, Rewritten, Shaped,
    Weighed, admit, bound, judge, shape, weigh,
};

use std::time::Duration;

use provenance::Ruling;
use vocab::{Effect, Level, ServerId};
use wire::Json;

/// Where judges find what is sent beside the arguments: `_meta`, answers to questions, what is completed.
pub const BESIDE: &str = "_params";

/// What an operator said about one tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Permission {
    #[default]
    Permitted,
    /// Only for callers whose credential, user, department or agent is named.
    Restricted,
    Blocked,
}

impl Permission {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Permitted => "permitted",
            Self::Restricted => "restricted",
            Self::Blocked => "blocked",
        }
    }
}

/// Where a server stands with its operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerState<'a> {
    /// Nobody has reviewed it.
    Untrusted,
    Classified(Level),
    /// Prohibited, for this reason, whatever else is said.
    Blocked(&'a str),
    /// Switched off, however it was classified.
    Disabled,
}

impl ServerState<'_> {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Untrusted => "UNTRUSTED",
            Self::Classified(_) => "CLASSIFIED",
            Self::Blocked(_) => "BLOCKED",
            Self::Disabled => "DISABLED",
        }
    }
}

/// Whether what the server offers under a name is what was approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing<'a> {
    /// As approved, or of a kind that has no definition.
    Approved,
    /// Not as approved; says how it differs.
    Quarantined(&'a str),
}

/// Whose credential the upstream will see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Account<'a> {
    /// The gate's own.
    Shared,
    /// This user's, which is at hand.
    Connected(&'a str),
    /// This user's, who has not connected an account.
    Missing {
        user: &'a str,
        tenant: Option<&'a str>,
    },
    /// The tool wants a user's, and the caller stands for no user.
    Nobody,
}

/// Counts a call against its limits when asked; says how long to wait when there are too many.
pub trait Meter {
    fn count(&self) -> Result<(), Exceeded>;
}

/// A limit that was reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exceeded {
    /// Which one, in the operator's words.
    pub limit: String,
    /// How many calls it lets through.
    pub calls: u64,
    pub retry_after: Duration,
}

/// No limit.
#[derive(Debug, Clone, Copy)]
pub struct Unmetered;

impl Meter for Unmetered {
    fn count(&self) -> Result<(), Exceeded> {
        Ok(())
    }
}

/// What becomes of a consequential call of a session that has read untrusted data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Influence {
    Off,
    Ask,
    Block,
}

/// Everything the checks may look at.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    pub server: &'a ServerId,
    pub state: ServerState<'a>,
    /// The tool, prompt or resource, by the upstream's own name.
    pub target: &'a str,
    pub permission: Permission,
    pub standing: Standing<'a>,
    /// Whether the server's access list lets the caller in.
    pub may_use_server: bool,
    /// Whether the caller is named for this target: by a grant, a user, a department or an agent.
    pub is_named: bool,
    pub account: Account<'a>,
    pub meter: &'a dyn Meter,
    /// The most secret data the server takes, where that is not its level.
    pub accepts: Option<Level>,
    pub effect: Effect,
    pub influence: Influence,
    /// Whether the person's own words vouch for the call, or what in it they do not. `None`: nobody looked.
    pub ruling: Option<&'a Ruling>,
    /// The arguments, if any were sent.
    pub arguments: Option<Json<'a>>,
    /// Everything that would be sent: the arguments, and under [`BESIDE`] what goes beside them. `None`: nothing.
    pub sent: Option<Json<'a>>,
    /// What the approved definition says of them, if it says anything.
    pub input_schema: Option<&'a shape::Schema>,
    /// Whether texts that look like an attack are refused.
    pub scans_injection: bool,
    /// The dotted name under which a built-in, or what stands in for one, was asked for.
    pub built_in: Option<&'a str>,
    /// How the call stands to its security context. `None`: the caller has none.
    pub boundary: Option<&'a Boundary<'a>>,
    /// Where its paths lead, for a tool that is carried out on volumes.
    pub on_volumes: &'a [OnVolume<'a>],
}

/// Where a path of a call leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnVolume<'a> {
    /// As it was written.
    pub path: &'a str,
    /// The volume there, and whether it is for the caller. `None`: there is none, or none that the caller may know of.
    pub volume: Option<(&'a str, bool)>,
}

impl std::fmt::Debug for Facts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Facts")
            .field("server", self.server)
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
