//! What the program prints of others' data: nobody's data is changed on the way to a file, and none drives a terminal.

use serde_json::{Value, json};
use testkit::gate::Gate;

use crate::pty::on_terminal;
use crate::support::{connected, eventually, stdio};

/// A server that gives back what it was sent, as the content of its result.
const MIRROR: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    method = message["method"]
    if method == "initialize":
        answer["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "mirror", "version": "1"}}
    elif method == "tools/list":
        answer["result"] = {"tools": [{"name": "get_text", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        arguments = message["params"]["arguments"]
        answer["result"] = {"content": arguments.get("content") or [{"type": "text", "text": arguments.get("text", "")}]}
    elif method == "ping":
        answer["result"] = {}
    else:
        answer["error"] = {"code": -32601, "message": "unknown"}
    print(json.dumps(answer), flush=True)
"#;

async fn mirror() -> Gate {
    connected(&[(
        "mirror",
        stdio("python3", &["-c", MIRROR], "classification: PUBLIC"),
    )])
    .await
}

async fn call(gate: &Gate, arguments: &Value) -> String {
    let said = gate
        .cli(&["call", "mirror__get_text", &arguments.to_string()])
        .await
        .unwrap();
    assert_eq!(said.code, Some(0), "{said:?}");
    said.stdout
}

const SHAPED: &str = "def f(x):\n    if x:\n\treturn  1\n\n| a |  b |\r\n\u{e9}  no end";

#[tokio::test]
async fn a_result_reaches_a_pipe_byte_for_byte_and_keeps_its_shape_on_a_terminal() {
    let gate = mirror().await;
    for text in [
        SHAPED,
        "ends\n",
        "",
        "\n\n  ",
        "{\"a\":   [1,\n  2]}",
        "\u{1b}[2Jcleared\u{7}\r\u{9b}31m",
    ] {
        assert_eq!(call(&gate, &json!({ "text": text })).await, text);
    }
    let arguments = json!({ "text": format!("{SHAPED}\u{1b}[2J\u{7}\u{202e}") }).to_string();
    let home = gate.home().to_owned();
    let shown = tokio::task::spawn_blocking(move || {
        on_terminal(&home, &["call", "mirror__get_text", &arguments], &[])
    });
    let (code, screen) = shown.await.unwrap();
    assert_eq!(code, Some(0), "{screen:?}");
    // A terminal adds a carriage return to each line feed.
    let expected = format!("{SHAPED}\\u{{1b}}[2J\\u{{7}}\\u{{202e}}\n").replace('\n', "\r\n");
    assert_eq!(screen, expected);
}

#[tokio::test]
async fn content_that_is_no_text_is_described_and_can_be_saved() {
    let gate = mirror().await;
    let content = json!([
        { "type": "image", "mimeType": "image/png", "data": "iVBORw==" },
        { "type": "resource_link", "name": "plan", "uri": "demo://plan", "mimeType": "text/plain", "size": 9 },
    ]);
    let arguments = json!({ "content": content });
    assert_eq!(
        call(&gate, &arguments).await,
        "[1: image, image/png, 4 bytes]\n[2: resource_link, plan, portcullis://mirror/demo://plan, text/plain, 9 bytes]\n"
    );
    let file = gate.home().join("picture.png");
    let arguments = arguments.to_string();
    let save = [
        "call",
        "mirror__get_text",
        &arguments,
        "--out",
        file.to_str().unwrap(),
        "--part",
        "1",
    ];
    assert_eq!(gate.cli(&save).await.unwrap().code, Some(0));
    assert_eq!(std::fs::read(&file).unwrap(), b"\x89PNG");
    let said = gate.cli(&save[..5]).await.unwrap();
    assert!(
        said.code == Some(2) && said.stderr.contains("--part N"),
        "{said:?}"
    );
}

#[tokio::test]
async fn kept_arguments_reach_a_pipe_byte_for_byte() {
    let gate = mirror().await;
    call(&gate, &json!({ "text": "a  \u{202e}b", "n": 1 })).await;
    let records = crate::support::records(&gate).await;
    let intent = records
        .iter()
        .rev()
        .find(|record| record["kind"] == "intent")
        .unwrap();
    let said = gate
        .cli(&["audit", "show", intent["call"].as_str().unwrap()])
        .await
        .unwrap();
    let (_, kept) = said
        .stdout
        .split_once("Arguments as kept, without secrets\n")
        .expect(&said.stdout);
    let kept: Value = serde_json::from_str(kept).unwrap();
    assert_eq!(kept, json!({ "text": "a  \u{202e}b", "n": 1 }));
}

/// Digits are times of day here, and times of day differ.
fn timeless(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect()
}

#[tokio::test]
async fn every_format_of_a_report_is_the_same_on_standard_output_and_in_a_file() {
    let mut gate = mirror().await;
    call(&gate, &json!({ "text": "hello" })).await;
    // A running gate goes on signing heads, which reports show.
    gate.stop().await.unwrap();
    for format in ["json", "csv", "html"] {
        let file = gate.home().join(format);
        let report = ["audit", "report", "--format", format];
        eventually(
            "two equal reports",
            std::time::Duration::from_secs(30),
            || async {
                let said = gate.cli(&report).await.unwrap();
                let there = gate
                    .cli(&[&report[..], &["--out", file.to_str().unwrap()]].concat())
                    .await
                    .unwrap();
                assert_eq!(
                    (said.code, there.code),
                    (Some(0), Some(0)),
                    "{said:?} {there:?}"
                );
                let written = std::fs::read_to_string(&file).unwrap();
                assert!(!said.stdout.contains('\u{fffd}'), "{}", said.stdout);
                assert_eq!(
                    written.matches("\r\n").count(),
                    said.stdout.matches("\r\n").count()
                );
                if timeless(&written) == timeless(&said.stdout) {
                    Ok(())
                } else {
                    Err(format!("{written}\n{}", said.stdout))
                }
            },
        )
        .await;
        if format == "csv" {
            let written = std::fs::read_to_string(&file).unwrap();
            assert!(
                written.ends_with("\r\n")
                    && written.lines().count() == written.matches("\r\n").count()
            );
        }
    }
}

/// The reset's record names the last call that the session had read.
#[tokio::test]
async fn a_call_is_explained_and_shown_as_itself_after_its_session_was_reset() {
    let gate = mirror().await;
    call(&gate, &json!({ "text": "hello" })).await;
    let records = crate::support::records(&gate).await;
    let id = records
        .iter()
        .rev()
        .find(|record| record["kind"] == "outcome")
        .unwrap()["call"]
        .as_str()
        .unwrap()
        .to_owned();
    let done = async |args: &[&str]| {
        let said = gate.cli(args).await.unwrap();
        assert_eq!(said.code, Some(0), "{args:?}: {said:?}");
        said.stdout
    };
    done(&[
        "session",
        "reset",
        "first-client",
        "--reason",
        "a new task",
        "--yes",
    ])
    .await;
    assert!(
        done(&["policy", "explain", &id])
            .await
            .contains("mirror__get_text")
    );
    let story = done(&["audit", "show", &id]).await;
    let (stages, later) = story.split_once("\nLater\n").expect(&story);
    assert!(
        !stages.contains("session.reset") && later.contains("session.reset"),
        "{story}"
    );
    assert!(done(&["lineage", &id]).await.contains("get_text"));
}

/// A terminal's history and a service's log keep what they were shown.
#[tokio::test]
async fn a_start_prints_about_ten_lines_the_next_step_and_no_token() {
    use std::io::{BufRead as _, BufReader};
    let home = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(crate::support::portcullis());
    command
        .arg("--home")
        .arg(home.path())
        .args(["up", "--listen", "127.0.0.1:0"]);
    let mut child = command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let is_last = line.contains("status --watch");
        lines.push(line);
        if is_last {
            break;
        }
    }
    testkit::gate::signal(child.id(), rustix::process::Signal::TERM).unwrap();
    child.wait().unwrap();
    let said = lines.join("\n");
    assert!((5..=12).contains(&lines.len()), "{said}");
    assert!(
        said.contains("Ctrl-C stops it")
            && said.contains("second terminal")
            && said.contains("clients show"),
        "{said}"
    );
    assert!(!said.contains("pct_"), "{said}");
}

/// Two clients that start `portcullis connect` need not share what they have seen.
#[tokio::test]
async fn a_kept_credential_has_a_label_of_its_own_and_goes_with_its_revocation() {
    let server = stdio("python3", &["-c", MIRROR], "classification: CONFIDENTIAL");
    let gate = connected(&[("mirror", server)]).await;
    let done = async |args: &[&str]| {
        let said = gate.cli(args).await.unwrap();
        assert_eq!(said.code, Some(0), "{args:?}: {said:?}");
        said.stdout
    };
    for name in ["desktop", "cursor"] {
        done(&["token", "new", name, "--keep"]).await;
    }
    let get = ["call", "mirror__get_text", r#"{"text":"hi"}"#];
    assert_eq!(done(&[&get[..], &["--as", "desktop"]].concat()).await, "hi");
    // Seen by the gate, and reading nothing.
    assert_eq!(
        gate.cli(&["call", "mirror__nothing", "--as", "cursor"])
            .await
            .unwrap()
            .code,
        Some(3)
    );
    let sessions = gate
        .cli(&["--json", "session", "show"])
        .await
        .unwrap()
        .json()
        .unwrap();
    let label = |name: &str| {
        sessions
            .as_array()
            .unwrap()
            .iter()
            .find(|session| session["name"] == name)
            .unwrap()["label"]
            .clone()
    };
    assert_eq!(
        (label("desktop"), label("cursor")),
        (json!("CONFIDENTIAL"), json!("PUBLIC"))
    );

    let token = crate::support::new_token(&gate, "in-a-file", &[]).await;
    let file = gate.home().join("token");
    std::fs::write(&file, token).unwrap();
    assert_eq!(
        done(&[&get[..], &["--token-file", file.to_str().unwrap()]].concat()).await,
        "hi"
    );

    for (name, hint) in [
        ("curser", "did you mean `cursor`?"),
        ("in-a-file", "--keep"),
        ("operator", "there is no credential"),
    ] {
        let said = gate
            .cli(&[&get[..], &["--as", name]].concat())
            .await
            .unwrap();
        assert!(
            said.code == Some(2) && said.stderr.contains(hint),
            "{name}: {said:?}"
        );
    }
    let kept = || {
        std::fs::read_dir(gate.home().join("state/clients"))
            .unwrap()
            .count()
    };
    assert_eq!(kept(), 2);
    done(&["token", "revoke", "desktop"]).await;
    assert_eq!(kept(), 1);
    assert_eq!(
        gate.cli(&[&get[..], &["--as", "desktop"]].concat())
            .await
            .unwrap()
            .code,
        Some(2)
    );
}

#[tokio::test]
async fn every_client_is_told_both_ways_and_a_token_is_shown_only_on_request() {
    let gate = mirror().await;
    for client in [
        "claude-code",
        "claude-desktop",
        "codex",
        "cursor",
        "gemini",
        "opencode",
        "vscode",
        "windsurf",
        "zed",
    ] {
        let said = gate.cli(&["clients", "show", client]).await.unwrap();
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(
            said.stdout.contains("connect") && !said.stdout.contains("pct_"),
            "{said:?}"
        );
        assert_eq!(
            said.stdout.contains(gate.url()),
            client != "claude-desktop",
            "{said:?}"
        );
    }
    let said = gate
        .cli(&["clients", "show", "codex", "--show-token"])
        .await
        .unwrap();
    assert!(said.stdout.contains(&gate.token().unwrap()), "{said:?}");
    let said = gate
        .cli(&["token", "new", "mine", "--keep", "--for", "claude-desktop"])
        .await
        .unwrap();
    assert!(
        said.stdout.contains("claude_desktop_config.json")
            && said.stdout.contains("\"--as\",\n        \"mine\""),
        "{said:?}"
    );
}

#[tokio::test]
async fn what_is_accepted_and_probably_not_meant_is_said() {
    let gate = mirror().await;
    let new = async |args: &[&str]| {
        let said = gate.cli(&[&["token", "new"], args].concat()).await.unwrap();
        assert_eq!(said.code, Some(0), "{said:?}");
        said.stderr
    };
    assert_eq!(new(&["laptop"]).await, "");
    assert!(new(&["laptop"]).await.contains("is also the name of"));
    assert!(
        new(&["x", "--context", "nosuch"])
            .await
            .contains("no security context `nosuch`")
    );
    assert!(
        new(&["y", "--grant", "miror__get_text"])
            .await
            .contains("did you mean `mirror`?")
    );
}
