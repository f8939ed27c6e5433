//! What the kernel holds back: the worker's jail seen from outside, a server's environment, and processes left behind.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use testkit::client::Era;
use testkit::gate::{Gate, Setup, signal};
use testkit::procfs;

use crate::support::{
    await_state, client, config, connected, eventually, fixture, gate, http, portcullis, program,
    stdio, stdio_everything, worker_pid,
};

const PUBLIC: &str = "classification: PUBLIC";

/// The worker tries to get out, from inside its own jail.
#[test]
fn the_worker_probe_is_refused_everywhere() {
    let worker = portcullis().with_file_name("portcullis-worker");
    let output = std::process::Command::new(worker)
        .arg("--probe")
        .output()
        .expect("the worker is built");
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "something got through:\n{said}");
    for attempt in [
        "read a file",
        "ledger",
        "execute",
        "unix socket",
        "trace the parent",
        "parent's memory",
    ] {
        let tried = said
            .lines()
            .filter(|line| line.contains(attempt))
            .collect::<Vec<_>>();
        assert!(
            !tried.is_empty() && tried.iter().all(|line| line.contains("refused")),
            "{attempt}: {tried:?}\n{said}"
        );
    }
}

/// The walls around the worker that runs behind a real gate, as the kernel reports them.
#[tokio::test]
async fn the_running_worker_is_in_its_jail() {
    let fixture = fixture().await;
    let gate = connected(&[("up", http(&fixture.url(), PUBLIC))]).await;
    let pid = worker_pid(&gate).await.expect("a worker");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap_or_else(|| panic!("no {name} in {status}"));
        line.split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(field("NoNewPrivs:"), "1");
    assert_eq!(field("Seccomp:"), "2");
    assert_eq!(field("CapEff:"), "0000000000000000");
    assert_ne!(field("Uid:"), "0", "the worker runs as root");
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let environment = String::from_utf8_lossy(&environment);
    assert!(
        !environment.contains("PATH=") && !environment.contains("HOME="),
        "the worker's environment: {environment}"
    );
    let status = gate.status().await.unwrap();
    let walls = status
        .pointer("/worker/confinement")
        .and_then(|walls| walls.as_array().cloned())
        .unwrap_or_default();
    assert!(
        !walls.is_empty(),
        "the status does not say what is confined: {status}"
    );
}

/// `PATH`, what a jail sets and what is declared; nothing of the gate's own.
#[tokio::test]
async fn a_stdio_servers_environment_is_the_golden_list() {
    let entry = stdio_everything(
        "both",
        &format!(
            "env: {{ DECLARED: \"as written\", BORROWED: \"env:LENT\" }}, redact_results: false, {PUBLIC}"
        ),
    );
    let setup = Setup::new(portcullis(), config(&[("up", entry)]));
    let gate = setup
        .env("LENT", "from the gate")
        .env("CANARY_TOKEN", "must not be seen")
        .start()
        .await
        .unwrap();
    await_state(&gate, "up", "connected", Duration::from_secs(15)).await;
    let called = client(&gate, Era::Modern)
        .await
        .call("up__env", json!({}))
        .await
        .unwrap();
    let environment: BTreeMap<String, String> =
        serde_json::from_str(&called.text).expect("the fixture prints its environment");
    let names: Vec<&str> = environment
        .keys()
        .map(String::as_str)
        // What this machine sets so that every program finds certificates.
        .filter(|name| !name.ends_with("_CERTS") && !name.starts_with("SSL_CERT_"))
        .collect();
    let golden = [
        "BORROWED",
        "DECLARED",
        "HOME",
        "LANG",
        "PATH",
        "SHELL",
        "TMPDIR",
        "USER",
        "npm_config_audit",
        "npm_config_fund",
        "npm_config_update_notifier",
    ];
    assert_eq!(names, golden, "{environment:?}");
    let home = gate.home().join("state/jails/up/home");
    assert_eq!(environment["HOME"], home.to_str().unwrap());
    assert_eq!(environment["DECLARED"], "as written");
    assert_eq!(environment["BORROWED"], "from the gate");
    assert_eq!(environment["PATH"], std::env::var("PATH").unwrap());
}

/// A server that forks leaves nothing behind, however it is stopped.
#[tokio::test]
async fn stopping_leaves_no_process() {
    let mark = mark("leave");
    let mut gate = forking_gate(&mark).await;
    for round in 0..10 {
        let before = procfs::mentioning(&mark);
        assert!(
            before.len() >= 2,
            "round {round}: the server and its child should run: {before:?}"
        );
        let said = gate.cli(&["servers", "disable", "up"]).await.unwrap();
        assert_eq!(said.code, Some(0), "{said:?}");
        await_gone(&mark).await;
        let said = gate.cli(&["servers", "enable", "up"]).await.unwrap();
        assert_eq!(said.code, Some(0), "{said:?}");
        await_state(&gate, "up", "connected", Duration::from_secs(10)).await;
    }
    assert_eq!(gate.stop().await.unwrap(), Some(0), "{}", gate.output());
    await_gone(&mark).await;
}

/// Restarting the gate again and again leaves neither servers nor workers.
#[tokio::test]
async fn restarting_the_gate_leaves_no_process() {
    let mark = mark("restart");
    let mut gate = forking_gate(&mark).await;
    for _ in 0..5 {
        let worker = worker_pid(&gate).await.expect("a worker");
        assert_eq!(gate.stop().await.unwrap(), Some(0), "{}", gate.output());
        await_gone(&mark).await;
        eventually("the worker to end", Duration::from_secs(3), || async {
            if procfs::is_alive(worker) {
                Err("alive".to_owned())
            } else {
                Ok(())
            }
        })
        .await;
        gate.start_again().await.unwrap();
        await_state(&gate, "up", "connected", Duration::from_secs(10)).await;
    }
}

/// A gate that is killed takes worker and servers with it.
#[tokio::test]
async fn a_killed_gate_takes_its_children_with_it() {
    let mark = mark("killed");
    let entry = stdio_everything("both", &format!("env: {{ MARK: \"{mark}\" }}, {PUBLIC}"));
    let mut gate = connected(&[("up", entry)]).await;
    let worker = worker_pid(&gate).await.expect("a worker");
    gate.kill().unwrap();
    await_gone(&mark).await;
    eventually("the worker to end", Duration::from_secs(3), || async {
        if procfs::is_alive(worker) {
            Err("alive".to_owned())
        } else {
            Ok(())
        }
    })
    .await;
    gate.start_again().await.unwrap();
    await_state(&gate, "up", "connected", Duration::from_secs(10)).await;
}

/// A server that ignores the end of its input and every polite signal is ended all the same.
#[tokio::test]
async fn a_deaf_server_is_ended() {
    let mark = mark("deaf");
    let entry = stdio(
        &program("hostile"),
        &["--stdio", "--script", "deaf"],
        &format!("env: {{ MARK: \"{mark}\" }}, {PUBLIC}"),
    );
    let gate = connected(&[("up", entry)]).await;
    assert_eq!(procfs::mentioning(&mark).len(), 1);
    assert_eq!(
        gate.cli(&["servers", "disable", "up"]).await.unwrap().code,
        Some(0)
    );
    await_gone(&mark).await;
}

/// A server that is killed from outside is started again, and its calls say what happened.
#[tokio::test]
async fn a_killed_server_is_started_again() {
    let mark = mark("again");
    let entry = stdio_everything("both", &format!("env: {{ MARK: \"{mark}\" }}, {PUBLIC}"));
    let gate = connected(&[("up", entry)]).await;
    let client = client(&gate, Era::Modern).await;
    let pending = client.start(
        "tools/call",
        json!({"name": "up__slow", "arguments": {"ms": 30_000}}),
    );
    eventually(
        "the call to be in flight",
        Duration::from_secs(5),
        || async {
            let called = client
                .call("up__count_effects", json!({}))
                .await
                .map_err(|error| error.to_string())?;
            if called.text.contains("\"started\":1") {
                Ok(())
            } else {
                Err(called.text)
            }
        },
    )
    .await;
    for pid in procfs::mentioning(&mark) {
        signal(pid, Signal::KILL).unwrap();
    }
    let answer = tokio::time::timeout(Duration::from_secs(2), pending.answer())
        .await
        .expect("at once")
        .unwrap();
    assert_eq!(
        answer.pointer("/result/_meta/portcullis~1error/error_code"),
        Some(&json!("upstream_unavailable")),
        "{answer}"
    );
    eventually(
        "the server to answer again",
        Duration::from_secs(8),
        || async {
            let called = client
                .call("up__echo", json!({"text": "again"}))
                .await
                .map_err(|error| error.to_string())?;
            if called.text == "again" {
                Ok(())
            } else {
                Err(called.answer.to_string())
            }
        },
    )
    .await;
}

/// A gate whose only server is a shell that left a child in the background.
async fn forking_gate(mark: &str) -> Gate {
    let script = format!("sleep 1000 & exec {} --stdio", program("everything"));
    let gate = gate(&config(&[(
        "up",
        stdio(
            "sh",
            &["-c", &script],
            &format!("env: {{ MARK: \"{mark}\" }}, {PUBLIC}"),
        ),
    )]))
    .await;
    await_state(&gate, "up", "connected", Duration::from_secs(15)).await;
    gate
}

/// A text by which the processes of one test are known.
fn mark(what: &str) -> String {
    format!("mark-{what}-{}", std::process::id())
}

async fn await_gone(mark: &str) {
    eventually(
        "every process to be gone",
        Duration::from_secs(8),
        || async {
            let left = procfs::mentioning(mark);
            if left.is_empty() {
                Ok(())
            } else {
                Err(format!("{left:?} are left"))
            }
        },
    )
    .await;
}
