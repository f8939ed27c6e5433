//! Budgets: time, size and number, with a definite answer at each end.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::client::{Client, Era};
use testkit::hostile::{Hostile, Script};
use testkit::procfs;

use crate::support::{
    client, config, connected, eventually, fixture, gate, http, stdio_everything,
};

const PUBLIC: &str = "classification: PUBLIC";

/// A call that takes too long says `timeout`, and the server is told to stop.
#[tokio::test]
async fn a_timeout_says_so_and_cancels() {
    let fixture = fixture().await;
    let gate = connected(&[(
        "up",
        http(&fixture.url(), "classification: PUBLIC, timeout: 300ms"),
    )])
    .await;
    for era in [Era::Legacy, Era::Modern] {
        let before = fixture.effects();
        let began = Instant::now();
        let called = client(&gate, era)
            .await
            .call("up__slow", json!({"ms": 20_000}))
            .await
            .unwrap();
        let took = began.elapsed();
        assert!(
            (Duration::from_millis(300)..Duration::from_secs(2)).contains(&took),
            "it took {took:?}"
        );
        assert_eq!(called.error_code(), Some("timeout"), "{}", called.answer);
        assert!(called.text.contains("timeout"), "{}", called.text);
        eventually("the server to be told", Duration::from_secs(3), || async {
            let now = fixture.effects();
            if now.cancelled == before.cancelled + 1 {
                Ok(())
            } else {
                Err(format!("{now:?}"))
            }
        })
        .await;
    }
}

/// A person who is asked something may take longer than a server: the clock stands still meanwhile.
#[tokio::test]
async fn the_clock_stands_still_while_a_person_is_asked() {
    let fixture = testkit::everything::HttpFixture::start(testkit::everything::Era::Legacy)
        .await
        .unwrap();
    let gate = connected(&[(
        "up",
        http(&fixture.url(), "classification: PUBLIC, timeout: 400ms"),
    )])
    .await;
    let target = gate.target().unwrap();
    let asked = Client::connect(&target, Era::Modern, json!({"elicitation": {}}), &[])
        .await
        .unwrap();
    let params = json!({"name": "up__elicit_form", "arguments": {}});
    let first = one_answer(&asked, &asked.message(1, "tools/call", params.clone())).await;
    let state = first
        .pointer("/result/requestState")
        .cloned()
        .unwrap_or_else(|| panic!("{first}"));
    let key = first
        .pointer("/result/inputRequests")
        .and_then(Value::as_object)
        .unwrap()
        .keys()
        .next()
        .unwrap()
        .clone();
    tokio::time::sleep(Duration::from_millis(900)).await;
    let mut retry = params;
    retry["requestState"] = state;
    retry["inputResponses"] =
        json!({key: {"action": "accept", "content": {"name": "slow typist"}}});
    let answer = one_answer(&asked, &asked.message(2, "tools/call", retry)).await;
    assert!(answer.to_string().contains("slow typist"), "{answer}");
}

/// Results larger than a line of the worker's protocol arrive whole; larger than the limit, not at all.
#[tokio::test]
async fn results_arrive_whole_up_to_the_limit() {
    let fixture = fixture().await;
    let limited = "classification: PUBLIC, max_result_bytes: 4 MiB";
    let gate = connected(&[
        ("http", http(&fixture.url(), limited)),
        ("stdio", stdio_everything("both", limited)),
    ])
    .await;
    let caller = client(&gate, Era::Modern).await;
    for id in ["http", "stdio"] {
        let tool = format!("{id}__big");
        for bytes in [
            0,
            1,
            100_000,
            (1 << 20) - 200,
            1 << 20,
            (1 << 20) + 1,
            3 << 20,
        ] {
            let called = caller.call(&tool, json!({"bytes": bytes})).await.unwrap();
            assert!(!called.is_error, "{tool} {bytes}: {}", called.text);
            assert_eq!(called.text.len(), bytes, "{tool}");
        }
        let called = caller.call(&tool, json!({"bytes": 5 << 20})).await.unwrap();
        assert!(
            called.is_error && called.text.len() < 1000,
            "{tool}: {} bytes came through",
            called.text.len()
        );
        assert_eq!(
            caller.call(&tool, json!({"bytes": 10})).await.unwrap().text,
            "xxxxxxxxxx",
            "the connection survives"
        );
    }
}

/// More calls at once than allowed are refused at once, without effect.
#[tokio::test]
async fn too_many_calls_at_once_are_refused() {
    let fixture = fixture().await;
    let yaml = format!(
        "limits: {{ max_concurrent_calls: 4 }}\n{}",
        config(&[("up", http(&fixture.url(), PUBLIC))])
    );
    let gate = gate(&yaml).await;
    crate::support::await_state(&gate, "up", "connected", Duration::from_secs(10)).await;
    let caller = client(&gate, Era::Modern).await;
    let params = json!({"name": "up__slow", "arguments": {"ms": 700}});
    let pending: Vec<_> = (0..12)
        .map(|_| caller.start("tools/call", params.clone()))
        .collect();
    let (mut done, mut refused) = (0, 0);
    for call in pending {
        let answer = call.answer().await.unwrap();
        match answer
            .pointer("/result/_meta/portcullis~1error/violation")
            .and_then(Value::as_str)
        {
            Some("RateLimitExceeded") => refused += 1,
            _ if answer.to_string().contains("slept") => done += 1,
            _ => panic!("{answer}"),
        }
    }
    assert_eq!((done, refused), (4, 8));
    assert_eq!(fixture.effects().started, 4);
    assert!(
        !caller
            .call("up__echo", json!({"text": "x"}))
            .await
            .unwrap()
            .is_error,
        "there is room again"
    );
}

/// The number of sessions is bounded: whoever opens more loses their own oldest, never another's.
#[tokio::test]
async fn too_many_sessions_cost_their_owner() {
    let gate = gate("limits: { max_sessions: 3 }\nmcp_servers: {}\n").await;
    let greedy = gate.target().unwrap();
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(Client::plain(&greedy, Era::Legacy).await.unwrap());
    }
    let other = crate::support::new_token(&gate, "other", &[]).await;
    let other = greedy.with_token(Some(&other));
    Client::plain(&other, Era::Legacy)
        .await
        .expect_err("a full house ended somebody else's session");
    assert!(
        Client::plain(&other, Era::Modern)
            .await
            .unwrap()
            .tools()
            .await
            .unwrap()
            .is_empty(),
        "without sessions all goes on"
    );
    sessions.push(Client::plain(&greedy, Era::Legacy).await.unwrap());
    let mut alive = 0;
    for session in &sessions {
        let ping = session.message(1, "ping", json!({}));
        alive += u8::from(session.post(&ping, &[]).await.unwrap().status == 200);
    }
    assert_eq!(alive, 3, "one of the greedy caller's own gave way");
}

/// A call whose answer is lost is not made a second time.
#[tokio::test]
async fn a_call_is_made_at_most_once() {
    let scripts = [
        Script::CloseAt,
        Script::HangAt,
        Script::Empty,
        Script::ServerErrors,
        Script::Redirect,
        Script::ExitAtCall,
    ];
    for script in scripts {
        let upstream = Hostile::start(script, 7).await.unwrap();
        let gate = connected(&[(
            "up",
            http(&upstream.url(), "classification: PUBLIC, timeout: 500ms"),
        )])
        .await;
        let caller = client(&gate, Era::Modern).await;
        let marks: Vec<String> = (0..5).map(|turn| format!("{script} {turn}")).collect();
        for mark in &marks {
            let called = caller.call("up__act", json!({"text": mark})).await.unwrap();
            assert!(called.is_error, "{script}: {}", called.answer);
        }
        assert_eq!(upstream.account().marks, marks, "{script}");
    }
}

/// Many callers at once, both eras, both kinds of server: everybody gets what they asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_callers_get_their_own_answers() {
    let fixture = fixture().await;
    let gate = connected(&[
        ("http", http(&fixture.url(), PUBLIC)),
        ("stdio", stdio_everything("both", PUBLIC)),
    ])
    .await;
    let mut callers = Vec::new();
    for number in 0..32 {
        let era = if number % 2 == 0 {
            Era::Legacy
        } else {
            Era::Modern
        };
        let (caller, tool) = (
            client(&gate, era).await,
            if number % 4 < 2 {
                "http__echo"
            } else {
                "stdio__echo"
            },
        );
        callers.push(tokio::spawn(async move {
            for turn in 0..25 {
                let text = format!("caller {number} turn {turn} {}", "x".repeat(number * turn));
                let called = caller.call(tool, json!({"text": text})).await.unwrap();
                assert_eq!(called.text, text, "{}", called.answer);
            }
        }));
    }
    for caller in callers {
        caller.await.unwrap();
    }
}

/// Thousands of calls and hundreds of sessions leave the processes as large as they were.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_does_not_grow_with_calls() {
    let fixture = fixture().await;
    let gate = connected(&[("up", http(&fixture.url(), PUBLIC))]).await;
    let worker = crate::support::worker_pid(&gate).await.unwrap();
    let size = || procfs::resident_bytes(gate.pid()) + procfs::resident_bytes(worker);
    call_often(&gate, 500).await;
    let before = size();
    call_often(&gate, 3_000).await;
    let grown = size().saturating_sub(before) >> 20;
    assert!(
        grown <= 8,
        "grew by {grown} MiB over 3,000 calls, from {} MiB",
        before >> 20
    );
}

/// A tenth of the calls come in sessions of their own.
async fn call_often(gate: &testkit::gate::Gate, calls: usize) {
    let caller = client(gate, Era::Modern).await;
    for turn in 0..calls {
        let text = format!("turn {turn}");
        let called = if turn % 10 == 0 {
            client(gate, Era::Legacy)
                .await
                .call("up__echo", json!({"text": text}))
                .await
        } else {
            caller.call("up__echo", json!({"text": text})).await
        };
        assert_eq!(called.unwrap().text, text);
    }
}

/// A server gets the credential its entry names, and never the caller's.
#[tokio::test]
async fn credentials_reach_their_own_server_only() {
    let (first, second) = (
        Hostile::start(Script::Honest, 1).await.unwrap(),
        Hostile::start(Script::Honest, 1).await.unwrap(),
    );
    let yaml = config(&[
        (
            "first",
            http(
                &first.url(),
                "classification: PUBLIC, bearer: env:FIRST_TOKEN",
            ),
        ),
        ("second", http(&second.url(), PUBLIC)),
    ]);
    let setup = testkit::gate::Setup::new(crate::support::portcullis(), yaml);
    let gate = setup
        .env("FIRST_TOKEN", "the-first-servers-token")
        .start()
        .await
        .unwrap();
    for id in ["first", "second"] {
        crate::support::await_state(&gate, id, "connected", Duration::from_secs(10)).await;
        let called = client(&gate, Era::Modern)
            .await
            .call(&format!("{id}__echo"), json!({"text": id}))
            .await
            .unwrap();
        assert_eq!(called.text, id, "{}", called.answer);
    }
    let seen = first.account().authorizations;
    assert!(
        !seen.is_empty()
            && seen
                .iter()
                .all(|header| header == "Bearer the-first-servers-token"),
        "{seen:?}"
    );
    assert_eq!(second.account().authorizations, Vec::<String>::new());
    let told =
        gate.output() + &serde_json::to_string(&crate::support::records(&gate).await).unwrap();
    assert!(
        !told.contains("the-first-servers-token"),
        "the credential was printed or recorded"
    );
}

async fn one_answer(client: &Client, message: &Value) -> Value {
    let mut messages = client.post(message, &[]).await.unwrap().messages();
    loop {
        let next = messages.next().await.unwrap().expect("an answer");
        if next.get("method").is_none() {
            return next;
        }
    }
}
