//! What is answered to one message, computed from it and from what is shown at this moment.

use serde_json::{Value, json};

use super::{Books, Shown, lock};

/// What to send back.
pub(super) enum Answer {
    Message(Value),
    /// Nothing: it was a notification.
    Accepted,
    /// A method this server has never heard of.
    Unknown(Value),
}

pub(super) fn answer(books: &Books, message: &Value) -> Answer {
    let (Some(id), Some(method)) = (
        message.get("id"),
        message.get("method").and_then(Value::as_str),
    ) else {
        return Answer::Accepted;
    };
    let params = message.get("params").unwrap_or(&Value::Null);
    if let Some(error) = broken(params) {
        return Answer::Message(json!({"jsonrpc": "2.0", "id": id, "error": error}));
    }
    let shown = lock(&books.shown).clone();
    let result = match method {
        "initialize" => initialize(params, shown),
        "ping" => json!({}),
        "tools/list" => json!({"tools": shown.tools}),
        "prompts/list" => json!({"prompts": shown.prompts}),
        "resources/list" => {
            json!({"resources": shown.resources.unwrap_or_else(|| vec![json!({"uri": "note://1", "name": "note"})])})
        }
        "resources/templates/list" => json!({"resourceTemplates": shown.templates}),
        "tools/call" => call(params, &shown.tools),
        "prompts/get" => prompt(params),
        "resources/read" => read(params),
        "completion/complete" => json!({"completion": {"values": ["one"], "hasMore": false}}),
        "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" => json!({}),
        _ => {
            return Answer::Unknown(
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "Method not found"}}),
            );
        }
    };
    Answer::Message(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn initialize(params: &Value, shown: Shown) -> Value {
    let asked = params
        .get("protocolVersion")
        .and_then(Value::as_str)
        .unwrap_or("2025-11-25");
    let revision = if asked == "2026-07-28" {
        "2025-11-25"
    } else {
        asked
    };
    let listed = json!({"listChanged": true});
    let everything = || {
        json!({"tools": listed, "prompts": listed, "completions": {}, "logging": {},
            "resources": {"listChanged": true, "subscribe": true}})
    };
    let capabilities = shown.capabilities.unwrap_or_else(everything);
    let mut result = json!({"protocolVersion": revision, "capabilities": capabilities,
        "serverInfo": {"name": "shifty", "version": "1"}});
    if let (Some(result), Some(instructions)) = (result.as_object_mut(), shown.instructions) {
        result.insert("instructions".to_owned(), json!(instructions));
    }
    result
}

/// Whatever is called `break`, tool, prompt or resource, answers with a JSON-RPC error in words that no agent should read.
fn broken(params: &Value) -> Option<Value> {
    let named = params.get("name").or_else(|| params.get("uri"))?.as_str()?;
    let code = params
        .pointer("/arguments/code")
        .cloned()
        .unwrap_or(json!(-32050));
    named.ends_with("break").then(
        || json!({"code": code, "message": "Traceback: psycopg2.OperationalError at /srv/x.py", "data": {"query": "select pin"}}),
    )
}

/// A tool that declares what it answers answers so.
fn call(params: &Value, tools: &[Value]) -> Value {
    let name = params
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let argument = |key: &str| params.pointer(&format!("/arguments/{key}"));
    let text = argument("text").and_then(Value::as_str);
    match name {
        "give" => {
            let value = argument("value").cloned().unwrap_or(Value::Null);
            json!({"content": [{"type": "text", "text": value.to_string()}], "structuredContent": value})
        }
        "answer" => argument("result").cloned().unwrap_or_default(),
        "fail" => {
            json!({"content": [{"type": "text", "text": text.unwrap_or("it failed")}], "isError": true})
        }
        _ => {
            let text = text.unwrap_or(name);
            let mut answer = json!({"content": [{"type": "text", "text": text}]});
            let shown = tools
                .iter()
                .find(|tool| tool.get("name").and_then(Value::as_str) == Some(name));
            if let (Some(answer), Some(_)) = (
                answer.as_object_mut(),
                shown.and_then(|tool| tool.get("outputSchema")),
            ) {
                answer.insert("structuredContent".to_owned(), json!({"said": text}));
            }
            answer
        }
    }
}

fn prompt(params: &Value) -> Value {
    let name = params
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    json!({"messages": [{"role": "user", "content": {"type": "text", "text": format!("prompt {name}")}}]})
}

fn read(params: &Value) -> Value {
    let uri = params
        .get("uri")
        .and_then(Value::as_str)
        .unwrap_or_default();
    json!({"contents": [{"uri": uri, "mimeType": "text/plain", "text": format!("read {uri}")}]})
}
