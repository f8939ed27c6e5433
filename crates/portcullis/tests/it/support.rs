//! What most tests begin with: a configuration, a gate, connected servers.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::client::{Client, Era, Target};
use testkit::everything::{self, HttpFixture};
use testkit::gate::{Gate, Setup};

/// The program under test.
pub(crate) fn portcullis() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_portcullis"))
}

/// A program of the testkit, built beside the program under test.
pub(crate) fn program(name: &str) -> String {
    let path = portcullis().with_file_name(name);
    assert!(
        path.exists(),
        "{} is missing: run `cargo build --workspace --bins` first",
        path.display()
    );
    path.to_str()
        .expect("the target directory has a plain name")
        .to_owned()
}

/// The workspace's root directory.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("crates/portcullis is two levels deep")
        .to_owned()
}

/// A configuration file with these servers; each entry is a map in YAML's one-line form.
pub(crate) fn config(servers: &[(&str, String)]) -> String {
    let mut yaml = "mcp_servers:\n".to_owned();
    for (id, entry) in servers {
        yaml.push_str(&format!("  {id}: {entry}\n"));
    }
    yaml
}

/// An entry for an HTTP upstream.
pub(crate) fn http(url: &str, more: &str) -> String {
    format!("{{ url: \"{url}\", {} }}", trusted(more))
}

/// What a test does not say of a classified server is that nobody but its makers writes what it returns.
fn trusted(more: &str) -> String {
    if more.contains("classification:") && !more.contains("open_world:") {
        format!("open_world: false, {more}")
    } else {
        more.to_owned()
    }
}

/// An entry for a stdio upstream.
pub(crate) fn stdio(command: &str, args: &[&str], more: &str) -> String {
    format!(
        "{{ command: {}, args: {}, {} }}",
        json!(command),
        json!(args),
        trusted(more)
    )
}

/// The everything fixture on stdio.
pub(crate) fn stdio_everything(era: &str, more: &str) -> String {
    stdio(&program("everything"), &["--stdio", "--era", era], more)
}

pub(crate) async fn fixture() -> HttpFixture {
    HttpFixture::start(everything::Era::Both)
        .await
        .expect("a loopback port")
}

/// A gate with this configuration.
pub(crate) async fn gate(yaml: &str) -> Gate {
    Setup::new(portcullis(), yaml).start().await.unwrap()
}

/// A gate with these servers, all of them connected.
pub(crate) async fn connected(servers: &[(&str, String)]) -> Gate {
    let gate = gate(&config(servers)).await;
    for (id, _) in servers {
        await_state(&gate, id, "connected", Duration::from_secs(15)).await;
    }
    gate
}

/// What `servers list` says about one server.
pub(crate) async fn server(gate: &Gate, id: &str) -> Value {
    let listed = admin(gate, "GET", "servers").await;
    let servers = listed.get("servers").cloned().unwrap_or(listed);
    let found = servers
        .as_array()
        .and_then(|all| all.iter().find(|server| server["id"] == id));
    found.cloned().unwrap_or(Value::Null)
}

/// Waits until a server is in this state.
pub(crate) async fn await_state(gate: &Gate, id: &str, state: &str, within: Duration) -> Value {
    let what = format!("server {id} to be {state}");
    eventually(&what, within, || async {
        let server = server(gate, id).await;
        if server["state"] == state {
            Ok(server)
        } else {
            Err(format!("{server}\n{}", gate.output()))
        }
    })
    .await
}

/// One of the operator's verbs over HTTP.
pub(crate) async fn admin(gate: &Gate, method: &str, verb: &str) -> Value {
    let reply = admin_target(gate, verb)
        .send(method, &[], Vec::new())
        .await
        .unwrap();
    let status = reply.status;
    let body = reply.json().await.unwrap();
    assert_eq!(status, 200, "{method} {verb}: {body}");
    body
}

pub(crate) fn admin_target(gate: &Gate, verb: &str) -> Target {
    let token = std::fs::read_to_string(gate.home().join("state/operator.token")).unwrap();
    Target::new(gate.url(), Some(token.trim()))
        .unwrap()
        .at(&format!("/v1/admin/{verb}"))
}

/// The process id of the worker, over the quick road.
pub(crate) async fn worker_pid(gate: &Gate) -> Option<u32> {
    admin(gate, "GET", "status")
        .await
        .pointer("/worker/pid")?
        .as_u64()?
        .try_into()
        .ok()
}

/// A client of the door with the gate's own client credential.
pub(crate) async fn client(gate: &Gate, era: Era) -> Client {
    Client::plain(&gate.target().unwrap(), era).await.unwrap()
}

/// A client with a credential made for it; `options` go to `token new`.
pub(crate) async fn new_token(gate: &Gate, name: &str, options: &[&str]) -> String {
    let said = gate
        .cli(&[&["--json", "token", "new", name], options].concat())
        .await
        .unwrap();
    assert_eq!(said.code, Some(0), "{said:?}");
    said.json().unwrap()["token"]
        .as_str()
        .expect("token new prints a token")
        .to_owned()
}

/// Tries until it works, and says what was last wrong when it does not.
pub(crate) async fn eventually<T, F>(what: &str, within: Duration, attempt: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, String>>,
{
    until(what, within, attempt)
        .await
        .unwrap_or_else(|problem| panic!("{problem:#}"))
}

/// The same, for tests that go on after a failure.
pub(crate) async fn until<T, F>(
    what: &str,
    within: Duration,
    mut attempt: impl FnMut() -> F,
) -> anyhow::Result<T>
where
    F: Future<Output = Result<T, String>>,
{
    let deadline = Instant::now() + within;
    loop {
        match attempt().await {
            Ok(value) => return Ok(value),
            Err(last) if Instant::now() >= deadline => {
                anyhow::bail!("waited {within:?} for {what}; last: {last}")
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// The latest records of the ledger, oldest first.
pub(crate) async fn records(gate: &Gate) -> Vec<Value> {
    let said = gate
        .cli(&["--json", "audit", "tail", "-n", "100000"])
        .await
        .unwrap();
    assert_eq!(said.code, Some(0), "{said:?}");
    // One document, or one per line: both are machine-readable.
    match serde_json::from_str::<Value>(&said.stdout) {
        Ok(Value::Array(records)) => records,
        Ok(Value::Object(document)) if document.contains_key("records") => {
            document["records"].as_array().cloned().unwrap_or_default()
        }
        _ => said
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).expect("a record per line"))
            .collect(),
    }
}

/// Held by tests that judge latency or load both cores, so that no two of them run at once in one process.
pub(crate) async fn alone() -> tokio::sync::MutexGuard<'static, ()> {
    static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    ALONE.lock().await
}

/// The given percentile of durations.
pub(crate) fn percentile(durations: &mut [Duration], percent: usize) -> Duration {
    durations.sort_unstable();
    let last = durations
        .len()
        .checked_sub(1)
        .expect("at least one measurement");
    durations[(durations.len() * percent / 100).min(last)]
}
