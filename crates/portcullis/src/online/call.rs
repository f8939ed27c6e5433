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
use vocab::Rule;

use super::{Line, text};
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
    let answered = call(&mut line, &args.tool, Value::Object(arguments));
    waiting.end();
    let result = answered?;
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
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientInfo": { "name": "portcullis-cli", "version": env!("CARGO_PKG_VERSION") },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
    line.exchange("tools/call", &params.to_string())?
        .map_err(|error| Trouble::new(exit_of_error(&error), text(&error, "/message")).about(error))
}

/// Whether a result was delivered, refused, or is a failure.
pub(super) fn exit_of(result: &Value) -> Exit {
    if result.get("isError").and_then(Value::as_bool) != Some(true) {
        return Exit::Done;
    }
    match text(result, "/structuredContent/error_code") {
        _ if is_refusal(text(result, "/structuredContent/violation")) => Exit::Refused,
        "internal" => Exit::Failed,
        _ => Exit::Upstream,
    }
}

/// Whether this is the code of a rule that refuses calls.
pub(super) fn is_refusal(violation: &str) -> bool {
    Rule::ALL.iter().any(|rule| rule.code() == violation)
}

/// The same for a call that was answered with an error. What the gate says carries its own codes; the rest is the server's.
fn exit_of_error(error: &Value) -> Exit {
    let is_gates_own = error.get("code").and_then(Value::as_i64) == Some(gateway::REFUSED);
    match text(error, "/data/error_code") {
        _ if is_refusal(text(error, "/data/violation")) => Exit::Refused,
        "" if is_gates_own => Exit::Refused,
        "internal" => Exit::Failed,
        _ => Exit::Upstream,
    }
}

/// The text parts of a result; parts of another kind are named.
pub(super) fn render(result: &Value) -> String {
    let mut out = String::new();
    let refused = text(result, "/structuredContent/violation");
    if is_refusal(refused) {
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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vocab::Rule;

    use super::{exit_of, exit_of_error};
    use crate::cli::Exit;

    #[test]
    fn every_refusal_exits_as_one_whether_it_is_a_result_or_an_error() {
        for rule in Rule::ALL {
            let envelope = json!({ "status": "error", "error_code": rule.error_code().as_str(), "violation": rule.code() });
            assert_eq!(exit_of(&json!({ "isError": true, "structuredContent": envelope })), Exit::Refused, "{rule}");
            assert_eq!(exit_of_error(&json!({ "code": -32602, "message": "no", "data": envelope })), Exit::Refused, "{rule}");
        }
    }

    #[test]
    fn what_the_server_did_is_the_servers() {
        for (code, exit) in [("upstream_unavailable", Exit::Upstream), ("timeout", Exit::Upstream), ("internal", Exit::Failed)] {
            let envelope = json!({ "status": "error", "error_code": code });
            assert_eq!(exit_of(&json!({ "isError": true, "structuredContent": envelope })), exit);
            assert_eq!(exit_of_error(&json!({ "code": -31002, "message": "no", "data": envelope })), exit);
        }
        assert_eq!(exit_of(&json!({ "isError": true, "content": [] })), Exit::Upstream);
        assert_eq!(exit_of(&json!({ "isError": true, "structuredContent": { "violation": "Mine" } })), Exit::Upstream);
        assert_eq!(exit_of(&json!({ "content": [] })), Exit::Done);
        assert_eq!(exit_of_error(&json!({ "code": -32000, "message": "own" })), Exit::Upstream);
        assert_eq!(exit_of_error(&json!({ "code": gateway::REFUSED, "message": "revoked" })), Exit::Refused);
    }
}
