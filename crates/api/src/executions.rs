//! Executions whose commands an executor runs.

use serde::{Deserialize, Serialize};

use crate::{Input, Problem};

/// The longest id of an execution.
const MAX_ID: usize = 128;
/// An execution is begun for a day unless somebody says otherwise, and for thirty at most.
const TTL_SECONDS: u32 = 24 * 60 * 60;
const MAX_TTL_SECONDS: u32 = 30 * TTL_SECONDS;

/// An execution to begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BeginExecution {
    /// The agent's credential, by id or name. Its commands run in the execution.
    #[cfg_attr(feature = "schema", schemars(required))]
    pub caller: String,
    /// The execution of the agent's signed calls that runs there. Without it, all commands of the credential do.
    pub execution: Option<String>,
    /// The most secret data that may be sent there; PUBLIC if not said.
    pub accepts: Option<String>,
    /// Nothing from outside reaches the sandbox, so that what it prints is as trusted as what was sent there.
    #[serde(deserialize_with = "crate::input::flag")]
    pub closed: bool,
    /// For how long; a day if not said.
    #[serde(deserialize_with = "crate::input::number")]
    pub ttl_seconds: Option<u32>,
}

impl BeginExecution {
    #[must_use]
    pub fn ttl_seconds(&self) -> u32 {
        self.ttl_seconds.unwrap_or(TTL_SECONDS)
    }

    /// # Errors
    /// If it names no level.
    pub fn accepts(&self) -> Result<vocab::Level, Problem> {
        match self.accepts.as_deref() {
            None => Ok(vocab::Level::Public),
            Some(text) => text.parse().map_err(|_| {
                Problem::invalid("`accepts` is PUBLIC, INTERNAL, CONFIDENTIAL or RESTRICTED")
            }),
        }
    }
}

impl Input for BeginExecution {
    fn check(&self) -> Result<(), Problem> {
        if self.caller.is_empty() {
            return Err(Problem::invalid(
                "`caller` is missing; name the agent's credential",
            ));
        }
        if let Some(id) = &self.execution {
            let is_plain = id
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte));
            if id.is_empty() || id.len() > MAX_ID || !is_plain {
                return Err(Problem::invalid(format!(
                    "`execution` is 1 to {MAX_ID} letters, digits, `-`, `_`, `.` or `:`"
                )));
            }
        }
        if !(1..=MAX_TTL_SECONDS).contains(&self.ttl_seconds()) {
            return Err(Problem::invalid(format!(
                "`ttl_seconds` is between 1 and {MAX_TTL_SECONDS}"
            )));
        }
        self.accepts().map(drop)
    }
}

/// An execution that has begun, and what its executor needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ExecutionBegun {
    pub execution_id: String,
    /// What the executor proves itself with. It is told once.
    pub token: String,
    /// Where the executor asks for work.
    pub url: String,
    pub expires_at: String,
}

/// An execution as operators see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Execution {
    pub id: String,
    /// The credential whose commands run there.
    pub caller: String,
    /// Whether only signed calls of this execution go there.
    pub signed: bool,
    /// `detached`, `ready`, `running`, `ended` or `expired`.
    pub state: String,
    pub accepts: String,
    pub closed: bool,
    /// Commands that wait for the executor, and commands that it answered.
    pub waiting: u64,
    pub executed: u64,
    /// The command that the executor has now.
    pub running: Option<String>,
    /// Answers that came again, and answers to ids that no dispatch has.
    pub repeated: u64,
    pub unknown: u64,
    /// When the executor was last heard.
    pub heard_at: Option<String>,
    pub made_by: String,
    pub created_at: String,
    pub expires_at: String,
    pub ended_at: Option<String>,
}
