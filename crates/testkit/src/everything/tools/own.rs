//! Tools our own tests need: echo, effects, time, size, environment and changing lists.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rmcp::model::{CallToolResponse, ContentBlock, Tool};
use serde_json::json;

use super::super::resources::WATCHED;
use super::super::world::Change;
use super::{Answer, Call, failure, text, tool, tool_requiring};

pub(super) fn tools() -> Vec<Tool> {
    let count = |about: &str| json!({"type": "integer", "minimum": 0, "description": about});
    vec![
        tool(
            "big",
            "Answers with a text of the asked number of bytes",
            json!({"bytes": count("size of the text"), "of": {"type": "string", "description": "what is repeated"}}),
        ),
        tool(
            "count_effects",
            "Answers with the counters of what calls really did",
            json!({}),
        ),
        tool_requiring(
            "echo",
            "Answers with the given text",
            json!({"text": {"type": "string"}}),
            &["text"],
        ),
        tool(
            "effect",
            "Counts one effect, after an optional wait",
            json!({"ms": count("wait before the effect")}),
        ),
        tool(
            "emit_list_changed",
            "Adds the named tool, or removes it if it is listed, and announces the change",
            json!({"name": {"type": "string", "description": "defaults to added_tool"}}),
        ),
        tool(
            "env",
            "Answers with the environment of the server process as a JSON object",
            json!({}),
        ),
        tool(
            "slow",
            "Sleeps, then answers; counts cancellations",
            json!({"ms": count("how long to sleep")}),
        ),
        tool(
            "test_trigger_prompt_change",
            "Adds or removes a prompt and announces the change",
            json!({}),
        ),
        tool(
            "test_trigger_tool_change",
            "Adds or removes a tool and announces the change",
            json!({}),
        ),
        tool(
            "touch_resource",
            "Announces that a resource changed",
            json!({"which": {"type": "string", "description": "defaults to test://watched-resource"}}),
        ),
    ]
}

pub(super) async fn call(call: &Call<'_>) -> Answer {
    let world = call.world;
    Some(Ok(match call.name() {
        "echo" => match call.text("text") {
            Some(said) => text(said),
            None => failure("echo needs a 'text' argument of type string"),
        },
        "big" => {
            let bytes = usize::try_from(call.number("bytes").unwrap_or(0)).unwrap_or(0);
            let piece = call
                .text("of")
                .filter(|piece| !piece.is_empty())
                .unwrap_or("x");
            text(piece.repeat(bytes / piece.len()))
        }
        "count_effects" => counters(call),
        "effect" => {
            pause(call.number("ms").unwrap_or(0)).await;
            text(count(&world.effects).to_string())
        }
        "slow" => slow(call).await,
        "env" => environment(),
        "emit_list_changed" => {
            let name = call.text("name").unwrap_or("added_tool");
            let present = world.toggle_tool(name);
            text(if present {
                format!("{name} is listed now")
            } else {
                format!("{name} is no longer listed")
            })
        }
        "test_trigger_tool_change" => text(format!(
            "listed: {}",
            world.toggle_tool("test_changing_tool")
        )),
        "test_trigger_prompt_change" => text(format!(
            "listed: {}",
            world.toggle_prompt("test_changing_prompt")
        )),
        "touch_resource" => {
            let uri = call.text("which").unwrap_or(WATCHED);
            world.announce(Change::Resource(uri.to_owned()));
            world.announce(Change::Resources);
            text(format!("announced a change of {uri}"))
        }
        _ => return None,
    }))
}

async fn slow(call: &Call<'_>) -> CallToolResponse {
    let world = call.world;
    let ms = call.number("ms").unwrap_or(100);
    count(&world.started);
    let running = CountCancelledUnlessFinished {
        cancelled: &world.cancelled,
        finished: false,
    };
    tokio::select! {
        () = call.context.ct.cancelled() => failure("cancelled"),
        () = pause(ms) => {
            running.finish(&world.finished);
            text(format!("slept {ms} ms"))
        }
    }
}

/// Counts a cancellation when dropped early: a disconnecting client may have the whole call future dropped, without
/// the cancellation branch ever running.
struct CountCancelledUnlessFinished<'a> {
    cancelled: &'a AtomicU64,
    finished: bool,
}

impl CountCancelledUnlessFinished<'_> {
    fn finish(mut self, finished: &AtomicU64) {
        self.finished = true;
        count(finished);
    }
}

impl Drop for CountCancelledUnlessFinished<'_> {
    fn drop(&mut self) {
        if !self.finished {
            count(self.cancelled);
        }
    }
}

fn counters(call: &Call<'_>) -> CallToolResponse {
    match ContentBlock::json(call.world.effects()) {
        Ok(content) => rmcp::model::CallToolResult::success(vec![content]).into(),
        Err(error) => failure(error.message.to_string()),
    }
}

fn environment() -> CallToolResponse {
    let variables: BTreeMap<String, String> = std::env::vars_os()
        .map(|(name, value)| {
            (
                name.to_string_lossy().into_owned(),
                value.to_string_lossy().into_owned(),
            )
        })
        .collect();
    text(json!(variables).to_string())
}

async fn pause(ms: u64) {
    if ms > 0 {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

fn count(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Ordering::SeqCst) + 1
}
