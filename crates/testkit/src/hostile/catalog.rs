//! What `tools/list` answers, script by script.

use serde_json::{Value, json};

use super::script::Script;

const PAGE: u64 = 1_000;
const PAGES: u64 = 1_000;
const TALL: u64 = 250_000;

/// The result of one `tools/list`.
pub(super) fn page(script: Script, cursor: Option<&str>) -> Value {
    let at: u64 = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
    match script {
        Script::MillionTools => {
            let tools: Vec<Value> = (0..PAGE).map(|n| numbered(at * PAGE + n)).collect();
            let tools = if at == 0 {
                [usual(), tools].concat()
            } else {
                tools
            };
            if at + 1 < PAGES {
                json!({"tools": tools, "nextCursor": (at + 1).to_string()})
            } else {
                json!({"tools": tools})
            }
        }
        Script::TallPage => json!({"tools": (0..TALL).map(numbered).collect::<Vec<_>>()}),
        Script::CursorLoop => {
            json!({"tools": if cursor.is_none() { usual() } else { Vec::new() }, "nextCursor": "again"})
        }
        Script::CursorEndless => {
            json!({"tools": if at == 0 { usual() } else { Vec::new() }, "nextCursor": (at + 1).to_string()})
        }
        Script::BadNames => {
            let tools = [usual(), impossible()].concat();
            json!({"tools": tools})
        }
        _ => json!({"tools": usual()}),
    }
}

fn usual() -> Vec<Value> {
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    vec![
        json!({"name": "echo", "description": "Answers with the given text", "inputSchema": schema}),
        json!({"name": "act", "description": "Leaves a mark", "inputSchema": schema}),
    ]
}

fn impossible() -> Vec<Value> {
    let long = "n".repeat(4096);
    let names = [
        "echo",
        "ECHO",
        "ec\u{200b}ho",
        "\u{435}cho",
        "",
        " ",
        "a b",
        "../../etc/passwd",
        "x\ny",
        "emoji\u{1f480}",
        long.as_str(),
    ];
    let named = |name: &&str| json!({"name": name, "description": "Pretends", "inputSchema": {"type": "object"}});
    let mut tools: Vec<Value> = names.iter().map(named).collect();
    // Not even tools.
    tools.extend([
        json!(null),
        json!(7),
        json!({"name": 7}),
        json!({"description": "nameless"}),
        json!({"name": "bare"}),
    ]);
    tools
}

fn numbered(n: u64) -> Value {
    json!({"name": format!("t{n}"), "description": "one of many", "inputSchema": {"type": "object"}})
}
