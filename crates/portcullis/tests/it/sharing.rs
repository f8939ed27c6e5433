//! A gate is not alone: verbs touch its home, a busy machine starves it, a load balancer asks whether it is ready.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::client::Era;
use testkit::gate::{Gate, run, signal};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Child;

use crate::operator::SOON;
use crate::support::{
    client, config, connected, eventually, fixture, gate, http, portcullis, worker_pid,
};

const HOMES: usize = 20;
const VERBS: usize = 3;

/// A gate of its own in a home that others use too.
fn up(home: &Path) -> Child {
    let mut command = tokio::process::Command::new(portcullis());
    command
        .arg("--home")
        .arg(home)
        .args(["up", "--listen", "127.0.0.1:0", "--no-snippets"]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

async fn announced(home: &Path, gate: &mut Child) -> u32 {
    eventually("the gate to be up", Duration::from_secs(30), || {
        let ended = gate.try_wait().unwrap();
        let text = std::fs::read_to_string(home.join("run/gate.json")).unwrap_or_default();
        async move {
            assert_eq!(ended, None, "the gate died");
            let face: Option<Value> = serde_json::from_str(&text).ok();
            face.and_then(|face| face["pid"].as_u64()).ok_or(text)
        }
    })
    .await
    .try_into()
    .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_and_verbs_that_begin_at_once_share_a_home() {
    for round in 0..HOMES {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        std::fs::write(home.join("portcullis.yaml"), "mcp_servers: {}\n").unwrap();
        let verbs: Vec<_> = (0..VERBS)
            .map(|verb| {
                let home = home.to_owned();
                tokio::spawn(async move {
                    run(
                        &portcullis(),
                        &home,
                        &["token", "new", &format!("person-{verb}"), "--operator"],
                        "",
                    )
                    .await
                    .unwrap()
                })
            })
            .collect();
        let mut gate = up(home);
        for verb in verbs {
            let said = verb.await.unwrap();
            assert_eq!(said.code, Some(0), "round {round}: {said:?}");
        }
        let pid = announced(home, &mut gate).await;
        assert_eq!(Some(pid), gate.id(), "round {round}");
        signal(pid, Signal::INT).unwrap();
        assert!(gate.wait().await.unwrap().success(), "round {round}");
        let verified = run(&portcullis(), home, &["audit", "verify"], "")
            .await
            .unwrap();
        assert_eq!(verified.code, Some(0), "round {round}: {verified:?}");
    }
}

/// Without a gate, verbs that meet record what they did, all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_that_meet_record_what_each_did() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().to_owned();
    std::fs::write(home.join("portcullis.yaml"), "mcp_servers: {}\n").unwrap();
    let verbs: Vec<_> = (0..8)
        .map(|verb| {
            let home = home.clone();
            tokio::spawn(async move {
                run(
                    &portcullis(),
                    &home,
                    &["token", "new", &format!("person-{verb}")],
                    "",
                )
                .await
                .unwrap()
            })
        })
        .collect();
    for verb in verbs {
        let said = verb.await.unwrap();
        assert_eq!(said.code, Some(0), "{said:?}");
    }
    let told = run(
        &portcullis(),
        &home,
        &["--json", "audit", "tail", "-n", "1000"],
        "",
    )
    .await
    .unwrap();
    let created = told
        .stdout
        .lines()
        .filter(|line| line.contains("\"credential.created\""))
        .count();
    assert_eq!(created, 8, "{told:?}");
}

#[tokio::test]
async fn a_second_gate_is_told_which_process_has_the_home() {
    let first = gate(&config(&[])).await;
    let second = up(first.home()).wait_with_output().await.unwrap();
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(!second.status.success());
    assert!(
        said.contains(&format!(
            "a gate is running in this home already (process {})",
            first.pid()
        )),
        "{said}"
    );
    assert_eq!(
        first.status().await.unwrap()["pid"],
        first.pid(),
        "the first goes on"
    );
}

/// A gate that did not get to run for a while, with calls under way, finds its worker as it left it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_in_which_the_gate_was_stopped_kills_no_worker() {
    let fixture = fixture().await;
    let gate = connected(&[(
        "up",
        http(&fixture.url(), "classification: PUBLIC, timeout: 60s"),
    )])
    .await;
    let worker = worker_pid(&gate).await.unwrap();
    let agent = client(&gate, Era::Modern).await;
    for _ in 0..3 {
        let before = fixture.effects().started;
        let slow = agent.start(
            "tools/call",
            json!({"name": "up__slow", "arguments": {"ms": 1500}}),
        );
        eventually("the call to be in flight", SOON, || async {
            if fixture.effects().started > before {
                Ok(())
            } else {
                Err(String::new())
            }
        })
        .await;
        for _ in 0..4 {
            signal(gate.pid(), Signal::STOP).unwrap();
            tokio::time::sleep(Duration::from_millis(250)).await;
            signal(gate.pid(), Signal::CONT).unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let answer = slow.answer().await.unwrap();
        assert_ne!(
            answer.pointer("/result/isError"),
            Some(&json!(true)),
            "{answer}\n{}",
            gate.output()
        );
    }
    assert_eq!(worker_pid(&gate).await, Some(worker), "{}", gate.output());
}

/// One HTTP/1.1 connection that is kept open.
struct Kept(TcpStream);

impl Kept {
    async fn open(gate: &Gate) -> Self {
        let authority = gate
            .url()
            .trim_start_matches("http://")
            .trim_end_matches("/mcp")
            .to_owned();
        Self(
            TcpStream::connect(authority)
                .await
                .expect("the door is open"),
        )
    }

    async fn ready(&mut self) -> String {
        self.0
            .write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .await
            .unwrap();
        let mut text = String::new();
        let mut piece = [0; 1024];
        while !text.contains("\"status\"") {
            let read = tokio::time::timeout(SOON, self.0.read(&mut piece))
                .await
                .expect("an answer in time")
                .unwrap();
            assert_ne!(read, 0, "hung up without an answer: {text}");
            text.push_str(&String::from_utf8_lossy(&piece[..read]));
        }
        text
    }
}

#[tokio::test]
async fn a_gate_that_is_terminated_says_so_before_it_closes_its_door() {
    let fixture = fixture().await;
    let mut gate = connected(&[("up", http(&fixture.url(), "classification: PUBLIC"))]).await;
    let agent = client(&gate, Era::Modern).await;
    let mut kept = Kept::open(&gate).await;
    assert!(kept.ready().await.starts_with("HTTP/1.1 200"));
    let told = Instant::now();
    signal(gate.pid(), Signal::TERM).unwrap();
    while !kept.ready().await.starts_with("HTTP/1.1 503") {
        assert!(told.elapsed() < SOON, "it never says so");
    }
    let answer = eventually("a 503", SOON, || async {
        let answer = Kept::open(&gate).await.ready().await;
        if answer.starts_with("HTTP/1.1 503") {
            Ok(answer)
        } else {
            Err(answer)
        }
    })
    .await;
    assert!(answer.contains("draining"), "{answer}");
    let answer = kept.ready().await;
    assert!(
        answer.starts_with("HTTP/1.1 503") && answer.contains("draining"),
        "{answer}"
    );
    assert_eq!(
        agent
            .call("up__echo", json!({"text": "still here"}))
            .await
            .unwrap()
            .text,
        "still here"
    );
    eventually("the gate to be gone", Duration::from_secs(18), || {
        let is_running = gate.is_running();
        async move {
            if is_running {
                Err(String::new())
            } else {
                Ok(())
            }
        }
    })
    .await;
    assert!(
        told.elapsed() > Duration::from_secs(1),
        "whoever looks every second has seen it: {:?}",
        told.elapsed()
    );
}
