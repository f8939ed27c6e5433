//! Contexts and manifests as they are written in files, in force on a running gate, and what arrives at the server behind it.

use serde_json::{Value, json};
use testkit::gate::Gate;
use testkit::shifty::{Shifty, Shown};

use crate::operator::{FLOOR_ONLY, SOON, shifty};
use crate::seal::{Agent, violation};
use crate::support::{admin_target, await_state, config, eventually, gate, http, new_token};

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
    format!("apiVersion: 100monkeys.ai/v1\nkind: Agent\nmetadata: {{ name: coder }}\nspec:\n  tools: {tools}\n")
}

async fn open() -> (Gate, Shifty) {
    let server = shifty(tools()).await;
    let entry = http(&server.url(), "classification: PUBLIC, open_world: false, capabilities: [web.fetch, fs.write]");
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
    let reply = admin_target(gate, "reload").send("POST", &[], Vec::new()).await.unwrap();
    (reply.status, reply.json().await.unwrap().to_string())
}

async fn refused(agent: &Agent, tool: &str, arguments: Value) -> String {
    let (status, said) = agent.call(tool, arguments).await;
    assert!(status == 403 || status == 429 || status == 422, "{tool}: {status} {said}");
    violation(&said).to_owned()
}

#[tokio::test]
async fn a_rule_holds_under_every_name_of_a_tool() {
    let (gate, server) = open().await;
    let bearer = new_token(&gate, "runtime", &[]).await;
    let careful = Agent::attest(&gate, &bearer, 1, "careful").await;
    for name in ["web.fetch", "notes__fetch"] {
        assert_eq!(refused(&careful, name, json!({ "url": "https://example.com" })).await, "ToolExplicitlyDenied", "{name}");
    }
    assert_eq!(refused(&careful, "notes__give", json!({ "x": ["secret plan"] })).await, "ToolExplicitlyDenied");
    let bounded = Agent::attest(&gate, &bearer, 2, "bounded").await;
    for name in ["web.fetch", "notes__fetch"] {
        for url in ["https://evilexample.com", "https://example.com@evil.org", "http://[::1]", "https://example.com.evil.org"] {
            assert_eq!(refused(&bounded, name, json!({ "url": url })).await, "DomainNotAllowed", "{name} {url}");
        }
    }
    for name in ["fs.write", "notes__write"] {
        let climbing = json!({ "path": "/workspace/../etc/passwd", "content": "x" });
        assert_eq!(refused(&bounded, name, climbing).await, "PathTraversalAttempt", "{name}");
        let outside = json!({ "destination": "/etc/passwd", "path": "/workspace/a", "content": "x" });
        assert_eq!(refused(&bounded, name, outside).await, "PathOutsideBoundary", "{name}");
    }
    assert_eq!(server.bytes_of_callers(), 0, "refused means nothing arrives");
    let (status, said) = bounded.call("notes__fetch", json!({ "url": "https://api.example.com/" })).await;
    assert_eq!(status, 200, "{said}");
}

#[tokio::test]
async fn a_manifest_is_in_force_as_soon_as_it_is_written() {
    let (gate, server) = open().await;
    let bearer = new_token(&gate, "runtime", &["--agent", "coder"]).await;
    let agent = Agent::attest(&gate, &bearer, 1, "careful").await;
    assert_eq!(agent.call("notes__write", json!({})).await.0, 200);
    assert_eq!(refused(&agent, "notes__give", json!({})).await, "ToolNotAllowed");
    std::fs::write(gate.home().join("coder.yaml"), manifest("[notes__give]")).unwrap();
    eventually("the manifest to be read", SOON, || async {
        match agent.call("notes__write", json!({})).await {
            (403, said) if violation(&said) == "ToolNotAllowed" => Ok(()),
            (status, said) => Err(format!("{status} {said}")),
        }
    })
    .await;
    // A manifest with a mistake changes nothing, and says where.
    std::fs::write(gate.home().join("coder.yaml"), manifest("[{ name: x.y, config: { access_mode: read-only } }]")).unwrap();
    let (status, said) = reload(&gate).await;
    assert!(status != 200 && said.contains("access_mode"), "{said}");
    let checked = gate.cli(&["config", "check"]).await.unwrap();
    assert!(checked.code == Some(2) && checked.stdout.contains("coder.yaml:5:"), "{checked:?}");
    assert_eq!(agent.call("notes__give", json!({ "value": 1 })).await.0, 200);
    assert_eq!(server.calls_of("give").len(), 1);
}

/// `seal attest` with a key in the home: its exit code, and what it said.
async fn attest(gate: &Gate, key: &str, more: &[&str]) -> (Option<i32>, String) {
    let file = gate.home().join(key).display().to_string();
    if !gate.home().join(key).exists() {
        assert_eq!(gate.cli(&["seal", "keygen", &file]).await.unwrap().code, Some(0));
    }
    let said = gate.cli(&[&["seal", "attest", "--key", &file], more].concat()).await.unwrap();
    (said.code, format!("{}{}", said.stdout, said.stderr))
}

#[tokio::test]
async fn settings_of_the_seal_are_in_force_as_soon_as_they_are_written() {
    let contexts =
        "security_contexts: { all: { capabilities: ['*'] } }\nagents: { coder: { tools: ['*'], security_context: all } }\n";
    let with = |seal: &str| format!("{FLOOR_ONLY}{contexts}seal: {{ {seal} }}\n");
    let gate = gate(&with("max_sessions_per_workload: 1")).await;
    let (code, said) = attest(&gate, "one.pem", &["--agent", "coder"]).await;
    assert!(code == Some(0) && said.contains("within `all`"), "an agent's context need not be named: {said}");
    let (code, said) = attest(&gate, "two.pem", &["--context", "all"]).await;
    assert!(code != Some(0) && said.contains("1 sessions already"), "{said}");
    gate.write_config(&with("max_sessions_per_workload: 2")).unwrap();
    assert_eq!(reload(&gate).await.0, 200);
    assert_eq!(attest(&gate, "two.pem", &["--context", "all"]).await.0, Some(0));

    let tools =
        async |key: &str| gate.cli(&["seal", "tools", "--key", &gate.home().join(key).display().to_string()]).await.unwrap();
    assert_eq!(tools("two.pem").await.code, Some(0));
    gate.write_config(&with("max_sessions_per_workload: 9, issuer: somebody-else")).unwrap();
    assert_eq!(reload(&gate).await.0, 200);
    assert_ne!(tools("two.pem").await.code, Some(0), "tokens of another issuer are not ours");
    assert_eq!(attest(&gate, "two.pem", &["--context", "all"]).await.0, Some(0));

    let (first, second) = (gate.home().join("signs.pem"), gate.home().join("signs-later.pem"));
    for file in [&first, &second] {
        assert_eq!(gate.cli(&["seal", "keygen", &file.display().to_string()]).await.unwrap().code, Some(0));
    }
    gate.write_config(&with("max_sessions_per_workload: 9, private_key_path: signs.pem")).unwrap();
    assert_eq!(reload(&gate).await.0, 200);
    assert_eq!(attest(&gate, "two.pem", &["--context", "all"]).await.0, Some(0));
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

#[tokio::test]
async fn what_waits_for_a_restart_is_said() {
    let gate = gate(FLOOR_ONLY).await;
    gate.write_config(&format!("{FLOOR_ONLY}limits: {{ max_depth: 32 }}\nretry: {{ attempts: 1 }}\n")).unwrap();
    let (status, said) = reload(&gate).await;
    assert!(status == 200 && said.contains("NOT applied until the gate is restarted: limits, retry"), "{said}");
    let explained = gate.cli(&["config", "explain"]).await.unwrap().stdout;
    let row = explained.lines().find(|line| line.contains("limits.max_depth")).unwrap_or_default();
    assert!(row.contains("at start"), "{row}");
}
