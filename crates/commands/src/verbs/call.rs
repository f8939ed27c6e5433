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

use home::{
    Home,
    tokens::{TokenText, Tokens},
};
use serde_json::{Value, json, value::RawValue};
use terminal::{Exit, Screen, Trouble, style::tame};

use crate::{
    args, chosen_credential,
    line::{Line, text},
    out_file,
    result::{Outcome, is_refusal},
};

/// A call that takes longer than this may be waiting for a person.
const LOOK: Duration = Duration::from_millis(700);

const REVISION: &str = "2026-07-28";

pub fn run(args: &args::Call, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let arguments = read_arguments(&args.arguments)?;
    let token = chosen_credential::chosen(&args.who, home)?;
    let caller = token.as_ref().and_then(|token| id_of(home, token));
    let mut line = Line::with_token(home, token, None)?;
    let waiting = Waiting::begin(home.clone(), caller);
    let answered = call(&mut line, &args.tool, arguments.get());
    waiting.end();
    let outcome = answered?;
    match &args.out {
        Some(file) if outcome.exit() == Exit::Done => {
            let bytes = outcome.save(file, args.part)?;
            if !out_file::is_stdout(file) {
                let text = format!("{bytes} bytes are in {}\n", file.display());
                screen.show(&json!({ "file": file, "bytes": bytes }), &text)?;
            }
        }
        _ => outcome.show(screen)?,
    }
    Ok(outcome.exit())
}

fn id_of(home: &Home, token: &TokenText) -> Option<String> {
    Tokens::load(&home.tokens_file())
        .ok()?
        .verify(token.expose())
        .map(|credential| credential.id.clone())
}

/// Says on standard error when the call waits for a person, since the answer can then take as long as people take.
struct Waiting(Arc<AtomicBool>);

impl Waiting {
    fn begin(home: Home, caller: Option<String>) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let watched = Arc::clone(&over);
        thread::spawn(move || {
            thread::sleep(LOOK);
            while !watched.load(Ordering::Acquire) {
                if let Some(id) = own_approval(&home, caller.as_deref()) {
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
fn own_approval(home: &Home, caller: Option<&str>) -> Option<String> {
    let mut line = Line::as_operator(home).ok()?;
    let approvals = line.ask(api::ask::Approvals).ok()?;
    let own = approvals
        .into_iter()
        .filter(|approval| approval.state == "pending" && Some(&*approval.caller) == caller);
    own.max_by_key(|approval| approval.asked_ms)
        .map(|approval| approval.id)
}

/// The arguments as they were written: what is checked here is only that they are a JSON object.
fn read_arguments(given: &str) -> Result<Box<RawValue>, Trouble> {
    let mut text = given.to_owned();
    if given == "-" {
        text.clear();
        io::stdin().lock().read_to_string(&mut text)?;
    }
    match serde_json::from_str::<Box<RawValue>>(&text) {
        Ok(arguments) if arguments.get().starts_with('{') => Ok(arguments),
        Ok(_) => Err(Trouble::usage(
            "arguments must be a JSON object, such as '{\"query\": \"launch\"}'",
        )),
        Err(error) => Err(Trouble::usage(format!("arguments are not JSON: {error}"))),
    }
}

/// Calls a tool in the stateless dialect. `arguments` are JSON, and are sent as they are but for line breaks between their parts.
pub fn call(line: &mut Line, tool: &str, arguments: &str) -> Result<Outcome, Trouble> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientInfo": { "name": "portcullis-cli", "version": env!("CARGO_PKG_VERSION") },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    // A message is one line. In JSON a line break can only stand between two parts, where a blank means the same.
    let arguments = arguments.replace(['\n', '\r'], " ");
    let params = format!(
        "{{\"name\":{},\"arguments\":{arguments},\"_meta\":{meta}}}",
        json!(tool)
    );
    let answered = line.exchange_text("tools/call", &params)?;
    Outcome::new(answered.map_err(|error| {
        Trouble::new(exit_of_error(&error), text(&error, "/message")).about(error)
    })?)
}

/// The exit code of a call that was answered with an error. What the gate says carries its own codes; the rest is the server's.
fn exit_of_error(error: &Value) -> Exit {
    let is_gates_own = error.get("code").and_then(Value::as_i64) == Some(gateway::REFUSED);
    match text(error, "/data/error_code") {
        _ if is_refusal(text(error, "/data/violation")) => Exit::Refused,
        "" if is_gates_own => Exit::Refused,
        "internal" => Exit::Failed,
        _ => Exit::Upstream,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vocab::{Rule, Stage};

    use super::{exit_of_error, read_arguments};
    use crate::result::Outcome;
    use terminal::Exit;

    fn exit_of(result: &serde_json::Value) -> Exit {
        Outcome::new(result.to_string()).unwrap().exit()
    }

    fn stopped(envelope: &serde_json::Value) -> serde_json::Value {
        json!({ "isError": true, "_meta": { "portcullis/error": envelope } })
    }

    #[test]
    fn every_refusal_exits_as_one_whether_it_is_a_result_or_an_error() {
        for rule in Rule::ALL {
            let envelope = json!({ "status": "error", "error_code": rule.error_code().as_str(), "violation": rule.code() });
            let exit = if rule.stage() < Stage::Dispatch {
                Exit::Refused
            } else {
                Exit::Upstream
            };
            assert_eq!(exit_of(&stopped(&envelope)), exit, "{rule}");
            assert_eq!(
                exit_of_error(&json!({ "code": -32602, "message": "no", "data": envelope })),
                exit,
                "{rule}"
            );
        }
    }

    #[test]
    fn what_the_server_did_is_the_servers() {
        for (code, exit) in [
            ("upstream_unavailable", Exit::Upstream),
            ("timeout", Exit::Upstream),
            ("internal", Exit::Failed),
        ] {
            let envelope = json!({ "status": "error", "error_code": code });
            assert_eq!(exit_of(&stopped(&envelope)), exit);
            assert_eq!(
                exit_of_error(&json!({ "code": -31002, "message": "no", "data": envelope })),
                exit
            );
        }
        assert_eq!(
            exit_of(&json!({ "isError": true, "content": [] })),
            Exit::Upstream
        );
        let posed =
            json!({ "isError": true, "structuredContent": { "violation": "PolicyDenied" } });
        assert_eq!(
            exit_of(&posed),
            Exit::Upstream,
            "a server cannot say that the gate refused"
        );
        assert_eq!(exit_of(&json!({ "content": [] })), Exit::Done);
        assert_eq!(
            exit_of_error(&json!({ "code": -32000, "message": "own" })),
            Exit::Upstream
        );
        assert_eq!(
            exit_of_error(&json!({ "code": gateway::REFUSED, "message": "revoked" })),
            Exit::Refused
        );
    }

    #[test]
    fn arguments_are_sent_as_they_were_written() {
        let text = r#"{"n": 12345678901234567890123, "x": 1e400, "a": 1, "a": 2}"#;
        assert_eq!(read_arguments(text).unwrap().get(), text);
        for wrong in ["[]", "7", "", "{"] {
            assert_eq!(
                read_arguments(wrong).unwrap_err().exit,
                Exit::Usage,
                "{wrong}"
            );
        }
    }
}
