//! Unmodified real clients, of both eras, with nothing but a URL and a token.

use serde_json::Value;
use testkit::gate::Gate;

use crate::foreign::{Node, python, script, talk, text};
use crate::support::{connected, fixture, http, portcullis};

const ECHO: &str = "up__echo";
const ARGUMENTS: &str = r#"{"text":"grüße"}"#;

#[tokio::test]
async fn python_sdk_over_http() {
    let (gate, _fixture) = gate().await;
    let program = text(&python().join("python"));
    for (mode, protocol) in [("auto", "2026-07-28"), ("legacy", "2025-11-25")] {
        let token = gate.token().unwrap();
        let said = talk(
            &program,
            &[
                &script("python_sdk.py"),
                "http",
                gate.url(),
                &token,
                mode,
                ECHO,
                ARGUMENTS,
            ],
        )
        .await;
        assert_eq!(said["protocol"], protocol);
        assert_echoed(&said);
    }
}

#[tokio::test]
async fn python_sdk_over_stdio() {
    let (gate, _fixture) = gate().await;
    let program = text(&python().join("python"));
    let (door, home) = (text(&portcullis()), text(gate.home()));
    for (mode, protocol) in [("auto", "2026-07-28"), ("legacy", "2025-11-25")] {
        let args = [
            &script("python_sdk.py"),
            "stdio",
            mode,
            ECHO,
            ARGUMENTS,
            &door,
            "--home",
            &home,
            "connect",
        ];
        let said = talk(&program, &args).await;
        assert_eq!(said["protocol"], protocol);
        assert_echoed(&said);
    }
}

#[tokio::test]
async fn stdio_door_of_one_server_shows_its_own_names() {
    let (gate, _fixture) = gate().await;
    let program = text(&python().join("python"));
    let (door, home) = (text(&portcullis()), text(gate.home()));
    let args = [
        &script("python_sdk.py"),
        "stdio",
        "auto",
        "echo",
        ARGUMENTS,
        &door,
        "--home",
        &home,
        "connect",
        "--server",
        "up",
    ];
    let said = talk(&program, &args).await;
    assert!(
        said["tools"]
            .as_array()
            .unwrap()
            .iter()
            .any(|name| name == "echo"),
        "{said}"
    );
    assert_eq!(said["text"], "grüße");
}

#[tokio::test]
async fn typescript_sdk_over_http_and_stdio() {
    let (gate, _fixture) = gate().await;
    let node = Node::get();
    let (client, modules) = (script("typescript_sdk.mjs"), text(&node.home));
    let (door, home, token) = (
        text(&portcullis()),
        text(gate.home()),
        gate.token().unwrap(),
    );
    for (mode, protocol) in [("auto", "2026-07-28"), ("legacy", "2025-11-25")] {
        let said = talk(
            &node.program,
            &[
                &client,
                &modules,
                "http",
                gate.url(),
                &token,
                mode,
                ECHO,
                ARGUMENTS,
            ],
        )
        .await;
        assert_eq!(said["protocol"], protocol);
        assert_echoed(&said);
        let args = [
            &client, &modules, "stdio", mode, ECHO, ARGUMENTS, &door, "--home", &home, "connect",
        ];
        assert_echoed(&talk(&node.program, &args).await);
    }
}

#[tokio::test]
async fn fastmcp_over_http() {
    let (gate, _fixture) = gate().await;
    let program = text(&python().join("python"));
    for mode in ["auto", "legacy"] {
        let token = gate.token().unwrap();
        assert_echoed(
            &talk(
                &program,
                &[
                    &script("fastmcp_client.py"),
                    gate.url(),
                    &token,
                    mode,
                    ECHO,
                    ARGUMENTS,
                ],
            )
            .await,
        );
    }
}

#[tokio::test]
async fn inspector_cli_over_http() {
    let (gate, _fixture) = gate().await;
    let node = Node::get();
    let inspector = node.script("@modelcontextprotocol/inspector", "mcp-inspector");
    let header = format!("Authorization: Bearer {}", gate.token().unwrap());
    for era in ["legacy", "modern"] {
        let inspect = async |more: &[&str]| {
            let common = [
                inspector.as_str(),
                "--cli",
                gate.url(),
                "--transport",
                "http",
                "--header",
                header.as_str(),
            ];
            talk(
                &node.program,
                &[&common, &["--protocol-era", era][..], more].concat(),
            )
            .await
        };
        let listed = inspect(&["--method", "tools/list"]).await;
        assert!(
            listed["tools"]
                .as_array()
                .unwrap()
                .iter()
                .any(|tool| tool["name"] == ECHO),
            "{listed}"
        );
        let called = inspect(&[
            "--method",
            "tools/call",
            "--tool-name",
            ECHO,
            "--tool-arg",
            "text=hello",
        ])
        .await;
        assert_eq!(called["content"][0]["text"], "hello", "{called}");
    }
}

async fn gate() -> (Gate, testkit::everything::HttpFixture) {
    let fixture = fixture().await;
    let gate = connected(&[("up", http(&fixture.url(), "classification: PUBLIC"))]).await;
    (gate, fixture)
}

fn assert_echoed(said: &Value) {
    assert!(
        said["tools"]
            .as_array()
            .unwrap()
            .iter()
            .any(|name| name == ECHO),
        "{said}"
    );
    assert_eq!(said["error"], false, "{said}");
    assert_eq!(said["text"], "grüße", "{said}");
}
