//! A call as a record remembers it: what a question borrows, owned, and how it ended.

use vocab::{Effect, Level, Mark};

use super::question::{Act, Principal, Question};

/// How a recorded call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ending {
    /// It went ahead by itself.
    Allowed,
    /// It went ahead because a person approved it.
    Approved,
    Refused,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The call's id.
    pub id: String,
    pub caller: String,
    pub user: Option<String>,
    pub agent: Option<String>,
    pub departments: Vec<String>,
    pub context: Option<String>,
    pub is_operator: bool,
    pub act: Act,
    pub server: String,
    pub target: String,
    pub level: Level,
    pub effect: Effect,
    pub is_open_world: bool,
    /// The text of an object, or nothing. A text that is no object is a refusal, as it was when the call was made.
    pub arguments: Vec<u8>,
    pub label: Mark,
    pub session_calls: u64,
    pub target_calls: u64,
    pub now_ms: u64,
    pub door: String,
    pub ending: Ending,
}

impl Default for Recorded {
    /// A plain call of nobody in particular, to be filled in.
    fn default() -> Self {
        Self {
            id: String::new(),
            caller: "someone".to_owned(),
            user: None,
            agent: None,
            departments: Vec::new(),
            context: None,
            is_operator: false,
            act: Act::Call,
            server: String::new(),
            target: String::new(),
            level: Level::Public,
            effect: Effect::Consequential,
            is_open_world: false,
            arguments: Vec::new(),
            label: Mark::default(),
            session_calls: 0,
            target_calls: 0,
            now_ms: 0,
            door: "mcp-http".to_owned(),
            ending: Ending::Allowed,
        }
    }
}

impl Recorded {
    /// The question this call was.
    #[must_use]
    pub fn question(&self) -> Question<'_> {
        Question {
            principal: Principal {
                caller: &self.caller,
                user: self.user.as_deref(),
                agent: self.agent.as_deref(),
                departments: &self.departments,
                context: self.context.as_deref(),
                is_operator: self.is_operator,
            },
            act: self.act,
            server: &self.server,
            target: &self.target,
            level: self.level,
            effect: self.effect,
            is_open_world: self.is_open_world,
            arguments: &self.arguments,
            label: self.label,
            session_calls: self.session_calls,
            target_calls: self.target_calls,
            now_ms: self.now_ms,
            door: &self.door,
            provenance: None,
        }
    }
}
