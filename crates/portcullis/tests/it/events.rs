//! What happened, as events: from the files with `audit tail`, and as a stream from the operator's door.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::client::Era;
use testkit::gate::Gate;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::operator::{FLOOR_ONLY, done};
use crate::support::{
    admin_target, await_state, client, config, connected, eventually, fixture, gate, http,
};

/// The events that `audit tail` shows with these options.
async fn events(gate: &Gate, options: &[&str]) -> Vec<Value> {
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

fn named(events: &[Value], name: &str) -> usize {
    events.iter().filter(|event| event["event"] == name).count()
}

#[tokio::test]
async fn a_call_and_its_server_are_told_as_events() {
    let upstream = fixture().await;
    let gate = connected(&[("every", http(&upstream.url(), "classification: PUBLIC"))]).await;
    let client = client(&gate, Era::Modern).await;
    client
        .call("every__echo", json!({ "text": "hello" }))
        .await
        .unwrap();
    let all = events(&gate, &[]).await;
    for name in [
        "ServerRegistered",
        "ServerStarted",
        "InvocationRequested",
        "InvocationStarted",
        "InvocationCompleted",
    ] {
        assert!(
            named(&all, &format!("MCPToolEvent::{name}")) >= 1,
            "{name} is missing in {all:#?}"
        );
    }
    assert_eq!(named(&all, "GateEvent::Opened"), 1);
    let places: Vec<(u64, u64)> = all.iter().map(place).collect();
    assert!(places.is_sorted(), "{places:?}");
    let completed = events(&gate, &["--event", "InvocationCompleted", "--tool", "echo"]).await;
    assert_eq!(completed.len(), 1);
    assert_eq!(completed[0]["server"], "every");
    assert!(completed[0]["payload"]["result"]["digest"].is_string());
    // The words of the caller and of the server stay in the sealed body, if anywhere.
    assert!(
        all.iter().all(|event| !event.to_string().contains("hello")),
        "{all:#?}"
    );
    let position = completed[0]["position"].as_str().unwrap();
    assert_eq!(
        events(&gate, &["--from", position]).await[0],
        completed[0],
        "replay begins where it is told to"
    );
    assert!(events(&gate, &["--caller", "nobody"]).await.is_empty());
}

fn place(event: &Value) -> (u64, u64) {
    let (seq, index) = event["position"].as_str().unwrap().split_once('.').unwrap();
    (seq.parse().unwrap(), index.parse().unwrap())
}

#[tokio::test]
async fn tail_goes_on_with_what_comes() {
    let upstream = fixture().await;
    let gate = connected(&[("every", http(&upstream.url(), "classification: PUBLIC"))]).await;
    let client = client(&gate, Era::Modern).await;
    client
        .call("every__echo", json!({ "text": "before" }))
        .await
        .unwrap();
    let mut tail = tokio::process::Command::new(crate::support::portcullis());
    tail.arg("--home").arg(gate.home()).args([
        "--json",
        "audit",
        "tail",
        "-f",
        "-n",
        "0",
        "--event",
        "InvocationCompleted",
    ]);
    let mut tail = tail
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    // It has begun once it has told of one; the one before it is not told.
    let told = tokio::time::timeout(Duration::from_secs(20), async {
        loop {
            client
                .call("every__echo", json!({ "text": "after" }))
                .await
                .unwrap();
            if let Ok(line) =
                tokio::time::timeout(Duration::from_millis(500), lines.next_line()).await
            {
                return line.unwrap().expect("tail goes on");
            }
        }
    });
    let told: Value = serde_json::from_str(&told.await.expect("in time")).unwrap();
    assert_eq!(told["event"], "MCPToolEvent::InvocationCompleted");
    let first = events(&gate, &["--event", "InvocationCompleted"])
        .await
        .remove(0);
    assert_ne!(told["position"], first["position"]);
    tail.kill().await.unwrap();
}

#[tokio::test]
async fn records_are_chosen_by_the_same_words() {
    let gate = gate(&format!("{FLOOR_ONLY}{}", config(&[]))).await;
    let said = done(&gate, &["--json", "audit", "tail", "--verdict", "refused"]).await;
    assert_eq!(said.stdout, "", "nothing was refused yet");
    let bad = gate
        .cli(&["audit", "tail", "--from", "yesterday"])
        .await
        .unwrap();
    assert_eq!(bad.code, Some(2), "{bad:?}");
}

/// The stream up to and with `end`.
async fn streamed(gate: &Gate, query: &str, last: Option<&str>, end: &str) -> Vec<(String, Value)> {
    let headers: Vec<(String, String)> = last
        .map(|last| ("last-event-id".to_owned(), last.to_owned()))
        .into_iter()
        .collect();
    let reply = admin_target(gate, &format!("events{query}"))
        .send("GET", &headers, Vec::new())
        .await
        .unwrap();
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    let text = tokio::time::timeout(Duration::from_secs(20), reply.head_of_body(end))
        .await
        .expect("in time")
        .unwrap();
    let frames = text.split("\n\n").filter(|frame| frame.starts_with("id: "));
    frames
        .filter_map(|frame| {
            let (id, data) = frame.strip_prefix("id: ")?.split_once("\ndata: ")?;
            Some((id.to_owned(), serde_json::from_str(data).ok()?))
        })
        .collect()
}

#[tokio::test]
async fn a_stream_tells_what_happens_and_resumes_where_it_was_left() {
    let upstream = fixture().await;
    let gate = connected(&[("every", http(&upstream.url(), "classification: PUBLIC"))]).await;
    let client = client(&gate, Era::Modern).await;
    let live = tokio::spawn({
        let target = admin_target(&gate, "events?event=InvocationCompleted");
        let reply = target.send("GET", &[], Vec::new()).await.unwrap();
        async move { reply.head_of_body("\"tool\":\"echo\"").await.unwrap() }
    });
    client
        .call("every__echo", json!({ "text": "one" }))
        .await
        .unwrap();
    let heard = tokio::time::timeout(Duration::from_secs(20), live)
        .await
        .expect("in time")
        .unwrap();
    assert!(
        heard.contains("InvocationCompleted") && !heard.contains("InvocationRequested"),
        "{heard}"
    );
    let all = streamed(&gate, "?from=0", None, "InvocationCompleted").await;
    assert_eq!(all[0].0, "0.0", "replay begins at the beginning: {all:#?}");
    let requested = all
        .iter()
        .find(|(_, event)| event["event"] == "MCPToolEvent::InvocationRequested")
        .unwrap();
    let rest = streamed(&gate, "?from=0", Some(&requested.0), "InvocationCompleted").await;
    assert_eq!(
        rest[0].1["event"], "MCPToolEvent::InvocationStarted",
        "the next event of the same record"
    );
}

#[tokio::test]
async fn a_stream_is_for_operators_bounded_and_particular() {
    let gate = gate(&format!("{FLOOR_ONLY}{}", config(&[]))).await;
    let refused = gate
        .target()
        .unwrap()
        .at("/v1/admin/events")
        .send("GET", &[], Vec::new())
        .await
        .unwrap();
    assert_eq!(refused.status, 403);
    for (query, method, status) in [
        ("?colour=red", "GET", 400),
        ("?from=now", "GET", 400),
        ("", "POST", 405),
    ] {
        let reply = admin_target(&gate, &format!("events{query}"))
            .send(method, &[], Vec::new())
            .await
            .unwrap();
        assert_eq!(reply.status, status, "{method} {query}");
    }
    let mut open = Vec::new();
    let refused = loop {
        let reply = admin_target(&gate, "events")
            .send("GET", &[], Vec::new())
            .await
            .unwrap();
        match reply.status {
            200 => open.push(reply),
            status => break status,
        }
        assert!(open.len() < 100, "streams without end");
    };
    assert_eq!((refused, open.len()), (429, 16));
    drop(open);
    eventually("room for a stream", Duration::from_secs(10), || async {
        let reply = admin_target(&gate, "events")
            .send("GET", &[], Vec::new())
            .await
            .unwrap();
        if reply.status == 200 {
            Ok(())
        } else {
            Err(reply.status.to_string())
        }
    })
    .await;
}

#[tokio::test]
async fn a_callers_words_cannot_forge_an_event() {
    let (upstream, place) = (fixture().await, tempfile::tempdir().unwrap());
    let file = place.path().join("events.jsonl");
    let servers = config(&[("every", http(&upstream.url(), "classification: PUBLIC"))]);
    let sink = format!(
        "audit: {{ sinks: [ {{ name: log, kind: file, path: {} }} ] }}\n",
        json!(file)
    );
    let gate = gate(&format!("{FLOOR_ONLY}{sink}{servers}")).await;
    await_state(&gate, "every", "connected", Duration::from_secs(15)).await;
    // In this era names are in the body alone, where they can be anything.
    let client = client(&gate, Era::Legacy).await;
    let forged = "\n{\"position\":\"0.0\",\"event\":\"GateEvent::Forged\"}\r\n\u{85}\u{2028}\u{1b}[2J\u{202e}id: 1\ndata: x\n\n";
    let uri = format!("portcullis://every/{forged}");
    let _ = client
        .request("resources/read", json!({ "uri": uri }))
        .await;
    let _ = client.call(&format!("every__{forged}"), json!({})).await;
    let _ = client.call("every__echo", json!({ "text": forged })).await;
    let told = events(&gate, &[]).await;
    assert!(
        told.iter().any(|event| event["tool"]
            .as_str()
            .is_some_and(|tool| tool.contains("Forged"))),
        "they are on record: {told:#?}"
    );
    let written = eventually(
        "the file to have them all",
        Duration::from_secs(20),
        || async {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            if text.lines().count() >= events(&gate, &[]).await.len() {
                Ok(text)
            } else {
                Err(text.lines().count().to_string())
            }
        },
    )
    .await;
    let streamed: Vec<Value> = streamed(
        &gate,
        "?from=0",
        None,
        told.last().unwrap()["position"].as_str().unwrap(),
    )
    .await
    .into_iter()
    .map(|(_, event)| event)
    .collect();
    for line in written.lines() {
        let event: Value = serde_json::from_str(line).expect("a line is an event");
        assert_ne!(event["event"], "GateEvent::Forged", "{line}");
    }
    assert!(
        streamed
            .iter()
            .all(|event| event["event"] != "GateEvent::Forged")
    );
    assert!(
        !written
            .chars()
            .any(|c| c != '\n' && (c.is_control() || matches!(c, '\u{2028}' | '\u{202e}')))
    );
}
