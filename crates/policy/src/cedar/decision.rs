//! What a bundle answers.

use super::rewrite::RewriteOp;

/// The answer, strongest first: a block beats everything, an ask beats a rewrite, a rewrite beats an endorsement, and that beats a plain
/// allow.
///
/// Rewrites are never lost: where a call is both asked about and rewritten, the operations come with the ask and are applied
/// first, so that a person sees the arguments that will be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Allow,
    /// Allowed, and the question that untrusted data raises is answered by these policies.
    Endorse(Vec<Note>),
    Rewrite(Vec<Note>, Vec<RewriteOp>),
    Ask(Vec<Note>, Vec<RewriteOp>),
    Block(Note),
}

impl Decision {
    /// `allow`, `endorse`, `rewrite`, `ask` or `block`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Endorse(_) => "endorse",
            Self::Rewrite(..) => "rewrite",
            Self::Ask(..) => "ask",
            Self::Block(_) => "block",
        }
    }

    /// The policies that decided, in the order of the bundle; none for a plain allow.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        match self {
            Self::Allow => &[],
            Self::Endorse(notes) | Self::Rewrite(notes, _) | Self::Ask(notes, _) => notes,
            Self::Block(note) => std::slice::from_ref(note),
        }
    }

    /// What to do to the arguments before anything else happens to them.
    #[must_use]
    pub fn rewrites(&self) -> &[RewriteOp] {
        match self {
            Self::Rewrite(_, operations) | Self::Ask(_, operations) => operations,
            Self::Allow | Self::Endorse(_) | Self::Block(_) => &[],
        }
    }
}

/// A policy that decided, and what it has to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The policy's `@id`, or `file:line` for one without; [`Note::NO_PERMIT`] where nothing permits.
    pub policy: String,
    /// For the agent: `@agent("…")`.
    pub agent: Option<String>,
    /// For the operator: `@operator("…")`, or what went wrong.
    pub operator: Option<String>,
    /// Where the policy stands; empty and zero for what no policy said.
    pub file: String,
    pub line: u32,
}

impl Note {
    /// What a block is named by when it comes from the absence of a permit.
    pub const NO_PERMIT: &'static str = "no-permit";
    /// What a block is named by when the question could not be put to Cedar at all.
    pub const UNREADABLE: &'static str = "unreadable-question";

    pub(super) fn nobody(name: &str, operator: String) -> Self {
        Self {
            policy: name.to_owned(),
            agent: None,
            operator: Some(operator),
            file: String::new(),
            line: 0,
        }
    }

    #[must_use]
    pub(super) fn because(&self, why: String) -> Self {
        Self {
            operator: Some(why),
            ..self.clone()
        }
    }
}
