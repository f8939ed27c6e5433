//! Sinks that were down: every event arrives once or more, in order, none lost.
//!
//! The receivers are real: a file, sockets, an HTTP receiver that checks signatures, a collector, a NATS server with JetStream.

mod engines;
mod receivers;

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::client::Era;
use testkit::everything::HttpFixture;
use testkit::gate::{Gate, Setup};
use testkit::procfs;

use crate::operator::{FLOOR_ONLY, done};
use crate::support::{admin, await_state, client, config, eventually, fixture, http, portcullis};
use receivers::{SyslogDaemon, WebhookReceiver, free_port};

const SOON: Duration = Duration::from_secs(60);
const SECRET: &str = "a key that only the two of us know";

/// A gate with one server and this sink; nothing waits for a person.
async fn gate_with(sink: &str, upstream: &HttpFixture) -> Gate {
    let servers = config(&[("up", http(&upstream.url(), "classification: PUBLIC"))]);
    let yaml = format!("{FLOOR_ONLY}audit:\n  sinks:\n    - {sink}\n{servers}");
    let gate = Setup::new(portcullis(), yaml)
        .env("WEBHOOK_SECRET", SECRET)
        .start()
        .await
        .unwrap();
    await_state(&gate, "up", "connected", Duration::from_secs(15)).await;
    gate
}

async fn calls(gate: &Gate, count: usize) {
    let client = client(gate, Era::Modern).await;
    for _ in 0..count {
        client
            .call("up__echo", json!({ "text": "hello" }))
            .await
            .unwrap();
    }
}

/// What `audit sinks` says about the only sink.
async fn sink(gate: &Gate) -> Value {
    admin(gate, "GET", "sinks")
        .await
        .as_array()
        .and_then(|all| all.first().cloned())
        .expect("one sink")
}

async fn await_failing(gate: &Gate) -> Value {
    eventually("the sink to be failing", SOON, || async {
        let sink = sink(gate).await;
        if sink["state"] == "failing" && sink["lag"].as_u64() > Some(0) {
            Ok(sink)
        } else {
            Err(sink.to_string())
        }
    })
    .await
}

/// The positions of everything that happened, in order.
async fn positions(gate: &Gate) -> Vec<String> {
    let said = done(
        gate,
        &["--json", "audit", "tail", "--events", "-n", "1000000"],
    )
    .await;
    said.stdout
        .lines()
        .map(|line| position(line).expect("an event has a position"))
        .collect()
}

fn position(line: &str) -> Option<String> {
    serde_json::from_str::<Value>(line)
        .ok()?
        .get("position")?
        .as_str()
        .map(str::to_owned)
}

/// Waits until everything that happened has arrived; says what was wrong with the order otherwise.
async fn await_all(gate: &Gate, arrived: impl AsyncFn() -> Vec<String>) {
    eventually("every event to arrive", SOON, || async {
        let (arrived, wanted) = (arrived().await, positions(gate).await);
        let mut seen = BTreeSet::new();
        let first_time: Vec<&String> = arrived
            .iter()
            .filter(|position| seen.insert(position.as_str()))
            .collect();
        match first_time == wanted.iter().collect::<Vec<_>>() {
            true => Ok(()),
            false => {
                let missing = wanted
                    .iter()
                    .filter(|position| !seen.contains(position.as_str()))
                    .take(3)
                    .collect::<Vec<_>>();
                Err(format!(
                    "{} of {} arrived; {missing:?} are missing; {}",
                    seen.len(),
                    wanted.len(),
                    sink(gate).await
                ))
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_whose_directory_was_away_gets_everything() {
    let (upstream, place) = (fixture().await, tempfile::tempdir().unwrap());
    let (dir, away) = (place.path().join("logs"), place.path().join("away"));
    let file = dir.join("events.jsonl");
    let gate = gate_with(
        &format!(
            "{{ name: log, kind: file, path: {}, batch: 7 }}",
            json!(file)
        ),
        &upstream,
    )
    .await;
    let arrived = async || {
        std::fs::read_to_string(&file)
            .unwrap_or_default()
            .lines()
            .filter_map(position)
            .collect::<Vec<_>>()
    };
    calls(&gate, 10).await;
    let failing = await_failing(&gate).await;
    assert!(
        failing["error"].as_str().unwrap().contains("events.jsonl"),
        "{failing}"
    );
    std::fs::create_dir(&dir).unwrap();
    await_all(&gate, arrived).await;
    std::fs::rename(&dir, &away).unwrap();
    calls(&gate, 10).await;
    await_failing(&gate).await;
    std::fs::rename(&away, &dir).unwrap();
    await_all(&gate, arrived).await;
    eventually("the sink to be idle", SOON, || async {
        let sink = sink(&gate).await;
        if sink["state"] == "idle" && sink["lag"] == 0 && sink["lost"] == 0 {
            Ok(())
        } else {
            Err(sink.to_string())
        }
    })
    .await;
    let shown = done(&gate, &["audit", "sinks"]).await.stdout;
    assert!(shown.contains("log") && shown.contains("idle"), "{shown}");
    assert!(
        done(&gate, &["status"]).await.stdout.contains("log"),
        "status shows sinks"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_syslog_daemon_that_comes_and_goes_gets_everything() {
    let (upstream, port) = (fixture().await, free_port());
    let gate = gate_with(
        &format!("{{ name: log, kind: syslog, address: \"tcp://127.0.0.1:{port}\", batch: 5 }}"),
        &upstream,
    )
    .await;
    calls(&gate, 10).await;
    await_failing(&gate).await;
    let mut daemon = SyslogDaemon::start(port).await;
    await_all(&gate, async || daemon.positions()).await;
    for _ in 0..3 {
        let heard = daemon.stop();
        calls(&gate, 10).await;
        daemon = SyslogDaemon::with(port, heard).await;
        calls(&gate, 5).await;
    }
    await_all(&gate, async || daemon.positions()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_is_down_or_refuses_gets_everything_signed() {
    let (upstream, port) = (fixture().await, free_port());
    let sink = format!(
        "{{ name: hook, kind: webhook, url: \"http://127.0.0.1:{port}/in\", secret: env:WEBHOOK_SECRET, batch: 9 }}"
    );
    let gate = gate_with(&sink, &upstream).await;
    calls(&gate, 10).await;
    await_failing(&gate).await;
    let receiver = WebhookReceiver::start(port, SECRET).await;
    receiver.refuse(3);
    await_all(&gate, async || receiver.positions()).await;
    receiver.refuse(2);
    calls(&gate, 10).await;
    await_all(&gate, async || receiver.positions()).await;
    assert_eq!(receiver.forged(), 0, "every body was signed for its time");
    assert!(!receiver.positions().is_empty() && receiver.refused() >= 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_gate_goes_on_delivering_where_it_was() {
    let (upstream, port) = (fixture().await, free_port());
    let receiver = WebhookReceiver::start(port, SECRET).await;
    let sink = format!(
        "{{ name: hook, kind: webhook, url: \"http://127.0.0.1:{port}/in\", secret: env:WEBHOOK_SECRET, batch: 3 }}"
    );
    let mut gate = gate_with(&sink, &upstream).await;
    for round in 0..5u64 {
        let before = receiver.positions().len();
        let caller = client(&gate, Era::Modern).await;
        let load = tokio::spawn(async move {
            while caller
                .call("up__echo", json!({ "text": "x" }))
                .await
                .is_ok()
            {}
        });
        eventually("a delivery", SOON, || async {
            if receiver.positions().len() > before + 5 {
                Ok(())
            } else {
                Err(receiver.positions().len().to_string())
            }
        })
        .await;
        // A different moment in every round.
        tokio::time::sleep(Duration::from_millis(23 * round)).await;
        gate.kill().unwrap();
        load.await.unwrap();
        gate.start_again().await.unwrap();
        await_state(&gate, "up", "connected", Duration::from_secs(15)).await;
    }
    await_all(&gate, async || receiver.positions()).await;
    assert_eq!(receiver.forged(), 0);
}

/// The worker of this gate that posts.
fn courier(gate: &Gate) -> Option<u32> {
    let parent = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?
            .1
            .split(' ')
            .nth(1)?
            .parse::<u32>()
            .ok()
    };
    procfs::mentioning("--role\0courier")
        .into_iter()
        .find(|pid| parent(*pid) == Some(gate.pid()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_courier_only_delays_its_sinks() {
    let (upstream, port) = (fixture().await, free_port());
    let receiver = WebhookReceiver::start(port, SECRET).await;
    let sink = format!(
        "{{ name: hook, kind: webhook, url: \"http://127.0.0.1:{port}/in\", secret: env:WEBHOOK_SECRET, batch: 2 }}"
    );
    let gate = gate_with(&sink, &upstream).await;
    let worker = crate::support::worker_pid(&gate).await;
    for _ in 0..5 {
        calls(&gate, 3).await;
        let pid = eventually("a courier", SOON, || async {
            courier(&gate).ok_or_else(|| "none".to_owned())
        })
        .await;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        assert!(
            status.is_empty() || status.contains("NoNewPrivs:\t1"),
            "the courier is in its jail: {status}"
        );
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        calls(&gate, 3).await;
    }
    await_all(&gate, async || receiver.positions()).await;
    assert_eq!(
        crate::support::worker_pid(&gate).await,
        worker,
        "the other worker was not disturbed"
    );
}

#[tokio::test]
async fn a_sink_with_a_mistake_is_refused_in_words() {
    let upstream = fixture().await;
    let place = tempfile::tempdir().unwrap();
    let good = format!(
        "{{ name: log, kind: file, path: {} }}",
        json!(place.path().join("events.jsonl"))
    );
    let gate = gate_with(&good, &upstream).await;
    for (bad, word) in [
        ("{ name: a, kind: carrier-pigeon }", "carrier-pigeon"),
        ("{ name: a, kind: file }", "path"),
        ("{ name: A/B, kind: file, path: x }", "name"),
        ("{ name: a, kind: file, path: x, secret: env:X }", "secret"),
        (
            "{ name: a, kind: syslog, address: \"tcp://nowhere\" }",
            "nowhere",
        ),
        ("{ name: a, kind: webhook, url: \"ftp://x\" }", "url"),
        (
            "{ name: a, kind: nats, url: \"nats://me:password@host\" }",
            "nats",
        ),
        (
            "{ name: a, kind: file, path: x, filter: { colour: red } }",
            "colour",
        ),
        ("just words", "map"),
    ] {
        gate.write_config(&format!("audit:\n  sinks:\n    - {bad}\n"))
            .unwrap();
        let said = gate.cli(&["config", "check"]).await.unwrap();
        assert_eq!(said.code, Some(2), "{bad}: {said:?}");
        let text = format!("{}{}", said.stdout, said.stderr);
        assert!(
            text.contains(word) && !text.contains("me:password"),
            "{bad}: {text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_changes_sinks_and_loses_nothing() {
    let (upstream, place) = (fixture().await, tempfile::tempdir().unwrap());
    let entry = |name: &str| {
        format!(
            "{{ name: log, kind: file, path: {} }}",
            json!(place.path().join(name))
        )
    };
    let gate = gate_with(&entry("one"), &upstream).await;
    calls(&gate, 5).await;
    let read = |name: &str| std::fs::read_to_string(place.path().join(name)).unwrap_or_default();
    let arrived = async || {
        format!("{}{}", read("one"), read("two"))
            .lines()
            .filter_map(position)
            .collect::<Vec<_>>()
    };
    await_all(&gate, arrived).await;
    let servers = config(&[("up", http(&upstream.url(), "classification: PUBLIC"))]);
    crate::operator::reconfigure(
        &gate,
        &format!(
            "{FLOOR_ONLY}audit:\n  sinks:\n    - {}\n{servers}",
            entry("two")
        ),
    )
    .await;
    calls(&gate, 5).await;
    await_all(&gate, arrived).await;
    assert!(
        read("two").contains("ConfigEvent::Applied")
            || read("one").contains("ConfigEvent::Applied")
    );
    assert!(
        !read("two").contains("\"position\":\"0.0\""),
        "a sink that keeps its name goes on where it was"
    );
}
