//! What a client told its hook: which conversation, what happened, and what of it a person typed.
//!
//! **Invariant: what an agent wrote does not become a person's word.** Clients put prompts of their own through the same hook: results of
//! background agents, messages of other sessions, prompts that the agent itself has scheduled, and files that a prompt names. Those open and
//! continue conversations, and nothing of them is said. Tests `what_no_person_typed_is_not_said`, `what_the_agent_scheduled_is_not_said`.

use std::path::{Path, PathBuf};

use home::conversations::Start;
use serde_json::Value;

use super::transcript::Transcript;

/// The longest name of a conversation that is taken. Clients use identifiers of 36 characters.
const LONGEST_ID: usize = 512;
/// Gemini CLI puts the files that a prompt names behind this line.
const GEMINI_FILES: &str = "--- Content from referenced files ---";
/// Prompts that Claude Code runs at a later time, which agents can write.
const CLAUDE_SCHEDULE: &str = ".claude/scheduled_tasks.json";

/// Something that happened to a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    /// The client's name of the conversation.
    pub(super) id: String,
    pub(super) what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    Opened(Start),
    Prompt {
        /// What a person typed, if a person did.
        said: Option<String>,
        /// Nothing shows that a conversation that was called new is not.
        is_clean: bool,
        /// How the conversation was opened, from clients that say it with the prompt.
        start: Option<Start>,
    },
    Ended,
}

impl Event {
    /// Reads what a client wrote. Nothing if it is not for the gate.
    pub(super) fn read(client: &str, text: &[u8]) -> Result<Option<Self>, String> {
        let told: Value = serde_json::from_slice(text)
            .map_err(|error| format!("what the hook was told is not JSON: {error}"))?;
        // Some clients run the hooks of others; what they tell is about another agent, with another credential.
        let is_of_cursor = told.get("cursor_version").is_some();
        if is_of_cursor && client != "cursor" {
            return Ok(None);
        }
        // A part of the agent that the agent itself started. No person talks to it.
        if !field(&told, "agent_id").is_empty() {
            return Ok(None);
        }
        let id = ["conversation_id", "session_id"]
            .map(|name| field(&told, name))
            .into_iter()
            .find(|id| !id.is_empty())
            .ok_or("the hook was not told which conversation it is")?;
        if id.len() > LONGEST_ID {
            return Err(format!(
                "the name of the conversation is longer than {LONGEST_ID} bytes"
            ));
        }
        let what = match field(&told, "hook_event_name") {
            "SessionStart" => What::Opened(start(field(&told, "source"))),
            // Cursor tells of new conversations only.
            "sessionStart" => What::Opened(Start::New),
            "SessionEnd" | "sessionEnd" => What::Ended,
            "UserPromptSubmit" | "BeforeAgent" | "beforeSubmitPrompt" => prompt(client, &told),
            _ => return Ok(None),
        };
        Ok(Some(Self {
            id: id.to_owned(),
            what,
        }))
    }
}

fn start(source: &str) -> Start {
    match source {
        "startup" | "clear" => Start::New,
        _ => Start::Known,
    }
}

fn prompt(client: &str, told: &Value) -> What {
    let typed = field(told, "prompt");
    let transcript = Transcript::read(Path::new(field(told, "transcript_path")));
    let is_clean = match (client, &transcript) {
        // A fork of another conversation says that it is new; only its transcript shows that it is not.
        ("codex", None) => false,
        (_, transcript) => !transcript.as_ref().is_some_and(Transcript::has_agent),
    };
    let schedule = (client == "claude-code")
        .then(|| Transcript::read(&PathBuf::from(field(told, "cwd")).join(CLAUDE_SCHEDULE)))
        .flatten();
    let is_of_agent = transcript.is_some_and(|transcript| transcript.agent_wrote(typed))
        || schedule.is_some_and(|schedule| schedule.holds(typed));
    let said = (!is_wrapped(typed) && !is_of_agent).then(|| {
        let typed = match client {
            "gemini" => typed.split(GEMINI_FILES).next().unwrap_or_default(),
            _ => typed,
        };
        typed.to_owned()
    });
    let source = told.get("source").and_then(Value::as_str);
    What::Prompt {
        said,
        is_clean,
        start: source.map(start),
    }
}

/// Whether a prompt begins with an element, such as `<task-notification>`: that is how clients write what no person typed.
fn is_wrapped(prompt: &str) -> bool {
    let Some(after) = prompt.trim_start().strip_prefix('<') else {
        return false;
    };
    let name =
        after.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    after.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.starts_with(|c: char| c == '>' || c.is_whitespace())
}

fn field<'a>(told: &'a Value, name: &str) -> &'a str {
    told.get(name).and_then(Value::as_str).unwrap_or_default()
}
