//! What a person blocked or switched off: it is not started, gets nothing, is ended if it runs, and everybody is told why.

use std::path::Path;

use serde_json::{Value, json};
use testkit::client::Era;
use testkit::gate::{Gate, Setup};
use testkit::procfs;

use crate::operator::{SOON, done, told};
use crate::support::{
    await_state, client, config, eventually, portcullis, program, records, stdio,
};

const SECRET: &str = "prod-token-123456789";

/// A server that notes each of its starts, with its mark and what it was given, and leaves a child of its own behind it.
fn noted(notes: &Path, more: &str) -> String {
    let script = format!(
        "echo $MARK $TOKEN >> {}; sleep 600 & exec {} --stdio --era legacy",
        notes.display(),
        program("everything")
    );
    stdio(
        "sh",
        &["-c", &script],
        &format!(
            "classification: PUBLIC, env: {{ MARK: '{}' }}, credentials: {{ TOKEN: 'env:SWITCHED_OFF_TOKEN' }}, {more}",
            mark(notes)
        ),
    )
}

/// The name of the directory of the notes, which nobody else has.
fn mark(notes: &Path) -> String {
    let directory = notes.parent().unwrap().file_name().unwrap();
    directory.to_str().unwrap().to_owned()
}

async fn yard(notes: &Path, more: &str) -> Gate {
    // Only what is there can be granted to its jail.
    std::fs::write(notes, "").unwrap();
    let yaml = config(&[("up", noted(notes, more))]);
    Setup::new(portcullis(), yaml)
        .env("SWITCHED_OFF_TOKEN", SECRET)
        .start()
        .await
        .unwrap()
}

fn starts(notes: &Path) -> Vec<String> {
    std::fs::read_to_string(notes)
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect()
}

/// The processes that a start began: all of them have its mark.
fn processes_of(start: &str) -> Vec<u32> {
    procfs::mentioning(start.split(' ').next().unwrap())
}

async fn await_end(start: &str) {
    eventually("every process of the server to be gone", SOON, || async {
        let left = processes_of(start);
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    })
    .await;
}

/// The word that `tools list` has for what becomes of a call.
async fn permission_of(gate: &Gate, tool: &str) -> String {
    let shown = done(gate, &["tools", "list"]).await.stdout;
    let line = shown
        .lines()
        .find(|line| line.starts_with(tool))
        .unwrap_or_else(|| panic!("no {tool} in {shown}"));
    line.split_whitespace().nth(1).unwrap().to_owned()
}

async fn refusal(gate: &Gate) -> (String, String) {
    let called = client(gate, Era::Modern)
        .await
        .call("up__echo", json!({"text": "x"}))
        .await
        .unwrap();
    (
        called.violation().unwrap_or_default().to_owned(),
        called.text,
    )
}

#[tokio::test]
async fn a_blocked_server_is_never_started_and_gets_no_credential() {
    let dir = tempfile::tempdir().unwrap();
    let notes = dir.path().join("notes");
    let gate = yard(&notes, "blocked: 'prohibited by security'").await;
    await_state(&gate, "up", "blocked", SOON).await;
    let said = gate.cli(&["servers", "retry", "up"]).await.unwrap();
    assert_ne!(said.code, Some(0), "no road starts it: {said:?}");
    assert_eq!(refusal(&gate).await.0, "ServerNotApproved");
    done(&gate, &["servers", "unblock", "up"]).await;
    await_state(&gate, "up", "connected", SOON).await;
    let begun = starts(&notes);
    assert_eq!(begun.len(), 1, "unblocking is what starts it: {begun:?}");
    assert!(
        begun[0].ends_with(SECRET),
        "and what gives it its credential: {begun:?}"
    );
}

#[tokio::test]
async fn a_server_that_is_blocked_while_it_runs_is_ended_with_all_its_processes() {
    let dir = tempfile::tempdir().unwrap();
    let notes = dir.path().join("notes");
    let gate = yard(&notes, "").await;
    await_state(&gate, "up", "connected", SOON).await;
    let begun = starts(&notes);
    assert!(
        processes_of(&begun[0]).len() >= 2,
        "the server and its child"
    );
    done(&gate, &["servers", "block", "up", "--reason", "it leaks"]).await;
    await_state(&gate, "up", "blocked", SOON).await;
    await_end(&begun[0]).await;
    assert_eq!(permission_of(&gate, "up__echo").await, "blocked");
    assert_eq!(starts(&notes).len(), 1, "it is not started again");
    assert!(
        records(&gate)
            .await
            .iter()
            .any(|record| record["action"] == "server.stopped"),
        "its end is on record"
    );
}

#[tokio::test]
async fn a_disabled_server_leaves_the_lists_and_says_that_it_is_switched_off() {
    let dir = tempfile::tempdir().unwrap();
    let notes = dir.path().join("notes");
    let gate = yard(&notes, "").await;
    await_state(&gate, "up", "connected", SOON).await;
    let agent = client(&gate, Era::Modern).await;
    assert!(
        agent
            .tool_names()
            .await
            .unwrap()
            .iter()
            .any(|name| name == "up__echo")
    );
    assert!(!agent.list("resources").await.unwrap().is_empty());
    done(&gate, &["servers", "disable", "up"]).await;
    await_state(&gate, "up", "disabled", SOON).await;
    await_end(&starts(&notes)[0]).await;
    for what in ["tools", "prompts", "resources"] {
        let listed: Vec<Value> = agent.list(what).await.unwrap();
        assert!(listed.is_empty(), "{what}: {listed:?}");
    }
    assert_eq!(permission_of(&gate, "up__echo").await, "disabled");
    let (violation, sentence) = refusal(&gate).await;
    assert_eq!(violation, "ServerNotApproved");
    assert!(sentence.contains("switched this server off"), "{sentence}");
    let last = records(&gate)
        .await
        .into_iter()
        .rfind(|record| record["kind"] == "refusal")
        .unwrap();
    assert!(
        last["detail"]
            .as_str()
            .unwrap()
            .contains("portcullis servers enable up"),
        "the operator learns what to do: {last}"
    );
    let read = agent
        .request(
            "resources/read",
            json!({"uri": "portcullis://up/test://static-text"}),
        )
        .await
        .unwrap();
    assert!(
        read.to_string().contains("switched this server off"),
        "{read}"
    );
    done(&gate, &["servers", "enable", "up"]).await;
    await_state(&gate, "up", "connected", SOON).await;
    eventually("its tools to be back", SOON, || async {
        let names = agent.tool_names().await.unwrap();
        if names.iter().any(|name| name == "up__echo") {
            Ok(())
        } else {
            Err(format!("{names:?}"))
        }
    })
    .await;
    let listed = told(&gate, &["servers", "list"]).await;
    assert!(listed.to_string().contains("connected"), "{listed}");
}

/// Also while no gate has ever seen what it offers: the answer is the same, and nothing waits.
#[tokio::test]
async fn a_server_that_was_always_off_says_so_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let notes = dir.path().join("notes");
    let gate = yard(&notes, "enabled: false").await;
    let (violation, sentence) = refusal(&gate).await;
    assert_eq!(violation, "ServerNotApproved");
    assert!(sentence.contains("switched this server off"), "{sentence}");
    assert!(starts(&notes).is_empty());
}
