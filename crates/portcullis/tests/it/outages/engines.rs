//! Sinks against other people's programs: a collector and a NATS server.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use async_nats::jetstream;
use serde_json::{Value, json};

use super::{SOON, await_all, await_failing, calls, free_port, gate_with, position};
use crate::foreign;
use crate::support::{eventually, fixture};

/// A program that is killed when the test is over.
struct Engine(Child);

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(mut command: Command, log: &Path) -> Engine {
    let log = File::options().create(true).append(true).open(log).unwrap();
    let said = log.try_clone().unwrap();
    Engine(
        command
            .stdin(Stdio::null())
            .stdout(said)
            .stderr(log)
            .spawn()
            .expect("the engine starts"),
    )
}

async fn await_port(port: u16) {
    eventually("the engine to listen", SOON, || async {
        tokio::net::TcpStream::connect(("127.0.0.1", port))
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    })
    .await;
}

fn collector(port: u16, log: &Path) -> Engine {
    let mut rotel = Command::new(foreign::rotel());
    rotel.args([
        "start",
        "--exporter",
        "blackhole",
        "--debug-log",
        "logs",
        "--debug-log-verbosity",
        "detailed",
    ]);
    rotel.args([
        "--otlp-http-endpoint",
        &format!("127.0.0.1:{port}"),
        "--otlp-grpc-endpoint",
        &format!("127.0.0.1:{}", free_port()),
    ]);
    run(rotel, log)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_was_down_gets_everything() {
    let (upstream, place, port) = (fixture().await, tempfile::tempdir().unwrap(), free_port());
    let log = place.path().join("rotel.log");
    let sink = format!(
        "{{ name: otel, kind: otlp, url: \"http://127.0.0.1:{port}/v1/logs\", batch: 20 }}"
    );
    let gate = gate_with(&sink, &upstream).await;
    // What the collector shows of each record, in the order it took them.
    let arrived = async || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let shown = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("-> portcullis.position: Str("));
        shown
            .filter_map(|rest| rest.strip_suffix(')'))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    calls(&gate, 10).await;
    await_failing(&gate).await;
    let running = collector(port, &log);
    await_all(&gate, arrived).await;
    drop(running);
    calls(&gate, 10).await;
    await_failing(&gate).await;
    let _running = collector(port, &log);
    await_all(&gate, arrived).await;
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(
        text.contains("service.name: Str(portcullis)")
            && text.contains("event.name: Str(MCPToolEvent::InvocationCompleted)")
    );
}

fn nats(port: u16, place: &Path) -> Engine {
    let mut nats = Command::new(foreign::nats_server());
    nats.args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"])
        .arg(place.join("store"));
    run(nats, &place.join("nats.log"))
}

/// Everything in the stream, in its order: the header that tells repeated events, and the event.
async fn stored(port: u16) -> Vec<(String, Value)> {
    let Ok(client) = async_nats::connect(format!("nats://127.0.0.1:{port}")).await else {
        return Vec::new();
    };
    let Ok(mut stream) = jetstream::new(client).get_stream("AUDIT").await else {
        return Vec::new();
    };
    let Ok(last) = stream.info().await.map(|info| info.state.last_sequence) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for sequence in 1..=last {
        let message = stream.get_raw_message(sequence).await.unwrap();
        let id = message
            .headers
            .get("Nats-Msg-Id")
            .unwrap()
            .as_str()
            .to_owned();
        found.push((id, serde_json::from_slice(&message.payload).unwrap()));
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_was_down_gets_everything_once() {
    let (upstream, place, port) = (fixture().await, tempfile::tempdir().unwrap(), free_port());
    let sink = format!(
        "{{ name: bus, kind: nats, url: \"nats://127.0.0.1:{port}\", stream: AUDIT, subject: audit.gate, timeout: 2s }}"
    );
    let gate = gate_with(&sink, &upstream).await;
    calls(&gate, 5).await;
    await_failing(&gate).await;
    let arrived = async || {
        let stored = stored(port).await.into_iter();
        stored
            .map(|(_, event)| event["position"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    for round in 0..3u64 {
        let running = nats(port, place.path());
        await_port(port).await;
        calls(&gate, 5).await;
        if round > 0 {
            tokio::time::sleep(Duration::from_millis(40 * round)).await;
        } else {
            await_all(&gate, arrived).await;
        }
        drop(running);
        calls(&gate, 5).await;
    }
    let _running = nats(port, place.path());
    await_port(port).await;
    await_all(&gate, arrived).await;
    let stored = stored(port).await;
    let mut ids: Vec<&String> = stored.iter().map(|(id, _)| id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), stored.len(), "what came twice is stored once");
    let (id, event) = &stored[0];
    assert!(
        id.starts_with("portcullis/") && id.ends_with(event["position"].as_str().unwrap()),
        "{id}"
    );
    assert_eq!(
        position(&event.to_string()).as_deref(),
        event["position"].as_str()
    );
    assert!(
        stored
            .iter()
            .any(|(_, event)| event["event"] == "MCPToolEvent::InvocationCompleted"),
        "{}",
        json!(stored.len())
    );
}
