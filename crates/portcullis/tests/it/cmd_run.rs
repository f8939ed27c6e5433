//! `cmd.run`: commands run in a jail, in their caller's workspace, and their results carry what the caller had seen.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::client::{Client, Era, Target};
use testkit::gate::Gate;
use testkit::procfs;

use crate::operator::{FLOOR_ONLY, SOON};
use crate::seal::{Agent, violation};
use crate::support::{await_state, config, eventually, fixture, gate, http, new_token, records};

const CONTEXTS: &str = "\
security_contexts:
  hands:
    description: Runs a shell
    capabilities:
      - tool_pattern: cmd.run
        subcommand_allowlist: { sh: ['-c'], cat: [note], git: [status] }
      - tool_pattern: portcullis.*
      - tool_pattern: secret__*
  free:
    description: Runs what is named
    capabilities: [{ tool_pattern: cmd.run, command_allowlist: [ls, sh, ./text, ./script, ./missing] }]
  reader:
    description: Runs nothing
    capabilities: [fs.read]
builtin_dispatchers:
  cmd: { default_timeout_secs: 20, max_timeout_ceiling_secs: 30, max_output_bytes: 4 KiB, max_concurrent_per_execution: 2 }
";

async fn open(servers: &[(&str, String)]) -> Gate {
    open_with(CONTEXTS, servers).await
}

async fn open_with(contexts: &str, servers: &[(&str, String)]) -> Gate {
    let gate = gate(&format!("{FLOOR_ONLY}{contexts}{}", config(servers))).await;
    for (id, _) in servers {
        await_state(&gate, id, "connected", SOON).await;
    }
    gate
}

async fn agent(gate: &Gate, name: &str, seed: u8) -> Agent {
    let bearer = new_token(gate, name, &[]).await;
    Agent::attest(gate, &bearer, seed, "hands").await
}

/// What a script came to.
async fn run(agent: &Agent, script: &str) -> Value {
    let (status, said) = agent
        .call("cmd.run", json!({"command": "sh", "args": ["-c", script]}))
        .await;
    assert_eq!(status, 200, "{script}: {said}");
    let found = said.pointer("/result/structuredContent");
    found.cloned().unwrap_or_else(|| panic!("{said}"))
}

#[tokio::test]
async fn commands_run_in_the_workspace_and_nowhere_else() {
    let gate = open(&[]).await;
    let one = agent(&gate, "one", 1).await;
    let ran = run(
        &one,
        "pwd; id -un; echo note > note; echo complaint >&2; exit 3",
    )
    .await;
    assert_eq!(ran["stdout"], "/workspace\nagent\n", "{ran}");
    assert_eq!(ran["stderr"], "complaint\n");
    assert_eq!(ran["exit_code"], 3);
    assert_eq!(ran["truncated"], false);
    assert_eq!(run(&one, "cat note").await["stdout"], "note\n");
    let other = agent(&gate, "other", 2).await;
    assert_eq!(
        run(&other, "ls").await["stdout"],
        "",
        "workspaces are apart"
    );
    // Whatever the allowlist lets through, only the jail decides what it reaches.
    let home = gate.home().display().to_string();
    let script = format!(
        "for file in /etc/shadow {home}/portcullis.yaml {home}/state/operator.token; do \
         cat $file 2>/dev/null && echo LEAK; done; \
         echo x > {home}/x 2>/dev/null && echo LEAK; ls /proc | grep -c '^[0-9]'; ls -A /home"
    );
    let ran = run(&one, &script).await;
    let text = ran["stdout"].as_str().unwrap();
    assert!(!text.contains("LEAK"), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].parse::<u32>().unwrap() < 8,
        "it sees others' processes: {text}"
    );
    assert_eq!(lines[1..], ["agent"], "{text}");
    let killed = run(&one, "kill -9 $$").await;
    assert_eq!(
        (&killed["exit_code"], &killed["signal"]),
        (&json!(137), &json!(9))
    );
    let missing = one
        .call(
            "cmd.run",
            json!({"command": "git", "args": ["status"], "cwd": "/workspace"}),
        )
        .await;
    assert_eq!(missing.0, 200, "{missing:?}");
}

#[tokio::test]
async fn each_refusal_of_a_command_has_its_name_and_starts_nothing() {
    let gate = open(&[]).await;
    let agent = agent(&gate, "one", 1).await;
    let refused = async |arguments: Value| {
        let (status, said) = agent.call("cmd.run", arguments).await;
        assert_ne!(status, 200, "{said}");
        violation(&said).to_owned()
    };
    assert_eq!(
        refused(json!({"command": "bash", "args": ["-c", "true"]})).await,
        "CommandNotAllowed"
    );
    assert_eq!(
        refused(json!({"command": "/bin/sh", "args": ["-c", "true"]})).await,
        "CommandNotAllowed"
    );
    assert_eq!(
        refused(json!({"command": "git", "args": ["push"]})).await,
        "SubcommandNotAllowed"
    );
    assert_eq!(
        refused(json!({"command": "git", "args": ["status"], "timeout_secs": 31})).await,
        "ExecTimeoutCeilingExceeded"
    );
    let started = records(&gate).await;
    assert!(
        !started.iter().any(|record| record["kind"] == "intent"),
        "{started:#?}"
    );
    assert_eq!(
        refused(json!({"command": "sh", "args": ["-c", "yes"]})).await,
        "OutputSizeLimitExceeded"
    );
    let bearer = new_token(&gate, "reader", &[]).await;
    let reader = Agent::attest(&gate, &bearer, 3, "reader").await;
    let (_, said) = reader
        .call("cmd.run", json!({"command": "git", "args": ["status"]}))
        .await;
    assert_eq!(violation(&said), "ToolNotAllowed", "{said}");
    // Without a context there is no such tool.
    let said = gate
        .cli(&["call", "cmd.run", r#"{"command":"git"}"#])
        .await
        .unwrap();
    assert_ne!(said.code, Some(0), "{said:?}");
    let cut = run(&agent, "head -c 9000 /dev/zero | tr '\\0' x; echo end").await;
    assert_eq!(
        (&cut["truncated"], &cut["stdout_bytes"]),
        (&json!(true), &json!(9004))
    );
    let text = cut["stdout"].as_str().unwrap();
    assert!(text.ends_with("xend\n") && text.len() < 4200, "{text}");
}

#[tokio::test]
async fn a_command_ends_with_its_time() {
    let gate = open(&[]).await;
    let agent = agent(&gate, "one", 1).await;
    let mark = format!("cmd-time-{}", std::process::id());
    let script = format!(
        "export MARK={mark}; (setsid sleep 3600 &); trap '' TERM; while :; do sleep 1; done"
    );
    let begun = Instant::now();
    let (status, said) = agent
        .call(
            "cmd.run",
            json!({"command": "sh", "args": ["-c", script], "timeout_secs": 1}),
        )
        .await;
    assert_ne!(status, 200, "{said}");
    assert!(said.to_string().contains("timeout"), "{said}");
    assert!(
        begun.elapsed() < Duration::from_secs(8),
        "{:?}",
        begun.elapsed()
    );
    eventually("everything to be gone", Duration::from_secs(3), || async {
        match procfs::mentioning(&mark) {
            left if left.is_empty() => Ok(()),
            left => Err(format!("{left:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn a_workspace_carries_what_its_caller_had_seen() {
    let secret = fixture().await;
    let gate = open(&[(
        "secret",
        http(
            &secret.url(),
            "classification: CONFIDENTIAL, open_world: false",
        ),
    )])
    .await;
    let token = new_token(&gate, "worker", &["--context", "hands"]).await;
    let client = Client::plain(&Target::new(gate.url(), Some(&token)).unwrap(), Era::Modern)
        .await
        .unwrap();
    let label = async || {
        let told = client.call("portcullis.status", json!({})).await.unwrap();
        told.answer["result"]["structuredContent"]["label"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let shell = async |script: &str| {
        let called = client
            .call("cmd.run", json!({"command": "sh", "args": ["-c", script]}))
            .await
            .unwrap();
        assert!(!called.is_error, "{}", called.answer);
        called.text
    };
    shell("true").await;
    assert_eq!(label().await, "PUBLIC");
    client
        .call("secret__echo", json!({"text": "x"}))
        .await
        .unwrap();
    assert!(label().await.starts_with("CONFIDENTIAL"));
    shell("echo laundered > note").await;
    let said = gate
        .cli(&["session", "reset", "worker", "--reason", "x", "--yes"])
        .await
        .unwrap();
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(label().await, "PUBLIC");
    assert!(shell("cat note").await.contains("laundered"));
    assert!(
        label().await.starts_with("CONFIDENTIAL"),
        "the file washed the label off"
    );
}

/// One command waits; meanwhile the session reads a secret, another command writes it down, and the session begins anew.
#[tokio::test]
async fn a_command_carries_what_others_wrote_while_it_ran() {
    let secret = fixture().await;
    let entry = http(
        &secret.url(),
        "classification: CONFIDENTIAL, open_world: false",
    );
    let gate = open(&[("secret", entry)]).await;
    let token = new_token(&gate, "worker", &["--context", "hands"]).await;
    let target = Target::new(gate.url(), Some(&token)).unwrap();
    let (client, patient) = (
        Client::plain(&target, Era::Modern).await.unwrap(),
        Client::plain(&target, Era::Modern).await.unwrap(),
    );
    let script = "touch begun; while [ ! -e go ]; do sleep 0.1; done; cat note";
    let waiting = tokio::spawn(async move {
        patient
            .call("cmd.run", json!({"command": "sh", "args": ["-c", script]}))
            .await
            .unwrap()
    });
    let workspaces = gate.home().join("state/workspaces");
    let files = eventually("the command to begin", SOON, || async {
        let entries = std::fs::read_dir(&workspaces).map_err(|error| error.to_string())?;
        entries
            .flatten()
            .map(|entry| entry.path().join("files"))
            .find(|files| files.join("begun").exists())
            .ok_or_else(|| "it has not".to_owned())
    })
    .await;
    let call = async |tool: &str, arguments: Value| client.call(tool, arguments).await.unwrap();
    call("secret__echo", json!({"text": "x"})).await;
    let write = json!({"command": "sh", "args": ["-c", "echo laundered > note"]});
    let wrote = call("cmd.run", write).await;
    assert!(!wrote.is_error, "{}", wrote.answer);
    let said = gate
        .cli(&["session", "reset", "worker", "--reason", "x", "--yes"])
        .await
        .unwrap();
    assert_eq!(said.code, Some(0), "{said:?}");
    std::fs::write(files.join("go"), "").unwrap();
    let ran = waiting.await.unwrap();
    let told = call("portcullis.status", json!({})).await;
    let label = told.answer["result"]["structuredContent"]["label"].to_string();
    assert!(
        !ran.text.contains("laundered") || label.contains("CONFIDENTIAL"),
        "{label} after {}",
        ran.answer
    );
    assert!(
        ran.text.contains("laundered"),
        "the test shows nothing if nothing comes: {}",
        ran.answer
    );
}

/// The three who may end a command, and a program that has closed its outputs and takes no hint.
#[tokio::test]
async fn whoever_ends_a_command_ends_its_program_too() {
    let gate = open(&[]).await;
    let token = new_token(&gate, "worker", &["--context", "hands"]).await;
    let target = Target::new(gate.url(), Some(&token)).unwrap();
    for (era, who) in [
        (Era::Legacy, "caller"),
        (Era::Modern, "caller"),
        (Era::Legacy, "operator"),
        (Era::Legacy, "time"),
    ] {
        let client = Client::plain(&target, era).await.unwrap();
        let mark = format!("cmd-end-{}-{who}-{era:?}", std::process::id());
        let script = format!(
            "exec >&- 2>&- </dev/null; trap '' TERM; (setsid sleep 3600 {mark} &); while :; do sleep 1; done; : {mark}"
        );
        let timeout = if who == "time" { 2 } else { 20 };
        let begun = Instant::now();
        let pending = client.start(
            "tools/call",
            json!({"name": "cmd.run", "arguments": {"command": "sh", "args": ["-c", script], "timeout_secs": timeout}}),
        );
        eventually("the command to run", SOON, || async {
            match procfs::mentioning(&mark).len() {
                0 => Err("it does not".to_owned()),
                _ => Ok(()),
            }
        })
        .await;
        match who {
            "caller" => pending.cancel().await.unwrap(),
            "operator" => {
                let listed = gate.cli(&["sandbox", "list", "--json"]).await.unwrap();
                let id = listed
                    .stdout
                    .split('"')
                    .find(|word| word.starts_with("command-"))
                    .unwrap_or_else(|| panic!("{listed:?}"))
                    .to_owned();
                let said = gate
                    .cli(&["sandbox", "kill", &id, "--reason", "x"])
                    .await
                    .unwrap();
                assert_eq!(said.code, Some(0), "{said:?}");
                let answer = pending.answer().await.unwrap().to_string();
                assert!(answer.contains("cancelled"), "{answer}");
            }
            _ => {
                let answer = pending.answer().await.unwrap().to_string();
                assert!(answer.contains("timeout"), "{answer}");
            }
        }
        eventually("everything to be gone", Duration::from_secs(5), || async {
            match procfs::mentioning(&mark) {
                left if left.is_empty() => Ok(()),
                left => Err(format!("{who} {era:?}: {left:?}")),
            }
        })
        .await;
        assert!(begun.elapsed() < Duration::from_secs(18), "{who} {era:?}");
    }
    let list = gate.cli(&["sandbox", "list", "--json"]).await.unwrap();
    assert!(!list.stdout.contains("command-"), "{list:?}");
}

#[tokio::test]
async fn mistakes_in_the_arguments_of_a_command_are_the_callers_and_start_nothing() {
    let gate = open(&[]).await;
    let bearer = new_token(&gate, "one", &[]).await;
    let agent = Agent::attest(&gate, &bearer, 1, "free").await;
    let refused = async |arguments: Value| {
        let (status, said) = agent.call("cmd.run", arguments.clone()).await;
        // The one refusal whose body has no data.
        let found = (status, &said["error"]["code"], &said["error"]["data"]);
        assert_eq!(
            found,
            (422, &json!(-32602), &Value::Null),
            "{arguments}: {said}"
        );
    };
    refused(json!({"command": "ls", "args": "-l"})).await;
    refused(json!({"command": "ls", "args": {"0": "-l"}})).await;
    refused(json!({"command": "ls", "args": ["-l", 5]})).await;
    refused(json!({"command": "ls", "args": [["-l"]]})).await;
    refused(json!({"command": "ls", "cwd": 5})).await;
    refused(json!({"command": "ls", "stdin": ["x"]})).await;
    let started = records(&gate).await;
    assert!(
        !started.iter().any(|record| record["kind"] == "intent"),
        "{started:#?}"
    );
    let workspaces = gate.home().join("state/workspaces");
    for arguments in [
        json!({"command": "ls", "args": ["a\u{0}b"]}),
        json!({"command": "ls", "args": ["x".repeat(200_000)]}),
        json!({"command": "ls", "cwd": "../.."}),
        json!({"command": "ls", "cwd": "/etc"}),
    ] {
        refused(arguments).await;
    }
    assert!(!workspaces.exists(), "nothing was made for a mistake");
    let touch =
        |cwd: &str| json!({"command": "sh", "args": ["-c", "touch /workspace/ran"], "cwd": cwd});
    for cwd in ["missing", "missing/deeper", "/workspace/missing"] {
        refused(touch(cwd)).await;
    }
    let (status, said) = agent.call("cmd.run", json!({"command": "ls"})).await;
    assert_eq!(status, 200, "{said}");
    let told = said.pointer("/result/structuredContent/stdout");
    assert_eq!(told, Some(&json!("")), "something ran: {said}");
    // What is not there, or is no program, is a result.
    let make = "printf neither > text; printf '#!/no/such\\n' > script; chmod +x text script";
    let made = agent.call("cmd.run", json!({"command": "sh", "args": ["-c", make]}));
    assert_eq!(made.await.0, 200);
    for (command, why) in [
        ("./text", "executes"),
        ("./script", "interpreter"),
        ("./missing", "does not exist"),
    ] {
        let (status, said) = agent.call("cmd.run", json!({"command": command})).await;
        let told = &said["result"]["structuredContent"];
        assert_eq!((status, &told["exit_code"]), (200, &json!(-1)), "{said}");
        assert!(told["stderr"].as_str().unwrap().contains(why), "{said}");
    }
}

#[tokio::test]
async fn what_a_command_prints_is_cut_to_what_fits() {
    let contexts = format!(
        "limits: {{ max_result_bytes: 64 KiB }}\n{}",
        CONTEXTS.replace("max_output_bytes: 4 KiB", "max_output_bytes: 512 KiB")
    );
    let gate = open_with(&contexts, &[]).await;
    let one = agent(&gate, "one", 1).await;
    for (printed, letter) in [(200_000, "x"), (100_000, "\""), (100_000, "\\001")] {
        let ran = run(
            &one,
            &format!("head -c {printed} /dev/zero | tr '\\0' '{letter}'; echo end"),
        )
        .await;
        assert_eq!(ran["truncated"], true);
        assert_eq!(ran["stdout_bytes"], printed + 4);
        let text = ran["stdout"].as_str().unwrap();
        assert!(
            text.ends_with("end\n") && text.contains("are left out"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_full_workspace_ends_its_command_and_takes_nothing_more() {
    let contexts = CONTEXTS.replace("max_output_bytes: 4 KiB", "workspace_bytes: 1 MiB");
    let gate = open_with(&contexts, &[]).await;
    let one = agent(&gate, "one", 1).await;
    let begun = Instant::now();
    let script = "head -c 3000000 /dev/zero > big; sleep 30";
    let (status, said) = one
        .call(
            "cmd.run",
            json!({"command": "sh", "args": ["-c", script], "timeout_secs": 30}),
        )
        .await;
    assert_ne!(status, 200, "{said}");
    assert_eq!(violation(&said), "OutputSizeLimitExceeded", "{said}");
    assert!(begun.elapsed() < Duration::from_secs(25));
    let ran = run(&one, "(echo more > small); ls; wc -c < small").await;
    assert!(ran["stderr"].as_str().unwrap().contains("full"), "{ran}");
    assert_eq!(ran["stdout"], "big\nsmall\n0\n", "{ran}");
    run(&one, "rm big").await;
    let ran = run(&one, "echo more > small; cat small").await;
    assert_eq!(
        (&ran["stdout"], &ran["stderr"]),
        (&json!("more\n"), &json!(""))
    );
    // Others have room of their own.
    let other = agent(&gate, "other", 2).await;
    assert_eq!(run(&other, "echo x > y; cat y").await["stdout"], "x\n");
}

/// What the jail adds to a call, beside a server that does nothing. Held to its bound where `JAIL_FIGURES` is set: a busy machine would break it.
#[tokio::test]
async fn a_command_costs_little_more_than_a_call() {
    let is_held = std::env::var_os("JAIL_FIGURES").is_some();
    let server = fixture().await;
    let gate = open(&[(
        "secret",
        http(&server.url(), "classification: PUBLIC, open_world: false"),
    )])
    .await;
    let token = new_token(&gate, "worker", &["--context", "hands"]).await;
    let client = Client::plain(&Target::new(gate.url(), Some(&token)).unwrap(), Era::Modern)
        .await
        .unwrap();
    let rounds = if is_held { 200 } else { 5 };
    let (mut calls, mut commands) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        for (tool, arguments, times) in [
            ("secret__echo", json!({"text": "x"}), &mut calls),
            (
                "cmd.run",
                json!({"command": "sh", "args": ["-c", ":"]}),
                &mut commands,
            ),
        ] {
            let begun = Instant::now();
            let called = client.call(tool, arguments).await.unwrap();
            times.push(begun.elapsed());
            assert!(!called.is_error, "{}", called.answer);
        }
    }
    calls.sort();
    commands.sort();
    let (call, command) = (calls[calls.len() / 2], commands[commands.len() / 2]);
    println!("p50: a call {call:?}, a command {command:?}");
    if is_held {
        assert!(
            command.saturating_sub(call) <= Duration::from_millis(12),
            "{call:?} {command:?}"
        );
    }
}
