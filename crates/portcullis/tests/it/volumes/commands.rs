//! Commands in a volume: they see the files that the tools for files see, and all of them have one label.

use serde_json::{Value, json};
use testkit::{
    client::{Called, Client},
    everything::HttpFixture,
    gate::Gate,
};

use super::{call, done, label, other};
use crate::{
    operator::{FLOOR_ONLY, SOON},
    support::{await_state, config, fixture, gate, http},
};

const SHARED: &str = "\
volumes:
  workspace: { classification: CONFIDENTIAL, writable: true, commands: true, max_bytes: 1 MiB }
  notes: { classification: CONFIDENTIAL, writable: true }
security_contexts:
  hands:
    description: Runs a shell
    capabilities:
      - { tool_pattern: cmd.run, subcommand_allowlist: { sh: ['-c'] } }
      - tool_pattern: fs.*
      - tool_pattern: portcullis.*
      - tool_pattern: secret__*
      - tool_pattern: hidden__*
";

async fn yard() -> (Gate, HttpFixture, HttpFixture) {
    let (secret, hidden) = (fixture().await, fixture().await);
    let servers = config(&[
        (
            "secret",
            http(
                &secret.url(),
                "classification: CONFIDENTIAL, open_world: false",
            ),
        ),
        (
            "hidden",
            http(
                &hidden.url(),
                "classification: RESTRICTED, open_world: false",
            ),
        ),
    ]);
    let gate = gate(&format!("{FLOOR_ONLY}{SHARED}{servers}")).await;
    for id in ["secret", "hidden"] {
        await_state(&gate, id, "connected", SOON).await;
    }
    (gate, secret, hidden)
}

async fn hands(gate: &Gate, name: &str) -> Client {
    other(gate, name, &["--context", "hands"]).await
}

async fn shell(client: &Client, script: &str) -> Called {
    call(
        client,
        "cmd.run",
        json!({"command": "sh", "args": ["-c", script]}),
    )
    .await
}

fn printed(called: &Called) -> Value {
    assert!(!called.is_error, "{}", called.answer);
    called.answer["result"]["structuredContent"]["stdout"].clone()
}

#[tokio::test]
async fn commands_and_the_tools_for_files_see_the_same_files() {
    let (gate, _secret, _hidden) = yard().await;
    let client = hands(&gate, "worker").await;
    done(
        &client,
        "fs.write",
        json!({"path": "d/a", "content": "one\n"}),
    )
    .await;
    let ran = shell(
        &client,
        "cat d/a && echo two > d/b && ln d/a second && ls /workspace",
    )
    .await;
    assert_eq!(printed(&ran), "one\nd\nsecond\n");
    assert_eq!(
        done(&client, "fs.read", json!({"path": "d/b"})).await.0,
        "two\n"
    );
    // In a directory of the gate's own both names of a file are inside.
    assert_eq!(
        done(&client, "fs.read", json!({"path": "second"})).await.0,
        "one\n"
    );
    done(
        &client,
        "fs.edit",
        json!({"path": "d/b", "target_content": "two", "replacement_content": "three"}),
    )
    .await;
    assert_eq!(printed(&shell(&client, "cat d/b; rm d/b").await), "three\n");
    let (text, _) = done(&client, "fs.list", json!({"path": "/workspace/d"})).await;
    assert_eq!(text, "a");
    // Another volume is none of its business.
    done(
        &client,
        "fs.write",
        json!({"path": "/notes/n", "content": "x"}),
    )
    .await;
    let ran = shell(&client, "ls /notes /workspace/notes 2>/dev/null; true").await;
    assert_eq!(printed(&ran), "");
}

#[tokio::test]
async fn a_command_on_a_volume_carries_and_leaves_the_label_of_the_volume() {
    let (gate, _secret, _hidden) = yard().await;
    let clean = hands(&gate, "clean").await;
    done(
        &clean,
        "fs.write",
        json!({"path": "plain", "content": "nothing"}),
    )
    .await;
    printed(&shell(&clean, "true").await);
    assert_eq!(label(&clean).await, "PUBLIC");
    let tainted = hands(&gate, "tainted").await;
    done(&tainted, "secret__echo", json!({"text": "the plans"})).await;
    printed(&shell(&tainted, "echo the plans > plain").await);
    // What the command may have read and written, nobody saw: all of it has the label.
    for (name, tool, arguments) in [
        ("reader", "fs.read", json!({"path": "plain"})),
        ("lister", "fs.list", json!({"path": "/workspace"})),
        (
            "runner",
            "cmd.run",
            json!({"command": "sh", "args": ["-c", "cat plain"]}),
        ),
    ] {
        let client = hands(&gate, name).await;
        let called = call(&client, tool, arguments).await;
        assert!(!called.is_error, "{}", called.answer);
        assert_eq!(label(&client).await, "CONFIDENTIAL", "{tool}");
    }
    // It stays when a person begins the session anew, and over a kill.
    let mut gate = gate;
    gate.kill().unwrap();
    gate.start_again().await.unwrap();
    let late = hands(&gate, "late").await;
    printed(&shell(&late, "cat plain").await);
    assert_eq!(label(&late).await, "CONFIDENTIAL");
}

#[tokio::test]
async fn a_command_that_would_write_down_does_not_start() {
    let (gate, _secret, _hidden) = yard().await;
    let client = hands(&gate, "worker").await;
    done(&client, "hidden__echo", json!({"text": "x"})).await;
    let called = shell(&client, "echo x > left").await;
    assert_eq!(
        called.violation(),
        Some("WouldViolateWriteDown"),
        "{}",
        called.answer
    );
    assert!(!gate.home().join("state/volumes/workspace/left").exists());
}

#[tokio::test]
async fn a_command_that_fills_its_volume_is_ended() {
    let (gate, _secret, _hidden) = yard().await;
    let client = hands(&gate, "worker").await;
    let called = shell(
        &client,
        "head -c 3000000 /dev/zero > big; sleep 20; echo late > late",
    )
    .await;
    assert_eq!(
        called.violation(),
        Some("QuotaExceeded"),
        "{}",
        called.answer
    );
    let root = gate.home().join("state/volumes/workspace");
    assert!(root.join("big").exists() && !root.join("late").exists());
    let write = json!({"path": "more", "content": "x"});
    let called = call(&client, "fs.write", write.clone()).await;
    assert_eq!(
        called.violation(),
        Some("QuotaExceeded"),
        "{}",
        called.answer
    );
    done(&client, "fs.delete", json!({"path": "big"})).await;
    done(&client, "fs.write", write).await;
}
