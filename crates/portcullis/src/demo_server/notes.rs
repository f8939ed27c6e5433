//! The notes: three tools, the notes as resources, one prompt.

use serde_json::{Map, Value, json};

use super::{
    Answer, INVALID_PARAMS, Problem, Said, text_argument, text_fields, text_result, unknown_method,
};

struct Note {
    id: &'static str,
    title: &'static str,
    text: &'static str,
}

const NOTES: [Note; 3] = [
    Note {
        id: "launch-plan",
        title: "Launch plan for Heron",
        text: "(demo note, invented) Heron launches on 3 March. Until then the date and the price, 49 a month, stay inside the team.",
    },
    Note {
        id: "supplier-call",
        title: "Call with the battery supplier",
        text: "(demo note, invented) They can deliver 800 units by May if we sign this week. Our limit is 21 per unit; they do not know it.",
    },
    Note {
        id: "team-lunch",
        title: "Team lunch",
        text: "(demo note, invented) Thursday, the place by the river. Ask Ines about the terrace.",
    },
];

const SCHEME: &str = "notes://";

pub(super) fn tools() -> Value {
    let reads = json!({ "readOnlyHint": true, "openWorldHint": false });
    json!([
        {
            "name": "search_notes",
            "title": "Search notes",
            "description": "Finds notes whose title or text contains the words. An empty query lists all.",
            "inputSchema": text_fields(&[("query", "Words to look for")]),
            "outputSchema": {
                "type": "object",
                "properties": { "notes": { "type": "array", "items": text_fields(&[("id", "For read_note"), ("title", "Its title")]) } },
                "required": ["notes"]
            },
            "annotations": reads,
        },
        {
            "name": "read_note",
            "title": "Read a note",
            "description": "Returns the whole text of one note.",
            "inputSchema": text_fields(&[("id", "As search_notes gives it")]),
            "annotations": reads,
        },
        {
            "name": "echo",
            "title": "Echo",
            "description": "Says back what it was told.",
            "inputSchema": text_fields(&[("text", "What to say")]),
            "annotations": reads,
        },
    ])
}

pub(super) fn call(tool: &str, arguments: &Map<String, Value>) -> Option<Said> {
    Some(match tool {
        "search_notes" => text_argument(arguments, "query").map(search),
        "read_note" => text_argument(arguments, "id").and_then(|id| match find(id) {
            Some(note) => Ok(text_result(format!("{}\n\n{}", note.title, note.text))),
            None => Err(format!(
                "there is no note `{}`; search_notes lists them",
                id.escape_debug()
            )),
        }),
        "echo" => text_argument(arguments, "text").map(text_result),
        _ => return None,
    })
}

fn search(query: &str) -> Value {
    let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
    let contains = |note: &&Note| {
        let text = format!("{} {}", note.title, note.text).to_lowercase();
        words.iter().all(|word| text.contains(word.as_str()))
    };
    let found: Vec<&Note> = NOTES.iter().filter(contains).collect();
    let lines: Vec<String> = found
        .iter()
        .map(|note| format!("{}: {}", note.id, note.title))
        .collect();
    let text = if lines.is_empty() {
        "No note contains that.".to_owned()
    } else {
        lines.join("\n")
    };
    let listed: Vec<Value> = found
        .iter()
        .map(|note| json!({ "id": note.id, "title": note.title }))
        .collect();
    json!({ "content": [{ "type": "text", "text": text }], "structuredContent": { "notes": listed } })
}

fn find(id: &str) -> Option<&'static Note> {
    NOTES.iter().find(|note| note.id == id)
}

/// Everything but tools.
pub(super) fn request(method: &str, params: &Value) -> Answer {
    match method {
        "resources/list" => {
            Ok(json!({ "resources": NOTES.iter().map(resource).collect::<Vec<_>>() }))
        }
        "resources/templates/list" => Ok(json!({
            "resourceTemplates": [{ "uriTemplate": "notes://{id}", "name": "note", "mimeType": "text/plain", "description": "One note" }]
        })),
        "resources/read" => read(params),
        "prompts/list" => Ok(json!({
            "prompts": [{
                "name": "summarize_note",
                "description": "Asks for a short summary of one note.",
                "arguments": [{ "name": "id", "description": "As search_notes gives it", "required": true }]
            }]
        })),
        "prompts/get" => prompt(params),
        "completion/complete" => Ok(complete(params)),
        _ => Err(unknown_method(method)),
    }
}

fn resource(note: &Note) -> Value {
    json!({ "uri": format!("{SCHEME}{}", note.id), "name": note.id, "title": note.title, "mimeType": "text/plain" })
}

fn read(params: &Value) -> Answer {
    let uri = params
        .get("uri")
        .and_then(Value::as_str)
        .unwrap_or_default();
    match uri.strip_prefix(SCHEME).and_then(find) {
        Some(note) => {
            Ok(json!({ "contents": [{ "uri": uri, "mimeType": "text/plain", "text": note.text }] }))
        }
        None => {
            let data = Some(json!({ "uri": uri }));
            Err(Problem {
                data,
                ..Problem::new(INVALID_PARAMS, "Resource not found")
            })
        }
    }
}

fn prompt(params: &Value) -> Answer {
    let name = params
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let id = params
        .pointer("/arguments/id")
        .and_then(Value::as_str)
        .unwrap_or_default();
    match (name, find(id)) {
        ("summarize_note", Some(note)) => Ok(json!({
            "description": format!("Summary of {}", note.title),
            "messages": [{
                "role": "user",
                "content": { "type": "text", "text": format!("Summarize in one sentence:\n\n{}", note.text) }
            }]
        })),
        ("summarize_note", None) => Err(Problem::new(
            INVALID_PARAMS,
            "`id` is missing, or names no note",
        )),
        _ => Err(Problem::new(
            INVALID_PARAMS,
            format!("Unknown prompt: {}", name.escape_debug()),
        )),
    }
}

fn complete(params: &Value) -> Value {
    let start = params
        .pointer("/argument/value")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let for_id = params.pointer("/argument/name").and_then(Value::as_str) == Some("id");
    let values: Vec<&str> = NOTES
        .iter()
        .map(|note| note.id)
        .filter(|id| for_id && id.starts_with(start))
        .collect();
    json!({ "completion": { "total": values.len(), "values": values, "hasMore": false } })
}
