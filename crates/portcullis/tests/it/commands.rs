//! The command line as people use it: what it prints, what it changes, how it ends.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::client::{Client, Era};
use testkit::gate::{Said, run};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::support::{
    await_state, client, connected, eventually, fixture, gate, http, new_token, portcullis,
    program, server,
};

const PUBLIC: &str = "classification: PUBLIC";

fn assert_done(said: &Said) {
    assert_eq!(said.code, Some(0), "{said:?}");
}

#[tokio::test]
async fn servers_are_added_listed_disabled_enabled_and_removed() {
    let fixture = fixture().await;
    let gate = gate("# my own comment\nmcp_servers: {}\n").await;
    assert_done(
        &gate
            .cli(&[
                "servers",
                "add",
                "remote",
                "--url",
                &fixture.url(),
                "--classification",
                "PUBLIC",
                "--open-world",
                "no",
                "--yes",
            ])
            .await
            .unwrap(),
    );
    let everything = program("everything");
    let add = [
        "servers",
        "add",
        "local",
        "--yes",
        "--command",
        &everything,
        "--env",
        "A=b",
        "--classification",
        "INTERNAL",
        "--open-world",
        "no",
        "--",
        "--stdio",
    ];
    assert_done(&gate.cli(&add).await.unwrap());
    for id in ["remote", "local"] {
        await_state(&gate, id, "connected", Duration::from_secs(10)).await;
    }
    let caller = client(&gate, Era::Modern).await;
    assert_eq!(
        caller
            .call("remote__echo", json!({"text": "w"}))
            .await
            .unwrap()
            .text,
        "w"
    );
    assert!(
        caller
            .call("local__env", json!({}))
            .await
            .unwrap()
            .text
            .contains("\"A\":\"b\"")
    );

    let listed = gate.cli(&["servers", "list"]).await.unwrap();
    assert_done(&listed);
    for word in ["remote", "local", "connected", "PUBLIC", "INTERNAL"] {
        assert!(
            listed.stdout.contains(word),
            "no {word} in\n{}",
            listed.stdout
        );
    }
    let machine = gate
        .cli(&["--json", "servers", "list"])
        .await
        .unwrap()
        .json()
        .unwrap();
    assert!(machine.to_string().contains("\"remote\""), "{machine}");

    assert_done(&gate.cli(&["servers", "disable", "local"]).await.unwrap());
    await_state(&gate, "local", "disabled", Duration::from_secs(5)).await;
    assert!(
        caller
            .call("local__echo", json!({"text": "x"}))
            .await
            .unwrap()
            .is_error
    );
    assert_done(&gate.cli(&["servers", "enable", "local"]).await.unwrap());
    await_state(&gate, "local", "connected", Duration::from_secs(10)).await;
    assert_done(
        &gate
            .cli(&["servers", "classify", "remote", "INTERNAL"])
            .await
            .unwrap(),
    );
    eventually("the new classification", Duration::from_secs(5), || async {
        let server = server(&gate, "remote").await;
        if server["classification"] == "INTERNAL" {
            Ok(())
        } else {
            Err(server.to_string())
        }
    })
    .await;
    assert_done(&gate.cli(&["servers", "remove", "remote"]).await.unwrap());
    eventually("the server to be gone", Duration::from_secs(5), || async {
        let server = server(&gate, "remote").await;
        if server.is_null() {
            Ok(())
        } else {
            Err(server.to_string())
        }
    })
    .await;
    let yaml = std::fs::read_to_string(gate.home().join("portcullis.yaml")).unwrap();
    assert!(
        yaml.contains("# my own comment") && yaml.contains("local") && !yaml.contains("remote"),
        "{yaml}"
    );
}

#[tokio::test]
async fn bad_server_commands_change_nothing() {
    let gate = gate("mcp_servers: {}\n").await;
    let before = std::fs::read_to_string(gate.home().join("portcullis.yaml")).unwrap();
    let bad: [&[&str]; 9] = [
        &["servers", "add", "builtin", "--command", "x"],
        &["servers", "add", "a__b", "--command", "x"],
        &["servers", "add", "A", "--command", "x"],
        &["servers", "add", "a"],
        &[
            "servers",
            "add",
            "a",
            "--command",
            "x",
            "--url",
            "http://127.0.0.1:1/",
        ],
        &["servers", "add", "a", "--url", "not a url"],
        &[
            "servers",
            "add",
            "a",
            "--url",
            "http://127.0.0.1:1/",
            "--bearer",
            "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        ],
        &[
            "servers",
            "add",
            "a",
            "--command",
            "x",
            "--classification",
            "secret",
        ],
        &["servers", "frobnicate"],
    ];
    for args in bad {
        let said = gate.cli(args).await.unwrap();
        assert_eq!(said.code, Some(2), "{args:?}: {said:?}");
        assert!(!said.stderr.is_empty(), "{args:?} says nothing");
    }
    for args in [
        ["servers", "remove", "ghost"],
        ["servers", "enable", "ghost"],
        ["servers", "retry", "ghost"],
    ] {
        let said = gate.cli(&args).await.unwrap();
        assert!(matches!(said.code, Some(1 | 2)), "{args:?}: {said:?}");
        assert!(said.stderr.contains("ghost"), "{args:?}: {said:?}");
    }
    assert_eq!(
        std::fs::read_to_string(gate.home().join("portcullis.yaml")).unwrap(),
        before
    );
}

#[tokio::test]
async fn call_prints_the_result_and_its_exit_code_tells_the_outcome() {
    let fixture = fixture().await;
    let gate = connected(&[
        (
            "up",
            http(
                &fixture.url(),
                "classification: PUBLIC, timeout: 1s, tools: { effect: blocked }",
            ),
        ),
        ("raw", http(&fixture.url(), "enabled: true")),
    ])
    .await;
    let said = gate
        .cli(&["call", "up__echo", r#"{"text": "hello there"}"#])
        .await
        .unwrap();
    assert_done(&said);
    assert!(said.stdout.contains("hello there"), "{said:?}");
    let said = gate
        .cli_with_input(&["call", "up__echo", "-"], r#"{"text": "from stdin"}"#)
        .await
        .unwrap();
    assert_done(&said);
    assert!(said.stdout.contains("from stdin"), "{said:?}");
    let machine = gate
        .cli(&["--json", "call", "up__echo", r#"{"text": "x"}"#])
        .await
        .unwrap();
    assert_done(&machine);
    assert!(
        machine.json().unwrap().to_string().contains("\"x\""),
        "{machine:?}"
    );
    for (args, code) in [
        (["call", "up__effect", "{}"], 3),
        (["call", "raw__echo", r#"{"text": "x"}"#], 3),
        (["call", "up__slow", r#"{"ms": 20000}"#], 5),
        (["call", "up__echo", "not json"], 2),
        (["call", "up__echo", "[1]"], 2),
    ] {
        let said = gate.cli(&args).await.unwrap();
        assert_eq!(said.code, Some(code), "{args:?}: {said:?}");
    }
    let said = gate.cli(&["call", "up__no_such"]).await.unwrap();
    assert!(said.code.is_some_and(|code| code != 0), "{said:?}");
    assert_eq!(fixture.effects().effects, 0);
}

#[tokio::test]
async fn a_gate_that_does_not_run_is_said_so() {
    let home = tempfile::tempdir().unwrap();
    for args in [
        &["status"][..],
        &["servers", "retry", "x"],
        &["tools", "list"],
        &["call", "x__y"],
        &["connect"],
    ] {
        let said = run(&portcullis(), home.path(), args, "").await.unwrap();
        assert_eq!(said.code, Some(4), "{args:?}: {said:?}");
        assert!(
            said.stderr.contains("portcullis up"),
            "{args:?} does not say what to do: {said:?}"
        );
    }
}

#[tokio::test]
async fn tools_list_shows_names_and_permissions() {
    let fixture = fixture().await;
    let entry = http(
        &fixture.url(),
        "classification: PUBLIC, tools: { effect: blocked, slow: restricted }",
    );
    let gate = connected(&[("up", entry)]).await;
    let said = gate
        .cli(&["tools", "list", "--server", "up"])
        .await
        .unwrap();
    assert_done(&said);
    assert!(said.stdout.contains("up__echo"), "{}", said.stdout);
    let listed = gate
        .cli(&["--json", "tools", "list"])
        .await
        .unwrap()
        .json()
        .unwrap();
    let tools = listed
        .get("tools")
        .unwrap_or(&listed)
        .as_array()
        .expect("a list of tools")
        .clone();
    let permission = |name: &str| {
        let tool = tools.iter().find(|tool| tool["original"] == name);
        tool.unwrap_or_else(|| panic!("no {name} in {tools:?}"))["permission"].clone()
    };
    assert_eq!(permission("echo"), "permitted");
    assert_eq!(permission("effect"), "blocked");
    assert_eq!(permission("slow"), "restricted");
}

#[tokio::test]
async fn tokens_are_made_listed_and_revoked() {
    let fixture = fixture().await;
    let gate = connected(&[("up", http(&fixture.url(), PUBLIC))]).await;
    let token = new_token(&gate, "cursor", &["--view", "flat"]).await;
    let target = gate.target().unwrap().with_token(Some(&token));
    let caller = Client::plain(&target, Era::Modern).await.unwrap();
    let names = caller.tool_names().await.unwrap();
    assert!(names.contains(&"mcp_up_echo".to_owned()), "{names:?}");
    assert_eq!(
        caller
            .call("mcp_up_echo", json!({"text": "flat"}))
            .await
            .unwrap()
            .text,
        "flat"
    );
    let listed = gate.cli(&["token", "list"]).await.unwrap();
    assert_done(&listed);
    assert!(
        listed.stdout.contains("cursor") && !listed.stdout.contains(&token),
        "{}",
        listed.stdout
    );
    assert_done(&gate.cli(&["token", "revoke", "cursor"]).await.unwrap());
    eventually(
        "the token to be worthless",
        Duration::from_secs(3),
        || async {
            let reply = caller
                .post(&caller.message(1, "tools/list", json!({})), &[])
                .await
                .map_err(|error| error.to_string())?;
            if reply.status == 401 {
                Ok(())
            } else {
                Err(reply.status.to_string())
            }
        },
    )
    .await;
    for file in [
        "state/tokens.json",
        "ledger/00000000000000000000.log",
        "gate.stdout",
        "gate.stderr",
    ] {
        let kept = std::fs::read_to_string(gate.home().join(file)).unwrap_or_default();
        assert!(!kept.contains(&token), "the token stands in {file}");
    }
    assert_done(&gate.cli(&["audit", "verify"]).await.unwrap());
}

#[tokio::test]
async fn status_and_doctor_tell_what_is_confined() {
    let fixture = fixture().await;
    let gate = connected(&[("up", http(&fixture.url(), PUBLIC))]).await;
    client(&gate, Era::Legacy)
        .await
        .call("up__echo", json!({"text": "x"}))
        .await
        .unwrap();
    let status = gate.status().await.unwrap();
    assert_eq!(status["url"], gate.url());
    assert_eq!(status["pid"], gate.pid());
    assert!(status["worker"]["pid"].as_u64().is_some(), "{status}");
    assert!(status["calls"]["answered"].as_u64() >= Some(1), "{status}");
    assert!(status["ledger"]["records"].as_u64() >= Some(2), "{status}");
    let human = gate.cli(&["status"]).await.unwrap();
    assert_done(&human);
    assert!(
        human.stdout.contains("up") && human.stdout.contains("connected"),
        "{}",
        human.stdout
    );
    let doctor = gate.cli(&["doctor"]).await.unwrap();
    assert_done(&doctor);
    for word in ["seccomp", "landlock"] {
        assert!(
            doctor.stdout.to_lowercase().contains(word),
            "no {word} in\n{}",
            doctor.stdout
        );
    }
    assert!(
        gate.cli(&["--json", "doctor"])
            .await
            .unwrap()
            .json()
            .is_ok()
    );
}

#[tokio::test]
async fn watching_the_status_goes_on_until_interrupted() {
    let fixture = fixture().await;
    let gate = connected(&[("up", http(&fixture.url(), PUBLIC))]).await;
    let mut child = tokio::process::Command::new(portcullis())
        .arg("--home")
        .arg(gate.home())
        .args(["status", "--watch"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let seen = tokio::time::timeout(Duration::from_secs(5), async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains("connected") {
                return true;
            }
        }
        false
    });
    assert!(seen.await.expect("a first picture"), "it ended by itself");
    testkit::gate::signal(child.id().unwrap(), rustix::process::Signal::INT).unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(5), child.wait())
        .await
        .expect("it ends when interrupted")
        .unwrap();
    // Ended by the signal or because of it: a shell shows 130 either way.
    let by_signal = std::os::unix::process::ExitStatusExt::signal(&ended);
    assert!(ended.code() == Some(130) || by_signal == Some(2), "{ended}");
}

/// The tour, from nothing to a refused call and a verified ledger.
#[tokio::test]
async fn the_demo_runs_to_its_end() {
    let home = tempfile::tempdir().unwrap();
    let said = run(&portcullis(), home.path(), &["demo", "--no-pause"], "")
        .await
        .unwrap();
    assert_done(&said);
    for word in ["WouldViolateWriteDown", "CONFIDENTIAL"] {
        assert!(said.stdout.contains(word), "no {word} in\n{}", said.stdout);
    }
}

/// The first minute: nothing configured, nothing installed, and a call works.
#[tokio::test]
async fn a_fresh_home_works_at_once() {
    let home = tempfile::tempdir().unwrap();
    let mut child = tokio::process::Command::new(portcullis())
        .arg("--home")
        .arg(home.path())
        .args(["up", "--listen", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let called = eventually(
        "the demo server to answer",
        Duration::from_secs(10),
        || async {
            let said = run(
                &portcullis(),
                home.path(),
                &["call", "demo-notes__search_notes", r#"{"query": "launch"}"#],
                "",
            )
            .await
            .unwrap();
            if said.code == Some(0) {
                Ok(said)
            } else {
                Err(format!("{said:?}"))
            }
        },
    )
    .await;
    assert!(!called.stdout.trim().is_empty());
    assert_private(&home.path().join("state"), 0o700);
    assert_private(&home.path().join("state/client.token"), 0o600);
    assert_private(&home.path().join("state/operator.token"), 0o600);
    assert!(
        std::fs::read_to_string(home.path().join("portcullis.yaml"))
            .unwrap()
            .contains('#')
    );
    testkit::gate::signal(child.id().unwrap(), rustix::process::Signal::TERM).unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(8), child.wait())
        .await
        .expect("it stops when asked")
        .unwrap();
    assert_eq!(ended.code(), Some(0));
    let mut printed = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut child.stdout.take().unwrap(), &mut printed)
        .await
        .unwrap();
    assert!(printed.contains("clients show"), "{printed}");
    let clients = run(&portcullis(), home.path(), &["clients", "list"], "")
        .await
        .unwrap()
        .stdout;
    for client in ["claude", "cursor", "code", "codex", "gemini", "opencode"] {
        assert!(
            clients.to_lowercase().contains(client),
            "no form for {client} in\n{clients}"
        );
    }
}

fn assert_private(path: &Path, mode: u32) {
    let found =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(path).unwrap().permissions())
            & 0o777;
    assert_eq!(found, mode, "{} has mode {found:o}", path.display());
}

#[tokio::test]
async fn a_second_gate_in_the_same_home_is_refused() {
    let gate = gate("mcp_servers: {}\n").await;
    let said = gate.cli(&["up", "--listen", "127.0.0.1:0"]).await.unwrap();
    assert!(said.code.is_some_and(|code| code != 0), "{said:?}");
    assert!(!said.stderr.is_empty(), "{said:?}");
    assert_done(&gate.cli(&["status"]).await.unwrap());
}

#[tokio::test]
async fn completions_exist_for_every_shell() {
    let home = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let said = run(&portcullis(), home.path(), &["completions", shell], "")
            .await
            .unwrap();
        assert_done(&said);
        assert!(
            said.stdout.contains("portcullis") && said.stdout.contains("servers"),
            "{shell}"
        );
    }
}

/// The stdio door by hand: lines in, lines out, both eras, and the end when the input ends.
#[tokio::test]
async fn connect_speaks_lines() {
    let fixture = fixture().await;
    let gate = connected(&[("up", http(&fixture.url(), PUBLIC))]).await;
    let mut child = tokio::process::Command::new(portcullis())
        .arg("--home")
        .arg(gate.home())
        .arg("connect")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "hand", "version": "1"}});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let call = json!({"jsonrpc": "2.0", "id": "two", "method": "tools/call",
        "params": {"name": "up__echo", "arguments": {"text": "by hand"}}});
    for (line, answered) in [
        (hello.to_string(), true),
        (ready.to_string(), false),
        ("not json".to_owned(), true),
        (call.to_string(), true),
    ] {
        stdin
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
        if answered {
            let answer = tokio::time::timeout(Duration::from_secs(5), lines.next_line())
                .await
                .expect("an answer")
                .unwrap()
                .unwrap();
            let answer: Value = serde_json::from_str(&answer).unwrap();
            match answer["id"].as_str() {
                Some("two") => assert_eq!(
                    answer.pointer("/result/content/0/text"),
                    Some(&json!("by hand")),
                    "{answer}"
                ),
                _ if answer["id"] == 1 => assert_eq!(
                    answer.pointer("/result/protocolVersion"),
                    Some(&json!("2025-06-18"))
                ),
                _ => assert_eq!(
                    answer.pointer("/error/code"),
                    Some(&json!(-32700)),
                    "{answer}"
                ),
            }
        }
    }
    drop(stdin);
    let ended = tokio::time::timeout(Duration::from_secs(5), child.wait())
        .await
        .expect("the end of input ends it")
        .unwrap();
    assert_eq!(ended.code(), Some(0));
}
