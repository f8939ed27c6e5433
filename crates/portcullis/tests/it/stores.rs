//! Secrets from a store elsewhere: read when they are spent, followed when they change, and never made up for.

use std::time::Duration;

use serde_json::json;
use testkit::client::Era;
use testkit::gate::{Gate, Setup};
use testkit::kv2::{Kv2, Mood, ROLE_ID, ROOT, SECRET_ID};

use crate::support::{await_state, client, eventually, portcullis, server};

/// A server that writes down the secret it was started with.
const SERVER: &str = r#"
import json, os, sys
with open(os.environ["SEEN"], "a") as seen: seen.write(os.environ.get("API_TOKEN", "") + "\n")
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    method = message["method"]
    if method == "initialize":
        answer["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "p", "version": "1"}}
    elif method == "tools/list":
        answer["result"] = {"tools": [{"name": "echo", "description": "Echoes.", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        answer["result"] = {"content": [{"type": "text", "text": "done"}]}
    elif method == "ping":
        answer["result"] = {}
    else:
        answer["error"] = {"code": -32601, "message": "unknown"}
    print(json.dumps(answer), flush=True)
"#;

struct Yard {
    dir: tempfile::TempDir,
    gate: Gate,
}

impl Yard {
    async fn new(store: &Kv2, auth: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("server.py");
        std::fs::write(&program, SERVER).unwrap();
        let (program, seen) = (json!(program), json!(dir.path().join("seen")));
        let yaml = format!(
            "secrets: {{ stores: {{ bao: {{ address: \"{}\", engines: [kv], auth: {auth}, watch: 1s }} }} }}\nmcp_servers:\n  \
             needs: {{ command: python3, args: [{program}], env: {{ SEEN: {seen}, API_TOKEN: \"secret:kv/team/a#token\" }}, jail: none, classification: PUBLIC, open_world: false, tools: {{ echo: {{ effect: read }} }} }}\n  \
             free: {{ command: python3, args: [{program}], env: {{ SEEN: {seen} }}, jail: none, classification: PUBLIC, open_world: false }}\n",
            store.url(),
        );
        let gate = Setup::new(portcullis(), yaml)
            .env("BAO_ROLE", ROLE_ID)
            .env("BAO_SECRET", SECRET_ID)
            .env("BAO_TOKEN", ROOT)
            .start()
            .await
            .unwrap();
        Self { dir, gate }
    }

    /// The secrets that the server was started with, one for each time.
    fn seen(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.dir.path().join("seen")).unwrap_or_default();
        text.lines()
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect()
    }
}

const APPROLE: &str = "{ role_id: env:BAO_ROLE, secret_id: env:BAO_SECRET }";
const LONG: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn every_login_leads_to_the_secret_and_none_is_on_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let jwt = dir.path().join("jwt");
    std::fs::write(&jwt, "eyJ.not.real\n").unwrap();
    let kubernetes = format!(
        "{{ method: kubernetes, role: gate, jwt_file: {} }}",
        jwt.display()
    );
    for auth in [
        APPROLE,
        "{ method: token, token: env:BAO_TOKEN }",
        &kubernetes,
    ] {
        let store = Kv2::start().await.unwrap();
        store.put(
            "team/a",
            json!({ "token": "canary-in-the-store", "other": 1 }),
        );
        let yard = Yard::new(&store, auth).await;
        let gate = &yard.gate;
        await_state(gate, "needs", "connected", LONG).await;
        assert_eq!(
            store.counts().0,
            usize::from(!auth.contains("token: env")),
            "{auth}"
        );
        let files = std::process::Command::new("grep")
            .args(["-rl", "-e", "canary-in-the-store", "-e", "token-1", "--"])
            .arg(gate.home())
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&files.stdout), "", "{auth}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_away_keeps_only_its_servers_down() {
    let store = Kv2::start().await.unwrap();
    store.put("team/a", json!({ "token": "one" }));
    store.is(Mood::Sealed);
    let yard = Yard::new(&store, APPROLE).await;
    let gate = &yard.gate;
    await_state(gate, "free", "connected", LONG).await;
    let down = eventually("the reason to be shown", LONG, || async {
        let server = server(gate, "needs").await;
        match server["last_error"].as_str() {
            Some(error) if error.contains("sealed") => Ok(server.clone()),
            _ => Err(server.to_string()),
        }
    })
    .await;
    assert_ne!(down["state"], "connected");
    assert_eq!(
        yard.seen(),
        Vec::<String>::new(),
        "it was not started without its secret"
    );
    store.is(Mood::Well);
    await_state(gate, "needs", "connected", LONG).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_store_refuses_is_not_taken_from_memory() {
    let store = Kv2::start().await.unwrap();
    store.put("team/a", json!({ "token": "one" }));
    let yard = Yard::new(&store, APPROLE).await;
    let gate = &yard.gate;
    let first = await_state(gate, "needs", "connected", LONG).await;
    // A token that the store forgot costs one new login, and nobody notices.
    store.is(Mood::Forgetful);
    eventually("a new login", LONG, || async {
        if store.counts().0 >= 2 {
            Ok(())
        } else {
            Err(format!("{:?}", store.counts()))
        }
    })
    .await;
    assert_eq!(server(gate, "needs").await["state"], first["state"]);
    // Away: the value that was read last is good enough to connect again. Refused: it is not.
    store.is(Mood::Sealed);
    gate.cli(&["servers", "disable", "needs"]).await.unwrap();
    await_state(gate, "needs", "disabled", LONG).await;
    gate.cli(&["servers", "enable", "needs"]).await.unwrap();
    await_state(gate, "needs", "connected", LONG).await;
    store.is(Mood::Closed);
    let reads = store.counts().2;
    gate.cli(&["servers", "disable", "needs"]).await.unwrap();
    gate.cli(&["servers", "enable", "needs"]).await.unwrap();
    eventually("the refusal to be shown", LONG, || async {
        let server = server(gate, "needs").await;
        match server["last_error"].as_str() {
            Some(error) if error.contains("may not read") || error.contains("refused") => Ok(()),
            _ => Err(server.to_string()),
        }
    })
    .await;
    assert_eq!(store.counts().2, reads, "a refused request reads nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_version_is_taken_on_while_calls_go_on() {
    let store = Kv2::start().await.unwrap();
    store.put("team/a", json!({ "token": "value-of-version-one" }));
    let yard = Yard::new(&store, APPROLE).await;
    let gate = &yard.gate;
    await_state(gate, "needs", "connected", LONG).await;
    let agent = client(gate, Era::Modern).await;
    let started = yard.seen();
    assert_eq!(
        started.last().map(String::as_str),
        Some("value-of-version-one")
    );
    store.put("team/a", json!({ "token": "value-of-version-two" }));
    gate.cli(&["secret", "refresh"]).await.unwrap();
    // Calls go on while the one takes the place of the other.
    eventually("the server to be started anew", LONG, || async {
        let called = agent.call("needs__echo", json!({})).await.unwrap();
        assert!(!called.is_error, "{called:?}");
        match yard.seen().last().map(String::as_str) {
            Some("value-of-version-two") => Ok(()),
            last => Err(format!("{last:?}\n{}", gate.output())),
        }
    })
    .await;
    // The second one is found once, not over and over.
    let (settled, reads) = (yard.seen().len(), store.counts().2);
    eventually("three more looks", LONG, || async {
        match store.counts().2 {
            now if now >= reads + 3 => Ok(()),
            now => Err(now.to_string()),
        }
    })
    .await;
    assert_eq!(yard.seen().len(), settled);
    assert!(!agent.call("needs__echo", json!({})).await.unwrap().is_error);
}

/// The double that these tests stand on is one that the usual client takes for a store.
#[tokio::test(flavor = "multi_thread")]
async fn hvac_takes_the_double_for_a_store() {
    let store = Kv2::start().await.unwrap();
    let (python, url) = (crate::foreign::hvac(), store.url());
    let script = crate::support::workspace().join("crates/portcullis/tests/foreign/kv2.py");
    let said = tokio::task::spawn_blocking(move || {
        std::process::Command::new(python)
            .arg(script)
            .args([url.as_str(), ROLE_ID, SECRET_ID])
            .output()
            .unwrap()
    })
    .await
    .unwrap();
    assert!(said.status.success(), "{said:?}");
}
