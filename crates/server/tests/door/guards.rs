//! What is refused before it is a message.

use crate::yard::{ALICE, MAX_BODY, OPERATOR, Yard, cannot_reload};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

#[tokio::test]
async fn strangers_are_told_to_show_a_credential() {
    let yard = Yard::open().await;
    for (request, what) in [
        (yard.post(PING).with("Authorization", ""), "none"),
        (yard.post(PING).by("pct_wrong"), "unknown"),
        (
            yard.post(PING)
                .with("Authorization", &format!("Basic {ALICE}")),
            "another scheme",
        ),
        (
            yard.post(PING)
                .with("Authorization", "")
                .at(&format!("/mcp?access_token={ALICE}")),
            "in the url",
        ),
        (
            yard.post(PING).at(&format!("/mcp?token={ALICE}")),
            "in the url as well",
        ),
        (
            yard.request("GET", "/nowhere").with("Authorization", ""),
            "nowhere",
        ),
    ] {
        let response = request.send().await;
        assert_eq!(response.status, 401, "{what}");
        assert_eq!(
            response.header("www-authenticate"),
            Some("Bearer"),
            "{what}"
        );
        assert!(
            !response.body.contains("pct_"),
            "a credential is never echoed: {}",
            response.body
        );
    }
}

#[tokio::test]
async fn pages_of_other_sites_get_nothing() {
    let yard = Yard::open().await;
    for (name, value) in [
        ("Host", "evil.example.com"),
        ("Host", "127.0.0.1:1"),
        ("Origin", "http://evil.example.com"),
        ("Origin", "null"),
        ("Origin", "https://app.example.evil"),
    ] {
        assert_eq!(
            yard.post(PING).with(name, value).send().await.status,
            403,
            "{name}: {value}"
        );
        assert_eq!(
            yard.request("GET", "/healthz")
                .with(name, value)
                .send()
                .await
                .status,
            403,
            "{name}: {value}"
        );
    }
    for (name, value) in [
        ("Host", "localhost"),
        ("Host", "gate.example"),
        ("Origin", "https://app.example"),
        ("Origin", "http://localhost:3000"),
    ] {
        assert_eq!(
            yard.request("GET", "/healthz")
                .with(name, value)
                .send()
                .await
                .status,
            200,
            "{name}: {value}"
        );
    }
    assert_eq!(
        yard.request("GET", "http://evil.example.com/healthz")
            .send()
            .await
            .status,
        403,
        "a foreign authority in the request line"
    );
    assert_eq!(
        yard.request("GET", "/healthz")
            .with("Host", "")
            .send()
            .await
            .status,
        403,
        "no Host at all"
    );
}

#[tokio::test]
async fn paths_and_methods() {
    let yard = Yard::open().await;
    assert_eq!(
        yard.request("GET", "/readyz")
            .with("Authorization", "")
            .send()
            .await
            .status,
        200
    );
    assert_eq!(yard.request("GET", "/nothing").send().await.status, 404);
    let welcome = yard.request("GET", "/").with("Authorization", "").send();
    assert_eq!(welcome.await.status, 200, "it says where the console is");
    assert_eq!(yard.request("POST", "/").send().await.status, 405);
    let discovery = yard
        .request("GET", "/.well-known/oauth-protected-resource")
        .with("Authorization", "")
        .send()
        .await;
    assert_eq!(
        discovery.status, 404,
        "clients without a credential look here, and must not be sent in circles"
    );
    assert_eq!(
        yard.post(PING).at("/u/unknown/mcp").send().await.status,
        404
    );
    let response = yard.request("PUT", "/mcp").send().await;
    assert_eq!(
        (response.status, response.header("allow")),
        (405, Some("GET, POST, DELETE"))
    );
    assert_eq!(
        yard.request("GET", "/mcp")
            .with("MCP-Protocol-Version", "2026-07-28")
            .send()
            .await
            .status,
        405
    );
    assert_eq!(yard.request("GET", "/mcp").send().await.status, 400);
    assert_eq!(yard.request("DELETE", "/mcp").send().await.status, 400);
}

#[tokio::test]
async fn bodies_must_be_json_of_bounded_size_and_depth() {
    let yard = Yard::open().await;
    assert_eq!(
        yard.post(PING)
            .with("Content-Type", "text/plain")
            .send()
            .await
            .status,
        415
    );
    assert_eq!(
        yard.post(PING)
            .with("Accept", "text/html")
            .send()
            .await
            .status,
        406
    );
    let large = format!(r#"{{"a":"{}"}}"#, "x".repeat(MAX_BODY));
    assert_eq!(yard.post(&large).send().await.status, 413);
    let deep = format!("{}{}", "[".repeat(33), "]".repeat(33));
    for (body, code) in [
        ("", -32700),
        ("{", -32700),
        (r#"{"a":1,"\u0061":2}"#, -32700),
        (deep.as_str(), -32700),
        ("\"text\"", -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#,
            -32600,
        ),
        (PING, -32600),
    ] {
        let response = yard.post(body).send().await;
        assert_eq!(
            (response.status, response.code()),
            (400, Some(code)),
            "{body}"
        );
    }
    assert!(
        yard.post(r#"{"a":1,"a":2}"#)
            .send()
            .await
            .body
            .contains("duplicate key `a` at byte")
    );
}

#[tokio::test]
async fn heads_are_bounded() {
    let yard = Yard::open().await;
    assert_eq!(
        yard.post(PING)
            .with("X-Long", &"x".repeat(16 << 10))
            .send()
            .await
            .status,
        431
    );
}

#[tokio::test]
async fn the_operators_paths_are_the_operators() {
    let yard = Yard::open().await;
    for path in ["/v1/admin/status", "/v1/admin/servers", "/v1/admin/tools"] {
        assert_eq!(yard.request("GET", path).send().await.status, 403, "{path}");
        assert_eq!(
            yard.request("POST", path).by(OPERATOR).send().await.status,
            405,
            "{path}"
        );
        let response = yard.request("GET", path).by(OPERATOR).send().await;
        assert_eq!(response.status, 200, "{path}");
        assert!(
            wire::Json::parse(response.body.as_bytes(), wire::Limits::default()).is_ok(),
            "{path}"
        );
    }
    assert_eq!(
        yard.request("POST", "/v1/admin/reload").send().await.status,
        403
    );
    yard.shelf.put(cannot_reload);
    assert_eq!(
        yard.request("POST", "/v1/admin/reload")
            .by(OPERATOR)
            .send()
            .await
            .status,
        409,
        "this gate cannot reload, and says so"
    );
}

#[tokio::test]
async fn pages_the_operator_listed_may_use_a_browser() {
    let yard = Yard::open().await;
    let preflight = |origin: &str| {
        let asked = "authorization, mcp-param-region, cookie";
        let request = yard
            .request("OPTIONS", "/mcp")
            .with("Origin", origin)
            .with("Authorization", "");
        request
            .with("Access-Control-Request-Method", "POST")
            .with("Access-Control-Request-Headers", asked)
    };
    let granted = preflight("https://app.example").send().await;
    assert_eq!(
        (
            granted.status,
            granted.header("access-control-allow-origin")
        ),
        (204, Some("https://app.example"))
    );
    assert_eq!(
        granted.header("access-control-allow-headers"),
        Some("authorization, mcp-param-region")
    );
    let local = preflight("http://localhost:3000").send().await;
    assert_eq!(
        (local.status, local.header("access-control-allow-origin")),
        (401, None)
    );
    assert_eq!(preflight("https://evil.example").send().await.status, 403);
    let answered = yard
        .post(PING)
        .with("Origin", "https://app.example")
        .send()
        .await;
    assert_eq!(
        answered.header("access-control-allow-origin"),
        Some("https://app.example")
    );
    assert_eq!(
        yard.post(PING)
            .send()
            .await
            .header("access-control-allow-origin"),
        None
    );
}
