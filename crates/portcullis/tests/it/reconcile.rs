//! Three ledgers reconcile: what clients were told, what the gate recorded and what the upstream did, over random kills under load.
//!
//! Acknowledged implies recorded, executed implies intended, refused implies not executed, and nothing is executed twice.
//! `RECONCILE_KILLS` asks for more kills than a check has time for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use audit::{BodyReader, Filter, Record};
use serde_json::{Value, json};
use testkit::client::{Client, Era};
use testkit::shifty::{Shifty, Shown, tool};

use crate::support::{alone, await_state, client, connected, http};

const KILLS: u64 = 25;

/// What the clients were told, by the number each of them put into its call.
#[derive(Debug, Default)]
struct Told {
    done: BTreeSet<String>,
    refused: BTreeSet<String>,
}

/// A small generator, the same on every machine (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_ledgers_agree_over_random_kills() {
    let _alone = alone().await;
    let kills = std::env::var("RECONCILE_KILLS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(KILLS);
    let mut shown = Shown::usual();
    shown.tools.push(tool("never", "Must not be called"));
    let up = Shifty::start(shown).await.unwrap();
    let entry = http(
        &up.url(),
        "classification: PUBLIC, tools: { never: blocked }",
    );
    let mut gate = connected(&[("up", entry)]).await;
    let (next, mut told, mut dice) = (Arc::new(AtomicU64::new(0)), Told::default(), Dice(kills));
    for _ in 0..kills {
        let mut callers = Vec::new();
        for era in [Era::Legacy, Era::Modern, Era::Modern] {
            let (caller, next) = (client(&gate, era).await, next.clone());
            callers.push(tokio::spawn(async move {
                call_until_the_end(&caller, &next).await
            }));
        }
        // From before the first answer to many calls later.
        let most = [100_000, 400_000, 1_200_000][dice.roll(3) as usize];
        tokio::time::sleep(Duration::from_micros(dice.roll(most))).await;
        gate.kill().unwrap();
        for caller in callers {
            let heard = caller.await.unwrap();
            told.done.extend(heard.done);
            told.refused.extend(heard.refused);
        }
        gate.start_again().await.unwrap();
        await_state(&gate, "up", "connected", Duration::from_secs(15)).await;
    }
    gate.stop().await.unwrap();
    let verified = gate.cli(&["audit", "verify"]).await.unwrap();
    assert_eq!(verified.code, Some(0), "{verified:?}");
    reconcile(&told, &up, &gate.home().join("ledger"));
}

/// Every third call is one that must be refused.
async fn call_until_the_end(caller: &Client, next: &AtomicU64) -> Told {
    let mut told = Told::default();
    loop {
        let number = next.fetch_add(1, Ordering::SeqCst);
        let text = format!("call number {number}");
        let name = if number % 3 == 2 {
            "up__never"
        } else {
            "up__say"
        };
        match caller.call(name, json!({ "text": text })).await {
            Ok(called) if called.is_error => drop(told.refused.insert(text)),
            // An answer that is no result is a refusal too.
            Ok(called) if called.answer.get("result").is_none() => drop(told.refused.insert(text)),
            Ok(_) => drop(told.done.insert(text)),
            Err(_) => return told,
        }
    }
}

fn reconcile(told: &Told, up: &Shifty, ledger: &Path) {
    let mut executed: BTreeMap<String, usize> = BTreeMap::new();
    for heard in up.calls_of("say") {
        let text = heard
            .params
            .pointer("/arguments/text")
            .and_then(Value::as_str)
            .expect("every call has its number");
        *executed.entry(text.to_owned()).or_default() += 1;
    }
    let records: Vec<Record> = audit::read(ledger, Filter::default())
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let bodies = BodyReader::open(ledger).unwrap();
    let text_of = |record: &Record| -> String {
        let body = bodies
            .get(&record.call)
            .unwrap()
            .bytes()
            .unwrap_or_else(|| panic!("the arguments of {} are lost", record.call));
        let arguments: Value = serde_json::from_slice(&body).unwrap();
        arguments["text"]
            .as_str()
            .unwrap_or_else(|| panic!("{arguments}"))
            .to_owned()
    };
    let intents: BTreeMap<u64, String> = records
        .iter()
        .filter(|record| record.kind == "intent")
        .map(|record| (record.seq, text_of(record)))
        .collect();
    let intended: BTreeSet<&String> = intents.values().collect();
    let ended: BTreeMap<&String, &str> = records
        .iter()
        .filter_map(|record| Some((intents.get(&record.intent?)?, record.verdict.as_str())))
        .collect();
    let count = |verdict: &str| ended.values().filter(|found| **found == verdict).count();
    let (permitted, indeterminate) = (count("permitted"), count("indeterminate"));
    println!(
        "{} done and {} refused by what clients heard; {} executed; {} intents, {permitted} permitted, {indeterminate} indeterminate",
        told.done.len(),
        told.refused.len(),
        executed.len(),
        intents.len()
    );
    assert!(
        told.done.len() > 10 && told.refused.len() > 10 && indeterminate > 0,
        "the kills met no load"
    );

    assert!(
        up.calls_of("never").is_empty(),
        "a refused call was executed"
    );
    assert_eq!(intents.len(), intended.len(), "a call was intended twice");
    assert_eq!(ended.len(), intents.len(), "an intent has no outcome");
    for (text, times) in &executed {
        assert_eq!(*times, 1, "{text} was executed {times} times");
        assert!(
            intended.contains(text),
            "{text} was executed and not intended"
        );
    }
    for text in &told.done {
        assert_eq!(
            ended.get(text),
            Some(&"permitted"),
            "{text} was acknowledged and is not recorded"
        );
        assert!(
            executed.contains_key(text),
            "{text} was acknowledged and never executed"
        );
    }
    for (text, verdict) in &ended {
        assert!(
            *verdict != "permitted" || executed.contains_key(*text),
            "{text} is recorded as done and was not"
        );
    }
    // Refusals of a blocked tool come before Intend; a client that heard of one has a record of it.
    let refusals = records
        .iter()
        .filter(|record| record.kind == "refusal" && record.tool == "never")
        .count();
    assert!(
        refusals >= told.refused.len(),
        "{refusals} refusals are recorded, {} were heard",
        told.refused.len()
    );
    assert!(
        told.refused.iter().all(|text| !executed.contains_key(text)),
        "a refused call was executed"
    );
}
