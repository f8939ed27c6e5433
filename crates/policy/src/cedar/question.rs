//! What a bundle is asked: one caller, one action, one target, and the facts of the moment.

use provenance::Traced;
use vocab::{Effect, Level, Mark};

/// Who calls, as the credential says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Principal<'a> {
    /// The credential's id.
    pub caller: &'a str,
    pub user: Option<&'a str>,
    pub agent: Option<&'a str>,
    pub departments: &'a [String],
    pub context: Option<&'a str>,
    pub is_operator: bool,
}

/// What the caller wants to do. Both completions are the Cedar action `complete`; they differ in what they complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Act {
    Call,
    Read,
    Get,
    CompletePrompt,
    CompleteResource,
    Subscribe,
}

/// What an action acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Tool,
    Prompt,
    Resource,
}

impl Act {
    pub const ALL: [Self; 6] = [
        Self::Call,
        Self::Read,
        Self::Get,
        Self::CompletePrompt,
        Self::CompleteResource,
        Self::Subscribe,
    ];

    /// A word for files and records, one for each act.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Read => "read",
            Self::Get => "get",
            Self::CompletePrompt => "complete_prompt",
            Self::CompleteResource => "complete_resource",
            Self::Subscribe => "subscribe",
        }
    }

    /// The act of that word; plain `complete` is a prompt's.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        if word == "complete" {
            return Some(Self::CompletePrompt);
        }
        Self::ALL.into_iter().find(|act| act.as_str() == word)
    }

    /// The name of the Cedar action.
    #[must_use]
    pub const fn action(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Read => "read",
            Self::Get => "get",
            Self::CompletePrompt | Self::CompleteResource => "complete",
            Self::Subscribe => "subscribe",
        }
    }

    /// The Cedar type of the target.
    #[must_use]
    pub const fn target_type(self) -> &'static str {
        match self.kind() {
            Kind::Tool => "Tool",
            Kind::Prompt => "Prompt",
            Kind::Resource => "Resource",
        }
    }

    pub(super) const fn kind(self) -> Kind {
        match self {
            Self::Call => Kind::Tool,
            Self::Get | Self::CompletePrompt => Kind::Prompt,
            Self::Read | Self::CompleteResource | Self::Subscribe => Kind::Resource,
        }
    }
}

/// Where the arguments of a call came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// Whether a person said anything in this conversation.
    pub has_words: bool,
    pub arguments: Vec<Traced>,
}

#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    pub principal: Principal<'a>,
    pub act: Act,
    /// The server's id; it holds no slash.
    pub server: &'a str,
    /// The tool, prompt or resource, by the upstream's own name.
    pub target: &'a str,
    /// The server's classification.
    pub level: Level,
    pub effect: Effect,
    pub is_open_world: bool,
    /// The text of an object that passed `wire::Json::parse`, or nothing.
    pub arguments: &'a [u8],
    /// The session's mark before this call.
    pub label: Mark,
    pub session_calls: u64,
    pub target_calls: u64,
    /// Milliseconds since 1970, UTC.
    pub now_ms: u64,
    /// The front door the call came through.
    pub door: &'a str,
    /// Where the arguments came from. `None`: nobody knows.
    pub provenance: Option<&'a Provenance>,
}
