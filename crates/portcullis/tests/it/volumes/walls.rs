//! The walls of a volume, from outside: no call reaches past them, and a call that was refused changed nothing.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt as _, symlink},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use serde_json::{Value, json};

use super::{call, client, done, failed, label, opened, other, tainted_yard};
use crate::failures::events;

const CANARY: &str = "the canary outside";

/// Everything beneath a directory: what each name is, when it was changed, and what it holds.
fn tree(at: &Path) -> BTreeMap<String, (u64, i64, i64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut ahead = vec![at.to_owned()];
    while let Some(dir) = ahead.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            let content = match meta.is_file() {
                true => fs::read(&path).unwrap(),
                false => Vec::new(),
            };
            let state = (meta.ino(), meta.mtime(), meta.mtime_nsec(), content);
            found.insert(path.display().to_string(), state);
            if meta.is_dir() {
                ahead.push(path);
            }
        }
    }
    found
}

/// Every tool, on this path.
fn every_tool(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("fs.read", json!({ "path": path })),
        ("fs.stat", json!({ "path": path })),
        ("fs.list", json!({ "path": path })),
        ("fs.grep", json!({ "path": path, "pattern": "." })),
        ("fs.glob", json!({ "path": path, "pattern": "*" })),
        (
            "fs.write",
            json!({ "path": path, "content": "overwritten" }),
        ),
        ("fs.create", json!({ "path": path, "content": "made" })),
        ("fs.create_dir", json!({ "path": path })),
        ("fs.delete", json!({ "path": path, "recursive": true })),
        (
            "fs.edit",
            json!({ "path": path, "target_content": "canary", "replacement_content": "x" }),
        ),
        (
            "fs.multi_edit",
            json!({ "path": path, "edits": [{ "target_content": "canary", "replacement_content": "x" }] }),
        ),
        (
            "fs.move",
            json!({ "path": path, "destination": "/workspace/stolen" }),
        ),
        (
            "fs.move",
            json!({ "path": "/workspace/own", "destination": path }),
        ),
        (
            "fs.copy",
            json!({ "path": path, "destination": "/workspace/stolen" }),
        ),
        (
            "fs.copy",
            json!({ "path": "/workspace/own", "destination": path, "overwrite": true }),
        ),
    ]
}

#[tokio::test]
async fn no_tool_reaches_past_the_walls_and_what_is_refused_changes_nothing() {
    let yard = tempfile::tempdir().unwrap();
    let inside = yard.path().join("inside");
    let outside = yard.path().join("outside");
    fs::create_dir(&inside).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), CANARY).unwrap();
    fs::write(inside.join("own"), "own words").unwrap();
    // Ways out: over absolute, climbing, chained and magic links, in a circle, and by a second name of a file outside.
    symlink(&outside, inside.join("absolute")).unwrap();
    symlink("../outside", inside.join("climbing")).unwrap();
    symlink("climbing", inside.join("chained")).unwrap();
    symlink("/proc/self/root", inside.join("magic")).unwrap();
    symlink("round", inside.join("about")).unwrap();
    symlink("about", inside.join("round")).unwrap();
    fs::hard_link(outside.join("secret"), inside.join("second")).unwrap();
    let volumes = format!(
        "volumes:\n  workspace: {{ path: {}, classification: INTERNAL, writable: true }}\n",
        inside.display()
    );
    let gate = opened(&volumes).await;
    let client = client(&gate).await;
    let magic = format!("/workspace/magic{}/secret", outside.display());
    let long = format!("/workspace/{}", "x".repeat(300));
    let deep = format!("/workspace/{}", "d/".repeat(3000));
    let paths = [
        "/workspace/../outside/secret",
        "../outside/secret",
        "/workspace/..%2foutside/secret",
        "/workspace/%2e%2e/outside/secret",
        "/workspace/absolute/secret",
        "/workspace/climbing/secret",
        "/workspace/chained/secret",
        "/workspace/round/secret",
        "/workspace/own/secret",
        "/workspace2/secret",
        "/outside/secret",
        "/workspace/.portcullis-0000000000000000",
        "/workspace/a\u{0}b",
        "/workspace/a\nb",
        &magic,
        &long,
        &deep,
    ];
    // Attached by now, which leaves nothing behind.
    done(&client, "fs.list", json!({"path": "/workspace"})).await;
    let before = tree(yard.path());
    for path in paths {
        for (tool, arguments) in every_tool(path) {
            let called = call(&client, tool, arguments).await;
            let shown = called.answer.to_string();
            let shown: String = shown.chars().take(400).collect();
            assert!(
                called.is_error || called.rpc_code().is_some(),
                "{tool} {path}: {shown}"
            );
            assert!(!shown.contains(CANARY), "{tool} {path}: {shown}");
        }
        assert_eq!(tree(yard.path()), before, "after {path}");
    }
    // What a second name leads to is neither read nor searched; deleting or replacing the name leaves the file outside.
    for tool in ["fs.read", "fs.grep", "fs.edit", "fs.copy"] {
        for (_, arguments) in every_tool("/workspace/second")
            .iter()
            .filter(|(own, _)| *own == tool)
            .take(1)
        {
            let called = call(&client, tool, arguments.clone()).await;
            assert!(
                !called.answer.to_string().contains(CANARY),
                "{tool}: {}",
                called.answer
            );
        }
    }
    done(
        &client,
        "fs.write",
        json!({"path": "second", "content": "ours"}),
    )
    .await;
    assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), CANARY);
    let blocked = events(&gate, &["--event", "PathTraversalBlocked"]).await;
    assert!(blocked.len() >= 4 * 15, "{}", blocked.len());
    let storage = blocked
        .iter()
        .all(|event| event["payload"]["attempted_path"].is_string());
    assert!(storage, "{:#?}", blocked.first());
}

#[tokio::test]
async fn a_link_that_comes_and_goes_leads_nowhere() {
    let yard = tempfile::tempdir().unwrap();
    let inside = yard.path().join("inside");
    fs::create_dir_all(inside.join("real")).unwrap();
    fs::write(inside.join("real/secret"), "own words").unwrap();
    fs::write(yard.path().join("secret"), CANARY).unwrap();
    let volumes = format!(
        "volumes:\n  workspace: {{ path: {}, classification: INTERNAL, writable: true }}\n",
        inside.display()
    );
    let gate = opened(&volumes).await;
    let client = client(&gate).await;
    let over = Arc::new(AtomicBool::new(false));
    let hand = {
        let (over, inside) = (Arc::clone(&over), inside.clone());
        std::thread::spawn(move || {
            let (way, aside) = (inside.join("way"), inside.join("aside"));
            while !over.load(Ordering::Relaxed) {
                let _ = symlink("..", &way);
                let _ = fs::remove_file(&way);
                let _ = fs::rename(inside.join("real"), &way);
                let _ = fs::rename(&way, &aside);
                let _ = fs::rename(&aside, inside.join("real"));
            }
        })
    };
    let mut reached = 0;
    for turn in 0..300 {
        let called = match turn % 3 {
            0 => call(&client, "fs.read", json!({"path": "way/secret"})).await,
            1 => call(&client, "fs.grep", json!({"path": "way", "pattern": "."})).await,
            _ => {
                let edit = json!({"path": "way/secret", "target_content": "own", "replacement_content": "own", "replace_all": true});
                call(&client, "fs.edit", edit).await
            }
        };
        assert!(
            !called.answer.to_string().contains(CANARY),
            "{}",
            called.answer
        );
        reached += usize::from(!called.is_error);
    }
    over.store(true, Ordering::Relaxed);
    hand.join().unwrap();
    let outside = fs::read_to_string(yard.path().join("secret")).unwrap();
    assert_eq!(outside, CANARY, "{reached} calls got somewhere");
}

#[tokio::test]
async fn a_quota_is_given_back_by_deleting_and_by_writing_less() {
    let gate = opened(
        "volumes:\n  workspace: { classification: INTERNAL, writable: true, max_bytes: 256KiB, max_files: 6 }\n",
    )
    .await;
    let client = client(&gate).await;
    let write = |name: &str, bytes: usize| json!({ "path": name, "content": "x".repeat(bytes) });
    for turn in 0..5 {
        done(&client, "fs.write", write("a", 100_000)).await;
        done(&client, "fs.write", write("b", 100_000)).await;
        let full = call(&client, "fs.write", write("c", 100_000)).await;
        assert_eq!(
            full.violation(),
            Some("QuotaExceeded"),
            "{turn}: {}",
            full.answer
        );
        // One that is smaller now makes room, and so does one that is gone.
        done(&client, "fs.write", write("b", 1_000)).await;
        done(&client, "fs.write", write("c", 100_000)).await;
        let full = call(&client, "fs.copy", json!({"path": "c", "destination": "d"})).await;
        assert_eq!(
            full.violation(),
            Some("QuotaExceeded"),
            "{turn}: {}",
            full.answer
        );
        for name in ["a", "b", "c"] {
            done(&client, "fs.delete", json!({ "path": name })).await;
        }
    }
    let files: Vec<String> = (0..6).map(|n| format!("f{n}")).collect();
    for name in &files {
        done(&client, "fs.write", write(name, 1)).await;
    }
    let full = call(&client, "fs.create_dir", json!({"path": "g"})).await;
    assert_eq!(full.violation(), Some("QuotaExceeded"), "{}", full.answer);
    // What another program deletes is room too.
    fs::remove_file(gate.home().join("state/volumes/workspace/f0")).unwrap();
    done(&client, "fs.write", write("g", 1)).await;
    let told = events(&gate, &["--event", "QuotaExceeded"]).await;
    assert_eq!(told.len(), 11, "{told:#?}");
}

#[tokio::test]
async fn a_label_stays_until_another_program_replaces_the_file() {
    let (gate, tainted, _secret) = tainted_yard().await;
    done(
        &tainted,
        "fs.write",
        json!({"path": "d/plans", "content": "the plans"}),
    )
    .await;
    let root = gate.home().join("state/volumes/workspace");
    // Changed in place, or under another name, it is the same file.
    fs::write(root.join("d/plans"), "the plans, longer").unwrap();
    fs::rename(root.join("d"), root.join("e")).unwrap();
    let reader = other(&gate, "reader", &[]).await;
    done(&reader, "fs.read", json!({"path": "e/plans"})).await;
    assert_eq!(label(&reader).await, "CONFIDENTIAL");
    // A new file in its place was never written by the session. The names in a new directory are nobody's either.
    fs::create_dir(root.join("f")).unwrap();
    fs::write(root.join("f/plans"), "weather").unwrap();
    fs::remove_dir_all(root.join("e")).unwrap();
    fs::rename(root.join("f"), root.join("e")).unwrap();
    let second = other(&gate, "second", &[]).await;
    assert_eq!(
        done(&second, "fs.read", json!({"path": "e/plans"})).await.0,
        "weather"
    );
    assert_eq!(label(&second).await, "PUBLIC");
}

#[tokio::test]
async fn errors_and_missing_names_carry_what_they_tell() {
    let (gate, tainted, _secret) = tainted_yard().await;
    let first = other(&gate, "first", &[]).await;
    let note = json!({"path": "open/x", "content": "no plans\n"});
    done(&first, "fs.write", note).await;
    done(
        &tainted,
        "fs.write",
        json!({"path": "d/plans", "content": "the plans\n"}),
    )
    .await;
    let asks = [
        // It quotes the file.
        (
            "fs.edit",
            json!({"path": "d/plans", "target_content": "the  plans", "replacement_content": "x"}),
        ),
        // It says that a name is not there.
        ("fs.read", json!({"path": "d/other"})),
        ("fs.stat", json!({"path": "d/other"})),
        ("fs.create", json!({"path": "d/plans"})),
    ];
    for (number, (tool, arguments)) in asks.into_iter().enumerate() {
        let clean = other(&gate, &format!("clean{number}"), &[]).await;
        failed(&clean, tool, arguments).await;
        assert_eq!(label(&clean).await, "CONFIDENTIAL", "{tool}");
    }
    // A search that leaves out what would raise the label says so, and raises nothing.
    let clean = other(&gate, "careful", &[]).await;
    let seed = json!({"path": "open/plans", "content": "the plans\n"});
    done(&tainted, "fs.write", seed).await;
    let asked = json!({"path": "open", "pattern": "plans", "no_rise": true});
    let (text, told) = done(&clean, "fs.grep", asked.clone()).await;
    assert!(!text.contains("the plans"), "{text}");
    assert!(told["skipped"]["label"].as_u64() > Some(0), "{told}");
    assert_eq!(label(&clean).await, "PUBLIC");
    let (text, _) = done(&tainted, "fs.grep", asked).await;
    assert!(text.contains("the plans"), "{text}");
}

#[tokio::test]
async fn a_copy_to_a_volume_that_may_hold_less_is_refused() {
    let volumes = "  \
        open: { classification: PUBLIC, writable: true }\n";
    let (gate, tainted, _secret) = super::tainted_yard_with(volumes).await;
    done(
        &tainted,
        "fs.write",
        json!({"path": "plans", "content": "the plans"}),
    )
    .await;
    let clean = other(&gate, "clean", &[]).await;
    let copy = json!({"path": "/workspace/plans", "destination": "/open/plans"});
    let called = call(&clean, "fs.copy", copy).await;
    assert_eq!(
        called.violation(),
        Some("WouldViolateWriteDown"),
        "{}",
        called.answer
    );
    let open = gate.home().join("state/volumes/open");
    assert_eq!(fs::read_dir(open).unwrap().count(), 0);
    // What nobody has seen goes through.
    done(
        &other(&gate, "free", &[]).await,
        "fs.write",
        json!({"path": "/open/notes", "content": "x"}),
    )
    .await;
}
