//! The HTTP door against requests that are not quite requests: origins, shapes, headers, framing, patience.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::client::{Client, Era, Target};
use testkit::everything::HttpFixture;
use testkit::gate::Gate;
use testkit::hostile::{Hostile, Script};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{
    admin, admin_target, alone, client, connected, eventually, fixture, http, percentile,
    portcullis,
};

const BOTH: &str = "application/json, text/event-stream";

async fn yard() -> (Gate, HttpFixture) {
    let fixture = fixture().await;
    (
        connected(&[("up", http(&fixture.url(), "classification: PUBLIC"))]).await,
        fixture,
    )
}

fn headers(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

#[tokio::test]
async fn foreign_origins_and_hosts_are_refused() {
    let (gate, fixture) = yard().await;
    let target = gate.target().unwrap();
    let caller = client(&gate, Era::Modern).await;
    let call = caller.message(
        1,
        "tools/call",
        json!({"name": "up__effect", "arguments": {}}),
    );
    let port = target.address.port();
    let origins = [
        "http://evil.example.com",
        "https://evil.example.com",
        "null",
        "file://",
        "http://127.0.0.1.evil.example.com",
        "http://localhost.evil.example.com",
        "http://evil.example.com:80",
        "http://[::2]",
        "http://10.0.0.1",
        "http://0.0.0.0",
        "chrome-extension://abcdefgh",
        "http://user@evil.example.com",
        "http://127.0.0.1@evil.example.com",
        "HTTP://EVIL.EXAMPLE.COM",
        "http://evil.example.com/127.0.0.1",
        "",
        "garbage",
    ];
    for origin in origins {
        let reply = caller.post(&call, &[("origin", origin)]).await.unwrap();
        assert_eq!(reply.status, 403, "origin {origin:?}");
    }
    for host in [
        "evil.example.com",
        "evil.example.com:80",
        "127.0.0.1.evil.example.com",
        "localhost.evil.example.com",
        "[::2]",
    ] {
        let reply = caller.post(&call, &[("host", host)]).await.unwrap();
        assert!(
            (400..500).contains(&reply.status),
            "host {host:?}: {}",
            reply.status
        );
    }
    assert_eq!(fixture.effects().effects, 0);
    for origin in [
        format!("http://127.0.0.1:{port}"),
        format!("http://localhost:{port}"),
    ] {
        let reply = caller.post(&call, &[("origin", &origin)]).await.unwrap();
        assert_eq!(reply.status, 200, "our own origin {origin:?}");
    }
}

/// What is not exactly one well-formed request never runs anything.
#[tokio::test]
async fn odd_json_rpc_shapes_run_nothing() {
    let (gate, fixture) = yard().await;
    let caller = client(&gate, Era::Legacy).await;
    let params = json!({"name": "up__effect", "arguments": {}});
    let call = |fields: Value| {
        let mut message =
            json!({"jsonrpc": "2.0", "method": "tools/call", "params": params, "id": 1});
        for (key, value) in fields.as_object().unwrap() {
            message[key] = value.clone();
        }
        message
    };
    let mut odd = vec![
        call(json!({"jsonrpc": "1.0"})),
        call(json!({"jsonrpc": 2})),
        call(json!({"method": 7})),
        call(json!({"method": null})),
        call(json!({"method": ""})),
        call(json!({"method": "tools/Call"})),
        call(json!({"method": "tools/call "})),
        call(json!({"params": []})),
        call(json!({"params": "up__effect"})),
        call(json!({"params": null})),
        call(json!({"params": {"name": 7}})),
        call(json!({"params": {"name": null, "arguments": {}}})),
        call(json!({"params": {"arguments": {}}})),
        call(json!({"params": {"name": "up__effect", "arguments": []}})),
        call(json!({"params": {"name": "up__effect", "arguments": "x"}})),
        json!([call(json!({}))]),
        json!([]),
        json!("tools/call"),
        json!(7),
        json!({}),
    ];
    odd.extend(
        [json!(null), json!(1.5), json!({}), json!([]), json!(true)]
            .map(|id| call(json!({"id": id}))),
    );
    for message in odd {
        let reply = caller.post(&message, &[]).await.unwrap();
        let status = reply.status;
        let answer = reply.messages().next().await.unwrap();
        let is_refusal = |answer: &Value| {
            answer.get("error").is_some() || answer.pointer("/result/isError") == Some(&json!(true))
        };
        let refused = status >= 400 || answer.as_ref().is_some_and(is_refusal);
        assert!(refused, "{message}: status {status}, {answer:?}");
    }
    // A call without an id is a notification: accepted, perhaps, but never run.
    let mut notification = call(json!({}));
    notification.as_object_mut().unwrap().remove("id");
    caller.post(&notification, &[]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(fixture.effects().effects, 0);
    assert!(
        !caller.call("up__effect", json!({})).await.unwrap().is_error,
        "the session survives all of it"
    );
}

#[tokio::test]
async fn a_batch_works_at_the_one_revision_that_has_them() {
    let (gate, fixture) = yard().await;
    let target = gate.target().unwrap();
    let common = [("accept", BOTH), ("content-type", "application/json")];
    let params = json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}});
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let reply = target
        .send("POST", &headers(&common), hello.to_string().into_bytes())
        .await
        .unwrap();
    let session = reply.header("mcp-session-id").unwrap().to_owned();
    let answer = reply.messages().next().await.unwrap().unwrap();
    assert_eq!(
        answer.pointer("/result/protocolVersion"),
        Some(&json!("2025-03-26")),
        "{answer}"
    );
    let common = headers(&[&common[..], &[("mcp-session-id", session.as_str())]].concat());
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    target
        .send("POST", &common, ready.to_string().into_bytes())
        .await
        .unwrap();
    let echo = |id: u64| {
        let params = json!({"name": "up__echo", "arguments": {"text": format!("number {id}")}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    let batch = json!([echo(1), {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}, echo(2), {"jsonrpc": "2.0", "id": 3}]);
    let mut messages = target
        .send("POST", &common, batch.to_string().into_bytes())
        .await
        .unwrap()
        .messages();
    let mut answers = Vec::new();
    while let Some(message) = messages.next().await.unwrap() {
        match message {
            Value::Array(several) => answers.extend(several),
            one => answers.push(one),
        }
    }
    for id in [1, 2] {
        let answer = answers
            .iter()
            .find(|answer| answer["id"] == id)
            .unwrap_or_else(|| panic!("no answer {id} in {answers:?}"));
        assert_eq!(
            answer.pointer("/result/content/0/text"),
            Some(&json!(format!("number {id}"))),
            "{answer}"
        );
    }
    assert!(
        answers.iter().any(|answer| answer.get("error").is_some()),
        "the broken element is answered too: {answers:?}"
    );
    assert_eq!(fixture.effects().effects, 0);
}

/// The body decides; headers that say something else stop the request.
#[tokio::test]
async fn headers_that_contradict_the_body_run_nothing() {
    let (gate, fixture) = yard().await;
    let caller = client(&gate, Era::Modern).await;
    let call = caller.message(
        1,
        "tools/call",
        json!({"name": "up__effect", "arguments": {}}),
    );
    let methods = [
        "tools/list",
        "tools/Call",
        "TOOLS/CALL",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/read",
        "resources/list",
        "server/discover",
        "completion/complete",
        "subscriptions/listen",
        "tasks/get",
        "initialize",
        "",
        "tools/call,tools/list",
    ];
    let mut wrong: Vec<(&str, &str)> = methods
        .iter()
        .map(|method| ("mcp-method", *method))
        .collect();
    wrong.extend(
        [
            "up__echo",
            "effect",
            "UP__EFFECT",
            "",
            "=?base64?!!!?=",
            "=?base64?dXBfX2VjaG8=?=",
        ]
        .map(|name| ("mcp-name", name)),
    );
    wrong.extend(
        ["2025-11-25", "2026-07-29", "v999", ""].map(|version| ("mcp-protocol-version", version)),
    );
    for (name, value) in wrong {
        let reply = caller.post(&call, &[(name, value)]).await.unwrap();
        let status = reply.status;
        let answer = reply
            .messages()
            .next()
            .await
            .unwrap()
            .unwrap_or(Value::Null);
        assert!(
            status == 400 || status == 404,
            "{name}: {value:?}: status {status}, {answer}"
        );
        let code = answer.pointer("/error/code").and_then(Value::as_i64);
        assert!(
            matches!(code, Some(-32020 | -32022)),
            "{name}: {value:?}: {answer}"
        );
    }
    assert_eq!(fixture.effects().effects, 0);
    let encoded = caller
        .post(&call, &[("mcp-name", "=?base64?dXBfX2VmZmVjdA==?=")])
        .await
        .unwrap();
    assert_eq!(
        encoded.status, 200,
        "the same name, encoded, is the same name"
    );
}

#[tokio::test]
async fn sessions_are_needed_known_and_ended() {
    let (gate, _fixture) = yard().await;
    let target = gate.target().unwrap();
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}})
        .to_string()
        .into_bytes();
    let base = [
        ("accept", BOTH),
        ("content-type", "application/json"),
        ("mcp-protocol-version", "2025-11-25"),
    ];
    let none = target
        .send("POST", &headers(&base), list.clone())
        .await
        .unwrap();
    assert_eq!(none.status, 400, "no session");
    for made_up in [
        "x",
        "00000000-0000-0000-0000-000000000000",
        &"a".repeat(2000),
    ] {
        let with = headers(&[&base[..], &[("mcp-session-id", made_up)]].concat());
        for (method, body) in [
            ("POST", list.clone()),
            ("GET", Vec::new()),
            ("DELETE", Vec::new()),
        ] {
            let reply = target.send(method, &with, body).await.unwrap();
            assert!(
                matches!(reply.status, 400 | 404),
                "{method} with a made-up session: {}",
                reply.status
            );
        }
    }
    let caller = client(&gate, Era::Legacy).await;
    let session = caller.session().unwrap().to_owned();
    assert!(
        session.len() >= 22 && session.bytes().all(|byte| (0x21..=0x7e).contains(&byte)),
        "{session}"
    );
    assert_ne!(
        client(&gate, Era::Legacy).await.session(),
        Some(session.as_str())
    );
    let with = headers(&[&base[..], &[("mcp-session-id", session.as_str())]].concat());
    assert_eq!(
        target
            .send("POST", &with, list.clone())
            .await
            .unwrap()
            .status,
        200
    );
    assert!(
        (200..300).contains(
            &target
                .send("DELETE", &with, Vec::new())
                .await
                .unwrap()
                .status
        )
    );
    assert_eq!(
        target.send("POST", &with, list).await.unwrap().status,
        404,
        "an ended session"
    );
}

#[tokio::test]
async fn health_needs_no_token_and_admin_needs_an_operators() {
    let (gate, _fixture) = yard().await;
    let stranger = Target::new(gate.url(), None).unwrap();
    for path in ["/healthz", "/readyz"] {
        assert_eq!(
            stranger
                .at(path)
                .send("GET", &[], Vec::new())
                .await
                .unwrap()
                .status,
            200,
            "{path}"
        );
    }
    for verb in ["status", "servers", "tools", "reload", "servers/up/retry"] {
        let path = format!("/v1/admin/{verb}");
        for method in ["GET", "POST"] {
            assert_eq!(
                stranger
                    .at(&path)
                    .send(method, &[], Vec::new())
                    .await
                    .unwrap()
                    .status,
                401,
                "{method} {path}"
            );
            let caller = gate.target().unwrap().at(&path);
            assert_eq!(
                caller.send(method, &[], Vec::new()).await.unwrap().status,
                403,
                "{method} {path}"
            );
        }
    }
    assert_eq!(
        admin_target(&gate, "status")
            .send("GET", &[], Vec::new())
            .await
            .unwrap()
            .status,
        200
    );
    assert_eq!(
        admin_target(&gate, "no-such")
            .send("GET", &[], Vec::new())
            .await
            .unwrap()
            .status,
        404
    );
}

/// One request in, at most one call out, however its length is spelled.
#[tokio::test]
async fn smuggled_requests_are_not_run() {
    let (gate, fixture) = yard().await;
    let (address, token) = (gate.target().unwrap().address, gate.token().unwrap());
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"name": "up__effect", "arguments": {}, "_meta": meta});
    let call =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\naccept: {BOTH}\r\ncontent-type: application/json\r\n\
         mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: up__effect\r\n"
    );
    let hidden = format!("{head}content-length: {}\r\n\r\n{call}", call.len());
    let (inner, chunked) = (
        hidden.len(),
        format!("{:x}\r\n{hidden}\r\n0\r\n\r\n", hidden.len()),
    );
    let framings: Vec<(&str, String)> = vec![
        (
            "both lengths",
            format!("content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"),
        ),
        (
            "both lengths, other order",
            format!(
                "transfer-encoding: chunked\r\ncontent-length: {inner}\r\n\r\n0\r\n\r\n{hidden}"
            ),
        ),
        (
            "two lengths",
            format!("content-length: 0\r\ncontent-length: {inner}\r\n\r\n{hidden}"),
        ),
        (
            "a list of lengths",
            format!("content-length: 0, {inner}\r\n\r\n{hidden}"),
        ),
        (
            "a negative length",
            format!("content-length: -1\r\n\r\n{hidden}"),
        ),
        (
            "a signed length",
            format!("content-length: +{inner}\r\n\r\n{hidden}"),
        ),
        (
            "a length in hex",
            format!("content-length: 0x10\r\n\r\n{hidden}"),
        ),
        (
            "chunked twice",
            format!("transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n{chunked}"),
        ),
        (
            "chunked, misspelt",
            format!("transfer-encoding: xchunked\r\n\r\n{chunked}"),
        ),
        (
            "chunked, not last",
            format!("transfer-encoding: chunked, gzip\r\n\r\n{chunked}"),
        ),
        (
            "chunked, folded",
            format!("transfer-encoding:\r\n chunked\r\n\r\n{chunked}"),
        ),
        (
            "a space before the colon",
            format!("transfer-encoding : chunked\r\ncontent-length: 0\r\n\r\n{hidden}"),
        ),
        (
            "a bare carriage return",
            format!("x: y\rcontent-length: {inner}\r\n\r\n{hidden}"),
        ),
        (
            "a nul in a header",
            format!("x: \0\r\ncontent-length: 0\r\n\r\n{hidden}"),
        ),
        (
            "a chunk size that overflows",
            format!("transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n{hidden}"),
        ),
        (
            "a chunk size with a sign",
            format!("transfer-encoding: chunked\r\n\r\n-1\r\n{hidden}"),
        ),
        (
            "old protocol with chunks",
            format!("transfer-encoding: chunked\r\n\r\n{chunked}"),
        ),
    ];
    for (what, framing) in framings {
        let version = if what.starts_with("old") {
            "HTTP/1.0"
        } else {
            "HTTP/1.1"
        };
        let outer = format!("GET /healthz {version}\r\nhost: {address}\r\n{framing}");
        let reply = raw(address, outer.as_bytes()).await;
        assert_eq!(
            fixture.effects().effects,
            0,
            "{what}: the hidden request ran; the gate said {reply}"
        );
        let answered = reply.matches("HTTP/1.").count();
        assert!(
            answered <= 1,
            "{what}: {answered} replies to one request: {reply}"
        );
    }
    assert!(
        raw(address, hidden.as_bytes())
            .await
            .starts_with("HTTP/1.1 200"),
        "in the open it runs"
    );
    assert_eq!(fixture.effects().effects, 1);
}

/// Connections that dawdle cost the others nothing.
#[tokio::test]
async fn dawdling_connections_delay_nobody() {
    let _alone = alone().await;
    let (gate, _fixture) = yard().await;
    let address = gate.target().unwrap().address;
    let mut dawdlers = Vec::new();
    for number in 0..300 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let part: &[u8] = match number % 3 {
            0 => b"",
            1 => b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: ",
            _ => b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100000\r\n\r\n{",
        };
        stream.write_all(part).await.unwrap();
        dawdlers.push(stream);
    }
    let caller = client(&gate, Era::Modern).await;
    let mut latencies = Vec::new();
    for turn in 0..100 {
        let began = Instant::now();
        let text = format!("turn {turn}");
        assert_eq!(
            caller
                .call("up__echo", json!({"text": text}))
                .await
                .unwrap()
                .text,
            text
        );
        latencies.push(began.elapsed());
    }
    let p99 = percentile(&mut latencies, 99);
    assert!(p99 < Duration::from_millis(100), "p99 was {p99:?}");
    drop(dawdlers);
}

/// Callers who ask for much and read nothing cost what they asked for, and only them.
#[tokio::test]
async fn clients_that_do_not_read_delay_nobody() {
    let _alone = alone().await;
    let (gate, _fixture) = yard().await;
    let (address, token) = (gate.target().unwrap().address, gate.token().unwrap());
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"name": "up__big", "arguments": {"bytes": 3 << 20}, "_meta": meta});
    let call =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\naccept: {BOTH}\r\ncontent-type: application/json\r\n\
         mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: up__big\r\ncontent-length: {}\r\n\r\n{call}",
        call.len()
    );
    let mut idle = Vec::new();
    for _ in 0..16 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        idle.push(stream);
    }
    let caller = client(&gate, Era::Modern).await;
    eventually(
        "the calls to be over for the gate",
        Duration::from_secs(15),
        || async {
            let calls = admin(&gate, "GET", "status").await["calls"].clone();
            if calls["answered"].as_u64() >= Some(16) {
                Ok(())
            } else {
                Err(calls.to_string())
            }
        },
    )
    .await;
    let mut latencies = Vec::new();
    for turn in 0..100 {
        let began = Instant::now();
        let text = format!("turn {turn}");
        assert_eq!(
            caller
                .call("up__echo", json!({"text": text}))
                .await
                .unwrap()
                .text,
            text
        );
        latencies.push(began.elapsed());
    }
    let p99 = percentile(&mut latencies, 99);
    assert!(p99 < Duration::from_millis(100), "p99 was {p99:?}");
    let mib = testkit::procfs::peak_resident_bytes(gate.pid()) >> 20;
    println!("p99 {p99:?}; gate peak {mib} MiB");
    // All of it is the gate's own: the kernel is given no more of each answer than its reader takes.
    assert!(
        mib <= 112,
        "the gate took {mib} MiB for 48 MiB that nobody reads"
    );
    drop(idle);
}

/// What the gate does not need to change, it does not change: numbers keep their text, fields their order.
#[tokio::test]
async fn arguments_and_results_pass_byte_for_byte() {
    let upstream = Hostile::start(Script::Honest, 1).await.unwrap();
    let gate = connected(&[("raw", http(&upstream.url(), "classification: PUBLIC"))]).await;
    let caller = client(&gate, Era::Legacy).await;
    let arguments = r#"{"z":1.0,"text":"x","a":123456789012345678901234567890.10,"e":1E+2,"m":-0,"u":"\u00e9 \/ é","n":{"b":[1,  2],"a":null}}"#;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{{"name":"raw__echo","arguments":{arguments}}}}}"#
    );
    let with = headers(&[
        ("accept", BOTH),
        ("content-type", "application/json"),
        ("mcp-protocol-version", "2025-11-25"),
        ("mcp-session-id", caller.session().unwrap()),
    ]);
    let reply = gate
        .target()
        .unwrap()
        .send("POST", &with, body.into_bytes())
        .await
        .unwrap();
    let text = String::from_utf8(reply.bytes().await.unwrap().to_vec()).unwrap();
    assert!(text.contains(arguments), "{arguments}\nis not in\n{text}");
}

#[test]
fn a_door_to_the_world_is_refused() {
    for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:7878", "example.com:80"] {
        let home = tempfile::tempdir().unwrap();
        let output = std::process::Command::new(portcullis())
            .arg("--home")
            .arg(home.path())
            .args(["up", "--listen", listen])
            .output();
        let output = output.unwrap();
        assert_eq!(
            output.status.code(),
            Some(2),
            "{listen}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(!home.path().join("run/gate.json").exists(), "{listen}");
    }
}

/// A legacy client may lose its stream and come back for what it missed.
#[tokio::test]
async fn a_lost_stream_can_be_resumed() {
    let (gate, _fixture) = yard().await;
    let caller = client(&gate, Era::Legacy).await;
    let call = caller.message(
        41,
        "tools/call",
        json!({"name": "up__progress", "arguments": {"steps": 10},
        "_meta": {"progressToken": "p"}}),
    );
    let reply = caller.post(&call, &[]).await.unwrap();
    assert!(
        reply
            .header("content-type")
            .is_some_and(|kind| kind.starts_with("text/event-stream")),
        "progress needs a stream"
    );
    let last = first_event_id(reply).await;
    let with = headers(&[
        ("accept", "text/event-stream"),
        ("mcp-protocol-version", "2025-11-25"),
        ("mcp-session-id", caller.session().unwrap()),
        ("last-event-id", &last),
    ]);
    let mut messages = gate
        .target()
        .unwrap()
        .send("GET", &with, Vec::new())
        .await
        .unwrap()
        .messages();
    let answer = tokio::time::timeout(Duration::from_secs(5), async {
        loop {
            let message = messages
                .next()
                .await
                .unwrap()
                .expect("the stream goes on until the answer");
            if message["id"] == 41 {
                return message;
            }
        }
    });
    let answer = answer.await.expect("the answer is not lost");
    assert!(answer.to_string().contains("reported 11 times"), "{answer}");
}

/// Reads a stream until its first event id, then hangs up.
async fn first_event_id(reply: testkit::client::Reply) -> String {
    let text = tokio::time::timeout(Duration::from_secs(5), reply.head_of_body("\n\n"))
        .await
        .expect("an event")
        .unwrap();
    let id = text
        .lines()
        .find_map(|line| line.strip_prefix("id:"))
        .unwrap_or_else(|| panic!("no event id in {text:?}"));
    id.trim().to_owned()
}

/// Sends bytes, and reads whatever comes until the gate closes or has nothing more to say.
async fn raw(address: std::net::SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut reply = Vec::new();
    let patience = Duration::from_millis(300);
    while let Ok(Ok(count)) = tokio::time::timeout(patience, stream.read_buf(&mut reply)).await {
        if count == 0 {
            break;
        }
    }
    String::from_utf8_lossy(&reply).into_owned()
}

/// A caller that goes away is not a caller that cancels, in the era where hanging up means nothing.
#[tokio::test]
async fn hanging_up_does_not_cancel_a_legacy_call() {
    let (gate, fixture) = yard().await;
    let caller: Client = client(&gate, Era::Legacy).await;
    let call = caller.message(
        1,
        "tools/call",
        json!({"name": "up__slow", "arguments": {"ms": 500}}),
    );
    let posting = tokio::spawn({
        let caller = caller.clone();
        async move { caller.post(&call, &[]).await.map(|reply| reply.status) }
    });
    eventually(
        "the call to be in flight",
        Duration::from_secs(5),
        || async {
            if fixture.effects().started == 1 {
                Ok(())
            } else {
                Err("not yet".to_owned())
            }
        },
    )
    .await;
    posting.abort();
    eventually(
        "the call to finish all the same",
        Duration::from_secs(5),
        || async {
            let effects = fixture.effects();
            if effects.finished == 1 {
                Ok(())
            } else {
                Err(format!("{effects:?}"))
            }
        },
    )
    .await;
    assert_eq!(fixture.effects().cancelled, 0);
}
