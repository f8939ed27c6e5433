//! What a client has written down of a conversation: whether its agent has answered, and which prompts the agent itself has written.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::Path,
};

use serde_json::Value;

/// The end of a transcript that is read; a client waits meanwhile.
const MOST_BYTES: u64 = 16 << 20;
/// Fields by which agents hand prompts to their clients.
const PROMPTS: [&str; 2] = ["prompt", "message"];

/// The text of a file of the client's: lines of JSON, or one document.
#[derive(Debug)]
pub(super) struct Transcript(String);

impl Transcript {
    /// Nothing if there is no such file, or none that can be read.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let metadata = path.metadata().ok()?;
        if !path.is_absolute() || !metadata.is_file() {
            return None;
        }
        let mut file = File::open(path).ok()?;
        let from = metadata.len().saturating_sub(MOST_BYTES);
        file.seek(SeekFrom::Start(from)).ok()?;
        let mut bytes = Vec::new();
        file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
        Some(Self(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Whether an agent has answered in this conversation, or it was made from one in which an agent has.
    pub(super) fn has_agent(&self) -> bool {
        self.documents().any(|document| {
            let mut is_agents = false;
            walk(&document, &mut |name, value| {
                is_agents |= match (name, value) {
                    ("role", Value::String(role)) => role == "assistant",
                    ("type", Value::String(kind)) => {
                        ["assistant", "function_call", "gemini"].contains(&kind.as_str())
                    }
                    ("forked_from_id" | "history_base", value) => !value.is_null(),
                    _ => false,
                };
            });
            is_agents
        })
    }

    /// Whether the agent handed this prompt to the client in a call of one of the client's own tools.
    pub(super) fn agent_wrote(&self, prompt: &str) -> bool {
        self.documents().any(|document| {
            let mut is_written = false;
            walk(&document, &mut |_, value| {
                is_written |= match kind(value) {
                    "tool_use" => value.get("input").is_some_and(|input| holds(input, prompt)),
                    // The arguments are a text.
                    "function_call" => value
                        .get("arguments")
                        .and_then(Value::as_str)
                        .and_then(|text| serde_json::from_str(text).ok())
                        .is_some_and(|arguments: Value| holds(&arguments, prompt)),
                    _ => false,
                };
            });
            is_written
        })
    }

    /// Whether a prompt stands anywhere in it.
    pub(super) fn holds(&self, prompt: &str) -> bool {
        self.documents().any(|document| holds(&document, prompt))
    }

    fn documents(&self) -> impl Iterator<Item = Value> {
        let whole = serde_json::from_str(&self.0).ok();
        let lines = whole.is_none().then(|| self.0.lines());
        let lines = lines.into_iter().flatten();
        let each = lines.filter_map(|line| serde_json::from_str(line).ok());
        whole.into_iter().chain(each)
    }
}

/// Shows every field, however deep. The parser has bounded how deep that is.
fn walk(value: &Value, show: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                show(name, value);
                walk(value, show);
            }
        }
        Value::Array(items) => {
            for item in items {
                show("", item);
                walk(item, show);
            }
        }
        _ => {}
    }
}

fn kind(value: &Value) -> &str {
    value
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Whether a value hands this prompt over. Clients put words around what they were handed, so most of it is enough.
fn holds(value: &Value, prompt: &str) -> bool {
    let prompt = prompt.trim();
    let mut is_held = false;
    walk(value, &mut |name, value| {
        let text = value.as_str().unwrap_or_default().trim();
        is_held |= PROMPTS.contains(&name)
            && !text.is_empty()
            && text.len() * 2 >= prompt.len()
            && prompt.contains(text);
    });
    is_held
}
