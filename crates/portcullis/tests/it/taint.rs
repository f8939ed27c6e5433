//! What a session has seen decides where it may send: the table, and that nothing but a person's reset lowers it.

use std::process::Stdio;

use serde_json::{Value, json};
use testkit::client::{Client, Era, LEGACY};
use testkit::gate::Gate;
use testkit::shifty::{Shifty, Shown, tool};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::operator::{
    FLOOR_ONLY, SOON, assert_allowed, assert_refused, caller, done, label, session, shifty, told,
};
use crate::support::{await_state, client, config, gate, http, new_token, portcullis, records};

/// The credential made at the first start; the stdio door uses it too.
const CLIENT: &str = "first-client";
const LEVELS: [&str; 4] = ["PUBLIC", "INTERNAL", "CONFIDENTIAL", "RESTRICTED"];
const SERVERS: [&str; 4] = ["public", "internal", "confidential", "restricted"];

/// One server of each level.
struct Yard {
    gate: Gate,
    servers: Vec<Shifty>,
}

impl Yard {
    async fn open() -> Self {
        let mut shown = Shown {
            prompts: vec![json!({"name": "letter"})],
            ..Shown::usual()
        };
        shown.tools.push(tool("fail", "Fails with the given text"));
        let (mut servers, mut entries) = (Vec::new(), Vec::new());
        for (id, level) in SERVERS.iter().zip(LEVELS) {
            let server = shifty(shown.clone()).await;
            entries.push((
                *id,
                http(
                    &server.url(),
                    &format!("classification: {level}, open_world: false"),
                ),
            ));
            servers.push(server);
        }
        let gate = gate(&format!("{FLOOR_ONLY}{}", config(&entries))).await;
        for id in SERVERS {
            await_state(&gate, id, "connected", SOON).await;
        }
        Self { gate, servers }
    }

    fn says(&self) -> Vec<usize> {
        self.servers
            .iter()
            .map(|server| server.calls_of("say").len())
            .collect()
    }
}

async fn say(agent: &Client, server: usize) -> testkit::client::Called {
    agent
        .call(
            &format!("{}__say", SERVERS[server]),
            json!({"text": "word"}),
        )
        .await
        .unwrap()
}

/// Every level read by every road, then every level written to: exactly those at or above what was read take it.
#[tokio::test]
async fn the_table_of_taint_holds_for_every_pair_of_levels() {
    let yard = Yard::open().await;
    for (read, level) in LEVELS.iter().enumerate() {
        for road in ["call", "resource", "prompt"] {
            for written in 0..LEVELS.len() {
                let name = format!("{road}-{read}-{written}");
                let agent = caller(&yard.gate, &name, &[], Era::Modern).await;
                take(&agent, road, SERVERS[read]).await;
                assert!(
                    label(&yard.gate, &name).await.contains(level),
                    "{name}: {}",
                    label(&yard.gate, &name).await
                );
                let before = yard.says();
                let called = say(&agent, written).await;
                if written >= read {
                    assert_allowed(&called, "word");
                    let higher = LEVELS[written.max(read)];
                    assert!(
                        label(&yard.gate, &name).await.contains(higher),
                        "{name}: {}",
                        label(&yard.gate, &name).await
                    );
                } else {
                    assert_refused(&called, "WouldViolateWriteDown", "Would violate write-down");
                    assert_eq!(yard.says(), before, "{name} arrived");
                    assert!(
                        label(&yard.gate, &name).await.contains(level),
                        "a refusal changes nothing"
                    );
                }
            }
        }
    }
}

async fn take(agent: &Client, road: &str, server: &str) {
    let answer = match road {
        "resource" => agent
            .request(
                "resources/read",
                json!({"uri": format!("portcullis://{server}/note://1")}),
            )
            .await
            .unwrap(),
        "prompt" => agent
            .request("prompts/get", json!({"name": format!("{server}__letter")}))
            .await
            .unwrap(),
        _ => {
            agent
                .call(&format!("{server}__say"), json!({"text": "word"}))
                .await
                .unwrap()
                .answer
        }
    };
    assert!(
        answer.get("result").is_some(),
        "{road} of {server}: {answer}"
    );
}

/// Eight ways to write a secret so that no filter knows it.
fn encodings(secret: &str) -> Vec<String> {
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let percent: String = secret.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let reversed: String = secret.chars().rev().collect();
    let shifted: String = secret.bytes().map(|byte| char::from(byte ^ 1)).collect();
    let spaced: String = secret.chars().flat_map(|letter| [letter, '.']).collect();
    let halves = format!(
        "{}|{}",
        secret.split_at(secret.len() / 2).1,
        secret.split_at(secret.len() / 2).0
    );
    vec![
        secret.to_owned(),
        hex,
        percent,
        reversed,
        shifted,
        spaced,
        halves,
        secret.to_uppercase(),
    ]
}

/// Write-down is no matter of tools alone: every message with room for a word is tried, in every encoding, and not one byte
/// of a caller's arrives below.
#[tokio::test]
async fn a_tainted_session_sends_nothing_down_by_any_road() {
    let yard = Yard::open().await;
    for era in [Era::Legacy, Era::Modern] {
        let agent = client(&yard.gate, era).await;
        assert_allowed(&say(&agent, 2).await, "word");
        for secret in encodings("canary-91ab") {
            for (method, params) in roads(&secret) {
                let answer = agent.request(method, params.clone()).await.unwrap();
                let refused = answer.get("error").is_some()
                    || answer.pointer("/result/isError") == Some(&Value::Bool(true));
                assert!(
                    refused || method.ends_with("/list"),
                    "{method} {params}: {answer}"
                );
            }
            for (method, params) in [
                (
                    "notifications/cancelled",
                    json!({"requestId": 999_999, "reason": secret}),
                ),
                (
                    "notifications/progress",
                    json!({"progressToken": secret, "progress": 1, "message": secret}),
                ),
            ] {
                let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
                agent.post(&message, &[]).await.unwrap();
            }
            for server in yard.servers.iter().take(2) {
                assert!(
                    !server.ever_heard(&secret),
                    "{secret}: {:?}",
                    server.heard()
                );
            }
        }
    }
    for server in yard.servers.iter().take(2) {
        assert_eq!(server.bytes_of_callers(), 0, "{:?}", server.heard());
    }
}

fn roads(secret: &str) -> Vec<(&'static str, Value)> {
    let completion = |of: Value| json!({"ref": of, "argument": {"name": secret, "value": secret}, "context": {"arguments": {"x": secret}}});
    vec![
        (
            "tools/call",
            json!({"name": "public__give", "arguments": {"value": secret}}),
        ),
        (
            "tools/call",
            json!({"name": "public__give", "arguments": {secret: 1}}),
        ),
        (
            "tools/call",
            json!({"name": "internal__give", "arguments": {"value": [{"deep": [secret]}]}}),
        ),
        (
            "tools/call",
            json!({"name": "public__say", "arguments": {"text": ""}, "_meta": {"progressToken": secret}}),
        ),
        (
            "tools/call",
            json!({"name": format!("public__{secret}"), "arguments": {}}),
        ),
        (
            "resources/read",
            json!({"uri": format!("portcullis://public/note://{secret}")}),
        ),
        (
            "resources/read",
            json!({"uri": format!("portcullis://internal/note://1?q={secret}#{secret}")}),
        ),
        (
            "prompts/get",
            json!({"name": "public__letter", "arguments": {"to": secret}}),
        ),
        (
            "completion/complete",
            completion(json!({"type": "ref/prompt", "name": "public__letter"})),
        ),
        (
            "completion/complete",
            completion(json!({"type": "ref/resource", "uri": "portcullis://internal/note://{id}"})),
        ),
        ("tools/list", json!({"_meta": {"x": secret}})),
        ("resources/list", json!({"_meta": {"x": secret}})),
    ]
}

/// A label belongs to the credential: no way of coming back washes it off, a restart and a crash included.
#[tokio::test]
async fn nothing_but_a_reset_washes_a_label_off() {
    let mut yard = Yard::open().await;
    let target = yard.gate.target().unwrap();
    let first = Client::plain(&target, Era::Legacy).await.unwrap();
    assert_allowed(&say(&first, 0).await, "word");
    assert_allowed(&say(&first, 2).await, "word");
    assert_refused(
        &say(&first, 0).await,
        "WouldViolateWriteDown",
        "Would violate write-down",
    );
    let public = yard.says()[0];
    for revision in ["2025-03-26", "2025-06-18", LEGACY, "2026-07-28"] {
        let again = Client::connect_as(&target, revision, json!({}), &[])
            .await
            .unwrap();
        assert_refused(
            &say(&again, 0).await,
            "WouldViolateWriteDown",
            "Would violate write-down",
        );
    }
    let over_stdio = over_stdio(&yard.gate, "public__say").await;
    assert!(over_stdio.contains("WouldViolateWriteDown"), "{over_stdio}");
    yard.gate.stop().await.unwrap();
    for _ in 0..2 {
        yard.gate.start_again().await.unwrap();
        for id in SERVERS {
            await_state(&yard.gate, id, "connected", SOON).await;
        }
        assert!(label(&yard.gate, CLIENT).await.contains("CONFIDENTIAL"));
        let target = yard.gate.target().unwrap();
        for era in [Era::Legacy, Era::Modern] {
            let again = Client::plain(&target, era).await.unwrap();
            assert_refused(
                &say(&again, 0).await,
                "WouldViolateWriteDown",
                "Would violate write-down",
            );
        }
        yard.gate.kill().unwrap();
    }
    yard.gate.start_again().await.unwrap();
    await_state(&yard.gate, "public", "connected", SOON).await;
    assert_eq!(yard.says()[0], public, "nothing went down");
    let before = session(&yard.gate, CLIENT).await.unwrap();
    done(
        &yard.gate,
        &[
            "session",
            "reset",
            CLIENT,
            "--reason",
            "the task is over",
            "--yes",
        ],
    )
    .await;
    let again = Client::plain(&yard.gate.target().unwrap(), Era::Modern)
        .await
        .unwrap();
    assert_allowed(&say(&again, 0).await, "word");
    let after = session(&yard.gate, CLIENT).await.unwrap();
    assert!(
        after["epoch"].as_u64() > before["epoch"].as_u64(),
        "{before} then {after}"
    );
    let records = records(&yard.gate).await;
    assert!(
        records
            .iter()
            .any(|record| record.to_string().contains("the task is over")),
        "{records:#?}"
    );
}

/// A crash at any moment after a high result was seen finds the label on disk: what left the gate is not forgotten.
#[tokio::test]
async fn a_rise_is_durable_before_its_result_is_seen() {
    let mut yard = Yard::open().await;
    for round in 0..5 {
        let name = format!("agent-{round}");
        let token = new_token(&yard.gate, &name, &[]).await;
        let agent = Client::plain(
            &yard.gate.target().unwrap().with_token(Some(&token)),
            Era::Modern,
        )
        .await
        .unwrap();
        assert_allowed(&say(&agent, 3).await, "word");
        yard.gate.kill().unwrap();
        yard.gate.start_again().await.unwrap();
        assert!(
            label(&yard.gate, &name).await.contains("RESTRICTED"),
            "round {round}"
        );
    }
}

/// A failure tells as much as a success: the text of a confidential server's error is confidential.
#[tokio::test]
async fn errors_taint_too() {
    let yard = Yard::open().await;
    for era in [Era::Legacy, Era::Modern] {
        let agent = caller(&yard.gate, &format!("agent-{era:?}"), &[], era).await;
        let failed = agent
            .call(
                "confidential__fail",
                json!({"text": "no such plan as 'attack at dawn'"}),
            )
            .await
            .unwrap();
        assert!(
            failed.is_error && failed.text.contains("attack at dawn"),
            "{}",
            failed.answer
        );
        assert!(
            label(&yard.gate, &format!("agent-{era:?}"))
                .await
                .contains("CONFIDENTIAL")
        );
        assert_refused(
            &say(&agent, 0).await,
            "WouldViolateWriteDown",
            "Would violate write-down",
        );
    }
}

/// A reset is a person's: it needs a reason, an operator, and a caller that exists.
#[tokio::test]
async fn a_reset_needs_a_reason_and_a_known_caller() {
    let yard = Yard::open().await;
    let agent = caller(&yard.gate, "agent", &[], Era::Modern).await;
    assert_allowed(&say(&agent, 3).await, "word");
    for args in [
        &["session", "reset", "agent", "--yes"][..],
        &["session", "reset", "nobody", "--reason", "x", "--yes"],
    ] {
        let said = yard.gate.cli(args).await.unwrap();
        assert_ne!(said.code, Some(0), "{args:?}: {said:?}");
    }
    assert!(label(&yard.gate, "agent").await.contains("RESTRICTED"));
    assert_refused(
        &say(&agent, 0).await,
        "WouldViolateWriteDown",
        "Would violate write-down",
    );
}

/// What came from where, into which session, derived from which: forward and backward, also after a reset.
#[tokio::test]
async fn lineage_is_traced_both_ways() {
    let yard = Yard::open().await;
    let agent = caller(&yard.gate, "agent", &["--user", "alice"], Era::Modern).await;
    for server in [0, 1, 2] {
        assert_allowed(&say(&agent, server).await, "word");
    }
    let records = records(&yard.gate).await;
    let calls: Vec<String> = SERVERS[..3]
        .iter()
        .map(|id| call_of(&records, id))
        .collect();
    let backward = told(&yard.gate, &["lineage", &calls[2]]).await.to_string();
    for call in &calls {
        assert!(
            backward.contains(call.as_str()),
            "{call} is not behind the last one: {backward}"
        );
    }
    let forward = told(&yard.gate, &["lineage", &calls[0], "--forward"])
        .await
        .to_string();
    for call in &calls {
        assert!(
            forward.contains(call.as_str()),
            "{call} is not ahead of the first one: {forward}"
        );
    }
    let first = told(&yard.gate, &["lineage", &calls[0]]).await.to_string();
    assert!(
        !first.contains(calls[2].as_str()),
        "the first is not derived from the last: {first}"
    );
    done(
        &yard.gate,
        &[
            "session",
            "reset",
            "agent",
            "--reason",
            "fresh start",
            "--yes",
        ],
    )
    .await;
    assert_allowed(&say(&agent, 0).await, "word");
    let records = crate::support::records(&yard.gate).await;
    let fresh = records
        .iter()
        .rev()
        .find(|record| record["kind"] == "intent" && record["server"] == "public")
        .unwrap();
    let fresh = told(&yard.gate, &["lineage", fresh["call"].as_str().unwrap()])
        .await
        .to_string();
    assert!(
        !fresh.contains(calls[2].as_str()),
        "a new epoch begins with nothing: {fresh}"
    );
    let archived = told(&yard.gate, &["lineage", &calls[2]]).await.to_string();
    assert!(
        archived.contains(calls[0].as_str()),
        "the old lineage is kept: {archived}"
    );
    let shown = done(&yard.gate, &["session", "show", "agent"]).await.stdout;
    assert!(
        shown.contains("agent") && shown.contains("PUBLIC"),
        "{shown}"
    );
}

fn call_of(records: &[Value], server: &str) -> String {
    let found = records
        .iter()
        .find(|record| record["kind"] == "intent" && record["server"] == server);
    found
        .and_then(|record| record["call"].as_str())
        .unwrap_or_else(|| panic!("no call of {server} in {records:#?}"))
        .to_owned()
}

/// One call over the stdio door; everything it printed.
async fn over_stdio(gate: &Gate, tool: &str) -> String {
    let mut door = tokio::process::Command::new(portcullis());
    door.arg("--home").arg(gate.home()).arg("connect");
    let mut door = door
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = door.stdin.take().unwrap();
    let hello = json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let lines = [
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {"text": "word"}}}),
    ];
    for line in lines {
        stdin
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
    }
    let mut answers = BufReader::new(door.stdout.take().unwrap()).lines();
    let mut said = String::new();
    while let Ok(Ok(Some(line))) = tokio::time::timeout(SOON, answers.next_line()).await {
        said.push_str(&line);
        if serde_json::from_str::<Value>(&line).is_ok_and(|answer| answer["id"] == 1) {
            return said;
        }
    }
    panic!("the door said only {said}")
}
