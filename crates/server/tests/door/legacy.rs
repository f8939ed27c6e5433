//! Sessions, as a client of 2025 sees them.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::yard::{BOB, Yard};

fn initialize(version: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"t","version":"1"}}}}}}"#
    )
}

async fn begin(yard: &Yard, version: &str) -> String {
    let response = yard.post(&initialize(version)).send().await;
    assert_eq!(response.status, 200);
    assert!(
        response
            .body
            .contains(&format!(r#""protocolVersion":"{version}""#)),
        "{}",
        response.body
    );
    response.header("mcp-session-id").unwrap().to_owned()
}

fn ask(method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":"x","method":"{method}"}}"#)
}

#[tokio::test]
async fn a_session_from_beginning_to_end() {
    let yard = Yard::open().await;
    let session = begin(&yard, "2025-11-25").await;
    let post = |body: &str| yard.post(body).with("Mcp-Session-Id", &session);
    assert_eq!(
        post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
            .send()
            .await
            .status,
        202
    );
    assert_eq!(
        post(&ask("ping")).send().await.body,
        r#"{"jsonrpc":"2.0","id":"x","result":{}}"#
    );
    assert_eq!(
        post(&ask("tools/list")).send().await.body,
        r#"{"jsonrpc":"2.0","id":"x","result":{"tools":[]}}"#
    );
    assert_eq!(post(&ask("no/such")).send().await.code(), Some(-32601));
    assert_eq!(post(&ask("tasks/update")).send().await.code(), Some(-32601));
    assert_eq!(
        post(&ask("subscriptions/listen")).send().await.code(),
        Some(-32601)
    );
    let unknown =
        r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"nobody__knows"}}"#;
    let response = post(unknown).send().await;
    assert_eq!(
        (response.status, response.code()),
        (200, Some(-32602)),
        "{}",
        response.body
    );
    assert!(response.body.contains("Unknown tool: nobody__knows"));
    assert_eq!(
        post(&ask("ping"))
            .with("MCP-Protocol-Version", "2024-01-01")
            .send()
            .await
            .status,
        400
    );
    assert_eq!(
        post(&ask("ping")).by(BOB).send().await.status,
        404,
        "a session id is no credential"
    );
    assert_eq!(
        post(&ask("ping")).at("/u/demo/mcp").send().await.status,
        404,
        "nor a way to another mount"
    );
    let end = || {
        yard.request("DELETE", "/mcp")
            .with("Mcp-Session-Id", &session)
    };
    let modern = end()
        .with("MCP-Protocol-Version", "2026-07-28")
        .send()
        .await;
    assert!(
        modern.status == 400 && modern.body.contains("2026-07-28 has no sessions"),
        "{}",
        modern.body
    );
    assert_eq!(end().by(BOB).send().await.status, 404);
    assert_eq!(end().send().await.status, 204);
    assert_eq!(post(&ask("ping")).send().await.status, 404);
}

#[tokio::test]
async fn cursors_are_checked() {
    let yard = Yard::open().await;
    let session = begin(&yard, "2025-06-18").await;
    for cursor in [r#""""#, r#""made up""#, "1"] {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"cursor":{cursor}}}}}"#
        );
        assert_eq!(
            yard.post(&body)
                .with("Mcp-Session-Id", &session)
                .send()
                .await
                .code(),
            Some(-32602),
            "{cursor}"
        );
    }
}

#[tokio::test]
async fn batches_exist_in_one_revision_only() {
    let yard = Yard::open().await;
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":2},{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"a__b"}}]"#;
    for version in ["2025-06-18", "2025-11-25"] {
        let session = begin(&yard, version).await;
        assert_eq!(
            yard.post(batch)
                .with("Mcp-Session-Id", &session)
                .send()
                .await
                .code(),
            Some(-32600),
            "{version}"
        );
    }
    let session = begin(&yard, "2025-03-26").await;
    let post = |body: &str| yard.post(body).with("Mcp-Session-Id", &session);
    let body = post(batch).send().await.body;
    let json = wire::Json::parse(body.as_bytes(), wire::Limits::default()).unwrap();
    let ids: Vec<_> = json
        .items()
        .map(|message| message.get("id").unwrap().text().to_owned())
        .collect();
    assert_eq!(ids, ["1", "2", "3"], "{body}");
    assert_eq!(post("[]").send().await.code(), Some(-32600));
    assert_eq!(
        post(r#"[{"jsonrpc":"2.0","method":"notifications/x"}]"#)
            .send()
            .await
            .status,
        202
    );
    assert_eq!(
        yard.post(batch).send().await.status,
        400,
        "without a session there is no revision"
    );
}

#[tokio::test]
async fn the_number_of_sessions_is_bounded() {
    let yard = Yard::open().await;
    let first = begin(&yard, "2025-11-25").await;
    for _ in 0..20 {
        begin(&yard, "2025-11-25").await;
    }
    let post = yard.post(&ask("ping")).with("Mcp-Session-Id", &first);
    assert_eq!(
        post.send().await.status,
        404,
        "the oldest idle one made room"
    );
    assert_eq!(
        yard.post(&initialize("2025-11-25"))
            .by(BOB)
            .send()
            .await
            .status,
        503,
        "a full house does not end another's"
    );
}

#[tokio::test]
async fn a_stream_opened_by_get_ends_when_the_door_closes() {
    let yard = Yard::open().await;
    let session = begin(&yard, "2025-11-25").await;
    let mut stream = tokio::net::TcpStream::connect(yard.address).await.unwrap();
    stream
        .write_all(
            yard.request("GET", "/mcp")
                .with("Mcp-Session-Id", &session)
                .text()
                .as_bytes(),
        )
        .await
        .unwrap();
    let mut head = [0; 512];
    let read = stream.read(&mut head).await.unwrap();
    let head = String::from_utf8_lossy(&head[..read]).to_lowercase();
    assert!(
        head.starts_with("http/1.1 200")
            && head.contains("text/event-stream")
            && head.contains("x-accel-buffering: no"),
        "{head}"
    );
    let started = Instant::now();
    yard.close().await;
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "closing took {:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn only_ids_we_gave_out_resume() {
    let yard = Yard::open().await;
    let session = begin(&yard, "2025-11-25").await;
    for id in ["1-1", "x", "1-1-1", "-"] {
        let response = yard
            .request("GET", "/mcp")
            .with("Mcp-Session-Id", &session)
            .with("Last-Event-ID", id)
            .send()
            .await;
        assert_eq!(response.status, 400, "{id}");
    }
}
