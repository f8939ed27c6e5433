//! Calls that were refused, or whose end nobody saw: what the ledger says of them, and how they are found.

use serde_json::{Value, json};
use testkit::client::Era;
use testkit::gate::{Gate, signal};

use crate::operator::{FLOOR_ONLY, SOON, assert_refused, done, shifty, told};
use crate::support::{
    await_state, client, config, connected, eventually, fixture, gate, http, records, worker_pid,
};

async fn found(gate: &Gate, conditions: &[&str]) -> Vec<Value> {
    let said = done(gate, &[&["--json", "audit", "query"], conditions].concat()).await;
    said.stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// A call under way when the gate was killed is found by everything it was known by.
#[tokio::test]
async fn a_call_that_a_killed_gate_left_is_found_by_its_words() {
    let fixture = fixture().await;
    let mut gate = connected(&[("up", http(&fixture.url(), "classification: PUBLIC"))]).await;
    let agent = client(&gate, Era::Modern).await;
    let pending = agent.start(
        "tools/call",
        json!({"name": "up__slow", "arguments": {"ms": 30_000}}),
    );
    eventually("the call to be in flight", SOON, || async {
        if fixture.effects().started == 1 {
            Ok(())
        } else {
            Err("not yet".to_owned())
        }
    })
    .await;
    gate.kill().unwrap();
    drop(pending);
    gate.start_again().await.unwrap();
    for conditions in [
        &["--tool", "slow", "--verdict", "indeterminate"][..],
        &["--server", "up", "--verdict", "indeterminate"],
        &["--caller", "first-client", "--verdict", "indeterminate"],
        &["--tool", "slow", "--action", "tools/call"],
    ] {
        let records = found(&gate, conditions).await;
        assert_eq!(records.len(), 1, "{conditions:?}: {records:#?}");
        assert!(
            records[0]["verdict"] == "indeterminate" && records[0]["tool"] == "slow",
            "{records:#?}"
        );
    }
}

/// The worker is killed in the middle of a call: the caller hears that the outcome is unknown, and so does the ledger.
#[tokio::test]
async fn a_call_that_a_killed_worker_left_is_indeterminate() {
    let fixture = fixture().await;
    let gate = connected(&[("up", http(&fixture.url(), "classification: PUBLIC"))]).await;
    let agent = client(&gate, Era::Modern).await;
    let pending = agent.start(
        "tools/call",
        json!({"name": "up__slow", "arguments": {"ms": 30_000}}),
    );
    eventually("the call to be in flight", SOON, || async {
        if fixture.effects().started == 1 {
            Ok(())
        } else {
            Err("not yet".to_owned())
        }
    })
    .await;
    signal(
        worker_pid(&gate).await.unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    let answer = pending.answer().await.unwrap();
    assert!(
        answer.to_string().contains("its outcome is unknown"),
        "{answer}"
    );
    let records = found(&gate, &["--tool", "slow", "--kind", "outcome"]).await;
    assert_eq!(records[0]["verdict"], "indeterminate", "{records:#?}");
}

/// What a session had read is part of why a call was refused.
#[tokio::test]
async fn a_refused_call_has_a_lineage() {
    let (low, high) = (
        shifty(testkit::shifty::Shown::usual()).await,
        shifty(testkit::shifty::Shown::usual()).await,
    );
    let entries = [
        (
            "low",
            http(
                &low.url(),
                "classification: PUBLIC, open_world: false, tools: { fail: blocked }",
            ),
        ),
        (
            "high",
            http(&high.url(), "classification: RESTRICTED, open_world: false"),
        ),
    ];
    let gate = gate(&format!("{FLOOR_ONLY}{}", config(&entries))).await;
    for id in ["low", "high"] {
        await_state(&gate, id, "connected", SOON).await;
    }
    let agent = client(&gate, Era::Modern).await;
    assert!(
        !agent
            .call("high__say", json!({"text": "secret"}))
            .await
            .unwrap()
            .is_error
    );
    let refused = agent
        .call("low__say", json!({"text": "out"}))
        .await
        .unwrap();
    assert_refused(
        &refused,
        "WouldViolateWriteDown",
        "Would violate write-down",
    );
    agent.call("low__nothing", json!({})).await.unwrap();
    let records = records(&gate).await;
    let read = records
        .iter()
        .find(|record| record["kind"] == "intent")
        .unwrap()["call"]
        .as_str()
        .unwrap()
        .to_owned();
    let refusals: Vec<&Value> = records
        .iter()
        .filter(|record| record["kind"] == "refusal")
        .collect();
    assert_eq!(refusals.len(), 2, "{refusals:#?}");
    for refusal in refusals {
        assert!(
            refusal["after"] == read
                && refusal["label"].as_str().unwrap().starts_with("RESTRICTED"),
            "{refusal}"
        );
        let call = refusal["call"].as_str().unwrap();
        let back = told(&gate, &["lineage", call]).await;
        assert_eq!(back["calls"][0]["call"], read, "{back}");
        let forward = told(&gate, &["lineage", &read, "--forward"]).await;
        assert!(
            forward["calls"]
                .as_array()
                .unwrap()
                .iter()
                .any(|later| later["call"] == call),
            "{forward}"
        );
        assert!(
            found(&gate, &["--lineage", call])
                .await
                .iter()
                .any(|record| record["call"] == read)
        );
    }
}
