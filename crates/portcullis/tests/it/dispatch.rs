//! The dispatch door: executors ask for work and answer, and whatever they say, each call ends once and by its own answer.
//!
//! The tests speak as an executor does. What real ones make of it is in `executors`.

mod ends;
mod schedules;

use std::time::Duration;

use serde_json::{Value, json};
use testkit::client::{Called, Client, Era, Target};
use testkit::gate::Gate;
use tokio::task::JoinHandle;

use crate::operator::{FLOOR_ONLY, SOON, done, told};
use crate::seal::{Agent, violation};
use crate::support::{await_state, config, eventually, gate, new_token, records};

pub(crate) const CONTEXTS: &str = "\
security_contexts:
  hands:
    description: Runs a shell
    capabilities:
      - tool_pattern: cmd.run
        subcommand_allowlist: { sh: ['-c'], git: [status] }
      - tool_pattern: portcullis.*
      - tool_pattern: secret__*
builtin_dispatchers:
  cmd: { default_timeout_secs: 20, max_timeout_ceiling_secs: 30, max_output_bytes: 4 KiB, max_concurrent_per_execution: 8 }
";

pub(crate) async fn open(servers: &[(&str, String)]) -> Gate {
    let gate = gate(&format!("{FLOOR_ONLY}{CONTEXTS}{}", config(servers))).await;
    for (id, _) in servers {
        await_state(&gate, id, "connected", SOON).await;
    }
    gate
}

/// An agent with a credential of its own.
pub(crate) async fn agent(gate: &Gate, name: &str) -> Client {
    let token = new_token(gate, name, &["--context", "hands"]).await;
    client(gate, &token).await
}

async fn client(gate: &Gate, token: &str) -> Client {
    let target = Target::new(gate.url(), Some(token)).unwrap();
    Client::plain(&target, Era::Modern).await.unwrap()
}

pub(crate) fn shell(script: &str) -> Value {
    json!({"command": "sh", "args": ["-c", script]})
}

/// Calls while the test goes on.
fn calls(client: Client, arguments: Value) -> JoinHandle<Called> {
    tokio::spawn(async move { client.call("cmd.run", arguments).await.unwrap() })
}

/// What the executor of an execution knows.
pub(crate) struct Begun {
    pub(crate) id: String,
    pub(crate) token: String,
    door: Target,
}

impl Begun {
    pub(crate) async fn new(gate: &Gate, caller: &str, more: &[&str]) -> Self {
        let begun = told(gate, &[&["executions", "begin", caller], more].concat()).await;
        let text = |key: &str| begun[key].as_str().unwrap().to_owned();
        let token = text("token");
        let door = Target::new(&text("url"), Some(&token)).unwrap();
        Self {
            id: text("execution_id"),
            token,
            door,
        }
    }

    async fn post(&self, door: &Target, message: Vec<u8>) -> (u16, Value) {
        let headers = [("content-type".to_owned(), "application/json".to_owned())];
        let reply = door.send("POST", &headers, message).await.unwrap();
        (reply.status, reply.json().await.unwrap())
    }

    async fn says(&self, message: Value) -> (u16, Value) {
        self.post(&self.door, message.to_string().into_bytes())
            .await
    }

    async fn attach(&self, instance: Option<&str>) -> (u16, Value) {
        self.says(json!({
            "type": "attach", "execution_id": self.id, "protocol": 1, "actions": ["exec", "ping"], "instance": instance,
        }))
        .await
    }

    /// Asks until there is a command.
    async fn dispatch(&self) -> Value {
        for _ in 0..4 {
            let (status, said) = self.attach(Some("one")).await;
            assert_eq!(status, 200, "{said}");
            if said["type"] == "dispatch" {
                return said;
            }
        }
        panic!("nothing to do");
    }

    fn result(&self, dispatch: &Value, stdout: &str) -> Value {
        json!({
            "type": "dispatch_result", "execution_id": self.id, "dispatch_id": dispatch["dispatch_id"], "exit_code": 0,
            "stdout": stdout, "stderr": "", "duration_ms": 5, "truncated": false,
        })
    }

    /// Answers, without waiting for what comes next.
    fn answers(&self, dispatch: &Value, stdout: &str) -> Posting {
        let (message, door) = (self.result(dispatch, stdout), self.door.clone());
        Posting(tokio::spawn(async move {
            let headers = [("content-type".to_owned(), "application/json".to_owned())];
            let _ = door
                .send("POST", &headers, message.to_string().into_bytes())
                .await;
        }))
    }
}

/// An answer on its way, and the wait for what comes next, until it is dropped.
struct Posting(JoinHandle<()>);

impl Drop for Posting {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn shown(gate: &Gate, id: &str) -> Value {
    told(gate, &["executions", "show", id]).await
}

/// How the calls of commands ended, by the ledger.
async fn verdicts(gate: &Gate) -> Vec<String> {
    let records = records(gate).await;
    let ended = records
        .iter()
        .filter(|record| record["kind"] == "outcome" && record["tool"] == "cmd.run");
    ended
        .map(|record| record["verdict"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[tokio::test]
async fn a_command_goes_to_the_executor_of_its_execution() {
    let gate = open(&[]).await;
    let one = agent(&gate, "one").await;
    let begun = Begun::new(&gate, "one", &[]).await;
    let call = calls(
        one,
        json!({"command": "sh", "args": ["-c", "x; y"], "stdin": "in", "cwd": "/workspace/a"}),
    );
    let dispatch = begun.dispatch().await;
    assert_eq!(dispatch["action"], "exec");
    assert_eq!(dispatch["argv"], json!(["sh", "-c", "x; y"]));
    assert_eq!(
        (&dispatch["command"], &dispatch["args"]),
        (&json!("sh"), &json!(["-c", "x; y"]))
    );
    assert_eq!(
        (&dispatch["cwd"], &dispatch["stdin"]),
        (&json!("/workspace/a"), &json!("in"))
    );
    assert_eq!(
        (&dispatch["max_output_bytes"], &dispatch["env_additions"]),
        (&json!(4096), &json!({}))
    );
    assert!((1..=20).contains(&dispatch["timeout_secs"].as_u64().unwrap()));
    let id = dispatch["dispatch_id"].as_str().unwrap();
    assert_eq!(id.len(), 36, "{id}");
    assert_eq!(shown(&gate, &begun.id).await["state"], "running");
    // Who asks again before it has answered is sent the same again.
    assert_eq!(begun.dispatch().await["dispatch_id"], id);
    let mut failed = begun.result(&dispatch, "out\u{1b}[0m\n");
    failed["exit_code"] = json!(3);
    failed["stderr"] = json!("err\n");
    let door = begun.door.clone();
    let posting = tokio::spawn(async move {
        let headers = [("content-type".to_owned(), "application/json".to_owned())];
        door.send("POST", &headers, failed.to_string().into_bytes())
            .await
            .unwrap()
            .json()
            .await
            .unwrap()
    });
    let called = call.await.unwrap();
    assert!(
        !called.is_error,
        "a command that fails is a result: {}",
        called.answer
    );
    let ran = &called.answer["result"]["structuredContent"];
    assert_eq!(
        (&ran["exit_code"], &ran["stdout"], &ran["stderr"]),
        (&json!(3), &json!("out\u{1b}[0m\n"), &json!("err\n"))
    );
    assert_eq!(
        (&ran["duration_ms"], &ran["truncated"], &ran["stdout_bytes"]),
        (&json!(5), &json!(false), &json!(8))
    );
    assert!(!called.text.contains('\u{1b}'), "{}", called.text);
    // The answer to a result is what comes next.
    let said = shown(&gate, &begun.id).await;
    assert_eq!(
        (&said["state"], &said["executed"]),
        (&json!("ready"), &json!(1))
    );
    done(&gate, &["executions", "end", &begun.id, "--reason", "done"]).await;
    let next: Value = posting.await.unwrap();
    assert_eq!(
        (&next["type"], &next["tool_calls_executed"]),
        (&json!("final"), &json!(1))
    );
    assert_eq!(
        begun.attach(None).await.0,
        401,
        "its bearer is worth nothing now"
    );
    let records = records(&gate).await;
    let of_call = records
        .iter()
        .find(|record| record["tool"] == "cmd.run" && record["kind"] == "outcome")
        .unwrap();
    assert_eq!(
        (&of_call["verdict"], &of_call["execution"]),
        (&json!("permitted"), &json!(begun.id))
    );
    let actions: Vec<&str> = records
        .iter()
        .filter_map(|record| record["action"].as_str())
        .collect();
    assert!(
        actions.contains(&"execution.begun") && actions.contains(&"execution.ended"),
        "{actions:?}"
    );
}

#[tokio::test]
async fn what_is_refused_reaches_no_executor() {
    let gate = open(&[]).await;
    let one = agent(&gate, "one").await;
    let begun = Begun::new(&gate, "one", &[]).await;
    let signed = Agent::attest(&gate, &new_token(&gate, "signer", &[]).await, 5, "hands").await;
    let of_signer = Begun::new(&gate, "signer", &[]).await;
    for (arguments, rule) in [
        (
            json!({"command": "bash", "args": ["-c", "x"]}),
            "CommandNotAllowed",
        ),
        (
            json!({"command": "git", "args": ["push"]}),
            "SubcommandNotAllowed",
        ),
        (
            json!({"command": "git", "args": ["status"], "timeout_secs": 31}),
            "ExecTimeoutCeilingExceeded",
        ),
        (json!({"args": ["x"]}), ""),
    ] {
        assert!(
            one.call("cmd.run", arguments.clone())
                .await
                .unwrap()
                .is_error
        );
        let (status, said) = signed.call("cmd.run", arguments).await;
        assert!(status >= 400, "{said}");
        assert_eq!(violation(&said), rule, "{said}");
    }
    // What does not fit the place is refused before anybody is asked for it.
    for arguments in [
        json!({"command": "sh", "args": ["-c", "x"], "cwd": "/etc"}),
        json!({"command": "sh", "args": ["-c", "x"], "cwd": "../.."}),
    ] {
        assert!(one.call("cmd.run", arguments).await.unwrap().is_error);
    }
    for begun in [&begun, &of_signer] {
        let said = shown(&gate, &begun.id).await;
        assert_eq!(
            (&said["waiting"], &said["executed"]),
            (&json!(0), &json!(0))
        );
    }
    // Those without an execution run where they always did.
    let other = agent(&gate, "other").await;
    let ran = other.call("cmd.run", shell("pwd")).await.unwrap();
    assert!(ran.text.contains("/workspace"), "{}", ran.answer);
    assert_eq!(shown(&gate, &begun.id).await["state"], "detached");
}

/// Somebody has the bearer of one execution, and wants to be heard in another.
#[tokio::test]
async fn a_strangers_answer_reaches_no_execution_of_others() {
    let gate = open(&[]).await;
    let one = agent(&gate, "one").await;
    agent(&gate, "mallory").await;
    let victim = Begun::new(&gate, "one", &[]).await;
    let own = Begun::new(&gate, "mallory", &[]).await;
    let call = calls(one, shell("true"));
    let dispatch = victim.dispatch().await;
    // A wrong token, none, a client's, and a right one for another execution: the same words.
    let forged = victim.result(&dispatch, "forged").to_string().into_bytes();
    let mut told = Vec::new();
    let wrong = "pcx_".to_owned() + &"0".repeat(64);
    let of_client = new_token(&gate, "client", &[]).await;
    for token in [
        Some(own.token.as_str()),
        Some(&wrong),
        Some(&of_client),
        Some(""),
        None,
    ] {
        told.push(
            victim
                .post(&victim.door.with_token(token), forged.clone())
                .await,
        );
    }
    assert_eq!(told[0].0, 401, "{told:?}");
    assert!(told.iter().all(|said| *said == told[0]), "{told:?}");
    // Another's dispatch under the own name, and ids that nobody was given.
    let guesses = [
        dispatch["dispatch_id"].as_str().unwrap().to_owned(),
        "00000000-0000-0000-0000-000000000000".to_owned(),
        "x".to_owned(),
    ];
    for (at, id) in guesses.iter().enumerate() {
        let said = own.says(json!({
            "type": "dispatch_result", "execution_id": own.id, "dispatch_id": id, "exit_code": 0, "stdout": "forged",
        }));
        let (status, said) = said.await;
        assert_eq!(
            (status, &said["error"]),
            (409, &json!("unknown_dispatch")),
            "{at}: {said}"
        );
    }
    let (status, _) = victim
        .says(json!({"type": "dispatch_result", "execution_id": victim.id, "dispatch_id": guesses[1], "exit_code": 0}))
        .await;
    assert_eq!(status, 409);
    assert!(!call.is_finished());
    assert_eq!(
        shown(&gate, &victim.id).await["state"],
        "running",
        "the running one stays"
    );
    let posting = victim.answers(&dispatch, "honest");
    let called = call.await.unwrap();
    assert!(
        called.text.contains("honest") && !called.text.contains("forged"),
        "{}",
        called.answer
    );
    drop(posting);
    let said = shown(&gate, &own.id).await;
    assert_eq!(said["unknown"], 3);
    let records = records(&gate).await;
    let noted = |action: &str| {
        records
            .iter()
            .filter(|record| record["action"] == action)
            .count()
    };
    assert_eq!(
        (noted("dispatch.unknown"), noted("dispatch.refused")),
        (4, 1)
    );
}

#[tokio::test]
async fn an_answer_counts_once_however_often_it_comes() {
    let gate = open(&[]).await;
    let token = new_token(&gate, "one", &["--context", "hands"]).await;
    let begun = Begun::new(&gate, "one", &[]).await;
    let mut ids = Vec::new();
    for round in 0..3 {
        let call = calls(client(&gate, &token).await, shell("true"));
        let dispatch = begun.dispatch().await;
        let posting = begun.answers(&dispatch, &format!("answer {round}"));
        assert!(
            call.await
                .unwrap()
                .text
                .contains(&format!("answer {round}"))
        );
        drop(posting);
        ids.push(dispatch);
    }
    // Copies, and other answers to what is concluded, while another command runs.
    let call = calls(client(&gate, &token).await, shell("true"));
    let running = begun.dispatch().await;
    for old in &ids {
        for text in ["answer 0", "another"] {
            let (status, said) = begun.says(begun.result(old, text)).await;
            assert_eq!(
                (status, &said["dispatch_id"]),
                (200, &running["dispatch_id"]),
                "where things stand: {said}"
            );
        }
    }
    let posting = begun.answers(&running, "the last");
    assert!(call.await.unwrap().text.contains("the last"));
    drop(posting);
    let said = shown(&gate, &begun.id).await;
    assert_eq!(
        (&said["executed"], &said["repeated"], &said["unknown"]),
        (&json!(4), &json!(6), &json!(0))
    );
    assert_eq!(verdicts(&gate).await, ["permitted"; 4]);
    let records = records(&gate).await;
    let differing = records
        .iter()
        .filter(|record| record["action"] == "dispatch.repeated")
        .count();
    assert_eq!(
        differing, 5,
        "what differs from what was taken is on record"
    );
}

#[tokio::test]
async fn calls_wait_in_turn_and_end_by_their_own_answers() {
    let gate = open(&[]).await;
    let token = new_token(&gate, "one", &["--context", "hands"]).await;
    let begun = Begun::new(&gate, "one", &[]).await;
    let mut waiting = Vec::new();
    for at in 0..5 {
        waiting.push(calls(
            client(&gate, &token).await,
            shell(&format!("echo {at}")),
        ));
        eventually("the call to wait", SOON, || async {
            match shown(&gate, &begun.id).await["waiting"].as_u64() {
                Some(found) if found == at + 1 => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }
    for (at, call) in waiting.into_iter().enumerate() {
        let dispatch = begun.dispatch().await;
        assert_eq!(dispatch["args"][1], format!("echo {at}"));
        let posting = begun.answers(&dispatch, &format!("done {at}"));
        assert!(call.await.unwrap().text.contains(&format!("done {at}")));
        drop(posting);
    }
}

#[tokio::test]
async fn answers_that_are_too_large_or_no_messages_change_nothing() {
    let gate = open(&[]).await;
    let token = new_token(&gate, "one", &["--context", "hands"]).await;
    let begun = Begun::new(&gate, "one", &[]).await;
    let call = calls(client(&gate, &token).await, shell("true"));
    let dispatch = begun.dispatch().await;
    let (status, said) = begun
        .says(begun.result(&dispatch, &"x".repeat(200 << 10)))
        .await;
    assert_eq!((status, &said["type"]), (413, &json!("error")), "{said}");
    for (message, status, code) in [
        (
            json!({"type": "stream", "execution_id": begun.id}),
            400,
            "unknown_type",
        ),
        (json!({"execution_id": begun.id}), 400, "malformed"),
        (
            json!({"type": "dispatch_result", "execution_id": begun.id, "dispatch_id": dispatch["dispatch_id"]}),
            400,
            "malformed",
        ),
        (
            json!({"type": "attach", "execution_id": begun.id, "protocol": 9}),
            400,
            "malformed",
        ),
        (
            json!({"type": "attach", "execution_id": "another"}),
            401,
            "unauthenticated",
        ),
        (
            json!({"type": "generate", "execution_id": begun.id, "prompt": "think"}),
            501,
            "not_implemented",
        ),
    ] {
        let (found, said) = begun.says(message.clone()).await;
        assert_eq!(
            (found, &said["error"]),
            (status, &json!(code)),
            "{message}: {said}"
        );
        assert_eq!(said["type"], "error");
        assert!(said["message"].is_string());
    }
    let twice = format!(
        r#"{{"type":"attach","execution_id":"x","execution_id":"{}"}}"#,
        begun.id
    );
    assert_eq!(begun.post(&begun.door, twice.into_bytes()).await.0, 400);
    let reply = begun.door.send("GET", &[], Vec::new()).await.unwrap();
    assert_eq!(reply.status, 405);
    let plain = begun.door.send("POST", &[], b"{}".to_vec()).await.unwrap();
    assert_eq!(plain.status, 415);
    assert!(!call.is_finished());
    // Within what is read, and more than the command may print.
    let posting = begun.answers(&dispatch, &"x".repeat(69 << 10));
    let called = call.await.unwrap();
    assert!(
        called.is_error
            && called
                .answer
                .to_string()
                .contains("OutputSizeLimitExceeded"),
        "{}",
        called.answer
    );
    drop(posting);
}

/// A body that never comes holds one of few places, and nobody else's.
#[tokio::test]
async fn stalled_bodies_hold_few_places_and_no_command_back() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let gate = open(&[]).await;
    let one = agent(&gate, "one").await;
    agent(&gate, "mallory").await;
    let begun = Begun::new(&gate, "one", &[]).await;
    let own = Begun::new(&gate, "mallory", &[]).await;
    let mut stalled = Vec::new();
    let mut refused = 0;
    for _ in 0..12 {
        let mut stream = tokio::net::TcpStream::connect(own.door.address)
            .await
            .unwrap();
        let head = format!(
            "POST /v1/dispatch-gateway HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{",
            own.door.address, own.token
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 16];
        let read = tokio::time::timeout(Duration::from_millis(300), stream.read(&mut answer)).await;
        match read {
            Ok(Ok(16)) => {
                assert!(answer.starts_with(b"HTTP/1.1 429"), "{answer:?}");
                refused += 1;
            }
            _ => stalled.push(stream),
        }
    }
    assert!(
        stalled.len() <= 4 && refused >= 8,
        "{} {refused}",
        stalled.len()
    );
    let call = calls(one, shell("true"));
    let dispatch = begun.dispatch().await;
    let posting = begun.answers(&dispatch, "not held back");
    assert!(call.await.unwrap().text.contains("not held back"));
    drop(posting);
}
