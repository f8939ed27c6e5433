//! Unmodified real servers behind the gate, listed and called.

use std::process::Command;
use std::time::Duration;

use serde_json::json;
use testkit::client::{Client, Era};
use testkit::gate::Gate;

use crate::foreign::{Node, python, text};
use crate::support::{await_state, client, config, gate, stdio};

const PUBLIC: &str = "classification: PUBLIC";

#[tokio::test]
async fn npm_server_everything() {
    let node = Node::get();
    let script = node.script(
        "@modelcontextprotocol/server-everything",
        "mcp-server-everything",
    );
    let gate = started(&[(
        "everything",
        stdio(&node.program, &[&script, "stdio"], PUBLIC),
    )])
    .await;
    for era in [Era::Legacy, Era::Modern] {
        let client = client(&gate, era).await;
        assert_lists(&client, "everything__", &["echo", "get-sum"]).await;
        let called = client
            .call("everything__echo", json!({"message": "hello"}))
            .await
            .unwrap();
        assert!(
            called.text.contains("hello") && !called.is_error,
            "{}",
            called.answer
        );
        let called = client
            .call("everything__get-sum", json!({"a": 19, "b": 23}))
            .await
            .unwrap();
        assert!(called.text.contains("42"), "{}", called.answer);
        let resources = client.list("resources").await.unwrap();
        let uri = resources.first().expect("it has resources")["uri"].clone();
        let read = client
            .request("resources/read", json!({"uri": uri}))
            .await
            .unwrap();
        assert!(read.pointer("/result/contents/0").is_some(), "{read}");
        let prompts = client.list("prompts").await.unwrap();
        assert!(
            prompts
                .iter()
                .any(|prompt| prompt["name"] == "everything__simple-prompt"),
            "{prompts:?}"
        );
        let prompt = client
            .request("prompts/get", json!({"name": "everything__simple-prompt"}))
            .await
            .unwrap();
        assert!(prompt.pointer("/result/messages/0").is_some(), "{prompt}");
    }
}

/// The same server over its two HTTP transports: streamable, and the SSE of 2024.
#[tokio::test]
async fn npm_server_everything_over_http_and_sse() {
    let node = Node::get();
    let script = node.script(
        "@modelcontextprotocol/server-everything",
        "mcp-server-everything",
    );
    let streamable = Listening::start(&node.program, &script, "streamableHttp").await;
    let sse = Listening::start(&node.program, &script, "sse").await;
    let entry = |url: String| format!("{{ url: \"{url}\", {PUBLIC} }}");
    let gate = started(&[
        ("streamable", entry(streamable.url("mcp"))),
        ("sse", entry(sse.url("sse"))),
    ])
    .await;
    let client = client(&gate, Era::Modern).await;
    for id in ["streamable", "sse"] {
        assert_lists(&client, &format!("{id}__"), &["echo"]).await;
        let called = client
            .call(&format!("{id}__echo"), json!({"message": id}))
            .await
            .unwrap();
        assert!(
            called.text.contains(id) && !called.is_error,
            "{}",
            called.answer
        );
    }
}

#[tokio::test]
async fn npm_server_filesystem() {
    let node = Node::get();
    let script = node.script(
        "@modelcontextprotocol/server-filesystem",
        "mcp-server-filesystem",
    );
    let shared = tempfile::tempdir().unwrap();
    let file = shared.path().join("hello.txt");
    std::fs::write(&file, "the file's text").unwrap();
    let gate = started(&[(
        "files",
        stdio(&node.program, &[&script, &text(shared.path())], PUBLIC),
    )])
    .await;
    let client = client(&gate, Era::Modern).await;
    assert_lists(
        &client,
        "files__",
        &["read_text_file", "write_file", "list_directory"],
    )
    .await;
    let called = client
        .call("files__read_text_file", json!({"path": text(&file)}))
        .await
        .unwrap();
    assert_eq!(called.text, "the file's text", "{}", called.answer);
    let target = text(&shared.path().join("written.txt"));
    client
        .call(
            "files__write_file",
            json!({"path": target, "content": "by the gate"}),
        )
        .await
        .unwrap();
    assert_eq!(std::fs::read_to_string(target).unwrap(), "by the gate");
}

#[tokio::test]
async fn npm_server_memory() {
    let node = Node::get();
    let script = node.script("@modelcontextprotocol/server-memory", "mcp-server-memory");
    let kept = tempfile::tempdir().unwrap();
    let entry = format!(
        "env: {{ MEMORY_FILE_PATH: {} }}, {PUBLIC}",
        json!(text(&kept.path().join("memory.jsonl")))
    );
    let gate = started(&[("memory", stdio(&node.program, &[&script], &entry))]).await;
    let client = client(&gate, Era::Legacy).await;
    assert_lists(&client, "memory__", &["create_entities", "read_graph"]).await;
    let entity =
        json!({"name": "Ada", "entityType": "person", "observations": ["wrote the first program"]});
    client
        .call("memory__create_entities", json!({"entities": [entity]}))
        .await
        .unwrap();
    let graph = client.call("memory__read_graph", json!({})).await.unwrap();
    assert!(
        graph.text.contains("wrote the first program"),
        "{}",
        graph.answer
    );
}

#[tokio::test]
async fn pypi_mcp_server_time() {
    let program = text(&python().join("mcp-server-time"));
    let gate = started(&[(
        "time",
        stdio(&program, &["--local-timezone", "UTC"], PUBLIC),
    )])
    .await;
    for era in [Era::Legacy, Era::Modern] {
        let client = client(&gate, era).await;
        assert_lists(&client, "time__", &["get_current_time", "convert_time"]).await;
        let arguments =
            json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
        let called = client.call("time__convert_time", arguments).await.unwrap();
        assert!(called.text.contains("21:00"), "{}", called.answer);
    }
}

#[tokio::test]
async fn pypi_mcp_server_git() {
    let repository = tempfile::tempdir().unwrap();
    let git = |args: &[&str]| {
        let identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"];
        let done = Command::new("git")
            .arg("-C")
            .arg(repository.path())
            .args(identity)
            .args(args)
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "git {args:?}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
    };
    git(&["init", "--quiet"]);
    std::fs::write(repository.path().join("file"), "text").unwrap();
    git(&["add", "file"]);
    git(&["commit", "--quiet", "-m", "the first commit"]);
    let program = text(&python().join("mcp-server-git"));
    let path = text(repository.path());
    let gate = started(&[("git", stdio(&program, &["--repository", &path], PUBLIC))]).await;
    let client = client(&gate, Era::Modern).await;
    assert_lists(&client, "git__", &["git_status", "git_log"]).await;
    let called = client
        .call("git__git_log", json!({"repo_path": path}))
        .await
        .unwrap();
    assert!(
        called.text.contains("the first commit"),
        "{}",
        called.answer
    );
}

/// Foreign servers may take a while to start on a busy machine.
async fn started(servers: &[(&str, String)]) -> Gate {
    let gate = gate(&config(servers)).await;
    for (id, _) in servers {
        await_state(&gate, id, "connected", Duration::from_secs(40)).await;
    }
    gate
}

/// A foreign HTTP server on a port of its own, ended when dropped.
struct Listening {
    child: std::process::Child,
    port: u16,
}

impl Listening {
    async fn start(program: &str, script: &str, mode: &str) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let mut command = Command::new(program);
        command.args([script, mode]).env("PORT", port.to_string());
        command
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        let child = command.spawn().unwrap();
        crate::support::eventually("the server to listen", Duration::from_secs(20), || async {
            tokio::net::TcpStream::connect(("127.0.0.1", port))
                .await
                .map_err(|error| error.to_string())
        })
        .await;
        Self { child, port }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

async fn assert_lists(client: &Client, prefix: &str, wanted: &[&str]) {
    let tools = client.tools().await.unwrap();
    let names: Vec<&str> = tools
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    for tool in wanted {
        assert!(
            names.contains(&format!("{prefix}{tool}").as_str()),
            "{prefix}{tool} is not among {names:?}"
        );
    }
    assert!(
        tools
            .iter()
            .all(|tool| tool["inputSchema"]["type"] == "object"),
        "a schema was lost"
    );
}
