//! Refused means: nothing happened behind the gate, the caller knows why, and the ledger has a line.

mod state;

use std::time::Duration;

use serde_json::{Value, json};
use testkit::client::{Called, Client, Era};
use testkit::everything::HttpFixture;
use testkit::gate::Gate;

use crate::support::{client, connected, eventually, fixture, http, new_token, records};

const PUBLIC: &str = "classification: PUBLIC";

/// A gate with one server of each kind, each with counters of its own.
struct Yard {
    gate: Gate,
    public: HttpFixture,
    secret: HttpFixture,
    unclassified: HttpFixture,
    ruled: HttpFixture,
}

impl Yard {
    async fn open() -> Self {
        let (public, secret, unclassified, ruled) = (
            fixture().await,
            fixture().await,
            fixture().await,
            fixture().await,
        );
        let rules = "classification: INTERNAL, tools: { effect: blocked, slow: restricted }";
        let gate = connected(&[
            ("public", http(&public.url(), "classification: PUBLIC")),
            (
                "secret",
                http(&secret.url(), "classification: CONFIDENTIAL"),
            ),
            ("unclassified", http(&unclassified.url(), "enabled: true")),
            ("ruled", http(&ruled.url(), rules)),
        ])
        .await;
        Self {
            gate,
            public,
            secret,
            unclassified,
            ruled,
        }
    }

    /// Everything any of the servers ever did.
    fn effects(&self) -> u64 {
        [&self.public, &self.secret, &self.unclassified, &self.ruled]
            .iter()
            .map(|fixture| {
                let effects = fixture.effects();
                effects.effects + effects.started
            })
            .sum()
    }

    async fn assert_recorded(&self, violation: &str, server: &str, tool: &str) {
        let records = records(&self.gate).await;
        let found = records.iter().find(|record| {
            record["kind"] == "refusal"
                && record["violation"] == violation
                && record["server"] == server
                && record["tool"] == tool
        });
        let found =
            found.unwrap_or_else(|| panic!("no {violation} of {server}/{tool} among {records:#?}"));
        assert_eq!(found["verdict"], "refused");
        assert!(
            found["caller"].is_string() && found["stage"].is_string(),
            "{found}"
        );
        assert!(
            !records
                .iter()
                .any(|record| record["call"] == found["call"] && record["kind"] == "intent"),
            "it had an intent"
        );
    }
}

fn assert_refused(called: &Called, violation: &str) {
    assert!(called.is_error, "{}", called.answer);
    assert_eq!(called.violation(), Some(violation), "{}", called.answer);
    assert_eq!(
        called.error_code(),
        Some("permission_denied"),
        "{}",
        called.answer
    );
}

#[tokio::test]
async fn a_server_without_classification_is_never_called() {
    let yard = Yard::open().await;
    for era in [Era::Legacy, Era::Modern] {
        let called = client(&yard.gate, era)
            .await
            .call("unclassified__effect", json!({}))
            .await
            .unwrap();
        assert_refused(&called, "ServerNotApproved");
    }
    assert_eq!(yard.effects(), 0);
    yard.assert_recorded("ServerNotApproved", "unclassified", "effect")
        .await;
    let read = client(&yard.gate, Era::Modern).await;
    let read = read
        .request(
            "resources/read",
            json!({"uri": "portcullis://unclassified/test://static-text"}),
        )
        .await
        .unwrap();
    assert!(
        read.get("error").is_some(),
        "a resource of an unclassified server was read: {read}"
    );
}

#[tokio::test]
async fn a_blocked_tool_is_never_called() {
    let yard = Yard::open().await;
    let called = client(&yard.gate, Era::Modern)
        .await
        .call("ruled__effect", json!({}))
        .await
        .unwrap();
    assert_refused(&called, "ToolNotAllowed");
    let operator = new_token(&yard.gate, "boss", &["--operator", "--grant", "ruled__*"]).await;
    let boss = Client::plain(
        &yard.gate.target().unwrap().with_token(Some(&operator)),
        Era::Modern,
    )
    .await
    .unwrap();
    assert_refused(
        &boss.call("ruled__effect", json!({})).await.unwrap(),
        "ToolNotAllowed",
    );
    assert_eq!(yard.effects(), 0);
    yard.assert_recorded("ToolNotAllowed", "ruled", "effect")
        .await;
}

#[tokio::test]
async fn a_restricted_tool_needs_a_grant() {
    let yard = Yard::open().await;
    let called = client(&yard.gate, Era::Modern)
        .await
        .call("ruled__slow", json!({"ms": 1}))
        .await
        .unwrap();
    assert!(called.is_error, "{}", called.answer);
    assert_eq!(yard.effects(), 0);
    let violation = called.violation().expect("a rule").to_owned();
    assert!(
        ["ToolNotAllowed", "PermissionDenied"].contains(&violation.as_str()),
        "{violation}"
    );
    yard.assert_recorded(&violation, "ruled", "slow").await;
    let granted = new_token(&yard.gate, "granted", &["--grant", "ruled__slow"]).await;
    let granted = Client::plain(
        &yard.gate.target().unwrap().with_token(Some(&granted)),
        Era::Legacy,
    )
    .await
    .unwrap();
    let called = granted.call("ruled__slow", json!({"ms": 1})).await.unwrap();
    assert_eq!(called.text, "slept 1 ms", "{}", called.answer);
    assert_eq!(yard.ruled.effects().finished, 1);
    let elsewhere = new_token(&yard.gate, "elsewhere", &["--grant", "public__slow"]).await;
    let elsewhere = Client::plain(
        &yard.gate.target().unwrap().with_token(Some(&elsewhere)),
        Era::Legacy,
    )
    .await
    .unwrap();
    assert!(
        elsewhere
            .call("ruled__slow", json!({"ms": 1}))
            .await
            .unwrap()
            .is_error
    );
    assert_eq!(yard.ruled.effects().started, 1);
}

/// What a session has seen goes with the credential: no new session, connection or protocol era washes it off.
#[tokio::test]
async fn write_down_is_refused_however_one_reconnects() {
    let yard = Yard::open().await;
    let first = client(&yard.gate, Era::Legacy).await;
    assert!(
        !first
            .call("public__effect", json!({}))
            .await
            .unwrap()
            .is_error,
        "a clean session may"
    );
    assert_eq!(yard.public.effects().effects, 1);
    assert_eq!(
        first
            .call("secret__echo", json!({"text": "the plan"}))
            .await
            .unwrap()
            .text,
        "the plan"
    );
    assert_refused(
        &first.call("public__effect", json!({})).await.unwrap(),
        "WouldViolateWriteDown",
    );
    for era in [Era::Legacy, Era::Modern] {
        let again = client(&yard.gate, era).await;
        assert_refused(
            &again.call("public__effect", json!({})).await.unwrap(),
            "WouldViolateWriteDown",
        );
        assert!(
            !again
                .call("secret__effect", json!({}))
                .await
                .unwrap()
                .is_error,
            "upwards is allowed"
        );
    }
    let other = new_token(&yard.gate, "other", &[]).await;
    let other = Client::plain(
        &yard.gate.target().unwrap().with_token(Some(&other)),
        Era::Modern,
    )
    .await
    .unwrap();
    assert!(
        !other
            .call("public__effect", json!({}))
            .await
            .unwrap()
            .is_error,
        "another credential has seen nothing"
    );
    assert_eq!(yard.public.effects().effects, 2);
    yard.assert_recorded("WouldViolateWriteDown", "public", "effect")
        .await;
}

/// Reading a resource raises the label as a call does.
#[tokio::test]
async fn reading_a_resource_taints_too() {
    let yard = Yard::open().await;
    let client = client(&yard.gate, Era::Modern).await;
    let read = client
        .request(
            "resources/read",
            json!({"uri": "portcullis://secret/test://static-text"}),
        )
        .await
        .unwrap();
    assert!(read.get("result").is_some(), "{read}");
    assert_refused(
        &client.call("public__effect", json!({})).await.unwrap(),
        "WouldViolateWriteDown",
    );
    assert_eq!(yard.effects(), 0);
}

/// Two calls at once cannot slip past each other: what the first brings back counts for the second.
#[tokio::test]
async fn concurrent_calls_do_not_race_the_label() {
    let yard = Yard::open().await;
    for round in 0..10 {
        let token = new_token(&yard.gate, &format!("racer-{round}"), &[]).await;
        let racer = Client::plain(
            &yard.gate.target().unwrap().with_token(Some(&token)),
            Era::Modern,
        )
        .await
        .unwrap();
        let before = yard.public.effects().effects;
        let up = racer.start(
            "tools/call",
            json!({"name": "secret__echo", "arguments": {"text": "x"}}),
        );
        let down = racer.start(
            "tools/call",
            json!({"name": "public__effect", "arguments": {"ms": 20}}),
        );
        assert!(up.answer().await.unwrap().get("result").is_some());
        let down = down.answer().await.unwrap();
        let refused = down.pointer("/result/isError") == Some(&Value::Bool(true));
        assert_eq!(
            yard.public.effects().effects - before,
            u64::from(!refused),
            "refused and done do not go together: {down}"
        );
        let after = racer.call("public__effect", json!({})).await.unwrap();
        assert_refused(&after, "WouldViolateWriteDown");
    }
}

#[tokio::test]
async fn an_unknown_tool_is_not_found() {
    let yard = Yard::open().await;
    for name in [
        "public__no_such",
        "nobody__echo",
        "echo",
        "public_echo",
        "public__",
        "__echo",
        "",
        "public__ECHO",
        "PUBLIC__echo",
    ] {
        for era in [Era::Legacy, Era::Modern] {
            let called = client(&yard.gate, era)
                .await
                .call(name, json!({"text": "x"}))
                .await
                .unwrap();
            assert_eq!(
                called.rpc_code(),
                Some(-32602),
                "{name:?}: {}",
                called.answer
            );
        }
    }
    assert_eq!(yard.effects(), 0);
}

/// A key that stands twice can be read two ways, so it is read no way: at any depth, also when one is escaped.
#[tokio::test]
async fn duplicate_keys_are_refused_at_every_depth() {
    let yard = Yard::open().await;
    let client = client(&yard.gate, Era::Legacy).await;
    let bodies = [
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/call","params":{"name":"public__effect","arguments":{}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{"name":"public__effect","arguments":{}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"public__echo","name":"public__effect","arguments":{}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"public__effect","arguments":{"ms":1,"ms":2}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"public__effect","arguments":{"ms":1,"\u006ds":2}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"public__effect","arguments":{"a":[{"b":{"c":1,"c":1}}]}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"public__effect","arguments":{}},"p\u0061rams":{}}"#,
    ];
    for body in bodies {
        let answer = post_raw(&client, &yard.gate, body.as_bytes()).await;
        let code = answer.1.pointer("/error/code").and_then(Value::as_i64);
        assert!(
            matches!(code, Some(-32700 | -32600 | -32602)),
            "{body}: {answer:?}"
        );
    }
    assert_eq!(yard.effects(), 0);
}

#[tokio::test]
async fn malformed_json_is_refused() {
    let yard = Yard::open().await;
    let client = client(&yard.gate, Era::Legacy).await;
    let deep = format!("{}1{}", "[".repeat(70), "]".repeat(70));
    let abyss = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let call = |arguments: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"public__effect","arguments":{arguments}}}}}"#
        )
    };
    let mut bodies: Vec<Vec<u8>> = [
        call(&format!(r#"{{"deep":{deep}}}"#)),
        call(&format!(r#"{{"deep":{abyss}}}"#)),
        call(r#"{"n":NaN}"#),
        call(r#"{"n":Infinity}"#),
        call(r#"{"n":01}"#),
        call(r#"{"n":1,}"#),
        call(r#"{"s":"\ud800"}"#),
        call(r#"{"s":"\x41"}"#),
        call("{'s':1}"),
        call("[]"),
        call("7"),
        call("{}") + "}",
        call("{}") + "{}",
        format!("\u{feff}{}", call("{}")),
        String::new(),
        "{".to_owned(),
        "nul".to_owned(),
    ]
    .map(String::into_bytes)
    .into();
    bodies.push(call(r#"{"s":"X"}"#).replace('X', "\u{1}").into_bytes());
    bodies.push([call(r#"{"s":""#).as_bytes(), b"\xff\xfe\"}}}"].concat());
    bodies.push([call(r#"{"s":""#).as_bytes(), b"\xc0\xaf\"}}}"].concat());
    for body in bodies {
        let shown = String::from_utf8_lossy(&body)
            .chars()
            .take(120)
            .collect::<String>();
        let (status, answer) = post_raw(&client, &yard.gate, &body).await;
        let refused = answer.get("error").is_some()
            || answer.pointer("/result/isError") == Some(&Value::Bool(true));
        assert!(refused, "{shown}: status {status}, {answer}");
    }
    assert_eq!(yard.effects(), 0);
    assert!(
        !client
            .call("public__effect", json!({}))
            .await
            .unwrap()
            .is_error,
        "the session survives"
    );
}

#[tokio::test]
async fn too_large_is_refused_without_reading_it_all() {
    let yard = Yard::open().await;
    let client = client(&yard.gate, Era::Modern).await;
    let text = "x".repeat(5 << 20);
    let message = client.message(
        1,
        "tools/call",
        json!({"name": "public__effect", "arguments": {"text": text}}),
    );
    // The gate may hang up while we still send: that is a refusal too.
    if let Ok(reply) = client.post(&message, &[]).await {
        assert_eq!(reply.status, 413, "a body above the limit");
    }
    let long = "y".repeat(64 << 10);
    let message = client.message(
        2,
        "tools/call",
        json!({"name": "public__effect", "arguments": {}}),
    );
    if let Ok(reply) = client.post(&message, &[("x-long", &long)]).await {
        assert_eq!(reply.status, 431, "a head above the limit");
    }
    assert_eq!(yard.effects(), 0);
    let fits = "x".repeat(3 << 20);
    let called = client
        .call("public__echo", json!({"text": fits}))
        .await
        .unwrap();
    assert!(
        called.text == fits,
        "{}: {}\n{}",
        called.text.len(),
        called.text.get(..200).unwrap_or(&called.text),
        yard.gate.output()
    );
}

#[tokio::test]
async fn credentials_are_needed_known_and_unrevoked() {
    let mut yard = Yard::open().await;
    let target = yard.gate.target().unwrap();
    let good = yard.gate.token().unwrap();
    let mut almost = good.clone();
    let last = almost.pop();
    almost.push(if last == Some('A') { 'B' } else { 'A' });
    for token in [
        None,
        Some(""),
        Some("pct_wrong"),
        Some(almost.as_str()),
        Some("null"),
    ] {
        let target = target.with_token(token);
        for (method, body) in [
            ("POST", call_body("public__effect")),
            ("GET", Vec::new()),
            ("DELETE", Vec::new()),
        ] {
            let reply = target
                .send(method, &modern_headers("public__effect"), body)
                .await
                .unwrap();
            assert_eq!(reply.status, 401, "{token:?} {method}");
            assert!(
                reply
                    .header("www-authenticate")
                    .is_some_and(|kind| kind.starts_with("Bearer")),
                "{token:?}"
            );
        }
    }
    let token = new_token(&yard.gate, "short-lived", &[]).await;
    let mine = Client::plain(&target.with_token(Some(&token)), Era::Legacy)
        .await
        .unwrap();
    assert!(
        !mine
            .call("public__effect", json!({}))
            .await
            .unwrap()
            .is_error
    );
    assert_eq!(
        yard.gate
            .cli(&["token", "revoke", "short-lived"])
            .await
            .unwrap()
            .code,
        Some(0)
    );
    eventually("the revocation to bite", Duration::from_secs(3), || async {
        let reply = mine
            .post(&mine.message(9, "ping", json!({})), &[])
            .await
            .map_err(|error| error.to_string())?;
        if reply.status == 401 {
            Ok(())
        } else {
            Err(format!("status {}", reply.status))
        }
    })
    .await;
    assert_eq!(yard.effects(), 1);
    // Strangers are counted, not recorded one by one; the count is on record when the gate has stopped.
    yard.gate.stop().await.unwrap();
    let records = records(&yard.gate).await;
    assert!(
        records
            .iter()
            .any(|record| record["action"] == "strangers.refused"),
        "{records:#?}"
    );
}

/// A session id is not a credential: with another's it is worth nothing, whatever one does with it.
#[tokio::test]
async fn anothers_session_id_is_worth_nothing() {
    let yard = Yard::open().await;
    let owner = client(&yard.gate, Era::Legacy).await;
    let session = owner.session().unwrap().to_owned();
    let thief = new_token(&yard.gate, "thief", &[]).await;
    let target = yard.gate.target().unwrap().with_token(Some(&thief));
    let headers: Vec<(String, String)> = [
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
        ("mcp-protocol-version", "2025-11-25"),
        ("mcp-session-id", session.as_str()),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "public__effect", "arguments": {}}});
    for (method, body) in [
        ("POST", call.to_string().into_bytes()),
        ("GET", Vec::new()),
        ("DELETE", Vec::new()),
    ] {
        let reply = target.send(method, &headers, body).await.unwrap();
        assert_eq!(reply.status, 404, "{method}");
    }
    assert_eq!(yard.effects(), 0);
    assert!(
        !owner
            .call("public__effect", json!({}))
            .await
            .unwrap()
            .is_error,
        "the owner's session lives on"
    );
}

/// Three books must agree: what clients were told, what the ledger says, what the servers did.
#[tokio::test]
async fn the_ledger_agrees_with_what_happened() {
    let yard = Yard::open().await;
    let client = client(&yard.gate, Era::Modern).await;
    let (mut told_done, mut told_refused) = (0, 0);
    for name in [
        "public__effect",
        "ruled__effect",
        "public__effect",
        "unclassified__effect",
        "secret__effect",
        "public__effect",
    ] {
        let called = client.call(name, json!({})).await.unwrap();
        if called.is_error {
            told_refused += 1
        } else {
            told_done += 1
        }
    }
    assert_eq!((told_done, told_refused), (3, 3));
    assert_eq!(yard.effects(), 3);
    let records = records(&yard.gate).await;
    let of = |kind: &str| {
        records
            .iter()
            .filter(|record| record["kind"] == kind && record["tool"] == "effect")
            .count()
    };
    assert_eq!(
        (of("intent"), of("outcome"), of("refusal")),
        (3, 3, 3),
        "{records:#?}"
    );
    let verified = yard.gate.cli(&["audit", "verify"]).await.unwrap();
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

fn assert_refused_state(answer: &Value, what: &str) {
    let refused = answer.get("error").is_some()
        || answer.pointer("/result/isError") == Some(&Value::Bool(true));
    assert!(refused, "{what} was accepted: {answer}");
}

pub(crate) async fn raw_answer(client: &Client, message: &Value) -> Value {
    let mut messages = client.post(message, &[]).await.unwrap().messages();
    loop {
        let next = messages.next().await.unwrap().expect("an answer");
        if next.get("method").is_none() {
            return next;
        }
    }
}

/// Posts bytes as the client would post a message.
async fn post_raw(client: &Client, gate: &Gate, body: &[u8]) -> (u16, Value) {
    let headers: Vec<(String, String)> = [
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
        ("mcp-protocol-version", "2025-11-25"),
        ("mcp-session-id", client.session().unwrap()),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let reply = gate
        .target()
        .unwrap()
        .send("POST", &headers, body.to_vec())
        .await
        .unwrap();
    let status = reply.status;
    (
        status,
        reply
            .messages()
            .next()
            .await
            .unwrap()
            .unwrap_or(Value::Null),
    )
}

fn call_body(name: &str) -> Vec<u8> {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"name": name, "arguments": {}, "_meta": meta});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        .to_string()
        .into_bytes()
}

fn modern_headers(name: &str) -> Vec<(String, String)> {
    [
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", name),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}
