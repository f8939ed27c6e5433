//! How a failure is told: the agent learns that it failed, the operator learns why, and every view of the ledger agrees that it did.

use serde_json::{Value, json};
use testkit::client::Era;
use testkit::gate::Gate;
use testkit::shifty::{Shifty, Shown, tool};

use crate::operator::{FLOOR_ONLY, SOON, done, shifty, told};
use crate::seal::Agent;
use crate::support::{admin, await_state, client, config, gate, http, records};

/// Words of the server's errors; no agent may read any of them.
const CAUSE: [&str; 3] = ["psycopg2", "/srv/x.py", "select pin"];

async fn yard() -> (Gate, Shifty) {
    let mut shown = Shown::tools([
        tool("say", "Says it"),
        tool("fail", "Fails"),
        tool("break", "Breaks"),
    ]);
    shown.prompts = vec![json!({"name": "break", "description": "Breaks"})];
    shown.templates = vec![json!({"uriTemplate": "note://{name}", "name": "note"})];
    let server = shifty(shown).await;
    let yaml = config(&[(
        "up",
        http(
            &server.url(),
            "classification: PUBLIC, open_world: false, capabilities: [up.*]",
        ),
    )]);
    let contexts = "security_contexts:\n  - { name: all, description: x, capabilities: [{ tool_pattern: '*' }] }\n";
    let gate = gate(&format!("{FLOOR_ONLY}{contexts}{yaml}")).await;
    await_state(&gate, "up", "connected", SOON).await;
    (gate, server)
}

fn assert_safe(answer: &Value) {
    let shown = answer.to_string();
    assert!(
        CAUSE.iter().all(|word| !shown.contains(word)),
        "the agent reads the cause: {shown}"
    );
}

async fn outcome_of(gate: &Gate, tool: &str) -> Value {
    let found = records(gate)
        .await
        .into_iter()
        .rfind(|record| record["kind"] == "outcome" && record["tool"] == tool);
    found.unwrap_or_else(|| panic!("no outcome of {tool}"))
}

pub(crate) async fn events(gate: &Gate, options: &[&str]) -> Vec<Value> {
    let said = done(
        gate,
        &[
            &["--json", "audit", "tail", "--events", "-n", "100000"],
            options,
        ]
        .concat(),
    )
    .await;
    said.stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("an event per line"))
        .collect()
}

#[tokio::test]
async fn a_servers_real_error_is_the_operators_and_not_the_agents() {
    let (gate, server) = yard().await;
    for era in [Era::Legacy, Era::Modern] {
        let client = client(&gate, era).await;
        for code in [-32050, -32602, -32603, -32002] {
            let answer = client
                .request(
                    "tools/call",
                    json!({"name": "up__break", "arguments": {"code": code}}),
                )
                .await
                .unwrap();
            assert_safe(&answer);
            let shown = if (era, code) == (Era::Modern, -32002) {
                -32602
            } else {
                code
            };
            assert_eq!(
                answer.pointer("/error/code"),
                Some(&json!(shown)),
                "{answer}"
            );
            assert_eq!(
                answer.pointer("/error/data/status"),
                Some(&json!("error")),
                "{answer}"
            );
        }
        assert_safe(
            &client
                .request("prompts/get", json!({"name": "up__break"}))
                .await
                .unwrap(),
        );
        let uri = json!({"uri": "portcullis://up/note://break"});
        assert_safe(&client.request("resources/read", uri.clone()).await.unwrap());
        assert_safe(&client.request("resources/subscribe", uri).await.unwrap());
    }
    assert!(
        server.calls_of("break").len() >= 8,
        "the errors are the server's own"
    );
    let said = gate.cli(&["call", "up__break", "{}"]).await.unwrap();
    assert_safe(&json!([said.stdout, said.stderr]));
    assert_eq!(
        said.code,
        Some(5),
        "a server's error is a server's: {said:?}"
    );
    let outcome = outcome_of(&gate, "break").await;
    assert_eq!(
        (&outcome["verdict"], &outcome["violation"]),
        (&json!("failed"), &json!("upstream_error"))
    );
    let detail = outcome["detail"].as_str().unwrap();
    assert!(
        CAUSE.iter().all(|word| detail.contains(word)) && detail.contains("-32050"),
        "{detail}"
    );
    let failed = events(&gate, &["--event", "InvocationFailed", "--tool", "break"])
        .await
        .pop()
        .unwrap();
    assert_eq!(failed["payload"]["error"]["message"], outcome["detail"]);
    let logged = gate.output();
    let call = outcome["call"].as_str().unwrap();
    let lines: Vec<&str> = logged
        .lines()
        .filter(|line| line.contains(call) && line.contains("psycopg2"))
        .collect();
    assert_eq!(lines.len(), 1, "once in the log: {logged}");
}

#[tokio::test]
async fn signed_calls_get_no_cause_either() {
    let (gate, _server) = yard().await;
    let agent = Agent::attest(&gate, &gate.token().unwrap(), 7, "all").await;
    let (status, said) = agent.call("up.break", json!({})).await;
    assert_safe(&said);
    assert_eq!(
        (status, &said["error"]["code"]),
        (502, &json!(-32050)),
        "{said}"
    );
}

#[tokio::test]
async fn a_tool_that_says_it_failed_has_failed_in_every_view() {
    let (gate, _server) = yard().await;
    let client = client(&gate, Era::Modern).await;
    let called = client
        .call("up__fail", json!({"text": "no such directory"}))
        .await
        .unwrap();
    assert!(
        called.is_error && called.text == "no such directory",
        "a tool's own words reach the agent: {}",
        called.answer
    );
    let outcome = outcome_of(&gate, "fail").await;
    assert_eq!(
        (&outcome["verdict"], &outcome["violation"]),
        (&json!("failed"), &json!("tool_error"))
    );
    assert!(
        !outcome.to_string().contains("no such directory"),
        "results stay out of the ledger: {outcome}"
    );
    let told_of = events(&gate, &["--tool", "fail"]).await;
    let names: Vec<&str> = told_of
        .iter()
        .filter_map(|event| event["event"].as_str())
        .collect();
    assert!(
        names.ends_with(&["MCPToolEvent::InvocationFailed"])
            && !names.contains(&"MCPToolEvent::InvocationCompleted"),
        "{names:?}"
    );
    assert_eq!(
        told_of.last().unwrap()["payload"]["error"]["code"],
        "tool_error"
    );
    let found = done(
        &gate,
        &[
            "--json",
            "audit",
            "query",
            "--verdict",
            "failed",
            "--tool",
            "fail",
        ],
    )
    .await;
    assert!(found.stdout.contains("tool_error"), "{found:?}");
    let status = admin(&gate, "GET", "status").await;
    assert_eq!(
        (&status["calls"]["answered"], &status["calls"]["failed"]),
        (&json!(0), &json!(1)),
        "{status}"
    );
    let report = told(&gate, &["audit", "report", "--format", "json"]).await;
    assert_eq!(report["calls"]["by_verdict"]["failed"], 1, "{report}");
    // What the caller was shown is in its lineage all the same.
    client
        .call("up__say", json!({"text": "next"}))
        .await
        .unwrap();
    assert_eq!(outcome_of(&gate, "say").await["after"], outcome["call"]);
}

/// Taken from a running gate: a command is told as one where the gate's own tool was meant and the command was the reason.
#[tokio::test]
async fn events_of_commands_are_told_for_commands_of_the_gate_alone() {
    let contexts = "security_contexts:\n  - name: cargo\n    description: x\n    capabilities:\n      - { tool_pattern: cmd.run, subcommand_allowlist: { cargo: [build] } }\n      - { tool_pattern: fs.read, path_allowlist: [/workspace] }\n";
    let gate = gate(&format!("{FLOOR_ONLY}{contexts}{}", config(&[]))).await;
    let agent = Agent::attest(&gate, &gate.token().unwrap(), 9, "cargo").await;
    let (status, said) = agent
        .call("cmd.run", json!({"command": "cargo", "args": ["publish"]}))
        .await;
    assert_eq!(
        (status, crate::seal::violation(&said)),
        (403, "SubcommandNotAllowed"),
        "{said}"
    );
    let violations = events(&gate, &["--event", "CommandPolicyViolation"]).await;
    assert_eq!(violations.len(), 1, "{violations:#?}");
    assert_eq!(violations[0]["server"], "built-in");
    assert_eq!(
        violations[0]["payload"]["violation_type"],
        "SubcommandNotAllowed"
    );
    let (_, said) = agent
        .call("fs.read", json!({"path": "/workspace/../etc/passwd"}))
        .await;
    assert_eq!(
        crate::seal::violation(&said),
        "PathTraversalAttempt",
        "{said}"
    );
    assert_eq!(
        events(&gate, &["--event", "PathTraversalBlocked"])
            .await
            .len(),
        1
    );
    // To a caller that does not sign, there is no such tool: nothing of a command is told.
    let said = gate
        .cli(&["call", "cmd.run", r#"{"command":"cargo"}"#])
        .await
        .unwrap();
    assert_ne!(said.code, Some(0));
    assert_eq!(
        events(&gate, &["--event", "CommandPolicyViolation"])
            .await
            .len(),
        1,
        "it was no command"
    );
    // And a command that is refused for who asks, not for what it is, is no violation of a command either.
    let (_, said) = agent.call("cmd.run", json!({"command": "cargo"})).await;
    assert!(said["error"].is_object(), "{said}");
}
