//! Tasks: a person's words begin a conversation.

use serde::{Deserialize, Serialize};

use crate::{Input, Problem};

/// The longest text of a task. What is beyond the words that are kept was not said.
pub const MAX_TASK: usize = 256 << 10;

/// What a person wants of an agent, in their own words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Task {
    /// The agent's credential, by id or name.
    #[cfg_attr(feature = "schema", schemars(required))]
    pub caller: String,
    /// What the person said.
    #[cfg_attr(feature = "schema", schemars(required))]
    pub text: String,
    /// Adds to what was said in the conversation under way instead of beginning one. Its label stays.
    #[serde(deserialize_with = "crate::input::flag")]
    pub continues: bool,
    /// The label that the conversation has at least: what an agent knew when it left the conversation that it comes back to. Written as
    /// labels are shown, such as `INTERNAL+untrusted`, or `unknown`, which is untrusted and the highest level that the caller may see. It
    /// raises a label and never lowers one.
    pub at_least: Option<String>,
}

/// Stands for a label that nobody knows any more.
pub const UNKNOWN_LABEL: &str = "unknown";

impl Input for Task {
    fn check(&self) -> Result<(), Problem> {
        if self.caller.is_empty() {
            return Err(Problem::invalid(
                "`caller` is missing; name the agent's credential",
            ));
        }
        if self.text.len() > MAX_TASK {
            return Err(Problem::invalid(format!(
                "`text` is longer than {MAX_TASK} bytes"
            )));
        }
        if let Some(label) = self.at_least.as_deref()
            && label != UNKNOWN_LABEL
            && let Err(error) = label.parse::<vocab::Mark>()
        {
            return Err(Problem::invalid(format!("`at_least`: {error}")));
        }
        if self.continues && self.at_least.is_none() && self.text.trim().is_empty() {
            return Err(Problem::invalid(
                "`text` is missing; say what the person said",
            ));
        }
        Ok(())
    }
}

/// A conversation that a task began, or went on with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TaskBegun {
    /// The credential's id.
    pub caller: String,
    /// The label before, and the one it begins with. Only an operator is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub was: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The number of the conversation. Only an operator is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// Whether the person's words are known to it.
    pub has_words: bool,
}
