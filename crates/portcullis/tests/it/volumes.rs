//! Volumes: what the tools for files answer, where they do not reach, and labels that stick to what was written.

mod commands;
mod mounts;
mod operators;
mod rows;
mod walls;

use serde_json::{Value, json};
use testkit::{
    client::{Called, Client, Era},
    everything::HttpFixture,
    gate::Gate,
};

use crate::{
    failures::events,
    operator::{FLOOR_ONLY, reconfigure},
    seal::{Agent, violation},
    support::{config, fixture, gate, http, new_token},
};

const WORKSPACE: &str = "volumes:\n  workspace: { classification: CONFIDENTIAL, writable: true }\n";

async fn opened(volumes: &str) -> Gate {
    gate(&format!("{FLOOR_ONLY}{volumes}{}", config(&[]))).await
}

async fn client(gate: &Gate) -> Client {
    crate::support::client(gate, Era::Modern).await
}

async fn other(gate: &Gate, name: &str, options: &[&str]) -> Client {
    let token = new_token(gate, name, options).await;
    let target = gate.target().unwrap().with_token(Some(&token));
    Client::plain(&target, Era::Modern).await.unwrap()
}

async fn call(client: &Client, tool: &str, arguments: Value) -> Called {
    client.call(tool, arguments).await.unwrap()
}

async fn done(client: &Client, tool: &str, arguments: Value) -> (String, Value) {
    let called = call(client, tool, arguments).await;
    assert!(!called.is_error, "{tool}: {}", called.answer);
    let structured = called.answer["result"]["structuredContent"].clone();
    (called.text, structured)
}

async fn failed(client: &Client, tool: &str, arguments: Value) -> String {
    let called = call(client, tool, arguments).await;
    assert!(called.is_error, "{tool}: {}", called.answer);
    called.text
}

async fn label(client: &Client) -> String {
    let (_, told) = done(client, "portcullis.status", json!({})).await;
    told["label"].as_str().unwrap().to_owned()
}

/// A gate with a workspace, and a client that has read something confidential.
async fn tainted_yard() -> (Gate, Client, HttpFixture) {
    tainted_yard_with("").await
}

/// The same with more volumes.
async fn tainted_yard_with(volumes: &str) -> (Gate, Client, HttpFixture) {
    let secret = fixture().await;
    let classified = "classification: CONFIDENTIAL, open_world: false";
    let servers = config(&[("secret", http(&secret.url(), classified))]);
    let gate = gate(&format!("{FLOOR_ONLY}{WORKSPACE}{volumes}{servers}")).await;
    crate::support::await_state(&gate, "secret", "connected", crate::operator::SOON).await;
    let tainted = client(&gate).await;
    done(&tainted, "secret__echo", json!({"text": "the plans"})).await;
    (gate, tainted, secret)
}

#[tokio::test]
async fn the_tools_for_files_answer_as_they_are_documented() {
    let gate = opened(WORKSPACE).await;
    let client = client(&gate).await;
    let listed = client.tool_names().await.unwrap();
    for tool in ["fs.read", "fs.write", "fs.edit", "fs.grep", "fs.move"] {
        assert!(
            listed.iter().any(|name| name == tool),
            "{tool} in {listed:?}"
        );
    }
    let (text, told) = done(
        &client,
        "fs.write",
        json!({"path": "/workspace/src/a.rs", "content": "fn main() {}\n"}),
    )
    .await;
    assert_eq!(text, "Wrote 13 bytes to /workspace/src/a.rs");
    assert_eq!(
        (&told["success"], &told["bytes_written"]),
        (&json!(true), &json!(13))
    );
    // Relative paths begin at the workspace.
    let (text, told) = done(&client, "fs.read", json!({"path": "src/a.rs"})).await;
    assert_eq!(text, "fn main() {}\n");
    assert_eq!(told["path"], "/workspace/src/a.rs");
    let version = told["version"].as_str().unwrap().to_owned();
    let (text, _) = done(&client, "fs.list", json!({"path": "/workspace"})).await;
    assert_eq!(text, "src/");
    let (text, _) = done(&client, "fs.list", json!({"path": "/"})).await;
    assert_eq!(text, "workspace/");
    let (text, _) = done(&client, "fs.create.dir", json!({"path": "/workspace/x/y"})).await;
    assert_eq!(text, "Created /workspace/x/y");
    let (text, _) = done(&client, "fs.create_dir", json!({"path": "/workspace/x/y"})).await;
    assert_eq!(text, "/workspace/x/y exists already");
    let edit = json!({"path": "src/a.rs", "target_content": "main", "replacement_content": "start", "if_version": version});
    let (text, _) = done(&client, "fs.edit", edit.clone()).await;
    assert_eq!(
        text,
        "Edited /workspace/src/a.rs: 1 replacement, first at line 1\n@@ line 1 @@\n-fn main() {}\n+fn start() {}"
    );
    let text = failed(&client, "fs.edit", edit).await;
    assert!(
        text.starts_with("CONFLICT: `/workspace/src/a.rs` was changed"),
        "{text}"
    );
    let edits = json!({"path": "src/a.rs", "edits": [
        {"target_content": "fn", "replacement_content": "pub fn"},
        {"target_content": "start", "replacement_content": "go"},
    ]});
    let (text, _) = done(&client, "fs.multi_edit", edits).await;
    assert!(
        text.starts_with("Edited /workspace/src/a.rs: 2 replacements"),
        "{text}"
    );
    let (text, _) = done(
        &client,
        "fs.grep",
        json!({"path": "/workspace", "pattern": "go\\("}),
    )
    .await;
    assert_eq!(text, "/workspace/src/a.rs:1:pub fn go() {}");
    let (text, _) = done(
        &client,
        "fs.glob",
        json!({"path": "/workspace", "pattern": "*.rs"}),
    )
    .await;
    assert_eq!(text, "src/a.rs");
    let (text, _) = done(
        &client,
        "fs.glob",
        json!({"path": "/workspace", "pattern": "*.py"}),
    )
    .await;
    assert_eq!(text, "");
    let moved = json!({"path": "src/a.rs", "destination": "/workspace/b.rs"});
    done(&client, "fs.move", moved).await;
    let copied = json!({"path": "b.rs", "destination": "c/d.rs"});
    assert_eq!(
        done(&client, "fs.copy", copied).await.0,
        "Copied 15 bytes to /workspace/c/d.rs"
    );
    let text = failed(&client, "fs.delete", json!({"path": "c"})).await;
    assert!(
        text.starts_with("NOT_EMPTY: `/workspace/c` is a directory with 1 entries"),
        "{text}"
    );
    let (text, _) = done(
        &client,
        "fs.delete",
        json!({"path": "c", "recursive": true}),
    )
    .await;
    assert_eq!(text, "Deleted /workspace/c, 2 entries in all");
    done(&client, "fs.create", json!({"path": "new"})).await;

    for (tool, arguments, wanted) in [
        (
            "fs.read",
            json!({"path": "gone"}),
            "NOT_FOUND: there is no `/workspace/gone`",
        ),
        (
            "fs.read",
            json!({"path": "/elsewhere/x"}),
            "NOT_FOUND: there is no `/elsewhere/x`; files are beneath /workspace",
        ),
        ("fs.list", json!({"path": "/workspace2"}), "NOT_FOUND"),
        (
            "fs.read",
            json!({"path": "x"}),
            "WRONG_TYPE: `/workspace/x` is a directory",
        ),
        ("fs.create", json!({"path": "new"}), "ALREADY_EXISTS"),
        (
            "fs.grep",
            json!({"path": "/workspace", "pattern": "("}),
            "INVALID_ARGUMENT: `pattern` is no regular expression",
        ),
        (
            "fs.read",
            json!({"path": "new", "file_path": "x"}),
            "INVALID_ARGUMENT: `file_path` is called `path` here",
        ),
        (
            "fs.read",
            json!({"path": "new", "offset": "x"}),
            "INVALID_ARGUMENT: `offset` is a whole number",
        ),
        (
            "fs.write",
            json!({"path": ".portcullis-x", "content": ""}),
            "INVALID_ARGUMENT",
        ),
    ] {
        let text = failed(&client, tool, arguments).await;
        assert!(text.starts_with(wanted), "{tool}: {text}");
    }
    let missing = call(&client, "fs.write", json!({"path": "x"})).await;
    assert_eq!(
        missing.violation(),
        Some("InvalidArguments"),
        "{}",
        missing.answer
    );
}

#[tokio::test]
async fn nothing_is_reached_without_a_volume_and_none_is_written_to_unless_said() {
    let gate = opened("").await;
    let client = client(&gate).await;
    let called = call(&client, "fs.read", json!({"path": "/etc/passwd"})).await;
    assert_eq!(called.rpc_code(), Some(-32602), "{}", called.answer);
    assert!(
        !client
            .tool_names()
            .await
            .unwrap()
            .iter()
            .any(|name| name.starts_with("fs."))
    );

    let yard = tempfile::tempdir().unwrap();
    std::fs::write(yard.path().join("f"), "as it was").unwrap();
    let volume = format!(
        "volumes:\n  notes: {{ path: {}, classification: INTERNAL }}\n",
        yard.path().display()
    );
    reconfigure(&gate, &format!("{FLOOR_ONLY}{volume}{}", config(&[]))).await;
    let names = client.tool_names().await.unwrap();
    assert!(
        names.contains(&"fs.read".to_owned()) && !names.contains(&"fs.write".to_owned()),
        "{names:?}"
    );
    let text = failed(
        &client,
        "fs.write",
        json!({"path": "/notes/f", "content": "x"}),
    )
    .await;
    assert!(
        text.starts_with("PERMISSION_DENIED: volume `notes` is read-only"),
        "{text}"
    );
    let (text, told) = done(&client, "fs.read", json!({"path": "/notes/f"})).await;
    assert_eq!(
        (text.as_str(), &told["label"]),
        ("as it was", &json!("INTERNAL"))
    );
    assert_eq!(
        label(&client).await,
        "INTERNAL",
        "what a person put there is as secret as they said"
    );
}

#[tokio::test]
async fn a_file_of_a_tainted_session_taints_who_reads_it() {
    let (secret, public) = (fixture().await, fixture().await);
    let servers = config(&[
        (
            "secret",
            http(
                &secret.url(),
                "classification: CONFIDENTIAL, open_world: false",
            ),
        ),
        (
            "public",
            http(&public.url(), "classification: PUBLIC, open_world: false"),
        ),
    ]);
    let mut gate = gate(&format!("{FLOOR_ONLY}{WORKSPACE}{servers}")).await;
    for id in ["secret", "public"] {
        crate::support::await_state(&gate, id, "connected", crate::operator::SOON).await;
    }
    let tainted = client(&gate).await;
    let clean = other(&gate, "clean", &[]).await;
    done(
        &clean,
        "fs.write",
        json!({"path": "open/plain", "content": "nothing"}),
    )
    .await;
    done(&tainted, "secret__echo", json!({"text": "the plans"})).await;
    done(
        &tainted,
        "fs.write",
        json!({"path": "shut/plans", "content": "the plans"}),
    )
    .await;

    done(&clean, "fs.read", json!({"path": "open/plain"})).await;
    done(&clean, "public__echo", json!({"text": "hello"})).await;
    assert_eq!(label(&clean).await, "PUBLIC");
    // A kill in between washes nothing off.
    gate.kill().unwrap();
    gate.start_again().await.unwrap();
    let clean = other(&gate, "cleaner", &[]).await;
    done(
        &clean,
        "fs.move",
        json!({"path": "shut/plans", "destination": "innocent"}),
    )
    .await;
    let third = other(&gate, "third", &[]).await;
    let (text, told) = done(&third, "fs.read", json!({"path": "innocent"})).await;
    assert_eq!(
        (text.as_str(), &told["label"]),
        ("the plans", &json!("CONFIDENTIAL"))
    );
    let before = public.effects().effects;
    let called = call(&third, "public__echo", json!({"text": text})).await;
    assert_eq!(
        called.violation(),
        Some("WouldViolateWriteDown"),
        "{}",
        called.answer
    );
    assert_eq!(public.effects().effects, before);
    // So does looking for it, and listing where it is.
    let searcher = other(&gate, "searcher", &[]).await;
    done(
        &searcher,
        "fs.grep",
        json!({"path": "/workspace", "pattern": "nothing of it"}),
    )
    .await;
    assert_eq!(label(&searcher).await, "CONFIDENTIAL");
    let lister = other(&gate, "lister", &[]).await;
    done(&lister, "fs.list", json!({"path": "/workspace"})).await;
    assert_eq!(label(&lister).await, "CONFIDENTIAL");
}

#[tokio::test]
async fn what_is_too_secret_is_not_written_and_the_volume_stays_as_it_was() {
    let secret = fixture().await;
    let servers = config(&[(
        "secret",
        http(
            &secret.url(),
            "classification: RESTRICTED, open_world: false",
        ),
    )]);
    let gate = gate(&format!("{FLOOR_ONLY}{WORKSPACE}{servers}")).await;
    crate::support::await_state(&gate, "secret", "connected", crate::operator::SOON).await;
    let client = client(&gate).await;
    done(
        &client,
        "fs.write",
        json!({"path": "f", "content": "before"}),
    )
    .await;
    done(&client, "secret__echo", json!({"text": "x"})).await;
    for (tool, arguments) in [
        ("fs.write", json!({"path": "f", "content": "x"})),
        ("fs.create", json!({"path": "g"})),
        ("fs.delete", json!({"path": "f"})),
        (
            "fs.edit",
            json!({"path": "f", "target_content": "before", "replacement_content": "x"}),
        ),
    ] {
        let called = call(&client, tool, arguments).await;
        assert_eq!(
            called.violation(),
            Some("WouldViolateWriteDown"),
            "{tool}: {}",
            called.answer
        );
    }
    assert_eq!(
        done(&client, "fs.read", json!({"path": "f"})).await.0,
        "before"
    );
}

#[tokio::test]
async fn paths_that_leave_a_volume_are_refused_and_told_as_events() {
    let yard = tempfile::tempdir().unwrap();
    let inside = yard.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(yard.path().join("secret"), "canary").unwrap();
    std::os::unix::fs::symlink("../secret", inside.join("link")).unwrap();
    let volumes = format!(
        "volumes:\n  workspace: {{ path: {}, classification: INTERNAL, writable: true, max_bytes: 64KiB }}\n  \
         kept: {{ classification: INTERNAL, access: {{ users: [somebody] }} }}\n",
        inside.display()
    );
    let gate = opened(&volumes).await;
    let client = client(&gate).await;
    let said = |called: &Called| called.violation().map(str::to_owned);
    for path in [
        "/workspace/../secret",
        "../secret",
        "/workspace/%2e%2e/secret",
        "link",
    ] {
        for (tool, more) in [
            ("fs.read", json!({})),
            ("fs.write", json!({"content": "x"})),
            ("fs.delete", json!({})),
        ] {
            let mut arguments = more;
            arguments["path"] = json!(path);
            let called = call(&client, tool, arguments).await;
            if path == "link" && tool == "fs.delete" {
                assert!(!called.is_error, "a link itself can go: {}", called.answer);
                std::os::unix::fs::symlink("../secret", inside.join("link")).unwrap();
                continue;
            }
            assert_eq!(
                said(&called).as_deref(),
                Some("PathTraversalAttempt"),
                "{tool} {path}: {}",
                called.answer
            );
        }
    }
    assert_eq!(
        std::fs::read_to_string(yard.path().join("secret")).unwrap(),
        "canary"
    );
    let called = call(&client, "fs.read", json!({"path": "/kept/x"})).await;
    assert_eq!(
        said(&called).as_deref(),
        Some("UnauthorizedVolumeAccess"),
        "{}",
        called.answer
    );
    let somebody = other(&gate, "somebody", &["--user", "somebody"]).await;
    assert!(
        failed(&somebody, "fs.read", json!({"path": "/kept/x"}))
            .await
            .starts_with("NOT_FOUND")
    );
    let called = call(
        &client,
        "fs.write",
        json!({"path": "big", "content": "x".repeat(100_000)}),
    )
    .await;
    assert_eq!(
        said(&called).as_deref(),
        Some("QuotaExceeded"),
        "{}",
        called.answer
    );
    done(
        &client,
        "fs.write",
        json!({"path": "small", "content": "x"}),
    )
    .await;
    done(&client, "fs.read", json!({"path": "small"})).await;
    for (event, least) in [
        ("PathTraversalBlocked", 11),
        ("UnauthorizedVolumeAccess", 1),
        ("QuotaExceeded", 1),
        ("FileWritten", 1),
        ("FileRead", 1),
        ("FileDeleted", 1),
    ] {
        let told = events(&gate, &["--event", event]).await;
        assert!(told.len() >= least, "{event}: {told:#?}");
    }
    let told = events(&gate, &["--event", "UnauthorizedVolumeAccess"]).await;
    assert_eq!(told[0]["payload"]["path"], "/kept/x", "{told:#?}");
}

#[tokio::test]
async fn signed_calls_reach_a_volume_within_their_context() {
    let contexts = "security_contexts:\n  - name: coder\n    description: x\n    capabilities:\n      - { tool_pattern: 'fs.*', path_allowlist: [/workspace/src] }\n    deny_list: ['fs.read:/workspace/src/.env']\n";
    let gate = opened(&format!("{WORKSPACE}{contexts}")).await;
    let agent = Agent::attest(&gate, &gate.token().unwrap(), 9, "coder").await;
    let write = json!({"path": "/workspace/src/a", "content": "word"});
    let (status, said) = agent.call("fs.write", write).await;
    assert_eq!(status, 200, "{said}");
    let answer = &said["result"]["structuredContent"];
    assert_eq!(
        (&answer["success"], &answer["bytes_written"]),
        (&json!(true), &json!(4)),
        "{said}"
    );
    for (path, wanted) in [
        ("/workspace/b", "PathOutsideBoundary"),
        ("/workspace/src/../b", "PathTraversalAttempt"),
        ("/workspace/src/.env", "ToolExplicitlyDenied"),
    ] {
        let (_, said) = agent.call("fs.read", json!({"path": path})).await;
        assert_eq!(violation(&said), wanted, "{path}: {said}");
    }
    // A link inside the volume is no way around either list, and a search reads no file that reading is denied.
    let root = gate.home().join("state/volumes/workspace");
    std::fs::write(root.join("src/.env"), "word KEY").unwrap();
    std::fs::write(root.join("b"), "word outside").unwrap();
    for (name, to) in [("env", ".env"), ("up", "../b")] {
        std::os::unix::fs::symlink(to, root.join("src").join(name)).unwrap();
        let (_, said) = agent
            .call("fs.read", json!({"path": format!("/workspace/src/{name}")}))
            .await;
        assert!(
            said.to_string().contains("PERMISSION_DENIED"),
            "{name}: {said}"
        );
        assert!(!said.to_string().contains("word"), "{said}");
    }
    let (_, said) = agent
        .call(
            "fs.grep",
            json!({"path": "/workspace/src", "pattern": "word"}),
        )
        .await;
    let found = &said["result"]["structuredContent"];
    assert_eq!(
        (&found["count"], &found["skipped"]["denied"]),
        (&json!(1), &json!(1)),
        "{said}"
    );
}

#[tokio::test]
async fn volumes_do_not_overlap() {
    let yard = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(yard.path().join("a/b")).unwrap();
    std::os::unix::fs::symlink(yard.path().join("a/b"), yard.path().join("alias")).unwrap();
    let volume = |name: &str, at: &str| {
        format!(
            "  {name}: {{ path: {}/{at}, classification: INTERNAL, writable: true }}\n",
            yard.path().display()
        )
    };
    let gate = opened(&format!(
        "volumes:\n{}{}",
        volume("one", "a"),
        volume("two", "alias")
    ))
    .await;
    let client = client(&gate).await;
    let called = call(
        &client,
        "fs.write",
        json!({"path": "/two/f", "content": "x"}),
    )
    .await;
    assert_eq!(called.error_code(), Some("internal"), "{}", called.answer);
    assert!(!yard.path().join("a/b/f").exists());
    // Nor do they hold the gate's own files.
    let home = gate.home().display();
    let own = format!(
        "volumes:\n  own: {{ path: {home}/state, classification: RESTRICTED, writable: true }}\n"
    );
    reconfigure(&gate, &format!("{FLOOR_ONLY}{own}{}", config(&[]))).await;
    let called = call(&client, "fs.list", json!({"path": "/own"})).await;
    assert_eq!(called.error_code(), Some("internal"), "{}", called.answer);
}

#[tokio::test]
async fn a_changed_volume_keeps_its_labels() {
    let (gate, tainted, secret) = tainted_yard().await;
    done(&tainted, "fs.write", json!({"path": "f", "content": "x"})).await;
    let changed = WORKSPACE.replace("writable: true", "max_files: 10, mount: /elsewhere");
    let classified = "classification: CONFIDENTIAL, open_world: false";
    let servers = config(&[("secret", http(&secret.url(), classified))]);
    reconfigure(&gate, &format!("{FLOOR_ONLY}{changed}{servers}")).await;
    let reader = other(&gate, "reader", &[]).await;
    done(&reader, "fs.read", json!({"path": "/elsewhere/f"})).await;
    assert_eq!(label(&reader).await, "CONFIDENTIAL");
    // Taken out of the file and put back, it has them too.
    reconfigure(&gate, &format!("{FLOOR_ONLY}{servers}")).await;
    reconfigure(&gate, &format!("{FLOOR_ONLY}{WORKSPACE}{servers}")).await;
    let second = other(&gate, "second", &[]).await;
    done(&second, "fs.read", json!({"path": "f"})).await;
    assert_eq!(label(&second).await, "CONFIDENTIAL");
}
