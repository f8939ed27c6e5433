//! Contexts and manifests as they are written in files, in force on a running gate, and what arrives at the server behind it.

use serde_json::{Value, json};
use testkit::client::{Client, Era};
use testkit::gate::Gate;
use testkit::shifty::{Shifty, Shown};

use crate::operator::{FLOOR_ONLY, SOON, reconfigure, shifty};
use crate::seal::{Agent, violation};
use crate::support::{
    admin_target, await_state, config, eventually, fixture, gate, http, new_token, records,
};

const CONTEXTS: &str = "\
security_contexts:
  careful:
    description: Everything but the web
    capabilities: ['*']
    deny_list: [web.fetch, 'notes__give:secret*']
  bounded:
    description: One site, one directory
    capabilities:
      - tool_pattern: '*'
        domain_allowlist: [example.com]
        path_allowlist: [/workspace]
        max_response_size: 64
agents:
  coder: coder.yaml
";

/// Tools that a server calls by names of its own.
fn tools() -> Shown {
    let any = json!({ "type": "object" });
    let tool = |name: &str| json!({ "name": name, "description": "x", "inputSchema": any });
    Shown::tools([tool("fetch"), tool("write"), tool("give")])
}

fn manifest(tools: &str) -> String {
    format!(
        "apiVersion: 100monkeys.ai/v1\nkind: Agent\nmetadata: {{ name: coder }}\nspec:\n  tools: {tools}\n"
    )
}

async fn open() -> (Gate, Shifty) {
    let server = shifty(tools()).await;
    let entry = http(
        &server.url(),
        "classification: PUBLIC, open_world: false, capabilities: [web.fetch, fs.write]",
    );
    let yaml = format!("{FLOOR_ONLY}{CONTEXTS}{}", config(&[("notes", entry)]));
    // The manifest must be there before the file that names it is read.
    let gate = gate(&yaml.replace("  coder: coder.yaml\n", "  coder: {}\n")).await;
    std::fs::write(gate.home().join("coder.yaml"), manifest("[notes__write]")).unwrap();
    gate.write_config(&yaml).unwrap();
    assert_eq!(reload(&gate).await.0, 200);
    await_state(&gate, "notes", "connected", SOON).await;
    (gate, server)
}

async fn reload(gate: &Gate) -> (u16, String) {
    let reply = admin_target(gate, "reload")
        .send("POST", &[], Vec::new())
        .await
        .unwrap();
    (reply.status, reply.json().await.unwrap().to_string())
}

async fn refused(agent: &Agent, tool: &str, arguments: Value) -> String {
    let (status, said) = agent.call(tool, arguments).await;
    assert!(
        status == 403 || status == 429 || status == 422,
        "{tool}: {status} {said}"
    );
    violation(&said).to_owned()
}

#[tokio::test]
async fn a_rule_holds_under_every_name_of_a_tool() {
    let (gate, server) = open().await;
    let bearer = new_token(&gate, "runtime", &[]).await;
    let careful = Agent::attest(&gate, &bearer, 1, "careful").await;
    for name in ["web.fetch", "notes__fetch"] {
        assert_eq!(
            refused(&careful, name, json!({ "url": "https://example.com" })).await,
            "ToolExplicitlyDenied",
            "{name}"
        );
    }
    assert_eq!(
        refused(&careful, "notes__give", json!({ "x": ["secret plan"] })).await,
        "ToolExplicitlyDenied"
    );
    let bounded = Agent::attest(&gate, &bearer, 2, "bounded").await;
    for name in ["web.fetch", "notes__fetch"] {
        for url in [
            "https://evilexample.com",
            "https://example.com@evil.org",
            "http://[::1]",
            "https://example.com.evil.org",
        ] {
            assert_eq!(
                refused(&bounded, name, json!({ "url": url })).await,
                "DomainNotAllowed",
                "{name} {url}"
            );
        }
    }
    for name in ["fs.write", "notes__write"] {
        let climbing = json!({ "path": "/workspace/../etc/passwd", "content": "x" });
        assert_eq!(
            refused(&bounded, name, climbing).await,
            "PathTraversalAttempt",
            "{name}"
        );
        let outside =
            json!({ "destination": "/etc/passwd", "path": "/workspace/a", "content": "x" });
        assert_eq!(
            refused(&bounded, name, outside).await,
            "PathOutsideBoundary",
            "{name}"
        );
    }
    assert_eq!(
        server.bytes_of_callers(),
        0,
        "refused means nothing arrives"
    );
    let (status, said) = bounded
        .call("notes__fetch", json!({ "url": "https://api.example.com/" }))
        .await;
    assert_eq!(status, 200, "{said}");
}

#[tokio::test]
async fn a_manifest_is_in_force_as_soon_as_it_is_written() {
    let (gate, server) = open().await;
    let bearer = new_token(&gate, "runtime", &["--agent", "coder"]).await;
    let agent = Agent::attest(&gate, &bearer, 1, "careful").await;
    assert_eq!(agent.call("notes__write", json!({})).await.0, 200);
    assert_eq!(
        refused(&agent, "notes__give", json!({})).await,
        "ToolNotAllowed"
    );
    std::fs::write(gate.home().join("coder.yaml"), manifest("[notes__give]")).unwrap();
    eventually("the manifest to be read", SOON, || async {
        match agent.call("notes__write", json!({})).await {
            (403, said) if violation(&said) == "ToolNotAllowed" => Ok(()),
            (status, said) => Err(format!("{status} {said}")),
        }
    })
    .await;
    // A manifest with a mistake changes nothing, and says where.
    std::fs::write(
        gate.home().join("coder.yaml"),
        manifest("[{ name: x.y, config: { access_mode: read-only } }]"),
    )
    .unwrap();
    let (status, said) = reload(&gate).await;
    assert!(status != 200 && said.contains("access_mode"), "{said}");
    let checked = gate.cli(&["config", "check"]).await.unwrap();
    assert!(
        checked.code == Some(2) && checked.stdout.contains("coder.yaml:5:"),
        "{checked:?}"
    );
    assert_eq!(
        agent.call("notes__give", json!({ "value": 1 })).await.0,
        200
    );
    assert_eq!(server.calls_of("give").len(), 1);
}

/// `seal attest` with a key in the home: its exit code, and what it said.
async fn attest(gate: &Gate, key: &str, more: &[&str]) -> (Option<i32>, String) {
    let file = gate.home().join(key).display().to_string();
    if !gate.home().join(key).exists() {
        assert_eq!(
            gate.cli(&["seal", "keygen", &file]).await.unwrap().code,
            Some(0)
        );
    }
    let said = gate
        .cli(&[&["seal", "attest", "--key", &file], more].concat())
        .await
        .unwrap();
    (said.code, format!("{}{}", said.stdout, said.stderr))
}

#[tokio::test]
async fn settings_of_the_seal_are_in_force_as_soon_as_they_are_written() {
    let contexts = "security_contexts: { all: { capabilities: ['*'] } }\nagents: { coder: { tools: ['*'], security_context: all } }\n";
    let with = |seal: &str| format!("{FLOOR_ONLY}{contexts}seal: {{ {seal} }}\n");
    let gate = gate(&with("max_sessions_per_workload: 1")).await;
    let (code, said) = attest(&gate, "one.pem", &["--agent", "coder"]).await;
    assert!(
        code == Some(0) && said.contains("within `all`"),
        "an agent's context need not be named: {said}"
    );
    let (code, said) = attest(&gate, "two.pem", &["--context", "all"]).await;
    assert!(
        code != Some(0) && said.contains("1 sessions already"),
        "{said}"
    );
    gate.write_config(&with("max_sessions_per_workload: 2"))
        .unwrap();
    assert_eq!(reload(&gate).await.0, 200);
    assert_eq!(
        attest(&gate, "two.pem", &["--context", "all"]).await.0,
        Some(0)
    );

    let tools = async |key: &str| {
        gate.cli(&[
            "seal",
            "tools",
            "--key",
            &gate.home().join(key).display().to_string(),
        ])
        .await
        .unwrap()
    };
    assert_eq!(tools("two.pem").await.code, Some(0));
    gate.write_config(&with("max_sessions_per_workload: 9, issuer: somebody-else"))
        .unwrap();
    assert_eq!(reload(&gate).await.0, 200);
    assert_ne!(
        tools("two.pem").await.code,
        Some(0),
        "tokens of another issuer are not ours"
    );
    assert_eq!(
        attest(&gate, "two.pem", &["--context", "all"]).await.0,
        Some(0)
    );

    let (first, second) = (
        gate.home().join("signs.pem"),
        gate.home().join("signs-later.pem"),
    );
    for file in [&first, &second] {
        assert_eq!(
            gate.cli(&["seal", "keygen", &file.display().to_string()])
                .await
                .unwrap()
                .code,
            Some(0)
        );
    }
    gate.write_config(&with(
        "max_sessions_per_workload: 9, private_key_path: signs.pem",
    ))
    .unwrap();
    assert_eq!(reload(&gate).await.0, 200);
    assert_eq!(
        attest(&gate, "two.pem", &["--context", "all"]).await.0,
        Some(0)
    );
    assert_eq!(tools("two.pem").await.code, Some(0));
    std::fs::rename(&second, &first).unwrap();
    eventually("the key's file to be read again", SOON, || async {
        match tools("two.pem").await.code {
            Some(0) => Err("the old key still counts".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
}

/// A server whose tools have dotted names themselves.
const DOTTED: &str = "\
security_contexts:
  coder:
    description: Files of the workspace, one site
    capabilities:
      - { tool_pattern: 'fs.*', path_allowlist: [/workspace] }
      - { tool_pattern: web.fetch, domain_allowlist: [example.com] }
      - tool_pattern: up__give
    deny_list: [fs.delete]
agents:
  reader: { tools: [fs.read, up__give] }
";

async fn open_dotted() -> (Gate, Shifty) {
    let any = json!({ "type": "object" });
    let tool = |name: &str| json!({ "name": name, "description": "x", "inputSchema": any });
    let names = [
        "fs.read",
        "fs.write",
        "fs.delete",
        "web.fetch",
        "give",
        "other",
    ];
    let server = shifty(Shown::tools(names.map(tool))).await;
    let entry = http(
        &server.url(),
        "classification: PUBLIC, open_world: false, capabilities: [fs.read, fs.write, fs.delete, web.fetch]",
    );
    let gate = gate(&format!("{FLOOR_ONLY}{DOTTED}{}", config(&[("up", entry)]))).await;
    await_state(&gate, "up", "connected", SOON).await;
    (gate, server)
}

#[tokio::test]
async fn a_refusal_is_explained_under_the_name_that_was_asked_for() {
    let (gate, server) = open_dotted().await;
    let bearer = new_token(&gate, "runtime", &[]).await;
    let agent = Agent::attest(&gate, &bearer, 1, "coder").await;
    for (tool, arguments, rule, check) in [
        (
            "fs.read",
            json!({ "path": "/etc/a" }),
            "PathOutsideBoundary",
            "path_inside",
        ),
        (
            "web.fetch",
            json!({ "url": "https://evil.org" }),
            "DomainNotAllowed",
            "domain_allowed",
        ),
        (
            "fs.delete",
            json!({ "path": "/workspace/a" }),
            "ToolExplicitlyDenied",
            "not_denied",
        ),
    ] {
        assert_eq!(refused(&agent, tool, arguments).await, rule);
        let record = records(&gate)
            .await
            .into_iter()
            .rev()
            .find(|record| record["violation"] == rule)
            .unwrap();
        let explained = gate
            .cli(&["policy", "explain", record["call"].as_str().unwrap()])
            .await
            .unwrap();
        assert_eq!(explained.code, Some(3), "{explained:?}");
        let noes: Vec<&str> = explained
            .stdout
            .lines()
            .filter(|line| line.trim_start().starts_with("NO "))
            .collect();
        assert!(
            noes.len() == 1 && noes[0].contains(check),
            "{}",
            explained.stdout
        );
        assert!(
            explained.stdout.contains(&format!("{tool} (up__{tool})")),
            "{}",
            explained.stdout
        );
        assert!(
            explained
                .stdout
                .contains("in context coder, judged now: refused"),
            "{}",
            explained.stdout
        );
    }
    let imagine = async |more: &[&str]| {
        let asked = [
            "policy",
            "explain",
            "--tool",
            "fs.write",
            "--arguments",
            r#"{"path":"/workspace/a","content":"x"}"#,
        ];
        gate.cli(&[&asked, more].concat()).await.unwrap()
    };
    let allowed = imagine(&["--context", "coder"]).await;
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
    let narrowed = imagine(&[
        "--context",
        "coder",
        "--agent",
        "reader",
        "--caller",
        "runtime",
    ])
    .await;
    assert!(
        narrowed.code == Some(3)
            && narrowed
                .stdout
                .contains("agent `reader` lists fs.read, up__give"),
        "{narrowed:?}"
    );
    assert_eq!(imagine(&["--agent", "reader"]).await.code, Some(2));
    assert_eq!(
        server.bytes_of_callers(),
        0,
        "refusing and explaining send nothing"
    );
}

#[tokio::test]
async fn a_credential_in_a_context_is_shown_what_it_may_call() {
    let (gate, _server) = open_dotted().await;
    let shown = async |token: &str, path: &str| {
        let target = gate.target().unwrap().with_token(Some(token)).at(path);
        let mut names = Client::plain(&target, Era::Modern)
            .await
            .unwrap()
            .tool_names()
            .await
            .unwrap();
        names.sort();
        names
    };
    let coder = new_token(&gate, "coder", &["--context", "coder"]).await;
    assert_eq!(
        shown(&coder, "/mcp").await,
        ["fs.read", "fs.write", "up__give", "web.fetch"]
    );
    assert_eq!(
        shown(&coder, "/u/up/mcp").await,
        ["give"],
        "that door has no dotted names"
    );
    let reader = new_token(
        &gate,
        "reader",
        &["--context", "coder", "--agent", "reader"],
    )
    .await;
    assert_eq!(shown(&reader, "/mcp").await, ["fs.read", "up__give"]);
    let free = new_token(&gate, "free", &[]).await;
    let all = [
        "up__fs.delete",
        "up__fs.read",
        "up__fs.write",
        "up__give",
        "up__other",
        "up__web.fetch",
    ];
    assert_eq!(shown(&free, "/mcp").await, all);
    // What is not listed is refused, and the list follows the rules.
    let client = Client::plain(
        &gate.target().unwrap().with_token(Some(&coder)),
        Era::Modern,
    )
    .await
    .unwrap();
    assert_eq!(
        client
            .call("up__fs.read", json!({ "path": "/workspace/a" }))
            .await
            .unwrap()
            .violation(),
        Some("ToolNotAllowed")
    );
    let yaml = std::fs::read_to_string(gate.home().join("portcullis.yaml")).unwrap();
    reconfigure(
        &gate,
        &yaml.replace(
            "deny_list: [fs.delete]",
            "deny_list: [fs.delete, fs.write, up__give]",
        ),
    )
    .await;
    assert_eq!(shown(&coder, "/mcp").await, ["fs.read", "web.fetch"]);
    let tools = admin_target(&gate, "x")
        .with_token(Some(&free))
        .at("/v1/seal/tools?security_context=no-such");
    let nowhere = tools.send("GET", &[], Vec::new()).await.unwrap();
    assert_eq!(nowhere.status, 404);
    assert!(
        nowhere.json().await.unwrap()["message"]
            .as_str()
            .unwrap()
            .contains("`no-such`")
    );
    let there = tools
        .at("/v1/seal/tools?security_context=coder")
        .send("GET", &[], Vec::new())
        .await
        .unwrap();
    assert_eq!(
        there.json().await.unwrap()["tools"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[tokio::test]
async fn commands_of_an_execution_share_their_places_under_every_name() {
    let fixture = fixture().await;
    let entry = http(
        &fixture.url(),
        "classification: PUBLIC, open_world: false, capabilities: [cmd.slow]",
    );
    let gate = gate(&format!(
        "{FLOOR_ONLY}security_contexts: {{ all: {{ capabilities: ['*'] }} }}\n{}",
        config(&[("up", entry)])
    ))
    .await;
    await_state(&gate, "up", "connected", SOON).await;
    let bearer = new_token(&gate, "runtime", &[]).await;
    let agent = Agent::attest(&gate, &bearer, 1, "all").await;
    let other = async {
        eventually("the first to be under way", SOON, || async {
            let intended = records(&gate)
                .await
                .iter()
                .any(|record| record["tool"] == "slow" && record["kind"] == "intent");
            if intended {
                Ok(())
            } else {
                Err("not yet".to_owned())
            }
        })
        .await;
        refused(&agent, "up__slow", json!({ "ms": 1 })).await
    };
    let ((status, said), second) =
        tokio::join!(agent.call("cmd.slow", json!({ "ms": 3_000 })), other);
    assert_eq!(
        (status, second.as_str()),
        (200, "ConcurrentExecLimitExceeded"),
        "{said}"
    );
    assert_eq!(
        agent.call("up__slow", json!({ "ms": 1 })).await.0,
        200,
        "the place is free again"
    );
}
