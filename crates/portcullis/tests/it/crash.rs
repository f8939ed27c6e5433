//! The gate itself is killed under load: what was done is on record, and what is unknown is called unknown.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::client::{Client, Era};

use crate::support::{await_state, client, connected, fixture, http, records};

const ROUNDS: usize = 5;

/// Done implies intended, answered implies concluded, and nothing stays open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_gate_leaves_no_effect_unrecorded() {
    let fixture = fixture().await;
    let mut gate = connected(&[("up", http(&fixture.url(), "classification: PUBLIC"))]).await;
    let mut acknowledged = 0;
    for round in 0..ROUNDS {
        let mut callers = Vec::new();
        for era in [Era::Legacy, Era::Modern, Era::Legacy, Era::Modern] {
            let caller = client(&gate, era).await;
            callers.push(tokio::spawn(
                async move { call_until_the_end(&caller).await },
            ));
        }
        // A different moment in every round.
        tokio::time::sleep(Duration::from_millis(
            150 + 37 * u64::try_from(round).unwrap(),
        ))
        .await;
        gate.kill().unwrap();
        for caller in callers {
            acknowledged += caller.await.unwrap();
        }
        gate.start_again().await.unwrap();
        await_state(&gate, "up", "connected", Duration::from_secs(10)).await;
    }
    assert!(acknowledged > 0, "the load never got through");
    let done = fixture.effects().effects;
    let records = records(&gate).await;
    let intents: Vec<&Value> = records
        .iter()
        .filter(|record| record["kind"] == "intent" && record["tool"] == "effect")
        .collect();
    let ours: BTreeSet<String> = intents
        .iter()
        .map(|intent| intent["seq"].to_string())
        .collect();
    // A call is known by its intent: after a crash the one who concludes it knows nothing else of it.
    let outcomes: Vec<&Value> = records
        .iter()
        .filter(|record| ours.contains(&record["intent"].to_string()))
        .collect();
    let verdict = |name: &str| {
        outcomes
            .iter()
            .filter(|outcome| outcome["verdict"] == name)
            .count() as u64
    };
    println!(
        "{done} done, {acknowledged} acknowledged, {} intents, {} indeterminate",
        intents.len(),
        verdict("indeterminate")
    );
    assert!(
        done <= intents.len() as u64,
        "{done} effects, {} intents",
        intents.len()
    );
    assert!(
        acknowledged <= verdict("permitted"),
        "{acknowledged} answers, {} outcomes",
        verdict("permitted")
    );
    assert!(done >= verdict("permitted"), "more outcomes than effects");
    let ended = ["permitted", "failed", "indeterminate", "cancelled"]
        .iter()
        .map(|name| verdict(name))
        .sum::<u64>();
    let verdicts: BTreeSet<String> = outcomes
        .iter()
        .map(|outcome| outcome["verdict"].to_string())
        .collect();
    assert!(
        done <= ended,
        "{done} effects, {ended} outcomes of these kinds: {verdicts:?}"
    );
    let closed: BTreeSet<String> = outcomes
        .iter()
        .map(|outcome| outcome["intent"].to_string())
        .collect();
    let open: Vec<&&Value> = intents
        .iter()
        .filter(|intent| !closed.contains(&intent["seq"].to_string()))
        .collect();
    assert!(open.is_empty(), "intents without an outcome: {open:?}");
    let verified = gate.cli(&["audit", "verify"]).await.unwrap();
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

/// A changed byte in the ledger is found, and said where.
#[tokio::test]
async fn an_altered_ledger_is_noticed() {
    let fixture = fixture().await;
    let mut gate = connected(&[("up", http(&fixture.url(), "classification: PUBLIC"))]).await;
    client(&gate, Era::Modern)
        .await
        .call("up__effect", json!({}))
        .await
        .unwrap();
    gate.stop().await.unwrap();
    assert_eq!(gate.cli(&["audit", "verify"]).await.unwrap().code, Some(0));
    let path = gate.home().join("ledger/00000000000000000000.log");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(
        &path,
        text.replacen("\"tool\":\"effect\"", "\"tool\":\"innocent\"", 1),
    )
    .unwrap();
    let verified = gate.cli(&["audit", "verify"]).await.unwrap();
    assert_eq!(verified.code, Some(6), "{verified:?}");
    assert!(
        format!("{}{}", verified.stdout, verified.stderr).contains("00000000000000000000.log"),
        "{verified:?}"
    );
}

/// Calls `effect` until the gate is gone; how many calls were answered as done.
async fn call_until_the_end(caller: &Client) -> u64 {
    let mut answered = 0;
    while let Ok(called) = caller.call("up__effect", json!({})).await {
        answered += u64::from(!called.is_error);
    }
    answered
}
