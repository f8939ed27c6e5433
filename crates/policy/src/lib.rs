//! May they? The ordered checks of a call, and the permit that comes out of them.
//!
//! Synchronous and pure: facts in, evidence or a violation out. The checks are one constant table, run in its order; the first
//! that refuses wins, and no configuration removes a row. Only [`judge`] makes a [`Permit`], and it demands the evidence of
//! every earlier stage by value, so a call cannot reach its effect around a check.

mod checks;
mod permit;

pub use checks::{CHECKS, Check};
pub use permit::{Admitted, Bounded, Budget, Permit, Shaped, admit, bound, judge, shape};

use vocab::{Level, ServerId};

/// What an operator said about one tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Permission {
    #[default]
    Permitted,
    /// Only for callers whose credential names it.
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

/// Everything the checks may look at.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    pub server: &'a ServerId,
    /// `None`: nobody has classified the server yet.
    pub classification: Option<Level>,
    /// The tool, prompt or resource, by the upstream's own name.
    pub target: &'a str,
    pub permission: Permission,
    /// Whether the caller's credential names this target.
    pub granted: bool,
    /// Whether the arguments, if any were sent, are an object.
    pub arguments_are_object: bool,
}

#[cfg(test)]
mod tests;
