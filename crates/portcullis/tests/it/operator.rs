//! The operator's hands: the verbs that change what callers may do, over the command line and over HTTP.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::client::{Called, Client, Era};
use testkit::gate::{Gate, Said};
use testkit::shifty::{Shifty, Shown};

use crate::support::{admin, admin_target, eventually, new_token};

pub(crate) const SOON: Duration = Duration::from_secs(10);

/// Nothing is asked and everything permitted, so that what is left is the floor.
pub(crate) const FLOOR_ONLY: &str = "policy: { bundle: observe }\nuntrusted_influence: off\n";

/// A shifty upstream that shows this.
pub(crate) async fn shifty(shown: Shown) -> Shifty {
    Shifty::start(shown).await.expect("a loopback port")
}

/// Runs a command that must succeed.
pub(crate) async fn done(gate: &Gate, args: &[&str]) -> Said {
    let said = gate.cli(args).await.unwrap();
    assert_eq!(said.code, Some(0), "{args:?}: {said:?}\n{}", gate.output());
    said
}

/// The same, for what it prints as JSON.
pub(crate) async fn told(gate: &Gate, args: &[&str]) -> Value {
    done(gate, &[&["--json"], args].concat())
        .await
        .json()
        .unwrap()
}

/// Sends one of the operator's verbs with parameters; the status and what came back.
pub(crate) async fn post(gate: &Gate, verb: &str, params: &Value) -> (u16, Value) {
    let headers = [("content-type".to_owned(), "application/json".to_owned())];
    let reply = admin_target(gate, verb)
        .send("POST", &headers, params.to_string().into_bytes())
        .await
        .unwrap();
    (reply.status, reply.json().await.unwrap())
}

/// Rereads the configuration file; it must be accepted.
pub(crate) async fn reconfigure(gate: &Gate, yaml: &str) {
    gate.write_config(yaml).unwrap();
    let (status, body) = post(gate, "reload", &json!({})).await;
    assert_eq!(status, 200, "{body}");
}

/// The array a verb answers with, bare or under this name.
pub(crate) async fn listed(gate: &Gate, verb: &str, name: &str) -> Vec<Value> {
    let answer = admin(gate, "GET", verb).await;
    let found = answer.get(name).unwrap_or(&answer).as_array().cloned();
    found.unwrap_or_else(|| panic!("no {name} in {answer}"))
}

/// What the gate knows of one caller's session.
pub(crate) async fn session(gate: &Gate, caller: &str) -> Option<Value> {
    listed(gate, "sessions", "sessions")
        .await
        .into_iter()
        .find(|session| session["name"] == caller || session["caller"] == caller)
}

/// The label of one caller's session, as shown.
pub(crate) async fn label(gate: &Gate, caller: &str) -> String {
    let session = session(gate, caller)
        .await
        .unwrap_or_else(|| panic!("no session of {caller}"));
    session["label"]
        .as_str()
        .map_or_else(|| session["label"].to_string(), str::to_owned)
}

/// What one server's definitions stand at.
pub(crate) async fn definition(gate: &Gate, server: &str, kind: &str, name: &str) -> Value {
    let all = listed(
        gate,
        &format!("servers/{server}/definitions"),
        "definitions",
    )
    .await;
    all.into_iter()
        .find(|one| one["kind"] == kind && one["name"] == name)
        .unwrap_or(Value::Null)
}

/// Waits until a definition is in this state.
pub(crate) async fn await_definition(
    gate: &Gate,
    server: &str,
    kind: &str,
    name: &str,
    state: &str,
) -> Value {
    eventually(
        &format!("{kind} {name} of {server} to be {state}"),
        SOON,
        || async {
            let found = definition(gate, server, kind, name).await;
            if found["state"] == state {
                Ok(found)
            } else {
                Err(found.to_string())
            }
        },
    )
    .await
}

/// A client with a credential of its own.
pub(crate) async fn caller(gate: &Gate, name: &str, options: &[&str], era: Era) -> Client {
    let token = new_token(gate, name, options).await;
    Client::plain(&gate.target().unwrap().with_token(Some(&token)), era)
        .await
        .unwrap()
}

/// A refusal by this rule, in these words.
pub(crate) fn assert_refused(called: &Called, violation: &str, words: &str) {
    assert!(called.is_error, "{}", called.answer);
    assert_eq!(called.violation(), Some(violation), "{}", called.answer);
    let said = called
        .envelope()
        .and_then(|envelope| envelope["error"].as_str())
        .unwrap_or(&called.text);
    assert!(
        said.starts_with(words),
        "'{said}' does not start with '{words}': {}",
        called.answer
    );
}

pub(crate) fn assert_allowed(called: &Called, text: &str) {
    assert!(!called.is_error, "{}", called.answer);
    assert_eq!(called.text, text, "{}", called.answer);
}
