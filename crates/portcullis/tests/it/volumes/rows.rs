//! Every tool for files, row by row: what it answers and how it fails, the same through the MCP door and as signed calls.

use serde_json::{Value, json};
use testkit::client::Client;

use super::{call, opened, other};
use crate::seal::Agent;

const CONTEXT: &str = "\
volumes:
  workspace: { classification: CONFIDENTIAL, writable: true }
security_contexts:
  - name: coder
    description: x
    capabilities:
      - { tool_pattern: 'fs.*', path_allowlist: [/workspace/src] }
    deny_list: ['fs.read:/workspace/src/.env', 'fs.write:/workspace/src/locked', 'fs.delete:/workspace/src/locked']
";

const DENIED: &str = "PERMISSION_DENIED: ";

/// What a call came to.
#[derive(Debug, PartialEq)]
enum Said {
    Text(String),
    Error(String),
    Refused(String),
}

/// What it must come to.
enum Wanted {
    Is(&'static str),
    Begins(&'static str),
    Fails(&'static str),
    Refused(&'static str),
}

enum Door {
    Mcp(Client),
    Signed(Box<Agent>),
}

impl Door {
    async fn ask(&self, tool: &str, arguments: Value) -> Said {
        let (result, violation) = match self {
            Self::Mcp(client) => {
                let called = call(client, tool, arguments).await;
                let violation = called.violation().map(str::to_owned);
                (called.answer["result"].clone(), violation)
            }
            Self::Signed(agent) => {
                let (_, said) = agent.call(tool, arguments).await;
                let mut violation = said["error"]["data"]["violation"].as_str();
                // The one refusal that signed calls are told without data.
                if said["error"]["code"] == -32602 {
                    violation = Some("InvalidArguments");
                }
                (said["result"].clone(), violation.map(str::to_owned))
            }
        };
        let text = result["content"][0]["text"].as_str();
        let text = text.unwrap_or_default().to_owned();
        match violation {
            Some(violation) => Said::Refused(violation),
            None if result["isError"] == true => Said::Error(text),
            None => Said::Text(text),
        }
    }
}

fn rows() -> Vec<(&'static str, Value, Wanted)> {
    use Wanted::*;
    let at = |path: &str| json!({ "path": path });
    let write = |path: &str, content: &str| json!({ "path": path, "content": content });
    let edit = |target: &str, replacement: &str| json!({ "path": "/workspace/src/e", "target_content": target, "replacement_content": replacement });
    let edits = |pairs: &[(&str, &str)]| {
        let each = pairs
            .iter()
            .map(|(from, to)| json!({ "target_content": from, "replacement_content": to }));
        json!({ "path": "/workspace/src/e", "edits": each.collect::<Vec<_>>() })
    };
    let take = |path: &str| json!({ "path": path, "destination": "/workspace/src/taken" });
    let look = |path: &str, pattern: &str| json!({ "path": path, "pattern": pattern });
    let (a, e) = ("/workspace/src/a.txt", "/workspace/src/e");
    vec![
        // Writing creates, overwrites, and leaves no tail of what was longer.
        (
            "fs.write",
            write(a, "one\ntwo\n"),
            Is("Wrote 8 bytes to /workspace/src/a.txt"),
        ),
        ("fs.read", at(a), Is("one\ntwo\n")),
        (
            "fs.write",
            write(a, "x\n"),
            Is("Wrote 2 bytes to /workspace/src/a.txt"),
        ),
        ("fs.read", at("src/a.txt"), Is("x\n")),
        ("fs.read", at("/workspace/src/./a.txt"), Is("x\n")),
        (
            "fs.read",
            at("/workspace/src/none"),
            Fails("NOT_FOUND: there is no `/workspace/src/none`"),
        ),
        (
            "fs.read",
            at("/workspace/src/.env"),
            Refused("ToolExplicitlyDenied"),
        ),
        (
            "fs.write",
            write("/workspace/src/locked", ""),
            Refused("ToolExplicitlyDenied"),
        ),
        (
            "fs.delete",
            at("/workspace/src/locked"),
            Refused("ToolExplicitlyDenied"),
        ),
        // What may not be read is not taken elsewhere to be read there.
        ("fs.copy", take("/workspace/src/.env"), Fails(DENIED)),
        ("fs.move", take("/workspace/src/.env"), Fails(DENIED)),
        // Directories: those above are made, one that is there is fine, and the other spelling is the same tool.
        (
            "fs.create_dir",
            at("/workspace/src/deep/er"),
            Is("Created /workspace/src/deep/er"),
        ),
        (
            "fs.create.dir",
            at("/workspace/src/deep/er"),
            Is("/workspace/src/deep/er exists already"),
        ),
        (
            "fs.create.dir",
            at("/workspace/src/deep/est"),
            Is("Created /workspace/src/deep/est"),
        ),
        ("fs.list", at("/workspace/src"), Is("a.txt\ndeep/")),
        ("fs.list", at("/workspace/src/none"), Fails("NOT_FOUND: ")),
        ("fs.delete", at("/workspace/src/deep"), Fails("NOT_EMPTY: ")),
        (
            "fs.delete",
            json!({ "path": "/workspace/src/deep", "recursive": true }),
            Is("Deleted /workspace/src/deep, 3 entries in all"),
        ),
        ("fs.delete", at("/workspace/src/deep"), Fails("NOT_FOUND: ")),
        // An edit replaces the one place, or nothing.
        (
            "fs.create",
            write(e, "aXbXc\n"),
            Begins("Wrote 6 bytes to "),
        ),
        ("fs.create", write(e, ""), Fails("ALREADY_EXISTS: ")),
        ("fs.edit", edit("X", "-"), Fails("NO_UNIQUE_MATCH: ")),
        (
            "fs.edit",
            edit("none of it", "-"),
            Fails("NO_UNIQUE_MATCH: "),
        ),
        (
            "fs.multi_edit",
            edits(&[("a", "A"), ("X", "-")]),
            Fails("NO_UNIQUE_MATCH: "),
        ),
        ("fs.read", at(e), Is("aXbXc\n")),
        (
            "fs.edit",
            edit("aX", "a"),
            Begins("Edited /workspace/src/e: 1 replacement, first at line 1"),
        ),
        (
            "fs.multi_edit",
            edits(&[("ab", "ba"), ("Xc", "c")]),
            Begins("Edited /workspace/src/e: 2 replacements"),
        ),
        ("fs.read", at(e), Is("bac\n")),
        // Searches: file, line number and line; names relative to where the search began.
        (
            "fs.grep",
            look("/workspace/src", "^b.c"),
            Is("/workspace/src/e:1:bac"),
        ),
        (
            "fs.grep",
            look("/workspace/src", "("),
            Fails("INVALID_ARGUMENT: `pattern` is no regular expression"),
        ),
        ("fs.glob", look("/workspace/src", "*.txt"), Is("a.txt")),
        ("fs.glob", look("/workspace/src", "**/*.none"), Is("")),
        ("fs.delete", at(e), Is("Deleted /workspace/src/e")),
        ("fs.delete", at(a), Is("Deleted /workspace/src/a.txt")),
    ]
}

#[tokio::test]
async fn every_tool_answers_as_its_row_says_through_both_doors() {
    let gate = opened(CONTEXT).await;
    let signed = Agent::attest(&gate, &gate.token().unwrap(), 9, "coder").await;
    let client = other(&gate, "coder", &["--context", "coder"]).await;
    for (door, name) in [
        (Door::Signed(Box::new(signed)), "signed"),
        (Door::Mcp(client), "mcp"),
    ] {
        for (tool, arguments, wanted) in rows() {
            let said = door.ask(tool, arguments.clone()).await;
            let fits = match (&said, &wanted) {
                (Said::Text(text), Wanted::Is(wanted)) => text == wanted,
                (Said::Text(text), Wanted::Begins(wanted)) => text.starts_with(wanted),
                (Said::Error(text), Wanted::Fails(wanted)) => text.starts_with(wanted),
                (Said::Refused(violation), Wanted::Refused(wanted)) => violation == wanted,
                _ => false,
            };
            assert!(fits, "{name} {tool} {arguments}: {said:?}");
        }
        let outside = [
            ("fs.read", json!({})),
            ("fs.write", json!({"content": "x"})),
            ("fs.create", json!({})),
            ("fs.list", json!({})),
            ("fs.create_dir", json!({})),
            ("fs.create.dir", json!({})),
            ("fs.delete", json!({})),
            (
                "fs.edit",
                json!({"target_content": "a", "replacement_content": "b"}),
            ),
            ("fs.multi_edit", json!({"edits": []})),
            ("fs.grep", json!({"pattern": "x"})),
            ("fs.glob", json!({"pattern": "x"})),
            ("fs.stat", json!({})),
        ];
        for (tool, arguments) in outside {
            for (path, violation) in [
                ("/workspace/other", "PathOutsideBoundary"),
                ("/etc/passwd", "PathOutsideBoundary"),
                ("/workspace/src/../other", "PathTraversalAttempt"),
            ] {
                let mut arguments = arguments.clone();
                arguments["path"] = json!(path);
                let said = door.ask(tool, arguments).await;
                let wanted = Said::Refused(violation.to_owned());
                assert_eq!(said, wanted, "{name} {tool} {path}");
            }
            let said = door.ask(tool, arguments).await;
            let wanted = Said::Refused("InvalidArguments".to_owned());
            assert_eq!(said, wanted, "{name} {tool} without a path");
        }
    }
    let left = std::fs::read_dir(gate.home().join("state/volumes/workspace/src")).unwrap();
    assert_eq!(left.count(), 0, "every row was undone");
}
