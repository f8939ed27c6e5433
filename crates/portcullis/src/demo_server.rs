//! Two small MCP servers this program plays itself, so that the first minute needs nothing installed.
//!
//! `notes` holds a few invented confidential notes; `web` pretends to be the public internet and sends nothing anywhere. They speak
//! MCP on standard input and output in both eras: with a handshake (2025-11-25 and before) and without (2026-07-28). They know
//! nothing of the gate, must not panic whatever they are sent, and end when their input does.

use std::io::{self, BufRead, Read as _, Write};

use serde_json::{Map, Value, json};

mod notes;
mod web;

const MODERN: &str = "2026-07-28";
const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
/// The longest line that is read; what is longer is answered with an error and skipped.
const MAX_LINE: u64 = 1 << 20;

const PARSE_ERROR: i64 = -32_700;
const INVALID_REQUEST: i64 = -32_600;
const METHOD_NOT_FOUND: i64 = -32_601;
const INVALID_PARAMS: i64 = -32_602;
const UNSUPPORTED_VERSION: i64 = -32_022;

/// Which server to play.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demo {
    Notes,
    Web,
}

/// What a tool, resource or prompt answers.
type Answer = Result<Value, Problem>;

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq)]
struct Problem {
    code: i64,
    message: String,
    data: Option<Value>,
}

impl Problem {
    fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }
}

/// Serves until the input ends.
pub fn serve(demo: Demo, mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        let whole = line.ends_with(b"\n");
        if !whole && read as u64 == MAX_LINE {
            skip_line(&mut input)?;
            send(
                &mut output,
                &failure(
                    &Value::Null,
                    &Problem::new(INVALID_REQUEST, "the line is too long"),
                ),
            )?;
            continue;
        }
        if let Some(reply) = respond(demo, &line) {
            send(&mut output, &reply)?;
        }
    }
}

fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        let (used, found) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        input.consume(used);
        if found {
            return Ok(());
        }
    }
}

fn send(output: &mut impl Write, reply: &Value) -> io::Result<()> {
    let mut line = reply.to_string();
    line.push('\n');
    output.write_all(line.as_bytes())?;
    output.flush()
}

/// The reply to one line, if it asks for one.
fn respond(demo: Demo, line: &[u8]) -> Option<Value> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return None;
    }
    match serde_json::from_slice::<Value>(line) {
        Err(_) => Some(failure(
            &Value::Null,
            &Problem::new(PARSE_ERROR, "this is not JSON"),
        )),
        Ok(Value::Array(batch)) => {
            let replies: Vec<Value> = batch
                .iter()
                .filter_map(|message| message_reply(demo, message))
                .collect();
            (!replies.is_empty()).then_some(Value::Array(replies))
        }
        Ok(message) => message_reply(demo, &message),
    }
}

fn message_reply(demo: Demo, message: &Value) -> Option<Value> {
    let id = message.get("id");
    let Some(method) = message.get("method").and_then(Value::as_str) else {
        // An answer to something we never asked, or nonsense. Only nonsense with an id is worth a reply.
        let is_answer = message.get("result").is_some() || message.get("error").is_some();
        let id = id.filter(|_| !is_answer)?;
        return Some(failure(
            id,
            &Problem::new(INVALID_REQUEST, "a request has a `method`"),
        ));
    };
    let id = id?;
    let params = message.get("params").cloned().unwrap_or_else(|| json!({}));
    Some(match request(demo, method, &params) {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(problem) => failure(id, &problem),
    })
}

fn failure(id: &Value, problem: &Problem) -> Value {
    let mut error = json!({ "code": problem.code, "message": problem.message });
    if let (Some(object), Some(data)) = (error.as_object_mut(), &problem.data) {
        object.insert("data".to_owned(), data.clone());
    }
    json!({ "jsonrpc": "2.0", "id": id, "error": error })
}

fn request(demo: Demo, method: &str, params: &Value) -> Answer {
    let version = params
        .pointer("/_meta")
        .and_then(|meta| meta.get(VERSION_KEY));
    let modern = version.is_some() || method == "server/discover";
    if let Some(requested) = version.filter(|version| version.as_str() != Some(MODERN)) {
        let data = Some(json!({ "supported": [MODERN], "requested": requested }));
        return Err(Problem {
            data,
            ..Problem::new(
                UNSUPPORTED_VERSION,
                "this protocol version is not spoken here",
            )
        });
    }
    let result = match (method, modern) {
        ("initialize", false) => Ok(initialize(demo, params)),
        ("ping" | "logging/setLevel", false) => Ok(json!({})),
        ("server/discover", true) => Ok(discover(demo)),
        ("tools/list", _) => Ok(json!({ "tools": demo.tools() })),
        ("tools/call", _) => call(demo, params),
        _ if demo == Demo::Notes => notes::request(method, params),
        _ => Err(unknown_method(method)),
    }?;
    Ok(if modern {
        modernised(method, result)
    } else {
        result
    })
}

fn unknown_method(method: &str) -> Problem {
    Problem::new(
        METHOD_NOT_FOUND,
        format!("`{}` is not a method of this server", method.escape_debug()),
    )
}

fn initialize(demo: Demo, params: &Value) -> Value {
    let asked = params
        .get("protocolVersion")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let version = LEGACY
        .into_iter()
        .find(|version| *version == asked)
        .unwrap_or("2025-11-25");
    json!({
        "protocolVersion": version,
        "capabilities": demo.capabilities(),
        "serverInfo": demo.info(),
        "instructions": demo.instructions(),
    })
}

fn discover(demo: Demo) -> Value {
    json!({
        "supportedVersions": [MODERN],
        "capabilities": demo.capabilities(),
        "instructions": demo.instructions(),
        "_meta": { "io.modelcontextprotocol/serverInfo": demo.info() },
    })
}

/// What every result of the stateless revision carries.
fn modernised(method: &str, mut result: Value) -> Value {
    let cacheable = matches!(
        method,
        "server/discover"
            | "tools/list"
            | "prompts/list"
            | "resources/list"
            | "resources/templates/list"
            | "resources/read"
    );
    if let Some(object) = result.as_object_mut() {
        object.insert("resultType".to_owned(), json!("complete"));
        if cacheable {
            object.insert("ttlMs".to_owned(), json!(60_000));
            object.insert("cacheScope".to_owned(), json!("public"));
        }
    }
    result
}

fn call(demo: Demo, params: &Value) -> Answer {
    let name = params
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let nothing = Map::new();
    let arguments = match params.get("arguments") {
        Some(Value::Object(arguments)) => arguments,
        None | Some(Value::Null) => &nothing,
        Some(_) => return Err(Problem::new(INVALID_PARAMS, "`arguments` is an object")),
    };
    let outcome = match demo {
        Demo::Notes => notes::call(name, arguments),
        Demo::Web => web::call(name, arguments),
    };
    match outcome {
        None => Err(Problem::new(
            INVALID_PARAMS,
            format!("Unknown tool: {}", name.escape_debug()),
        )),
        Some(Ok(result)) => Ok(result),
        // What the model got wrong, it should read: a result, not a protocol error.
        Some(Err(reason)) => {
            Ok(json!({ "content": [{ "type": "text", "text": reason }], "isError": true }))
        }
    }
}

/// What a tool says: a result, or a sentence about what was wrong with its arguments.
type Said = Result<Value, String>;

fn text_result(text: impl Into<String>) -> Value {
    json!({ "content": [{ "type": "text", "text": text.into() }] })
}

fn text_argument<'a>(arguments: &'a Map<String, Value>, name: &str) -> Result<&'a str, String> {
    arguments
        .get(name)
        .and_then(Value::as_str)
        .ok_or_else(|| format!("`{name}` is missing, or is not text"))
}

/// The schema of an object of text fields, all needed.
fn text_fields(fields: &[(&str, &str)]) -> Value {
    let properties: Map<String, Value> = fields
        .iter()
        .map(|(name, doc)| {
            (
                (*name).to_owned(),
                json!({ "type": "string", "description": doc }),
            )
        })
        .collect();
    let required: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

impl Demo {
    fn info(self) -> Value {
        let name = match self {
            Self::Notes => "portcullis-demo-notes",
            Self::Web => "portcullis-demo-web",
        };
        json!({ "name": name, "version": env!("CARGO_PKG_VERSION") })
    }

    fn instructions(self) -> &'static str {
        match self {
            Self::Notes => "A demo: a few invented notes, to be treated as confidential.",
            Self::Web => "A demo of a public service. Pages are canned and messages go nowhere.",
        }
    }

    fn capabilities(self) -> Value {
        match self {
            Self::Notes => {
                json!({ "tools": {}, "resources": {}, "prompts": {}, "completions": {} })
            }
            Self::Web => json!({ "tools": {} }),
        }
    }

    fn tools(self) -> Value {
        match self {
            Self::Notes => notes::tools(),
            Self::Web => web::tools(),
        }
    }
}

#[cfg(test)]
mod tests;
