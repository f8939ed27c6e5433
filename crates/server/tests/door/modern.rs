//! Requests that stand alone, as a client of 2026 sends them.

use crate::yard::{Request, Yard};

const VERSION: &str = "2026-07-28";

fn body(method: &str, version: &str, more: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":"q1","method":"{method}","params":{{{more}"_meta":{{"io.modelcontextprotocol/protocolVersion":"{version}","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    )
}

fn ask<'a>(yard: &'a Yard, method: &str, more: &str) -> Request<'a> {
    yard.post(&body(method, VERSION, more))
        .with("MCP-Protocol-Version", VERSION)
        .with("Mcp-Method", method)
}

#[tokio::test]
async fn discovery_says_who_and_what() {
    let yard = Yard::open().await;
    let response = ask(&yard, "server/discover", "").send().await;
    assert_eq!(response.status, 200);
    let json = wire::Json::parse(response.body.as_bytes(), wire::Limits::default()).unwrap();
    let result = json.get("result").unwrap();
    assert_eq!(result.get("supportedVersions").unwrap().items().count(), 4);
    assert_eq!(
        result
            .path(&["_meta", "io.modelcontextprotocol/serverInfo", "name"])
            .unwrap()
            .as_str()
            .unwrap(),
        "portcullis"
    );
    assert!(
        result
            .get("capabilities")
            .is_some_and(wire::Json::is_object)
    );
    assert_eq!(
        response.header("mcp-session-id"),
        None,
        "no session is ever made"
    );
}

#[tokio::test]
async fn a_list_says_how_long_it_holds_and_for_whom() {
    let yard = Yard::open().await;
    let body = ask(&yard, "tools/list", "").send().await.body;
    assert!(
        body.contains(r#""resultType":"complete","tools":[]"#)
            && body.contains(r#""cacheScope":"private""#),
        "{body}"
    );
}

#[tokio::test]
async fn refusals_have_their_status_code_and_id() {
    let yard = Yard::open().await;
    let no_meta = r#"{"jsonrpc":"2.0","id":"q1","method":"server/discover"}"#;
    let discover = || ask(&yard, "server/discover", "");
    let both = yard
        .post(&body("server/discover", "v9", ""))
        .with("MCP-Protocol-Version", "v9")
        .with("Mcp-Method", "server/discover");
    let only_body = yard
        .post(&body("server/discover", "v9", ""))
        .with("MCP-Protocol-Version", VERSION)
        .with("Mcp-Method", "server/discover");
    let call = || ask(&yard, "tools/call", r#""name":"a__b","#);
    let rows = [
        (
            yard.post(no_meta).with("MCP-Protocol-Version", VERSION),
            400,
            -32602,
        ),
        (both, 400, -32022),
        (only_body, 400, -32020),
        (discover().with("MCP-Protocol-Version", ""), 400, -32020),
        (discover().with("Mcp-Method", ""), 400, -32020),
        (
            discover().with("Mcp-Method", "SERVER/DISCOVER"),
            400,
            -32020,
        ),
        (call(), 400, -32020),
        (call().with("Mcp-Name", "other"), 400, -32020),
        (call().with("Mcp-Name", "  a__b "), 200, -32602),
        (
            ask(&yard, "tasks/get", r#""taskId":"t","#).with("Mcp-Name", "t"),
            404,
            -32601,
        ),
        (ask(&yard, "subscriptions/listen", ""), 400, -32602),
    ];
    for (index, (request, status, code)) in rows.into_iter().enumerate() {
        let response = request.send().await;
        assert_eq!(
            (response.status, response.code()),
            (status, Some(code)),
            "row {index}: {}",
            response.body
        );
        assert!(
            response.body.contains(r#""id":"q1""#),
            "row {index}: {}",
            response.body
        );
    }
}

#[tokio::test]
async fn methods_that_are_gone_are_not_found() {
    let yard = Yard::open().await;
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "tasks/list",
        "tasks/result",
        "no/such",
    ] {
        let response = ask(&yard, method, "").send().await;
        assert_eq!(
            (response.status, response.code()),
            (404, Some(-32601)),
            "{method}"
        );
    }
}

#[tokio::test]
async fn answers_to_nothing_are_refused_and_notifications_accepted() {
    let yard = Yard::open().await;
    let send = |body: &str| yard.post(body).with("MCP-Protocol-Version", VERSION);
    assert_eq!(
        send(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)
            .send()
            .await
            .status,
        400
    );
    assert_eq!(
        send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#)
            .send()
            .await
            .status,
        202
    );
}
