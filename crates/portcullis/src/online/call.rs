//! `portcullis call`: one tool call, as a client would make it.

use std::{
    io::{self, Read as _, Write as _},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::{Map, Value, json};

use super::{Line, line::refused, text};
use crate::{
    cli::{Exit, args, model::ApprovalView, style::tame},
    home::Home,
    offline::{Screen, Trouble},
};

/// A call that takes longer than this may be waiting for a person.
const LOOK: Duration = Duration::from_millis(700);

const REVISION: &str = "2026-07-28";

pub(super) fn run(args: &args::Call, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let arguments = read_arguments(&args.arguments)?;
    let mut line = Line::as_client(home, None)?;
    let waiting = Waiting::begin(home.clone());
    let answered = exchange(&mut line, &args.tool, Value::Object(arguments));
    waiting.end();
    let result = match answered? {
        Ok(result) => result,
        Err(error) => {
            if screen.json {
                screen.show(&json!({ "error": error }), "")?;
            }
            return Err(refused(&error));
        }
    };
    let exit = exit_of(&result);
    screen.show(&result, &render(&result))?;
    Ok(exit)
}

/// Says on standard error when the call waits for a person, since the answer can then take as long as people take.
struct Waiting(Arc<AtomicBool>);

impl Waiting {
    fn begin(home: Home) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let watched = Arc::clone(&over);
        thread::spawn(move || {
            thread::sleep(LOOK);
            while !watched.load(Ordering::Acquire) {
                if let Some(id) = own_approval(&home) {
                    let _ = writeln!(
                        io::stderr(),
                        "This call waits for a person. See it with: portcullis approvals show {}",
                        tame(&id)
                    );
                    return;
                }
                thread::sleep(LOOK);
            }
        });
        Self(over)
    }

    fn end(self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The latest question that waits, of the credential that this command line calls with.
fn own_approval(home: &Home) -> Option<String> {
    let mut line = Line::as_operator(home).ok()?;
    let approvals: Vec<ApprovalView> = line.ask("portcullis/approvals").ok()?;
    let own = approvals.into_iter().filter(|approval| approval.state == "pending" && approval.name == "first-client");
    own.max_by_key(|approval| approval.asked_ms).map(|approval| approval.id)
}

fn read_arguments(given: &str) -> Result<Map<String, Value>, Trouble> {
    let mut text = given.to_owned();
    if given == "-" {
        text.clear();
        io::stdin().lock().read_to_string(&mut text)?;
    }
    match serde_json::from_str(&text) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(_) => Err(Trouble::usage("arguments must be a JSON object, such as '{\"query\": \"launch\"}'")),
        Err(error) => Err(Trouble::usage(format!("arguments are not JSON: {error}"))),
    }
}

/// Calls a tool in the stateless dialect.
pub(super) fn call(line: &mut Line, tool: &str, arguments: Value) -> Result<Value, Trouble> {
    exchange(line, tool, arguments)?.map_err(|error| refused(&error))
}

fn exchange(line: &mut Line, tool: &str, arguments: Value) -> Result<Result<Value, Value>, Trouble> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientInfo": { "name": "portcullis-cli", "version": env!("CARGO_PKG_VERSION") },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    line.exchange("tools/call", &json!({ "name": tool, "arguments": arguments, "_meta": meta }).to_string())
}

/// Whether a result was delivered, refused, or is a failure.
pub(super) fn exit_of(result: &Value) -> Exit {
    if result.get("isError").and_then(Value::as_bool) != Some(true) {
        return Exit::Done;
    }
    match text(result, "/structuredContent/error_code") {
        "permission_denied" => Exit::Refused,
        _ => Exit::Upstream,
    }
}

/// The text parts of a result; parts of another kind are named.
pub(super) fn render(result: &Value) -> String {
    let mut out = String::new();
    let refused = text(result, "/structuredContent/violation");
    if !refused.is_empty() {
        out.push_str(&format!("refused ({refused}): "));
    }
    for part in result.get("content").and_then(Value::as_array).into_iter().flatten() {
        match text(part, "/type") {
            "text" => {
                for line in text(part, "/text").lines() {
                    out.push_str(&tame(line));
                    out.push('\n');
                }
            }
            other => out.push_str(&format!("[{}]\n", tame(other))),
        }
    }
    if out.is_empty() {
        out.push_str("(no content)\n");
    }
    out
}
