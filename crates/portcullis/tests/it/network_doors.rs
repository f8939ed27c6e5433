//! Doors that others can reach, as `openssl` and `curl` see them, and how often one address may ask.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

use serde_json::{Value, json};
use testkit::gate::{Gate, Setup};

use crate::{
    operator::SOON,
    support::{admin, eventually, fixture, http, portcullis, records},
};

fn openssl(dir: &Path, args: &[&str]) {
    let done = Command::new("openssl")
        .args(args)
        .current_dir(dir)
        .output()
        .expect("`openssl` is needed");
    assert!(
        done.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
}

fn authority(dir: &Path) {
    openssl(
        dir,
        &[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "30",
            "-keyout",
            "ca.key",
            "-out",
            "ca.pem",
            "-subj",
            "/CN=authority",
            "-addext",
            "basicConstraints=critical,CA:TRUE",
        ],
    );
}

fn issue(dir: &Path, name: &str, alternative: &str) {
    let file = |end: &str| format!("{name}.{end}");
    openssl(
        dir,
        &[
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-keyout",
            &file("key"),
            "-out",
            &file("csr"),
            "-subj",
            "/CN=somebody",
        ],
    );
    fs::write(dir.join("ext"), format!("subjectAltName={alternative}\n")).unwrap();
    openssl(
        dir,
        &[
            "x509",
            "-req",
            "-in",
            &file("csr"),
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-days",
            "20",
            "-extfile",
            "ext",
            "-out",
            &file("pem"),
        ],
    );
    fs::set_permissions(dir.join(file("key")), fs::Permissions::from_mode(0o600)).unwrap();
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

async fn curl(args: &[&str]) -> Output {
    let mut curl = tokio::process::Command::new("curl");
    curl.args(["--silent", "--show-error", "--max-time", "60"]);
    curl.args(args).output().await.expect("`curl` is needed")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

async fn up(yaml: &str, env: &[(&str, &str)]) -> Gate {
    let mut setup = Setup::new(portcullis(), yaml);
    for (name, value) in env {
        setup = setup.env(name, value);
    }
    setup.start().await.unwrap()
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"curl","version":"1"}}}"#;

#[tokio::test]
async fn a_certificate_makes_a_caller_over_tls_and_without_one_there_is_no_connection() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    authority(at);
    issue(at, "door", "DNS:localhost,IP:127.0.0.1");
    issue(at, "agent", "URI:spiffe://example.org/agents/mail");
    issue(at, "boss", "URI:spiffe://example.org/operators/ann");
    issue(at, "other", "URI:spiffe://example.org/somebody");
    let port = free_port();
    let place = at.display();
    let gate = up(
        &format!(
            "doors:\n  - listen: 127.0.0.1:{port}\n    tls: {{ cert: {place}/door.pem, key: {place}/door.key }}\n    mtls:\n      mode: require\n      \
             role: identity\n      ca_files: [{place}/ca.pem]\n      callers:\n        - {{ uri: \"spiffe://example.org/agents/*\", user: mail }}\n        \
             - {{ uri: \"spiffe://example.org/operators/ann\", user: ann, operator: true }}\n"
        ),
        &[],
    )
    .await;
    let call = async |who: Option<&str>, path: &str, body: &str| {
        let url = format!("https://localhost:{port}{path}");
        let ca = format!("{place}/ca.pem");
        let mut args = vec![
            "--cacert",
            &ca,
            "--header",
            "Accept: application/json, text/event-stream",
            "--header",
            "Content-Type: application/json",
            "--write-out",
            "\n%{http_code}",
        ];
        let (certificate, key);
        if let Some(who) = who {
            certificate = format!("{place}/{who}.pem");
            key = format!("{place}/{who}.key");
            args.extend(["--cert", &certificate, "--key", &key]);
        }
        if !body.is_empty() {
            args.extend(["--data", body]);
        }
        args.push(&url);
        curl(&args).await
    };
    let greeted = call(Some("agent"), "/mcp", INITIALIZE).await;
    assert!(greeted.status.success(), "{greeted:?}");
    assert!(text(&greeted).ends_with("200"), "{greeted:?}");
    let refused = call(Some("agent"), "/v1/admin/status", "").await;
    assert!(text(&refused).ends_with("403"), "{refused:?}");
    let status = call(Some("boss"), "/v1/admin/status", "").await;
    assert!(text(&status).ends_with("200"), "{status:?}");
    for who in [None, Some("other")] {
        let closed = call(who, "/mcp", INITIALIZE).await;
        assert!(!closed.status.success(), "{who:?} came in: {closed:?}");
    }
    // A renewed certificate is the same caller.
    issue(at, "agent", "URI:spiffe://example.org/agents/mail");
    let again = call(Some("agent"), "/mcp", INITIALIZE).await;
    assert!(text(&again).ends_with("200"), "{again:?}");
    let sessions = admin(&gate, "GET", "sessions").await.to_string();
    let known = sessions
        .matches(":spiffe://example.org/agents/mail")
        .count();
    assert!(known >= 1, "{sessions}");
    let opened = records(&gate).await;
    let opened = opened
        .iter()
        .find(|record| record["action"] == "gate.opened")
        .unwrap();
    assert!(opened.to_string().contains(&port.to_string()), "{opened}");
}

#[tokio::test]
async fn a_certificate_that_is_replaced_is_shown_and_a_bad_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    authority(at);
    issue(at, "door", "DNS:localhost");
    let port = free_port();
    let place = at.display();
    let gate = up(
        &format!("doors:\n  - listen: 127.0.0.1:{port}\n    tls: {{ cert: {place}/door.pem, key: {place}/door.key }}\n"),
        &[],
    )
    .await;
    let is_up = async || {
        let ca = format!("{place}/ca.pem");
        let url = format!("https://localhost:{port}/healthz");
        curl(&["--cacert", &ca, &url]).await
    };
    assert!(is_up().await.status.success());
    let told = async |action: &str| {
        eventually(action, SOON, || async {
            let found = records(&gate).await;
            match found.iter().find(|record| record["action"] == action) {
                Some(record) => Ok(record.clone()),
                None => Err(format!("{} records", found.len())),
            }
        })
        .await
    };
    issue(at, "door", "DNS:localhost");
    told("door.certificate_taken").await;
    assert!(is_up().await.status.success());
    fs::write(at.join("door.key"), "nonsense").unwrap();
    let refused = told("door.certificate_refused").await;
    assert!(refused.to_string().contains("door.key"), "{refused}");
    assert!(is_up().await.status.success());
}

#[tokio::test]
async fn an_address_that_asks_too_often_is_told_when_to_come_again() {
    let gate = up(
        "mcp_servers: {}\n",
        &[
            ("MCP_RATE_LIMIT_ENABLED", "true"),
            ("MCP_RATE_LIMIT_REQUESTS", "40"),
            ("MCP_RATE_LIMIT_WINDOW_SECONDS", "3600"),
        ],
    )
    .await;
    let base = gate.url().trim_end_matches("/mcp").to_owned();
    let ask = async |path: &str| {
        let url = format!("{base}{path}");
        text(&curl(&["--include", "--header", "X-Forwarded-For: 6.6.6.6", &url]).await)
    };
    let mut answered = 0;
    let refused = loop {
        let answer = ask("/mcp").await;
        if answer.starts_with("HTTP/1.1 429") {
            break answer;
        }
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
        answered += 1;
        assert!(answered <= 40, "nobody counts");
    };
    assert!(
        answered >= 35,
        "{answered}: the harness asks only a few times itself"
    );
    let lower = refused.to_ascii_lowercase();
    for header in [
        "retry-after: ",
        "ratelimit-policy: \"ip\";q=40;w=3600",
        "ratelimit: \"ip\";r=0;t=",
    ] {
        assert!(lower.contains(header), "no `{header}` in {refused}");
    }
    let body: Value = serde_json::from_str(refused.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!(body["id"], Value::Null);
    assert_eq!(
        body["error"]["data"],
        json!({"status": "error", "error_code": "permission_denied", "error": "Too many requests from this address", "violation": "RateLimitExceeded"})
    );
    let unknown = ask("/nowhere").await;
    assert!(
        unknown.contains("application/problem+json") && unknown.contains("quota-exceeded"),
        "{unknown}"
    );
    for _ in 0..50 {
        assert!(
            ask("/readyz").await.starts_with("HTTP/1.1 200"),
            "health is not counted"
        );
        assert!(
            ask("/livez").await.starts_with("HTTP/1.1 200"),
            "health is not counted"
        );
    }
    let mut closed = false;
    for _ in 0..10 {
        closed |= ask("/mcp")
            .await
            .to_ascii_lowercase()
            .contains("connection: close");
    }
    assert!(closed, "the connection of who goes on asking ends");
    let throttled = records(&gate).await;
    let throttled: Vec<_> = throttled
        .iter()
        .filter(|record| record["action"] == "client.throttled")
        .collect();
    assert_eq!(throttled.len(), 1, "{throttled:?}");
    assert!(
        throttled[0].to_string().contains("127.0.0.1"),
        "a stranger's header changed who it is"
    );
}

#[tokio::test]
async fn nobody_is_counted_unless_an_operator_says_so() {
    let gate = up("mcp_servers: {}\n", &[]).await;
    let url = gate.url().to_owned();
    // One process, one connection: a thousand requests.
    let answer = curl(&[
        "--output",
        "/dev/null",
        "--write-out",
        "%{http_code}\n",
        &format!("{url}?[1-1000]"),
    ])
    .await;
    let text = text(&answer);
    assert_eq!(
        text.lines().filter(|code| *code == "401").count(),
        1000,
        "{text:.200}"
    );
}

#[tokio::test]
async fn who_a_trusted_proxy_speaks_for_is_who_is_counted() {
    let port = free_port();
    let gate = up(
        &format!(
            "rate_limit: {{ enabled: true, requests: 5, window: 1h }}\ndoors:\n  - listen: 127.0.0.1:{port}\n    proxies: {{ trusted: [127.0.0.1], protocol: v1, header: x-forwarded-for }}\n"
        ),
        &[],
    )
    .await;
    let url = format!("http://127.0.0.1:{port}/mcp");
    let ask = async |more: &[&str]| {
        let mut args = vec!["--output", "/dev/null", "--write-out", "%{http_code}"];
        args.extend(more);
        args.push(&url);
        text(&curl(&args).await)
    };
    // The preamble of `curl` speaks for the proxy itself, so the header says who it is.
    for _ in 0..5 {
        assert_eq!(
            ask(&[
                "--haproxy-protocol",
                "--header",
                "X-Forwarded-For: 192.0.2.1"
            ])
            .await,
            "401"
        );
    }
    assert_eq!(
        ask(&[
            "--haproxy-protocol",
            "--header",
            "X-Forwarded-For: 192.0.2.1"
        ])
        .await,
        "429"
    );
    assert_eq!(
        ask(&[
            "--haproxy-protocol",
            "--header",
            "X-Forwarded-For: 6.6.6.6, 192.0.2.1"
        ])
        .await,
        "429"
    );
    assert_eq!(
        ask(&[
            "--haproxy-protocol",
            "--header",
            "X-Forwarded-For: 192.0.2.2"
        ])
        .await,
        "401"
    );
    assert_eq!(
        ask(&[]).await,
        "000",
        "a trusted proxy that sends no preamble is nobody's"
    );
    drop(gate);
}

/// The time of a call: its tool's own, else none where the tool waits for a person, else its server's, else everybody's.
#[tokio::test]
async fn a_tools_time_is_its_own_or_none_for_a_person_or_everybodys() {
    let fixture = fixture().await;
    let rules = "classification: PUBLIC, tools: { slow: { is_hitl: true }, echo: permitted }";
    let server = |id: &str, more: &str| format!("  {id}: {}\n", http(&fixture.url(), more));
    let yaml = format!(
        "mcp_servers:\n{}{}{}",
        server("person", rules),
        server(
            "own",
            "classification: PUBLIC, timeout: 1h, tools: { slow: { timeout: 300ms, is_hitl: true } }"
        ),
        server("plain", "classification: PUBLIC"),
    );
    let gate = up(&yaml, &[("MCP_TOOL_TIMEOUT_SECONDS", "0.4")]).await;
    let explained = gate.cli(&["config", "explain"]).await.unwrap();
    drop(explained);
    let agent = crate::support::client(&gate, testkit::client::Era::Modern).await;
    for id in ["person", "own", "plain"] {
        crate::support::await_state(&gate, id, "connected", SOON).await;
    }
    for id in ["own", "plain"] {
        let called = agent
            .call(&format!("{id}__slow"), json!({"ms": 20_000}))
            .await
            .unwrap();
        assert_eq!(
            called.error_code(),
            Some("timeout"),
            "{id}: {}",
            called.answer
        );
        assert!(called.text.contains("timeout"), "{id}: {}", called.text);
    }
    let waited = agent
        .call("person__slow", json!({"ms": 1500}))
        .await
        .unwrap();
    assert_eq!(waited.error_code(), None, "{}", waited.answer);
}
