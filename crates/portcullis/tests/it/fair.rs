//! Nobody can take from others what they need: time, places, limits, room on the disk. And what a caller is refused is on record.

use std::time::Instant;

use serde_json::{Value, json};
use testkit::client::{Client, Era, Target};
use testkit::gate::Gate;
use tokio::io::AsyncWriteExt;

use crate::operator::{FLOOR_ONLY, SOON};
use crate::support::{
    admin, admin_target, alone, await_state, client, config, connected, eventually, fixture, gate,
    http, new_token, percentile, records,
};

const PUBLIC: &str = "classification: PUBLIC";

async fn caller(gate: &Gate, name: &str) -> Client {
    let token = new_token(gate, name, &[]).await;
    Client::plain(
        &gate.target().unwrap().with_token(Some(&token)),
        Era::Modern,
    )
    .await
    .unwrap()
}

/// A result made to be dear to look at, again and again; others' calls meanwhile take no longer than they must.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_long_odd_result_keeps_nobody_else_waiting() {
    let _alone = alone().await;
    let (odd, good) = (fixture().await, fixture().await);
    let gate = connected(&[
        ("odd", http(&odd.url(), PUBLIC)),
        ("good", http(&good.url(), PUBLIC)),
    ])
    .await;
    let (greedy, polite) = (
        client(&gate, Era::Modern).await,
        caller(&gate, "polite").await,
    );
    // Both are known to be there before it begins.
    assert!(
        !polite
            .call("good__echo", json!({"text": "x"}))
            .await
            .unwrap()
            .is_error
    );
    for piece in ["xoxb-", "8Q~", "AKIA", "-eyJaaaaaaaa"] {
        let began = Instant::now();
        let long = greedy.start(
            "tools/call",
            json!({"name": "odd__big", "arguments": {"bytes": 8 << 20, "of": piece}}),
        );
        let long = tokio::spawn(async move { (long.answer().await.unwrap(), began.elapsed()) });
        let mut took = Vec::new();
        while !long.is_finished() {
            let began = Instant::now();
            assert!(
                !polite
                    .call("good__echo", json!({"text": "x"}))
                    .await
                    .unwrap()
                    .is_error
            );
            took.push(began.elapsed());
        }
        let (answer, whole) = long.await.unwrap();
        assert!(
            answer.pointer("/result/content/0/text").is_some(),
            "{piece}"
        );
        // Of those who waited for the long one there is one call, or two. How long the slowest takes, `cargo xtask bench` measures: here
        // other tests take the processor too.
        let typical = percentile(&mut took, 50);
        assert!(
            typical < whole / 3,
            "{piece}: {typical:?} beside a call of {whole:?}"
        );
    }
}

/// One server and its callers, however greedy, leave places for others.
#[tokio::test]
async fn a_slow_server_and_greedy_callers_leave_places_for_others() {
    let (slow, good) = (fixture().await, fixture().await);
    let servers = config(&[
        ("slow", http(&slow.url(), PUBLIC)),
        ("good", http(&good.url(), PUBLIC)),
    ]);
    let limits = "limits: { max_concurrent_calls: 32, max_concurrent_calls_per_caller: 32 }\n";
    let gate = gate(&format!("{limits}{servers}")).await;
    for id in ["slow", "good"] {
        await_state(&gate, id, "connected", SOON).await;
    }
    let mut held = Vec::new();
    let refused = || async {
        admin(&gate, "GET", "status")
            .await
            .pointer("/calls/refused")
            .and_then(Value::as_u64)
            .unwrap_or(0)
    };
    for name in ["one", "two", "three", "four"] {
        let greedy = caller(&gate, name).await;
        let before = refused().await;
        let params = json!({"name": "slow__slow", "arguments": {"ms": 30_000}});
        held.extend((0..32).map(|_| greedy.start("tools/call", params.clone())));
        eventually("it to be told that it is enough", SOON, || async {
            let now = refused().await;
            if now >= before + 10 {
                Ok(())
            } else {
                Err(format!("{before} refused before, {now} now"))
            }
        })
        .await;
    }
    let polite = caller(&gate, "polite").await;
    for _ in 0..20 {
        let called = polite
            .call("good__echo", json!({"text": "x"}))
            .await
            .unwrap();
        assert!(!called.is_error, "{}", called.answer);
    }
    drop(held);
}

/// Who may not call a tool at all cannot use up the rate that others have there.
#[tokio::test]
async fn refused_calls_use_up_no_limit_that_others_share() {
    let (public, secret) = (fixture().await, fixture().await);
    let limited = "classification: PUBLIC, open_world: false, rate_limit: 3/h";
    let servers = [
        ("pub", http(&public.url(), limited)),
        (
            "sec",
            http(&secret.url(), "classification: INTERNAL, open_world: false"),
        ),
    ];
    let gate = gate(&format!("{FLOOR_ONLY}{}", config(&servers))).await;
    for id in ["pub", "sec"] {
        await_state(&gate, id, "connected", SOON).await;
    }
    let (tainted, clean) = (
        client(&gate, Era::Modern).await,
        caller(&gate, "clean").await,
    );
    assert!(
        !tainted
            .call("sec__echo", json!({"text": "x"}))
            .await
            .unwrap()
            .is_error
    );
    for _ in 0..10 {
        let called = tainted.call("pub__effect", json!({})).await.unwrap();
        assert_eq!(
            called.violation(),
            Some("WouldViolateWriteDown"),
            "{}",
            called.answer
        );
    }
    for _ in 0..3 {
        let called = clean.call("pub__effect", json!({})).await.unwrap();
        assert!(!called.is_error, "{}", called.answer);
    }
    assert_eq!(
        clean
            .call("pub__effect", json!({}))
            .await
            .unwrap()
            .violation(),
        Some("RateLimitExceeded")
    );
    assert_eq!(public.effects().effects, 3);
}

fn size_of(dir: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(dir)
        .map(|entries| entries.flatten().collect::<Vec<_>>())
        .unwrap_or_default();
    entries
        .iter()
        .map(|entry| {
            if entry.path().is_dir() {
                size_of(&entry.path())
            } else {
                entry.metadata().map_or(0, |m| m.len())
            }
        })
        .sum()
}

/// A caller that is refused over and over fills no disk, and each refusal is on record or in a count.
#[tokio::test]
async fn refusals_in_numbers_are_counted_and_fill_no_disk() {
    const CALLS: u64 = 900;
    let fixture = fixture().await;
    let mut gate = connected(&[(
        "up",
        http(
            &fixture.url(),
            "classification: PUBLIC, tools: { effect: blocked }",
        ),
    )])
    .await;
    let agent = client(&gate, Era::Modern).await;
    let before = size_of(&gate.home().join("ledger"));
    for _ in 0..CALLS {
        let called = agent
            .call("up__effect", json!({"padding": "x".repeat(30_000)}))
            .await
            .unwrap();
        assert!(called.is_error, "{}", called.answer);
    }
    assert_eq!(fixture.effects().effects, 0);
    gate.stop().await.unwrap();
    let grown = size_of(&gate.home().join("ledger")) - before;
    assert!(grown < 4 << 20, "{grown} bytes");
    let records = records(&gate).await;
    let one_by_one = records
        .iter()
        .filter(|record| record["kind"] == "refusal" && record["tool"] == "effect")
        .count() as u64;
    let counts = records
        .iter()
        .filter(|record| record["action"] == "credential.refused");
    let counted: u64 = counts.map(|record| record["count"].as_u64().unwrap()).sum();
    assert!((600..CALLS).contains(&one_by_one), "{one_by_one}");
    assert_eq!(one_by_one + counted, CALLS);
}

fn headers(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// An agent that tries its own approval, another's session or a second reading is seen.
#[tokio::test]
async fn what_a_known_caller_is_refused_at_a_door_is_on_record() {
    let fixture = fixture().await;
    let gate = connected(&[("up", http(&fixture.url(), PUBLIC))]).await;
    let owner = client(&gate, Era::Legacy).await;
    let token = new_token(&gate, "curious", &[]).await;
    let target = gate.target().unwrap().with_token(Some(&token));
    let both = ("accept", "application/json, text/event-stream");
    let json_type = ("content-type", "application/json");
    let session = ("mcp-session-id", owner.session().unwrap());
    let legacy = ("mcp-protocol-version", "2025-11-25");
    let modern = ("mcp-protocol-version", "2026-07-28");
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}});
    let call = call.to_string().into_bytes();
    type Tried<'a> = (&'a str, &'a str, Vec<(&'a str, &'a str)>, Vec<u8>);
    let tried: Vec<Tried<'_>> = vec![
        (
            "POST",
            "/v1/admin/approvals/abc/approve",
            vec![json_type],
            b"{}".to_vec(),
        ),
        (
            "POST",
            "/v1/admin/sessions/first-client/reset",
            vec![json_type],
            b"{}".to_vec(),
        ),
        (
            "POST",
            "/v1/admin/servers/up/classify",
            vec![json_type],
            b"{}".to_vec(),
        ),
        ("GET", "/v1/admin/events", vec![], Vec::new()),
        ("GET", "/v1/seal/sessions", vec![], Vec::new()),
        ("DELETE", "/v1/seal/tools", vec![], Vec::new()),
        ("GET", "/v1/nothing", vec![], Vec::new()),
        ("PUT", "/mcp", vec![], Vec::new()),
        ("GET", "/mcp", vec![both, session, legacy], Vec::new()),
        (
            "POST",
            "/mcp",
            vec![both, json_type, modern, ("mcp-method", "tools/call")],
            call,
        ),
        (
            "POST",
            "/mcp",
            vec![both, json_type, modern],
            b"{\"a\":1,\"a\":2}".to_vec(),
        ),
        ("POST", "/mcp", vec![both, json_type], vec![b' '; 5 << 20]),
    ];
    for (method, path, with, body) in &tried {
        let reply = target
            .at(path)
            .send(method, &headers(with), body.clone())
            .await
            .unwrap();
        assert!(
            (400..500).contains(&reply.status),
            "{method} {path}: {}",
            reply.status
        );
    }
    let records = records(&gate).await;
    let noted: Vec<&Value> = records
        .iter()
        .filter(|record| record["action"] == "credential.refused")
        .collect();
    for (method, path, ..) in &tried {
        let wanted = tried
            .iter()
            .filter(|other| (&other.0, &other.1) == (method, path))
            .count();
        let asked = format!("{method} {path}");
        assert_eq!(
            noted
                .iter()
                .filter(|record| record["target"] == asked.as_str())
                .count(),
            wanted,
            "{asked} among {noted:#?}"
        );
    }
    assert!(
        noted
            .iter()
            .all(|record| record["caller"].is_string() && record["violation"].is_string()),
        "{noted:#?}"
    );
    assert!(
        noted
            .iter()
            .any(|record| record["violation"] == "PermissionDenied" && record["door"] == "admin"),
        "{noted:#?}"
    );
}

const CONTEXTS: &str = "security_contexts:\n  - name: all\n    description: Everything\n    capabilities:\n      - tool_pattern: '*'\n";

async fn attest(url: String, workload: String) -> u16 {
    let key = identity::AgentKey::from_seed(&[7; 32]).unwrap();
    let body = json!({"public_key": key.public().to_base64(), "workload_id": workload});
    let target = Target::new(&url, None).unwrap().at("/v1/seal/attest");
    target
        .send(
            "POST",
            &headers(&[("content-type", "application/json")]),
            body.to_string().into_bytes(),
        )
        .await
        .unwrap()
        .status
}

/// What strangers try in vain uses up nothing that somebody with a secret needs.
#[tokio::test]
async fn bogus_attestations_do_not_keep_a_launched_workload_out() {
    let gate = gate(&format!("{FLOOR_ONLY}{CONTEXTS}mcp_servers: {{}}\n")).await;
    let operator = admin_target(&gate, "status").at("/v1/seal/workloads");
    let body = json!({"security_context": "all"}).to_string().into_bytes();
    let reply = operator
        .send(
            "POST",
            &headers(&[("content-type", "application/json")]),
            body,
        )
        .await
        .unwrap();
    let launched = reply.json().await.unwrap();
    let id = launched["workload_id"]
        .as_str()
        .unwrap_or_else(|| panic!("{launched}"))
        .to_owned();
    let (known, _) = id.split_once('.').unwrap();
    let almost = format!("{known}.{}", "0".repeat(64));
    let bogus = |at: usize| {
        if at.is_multiple_of(2) {
            almost.clone()
        } else {
            format!("wl_{at:016x}.{}", "1".repeat(64))
        }
    };
    let mut trying: tokio::task::JoinSet<u16> = tokio::task::JoinSet::new();
    for at in 0..700 {
        trying.spawn(attest(gate.url().to_owned(), bogus(at)));
        if trying.len() >= 50 {
            let status = trying.join_next().await.unwrap().unwrap();
            assert!(matches!(status, 401 | 403 | 429), "{status}");
        }
    }
    while trying.join_next().await.is_some() {}
    assert_eq!(attest(gate.url().to_owned(), id).await, 200);
}

/// Bodies that never come to their end, of people who have shown nothing, leave room for long signed calls.
#[tokio::test]
async fn dawdling_strangers_do_not_keep_long_signed_calls_out() {
    let server = crate::operator::shifty(testkit::shifty::Shown::usual()).await;
    let yaml = config(&[(
        "notes",
        http(
            &server.url(),
            "classification: PUBLIC, open_world: false, capabilities: [notes.*]",
        ),
    )]);
    let gate = gate(&format!("{FLOOR_ONLY}{CONTEXTS}{yaml}")).await;
    await_state(&gate, "notes", "connected", SOON).await;
    let agent = crate::seal::Agent::attest(&gate, &gate.token().unwrap(), 3, "all").await;
    let address = gate
        .url()
        .trim_start_matches("http://")
        .trim_end_matches("/mcp")
        .to_owned();
    let mut dawdlers = Vec::new();
    for _ in 0..40 {
        let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
        let head = format!(
            "POST /v1/seal/invoke HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{}",
            " ".repeat(70_000)
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        dawdlers.push(stream);
    }
    let (status, said) = agent
        .call("notes.say", json!({"text": "x".repeat(200_000)}))
        .await;
    assert_eq!(status, 200, "{said}");
    assert_eq!(server.calls_of("say").len(), 1);
    drop(dawdlers);
}
