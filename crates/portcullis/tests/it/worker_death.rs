//! The worker dies or hangs under load, many times over: callers hear of it at once, and nobody gets another's answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;
use testkit::client::{Client, Era};
use testkit::everything::HttpFixture;
use testkit::gate::{Gate, signal};

use crate::support::{
    alone, client, connected, eventually, fixture, http, percentile, stdio_everything, worker_pid,
};

const KILLS: usize = 200;
const HANGS: usize = 8;
const PENDING: u64 = 4;
const ERROR_WITHIN: Duration = Duration::from_millis(250);
const READY_WITHIN: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_kills_under_load() {
    // More of them with `WORKER_KILLS`.
    let kills = std::env::var("WORKER_KILLS").map_or(KILLS, |count| count.parse().unwrap());
    let mut told = rounds(kills, Signal::KILL).await;
    let (slowest, p99) = (
        percentile(&mut told.errors, 100),
        percentile(&mut told.readies, 99),
    );
    assert!(
        slowest <= ERROR_WITHIN,
        "a caller was told after {slowest:?}"
    );
    assert!(p99 <= READY_WITHIN, "ready again p99 {p99:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hung_worker_is_noticed_and_replaced() {
    let mut told = rounds(HANGS, Signal::STOP).await;
    let (p50, slowest, p99) = (
        percentile(&mut told.errors, 50),
        percentile(&mut told.errors, 100),
        percentile(&mut told.readies, 99),
    );
    assert!(p50 <= ERROR_WITHIN, "callers were told after {p50:?}");
    // A starved machine looks like a hung worker for a moment; the gate then looks twice.
    assert!(
        slowest <= 3 * ERROR_WITHIN,
        "a caller was told after {slowest:?}"
    );
    assert!(p99 <= READY_WITHIN, "ready again p99 {p99:?}");
}

/// Servers on stdio outlive no worker, and come back with the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stdio_servers_come_back_with_the_next_worker() {
    let gate = connected(&[("up", stdio_everything("both", "classification: PUBLIC"))]).await;
    let client = client(&gate, Era::Modern).await;
    for round in 0..5 {
        let pid = worker_pid(&gate).await.expect("a worker");
        signal(pid, Signal::KILL).unwrap();
        let text = format!("round {round}");
        eventually(
            "the server to answer again",
            Duration::from_secs(5),
            || async {
                let called = client
                    .call("up__echo", json!({"text": text}))
                    .await
                    .map_err(|error| error.to_string())?;
                if called.text == text {
                    Ok(())
                } else {
                    Err(called.answer.to_string())
                }
            },
        )
        .await;
    }
}

async fn rounds(count: usize, how: Signal) -> Told {
    let _alone = alone().await;
    let fixture = fixture().await;
    let gate = connected(&[("up", http(&fixture.url(), "classification: PUBLIC"))]).await;
    let load = Load::start(&gate).await;
    let client = client(&gate, Era::Modern).await;
    let (mut errors, mut readies) = (Vec::new(), Vec::new());
    let mut last = 0;
    for round in 0..count {
        let pid = fresh_worker(&gate, last).await;
        last = pid;
        let (slowest_error, ready) = one_round(&client, &fixture, pid, how, round).await;
        errors.push(slowest_error);
        readies.push(ready);
    }
    let (answered, failed) = load.stop().await;
    let mut told = Told { errors, readies };
    let slowest = percentile(&mut told.errors, 100);
    let (p50, p99) = (
        percentile(&mut told.readies, 50),
        percentile(&mut told.readies, 99),
    );
    println!(
        "{count} rounds: slowest error {slowest:?}, ready p50 {p50:?}, p99 {p99:?}; load: {answered} answered, {failed} failed"
    );
    assert!(answered > 0, "the load never got an answer");
    told
}

/// What the callers saw, one entry per round.
struct Told {
    /// Until the last pending call had its error.
    errors: Vec<Duration>,
    /// Until a call succeeded again.
    readies: Vec<Duration>,
}

/// Kills once; the slowest error of the pending calls, and when a call succeeded again.
async fn one_round(
    client: &Client,
    fixture: &HttpFixture,
    pid: u32,
    how: Signal,
    round: usize,
) -> (Duration, Duration) {
    let started = fixture.effects().started;
    let params = json!({"name": "up__slow", "arguments": {"ms": 30_000}});
    let pending: Vec<_> = (0..PENDING)
        .map(|_| client.start("tools/call", params.clone()))
        .collect();
    eventually(
        "the calls to be in flight",
        Duration::from_secs(5),
        || async {
            let now = fixture.effects().started - started;
            if now >= PENDING {
                Ok(())
            } else {
                Err(format!("{now} of {PENDING}"))
            }
        },
    )
    .await;
    let killed = Instant::now();
    signal(pid, how).unwrap();
    let mut slowest = Duration::ZERO;
    for call in pending {
        let answer = call
            .answer()
            .await
            .expect("a pending call gets a definite answer");
        slowest = slowest.max(killed.elapsed());
        assert_eq!(
            answer.pointer("/result/isError"),
            Some(&json!(true)),
            "{answer}"
        );
        assert_eq!(
            answer.pointer("/result/_meta/portcullis~1error/error_code"),
            Some(&json!("upstream_unavailable")),
            "{answer}"
        );
    }
    let text = format!("round {round}");
    loop {
        let called = client
            .call("up__echo", json!({"text": text}))
            .await
            .unwrap();
        if !called.is_error {
            assert_eq!(called.text, text, "a crossed answer");
            return (slowest, killed.elapsed());
        }
        assert!(
            killed.elapsed() < Duration::from_secs(10),
            "not ready after {:?}: {}",
            killed.elapsed(),
            called.answer
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn fresh_worker(gate: &Gate, last: u32) -> u32 {
    eventually("a new worker", Duration::from_secs(5), || async {
        worker_pid(gate)
            .await
            .filter(|pid| *pid != last)
            .ok_or_else(|| format!("still {last}"))
    })
    .await
}

/// Callers that never stop asking, each for a text of its own.
struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    async fn start(gate: &Gate) -> Self {
        let mut load = Self {
            stop: Arc::default(),
            answered: Arc::default(),
            failed: Arc::default(),
            tasks: Vec::new(),
        };
        for (number, era) in [Era::Legacy, Era::Modern, Era::Legacy, Era::Modern]
            .into_iter()
            .enumerate()
        {
            let client = client(gate, era).await;
            let (stop, answered, failed) = (
                load.stop.clone(),
                load.answered.clone(),
                load.failed.clone(),
            );
            load.tasks.push(tokio::spawn(async move {
                for turn in 0_u64.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let text = format!("caller {number} turn {turn}");
                    let called = client
                        .call("up__echo", json!({"text": text}))
                        .await
                        .expect("every call is answered");
                    if called.is_error {
                        failed.fetch_add(1, Ordering::Relaxed);
                    } else {
                        assert_eq!(called.text, text, "a crossed answer");
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }));
        }
        load
    }

    async fn stop(self) -> (u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.expect("no caller saw anything wrong");
        }
        (
            self.answered.load(Ordering::Relaxed),
            self.failed.load(Ordering::Relaxed),
        )
    }
}
