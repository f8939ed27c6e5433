//! What a world of the model is made of. Plain data: every field is public, and no type says anything about any other.

use serde_json::Value;

use super::ModelSigned;

/// Secrecy, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Public,
    Internal,
    Confidential,
    Restricted,
}

impl Level {
    pub const ALL: [Self; 4] = [
        Self::Public,
        Self::Internal,
        Self::Confidential,
        Self::Restricted,
    ];
}

/// Whom a list admits; with nobody on it, everybody.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Access {
    pub users: Vec<String>,
    pub departments: Vec<String>,
    pub agents: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    Permitted,
    Restricted,
    Blocked,
}

/// How a definition stands to what was approved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Definition {
    Pinned,
    Changed,
    New,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ModelTool {
    pub name: String,
    pub permission: Permission,
    pub definition: Definition,
    pub access: Access,
    pub needs_account: bool,
    /// Calls the tool's own rate limit leaves, where it has one.
    pub calls_left: Option<u32>,
    pub consequential: bool,
    pub input_schema: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ModelServer {
    pub id: String,
    pub blocked: bool,
    pub classification: Option<Level>,
    /// What may be sent to it, where that is not its classification.
    pub accepts: Option<Level>,
    pub access: Access,
    pub calls_left: Option<u32>,
    pub scans_for_injection: bool,
    pub tools: Vec<ModelTool>,
}

impl ModelServer {
    /// The most that may be sent to it; nothing may be sent to one that is not classified.
    #[must_use]
    pub fn ceiling(&self) -> Option<Level> {
        self.classification
            .map(|level| self.accepts.unwrap_or(level))
    }
}

/// What a policy decides where it applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Answers the question that untrusted data raises, and permits nothing.
    Endorse,
    Allow,
    Ask,
    Block,
}

/// One condition of a policy.
#[derive(Clone, Debug, PartialEq)]
pub enum When {
    Server(String),
    Tool(String, String),
    User(String),
    Department(String),
    Agent(String),
    Consequential,
    SecrecyAtLeast(Level),
    Untrusted,
    /// An argument at the top level is this text.
    ArgumentIs(String, String),
    /// Cannot be worked out.
    Fails,
}

/// A policy applies when all its conditions hold; they are looked at in order, until one does not.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelPolicy {
    pub decision: Decision,
    pub when: Vec<When>,
}

/// What the operator wants of sessions that have read what anybody could have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Influence {
    Off,
    Ask,
    Block,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ModelWorld {
    pub servers: Vec<ModelServer>,
    pub influence: Influence,
    pub policies: Vec<ModelPolicy>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelCaller {
    pub user: Option<String>,
    pub departments: Vec<String>,
    pub agent: Option<String>,
    /// Pairs of server and tool; `*` is every tool of that server.
    pub grants: Vec<(String, String)>,
    /// Servers this caller's user has connected an account of.
    pub accounts: Vec<String>,
}

/// One call, with what its session has seen.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCall {
    pub caller: ModelCaller,
    /// Which server of the world, and which of its tools.
    pub server: usize,
    pub tool: usize,
    pub secrecy: Level,
    pub untrusted: bool,
    /// Whether everything it names is in the person's own words.
    pub vouched: bool,
    pub arguments: Value,
    /// Its context, where the call is a signed one.
    pub signed: Option<ModelSigned>,
    /// Where its paths lead, where it is carried out on volumes.
    pub places: Vec<ModelPlace>,
}

/// A path, and whom the volume there is for, where there is one.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelPlace {
    pub path: String,
    pub volume: Option<Access>,
}
