//! What the gate holds for later has a label, an owner, a bound and an end: kept events, unread answers, parked calls, connections.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::client::{Client, Era, LEGACY, Target};
use testkit::everything::{self, HttpFixture};
use testkit::gate::Gate;
use testkit::procfs;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, UnixStream};

use crate::operator::{FLOOR_ONLY, SOON, caller, done, label};
use crate::support::{
    admin, await_state, client, config, connected, eventually, gate, http, new_token, records,
};

const PUBLIC: &str = "classification: PUBLIC, open_world: false";
const SECRET: &str = "classification: CONFIDENTIAL, open_world: false";
const MIB: u64 = 1 << 20;

/// A gate with `up`, an older server, and more in its configuration.
async fn asking(more: &str) -> (Gate, HttpFixture) {
    let legacy = HttpFixture::start(everything::Era::Legacy).await.unwrap();
    let gate = gate(&format!(
        "{more}{}",
        config(&[("up", http(&legacy.url(), PUBLIC))])
    ))
    .await;
    await_state(&gate, "up", "connected", SOON).await;
    (gate, legacy)
}

/// Asks a tool that asks back, and never comes back with the answer.
async fn abandon(gate: &Gate) {
    let asked = Client::connect(
        &gate.target().unwrap(),
        Era::Modern,
        json!({"elicitation": {}}),
        &[],
    )
    .await
    .unwrap();
    let params = json!({"name": "up__elicit_form", "arguments": {"message": "name?"}});
    let answer = asked
        .post(&asked.message(1, "tools/call", params), &[])
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
}

/// Questions that people leave open lock nobody out: neither their own caller nor the gate.
#[tokio::test]
async fn abandoned_questions_hold_no_places() {
    let (gate, up) =
        asking("limits: { max_concurrent_calls: 4, max_concurrent_calls_per_caller: 2 }\n").await;
    for _ in 0..8 {
        abandon(&gate).await;
    }
    let called = client(&gate, Era::Modern)
        .await
        .call("up__effect", json!({}))
        .await
        .unwrap();
    assert!(!called.is_error, "{}", called.answer);
    assert_eq!(up.effects().effects, 1);
    let status = admin(&gate, "GET", "status").await;
    assert_eq!(
        status.pointer("/calls/in_flight"),
        Some(&json!(0)),
        "{status}"
    );
    assert_eq!(
        status.pointer("/calls/waiting"),
        Some(&json!(8)),
        "{status}"
    );
}

/// A caller may leave so many questions open and no more; the next server that asks is told that nobody can answer.
#[tokio::test]
async fn a_caller_leaves_at_most_64_questions_open() {
    let (gate, _up) = asking("").await;
    for _ in 0..64 {
        abandon(&gate).await;
    }
    let asked = Client::connect(
        &gate.target().unwrap(),
        Era::Modern,
        json!({"elicitation": {}}),
        &[],
    )
    .await
    .unwrap();
    let params = json!({"name": "up__elicit_form", "arguments": {"message": "name?"}});
    let answer = asked
        .post(&asked.message(1, "tools/call", params), &[])
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_ne!(answer["result"]["resultType"], "input_required", "{answer}");
    let other = new_token(&gate, "other", &[]).await;
    let other = gate.target().unwrap().with_token(Some(&other));
    let other = Client::connect(&other, Era::Modern, json!({"elicitation": {}}), &[])
        .await
        .unwrap();
    let params = json!({"name": "up__elicit_form", "arguments": {"message": "name?"}});
    let answer = other
        .post(&other.message(1, "tools/call", params), &[])
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(
        answer["result"]["resultType"], "input_required",
        "another caller is not concerned: {answer}"
    );
}

/// Nobody came back: by the clock the call is cancelled, concluded and on record, with no other call to help it.
#[tokio::test]
async fn a_parked_call_ends_by_the_clock_and_is_recorded() {
    let (gate, _up) = asking("limits: { question_timeout: 1s }\n").await;
    abandon(&gate).await;
    abandon(&gate).await;
    eventually("both to end", 3 * SOON, || async {
        let status = admin(&gate, "GET", "status").await;
        let left = [
            status.pointer("/calls/waiting"),
            status.pointer("/calls/parked"),
            status.pointer("/calls/in_flight"),
        ];
        if left.iter().all(|count| *count == Some(&json!(0))) {
            Ok(())
        } else {
            Err(status.to_string())
        }
    })
    .await;
    let ended = records(&gate).await;
    let ended: Vec<_> = ended
        .iter()
        .filter(|record| record["tool"] == "elicit_form" && record["kind"] == "outcome")
        .collect();
    assert_eq!(ended.len(), 2, "{ended:?}");
    for record in ended {
        assert!(
            ["cancelled", "failed"].contains(&record["verdict"].as_str().unwrap_or_default()),
            "{record}"
        );
    }
}

/// An older client that keeps its stream open and never answers is not waited for without end either.
#[tokio::test]
async fn a_question_on_an_open_stream_ends_by_the_clock() {
    let (gate, _up) =
        asking("limits: { question_timeout: 1s, max_concurrent_calls_per_caller: 1 }\n").await;
    let silent = Client::connect(
        &gate.target().unwrap(),
        Era::Legacy,
        json!({"elicitation": {}}),
        &[],
    )
    .await
    .unwrap();
    let params = json!({"name": "up__elicit_form", "arguments": {"message": "name?"}});
    let mut stream = silent
        .post(&silent.message(7, "tools/call", params), &[])
        .await
        .unwrap()
        .messages();
    let question = stream.next().await.unwrap().unwrap();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let called = client(&gate, Era::Modern)
        .await
        .call("up__echo", json!({"text": "hi"}))
        .await
        .unwrap();
    assert!(
        !called.is_error,
        "the one place is free meanwhile: {}",
        called.answer
    );
    let last = tokio::time::timeout(3 * SOON, stream.next())
        .await
        .expect("it ends")
        .unwrap()
        .unwrap();
    assert_eq!(last["id"], 7, "{last}");
}

/// A public server and a confidential one, both with every tool.
async fn two_levels(more: &str) -> (Gate, HttpFixture, HttpFixture) {
    let (public, secret) = (
        crate::support::fixture().await,
        crate::support::fixture().await,
    );
    let entries = config(&[
        ("public", http(&public.url(), PUBLIC)),
        ("secret", http(&secret.url(), SECRET)),
    ]);
    let gate = gate(&format!("{more}{FLOOR_ONLY}{entries}")).await;
    for id in ["public", "secret"] {
        await_state(&gate, id, "connected", SOON).await;
    }
    (gate, public, secret)
}

async fn reset(gate: &Gate) {
    done(
        gate,
        &[
            "session",
            "reset",
            "agent",
            "--reason",
            "the task is over",
            "--yes",
        ],
    )
    .await;
}

/// What a stream keeps for a client that was cut off is not handed over once the session was reset.
#[tokio::test]
async fn a_reset_throws_away_what_streams_keep() {
    let (gate, public, _secret) = two_levels("").await;
    let agent = caller(&gate, "agent", &[], Era::Legacy).await;
    let session = agent.session().unwrap().to_owned();
    let params = json!({"name": "secret__slow", "arguments": {"ms": 2500}});
    let cut = agent
        .post(&agent.message(5, "tools/call", params), &[])
        .await
        .unwrap();
    assert!(
        cut.header("content-type").unwrap().contains("event-stream"),
        "a slow call gets a stream"
    );
    drop(cut);
    eventually("the call to end", SOON, || async {
        let status = admin(&gate, "GET", "status").await;
        if status.pointer("/calls/in_flight") == Some(&json!(0)) {
            Ok(())
        } else {
            Err(status.to_string())
        }
    })
    .await;
    let resume = || async {
        let headers = [
            ("mcp-session-id".to_owned(), session.clone()),
            ("mcp-protocol-version".to_owned(), LEGACY.to_owned()),
            ("accept".to_owned(), "text/event-stream".to_owned()),
            ("last-event-id".to_owned(), "1-1".to_owned()),
        ];
        agent
            .target()
            .send("GET", &headers, Vec::new())
            .await
            .unwrap()
    };
    let again = resume().await;
    assert_eq!(again.status, 200);
    let again = String::from_utf8(again.bytes().await.unwrap().to_vec()).unwrap();
    assert!(
        again.contains("slept 2500 ms"),
        "what was missed is there before the reset: {again}"
    );
    reset(&gate).await;
    assert!(
        !label(&gate, "agent").await.contains("CONFIDENTIAL"),
        "what was read is not held any more"
    );
    let refused = resume().await;
    assert_eq!(refused.status, 400);
    let sentence = refused.json().await.unwrap().to_string();
    assert!(
        sentence.contains("not, or no longer, one to resume from"),
        "{sentence}"
    );
    let told = agent.call("public__effect", json!({})).await.unwrap();
    assert!(!told.is_error, "it knows nothing: {}", told.answer);
    assert_eq!(public.effects().effects, 1);
}

/// A connection that sends one request and reads as little as the system lets it.
struct Unread(TcpStream);

impl Unread {
    async fn call(target: &Target, headers: &str, body: &Value) -> Self {
        let body = body.to_string();
        let mut this = Self::begin(target, headers, body.len()).await;
        this.0.write_all(body.as_bytes()).await.unwrap();
        this
    }

    /// The head of a request whose body is yet to come.
    async fn begin(target: &Target, headers: &str, length: usize) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let mut stream = socket.connect(target.address).await.unwrap();
        let token = target.token.as_deref().unwrap_or_default();
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\n{headers}content-length: {length}\r\n\r\n",
            target.path, target.address,
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        Self(stream)
    }

    /// A modern call of a tool.
    async fn of(agent: &Client, tool: &str, arguments: Value) -> Self {
        let message = agent.message(
            1,
            "tools/call",
            json!({"name": tool, "arguments": arguments}),
        );
        let headers = format!(
            "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: {tool}\r\n"
        );
        Self::call(agent.target(), &headers, &message).await
    }

    /// Everything that comes until the gate ends the connection.
    async fn rest(mut self) -> (Vec<u8>, Option<ErrorKind>) {
        let mut all = Vec::new();
        let ended = tokio::time::timeout(6 * SOON, self.0.read_to_end(&mut all))
            .await
            .expect("an end");
        (all, ended.err().map(|error| error.kind()))
    }
}

/// Waits until more than this waits for a reader.
async fn unread_bytes(gate: &Gate, more_than: u64) {
    eventually("an answer to wait for its reader", 3 * SOON, || async {
        let status = admin(gate, "GET", "status").await;
        let held = status
            .pointer("/calls/unread_bytes")
            .and_then(Value::as_u64)
            .unwrap_or_default();
        let in_flight = status.pointer("/calls/in_flight").and_then(Value::as_u64);
        if held > more_than && in_flight == Some(0) {
            Ok(())
        } else {
            Err(status.to_string())
        }
    })
    .await;
}

/// A result that waits in the gate for its reader is still on its way: a reset does not wash it off.
#[tokio::test]
async fn a_reset_does_not_wash_an_unread_answer_off() {
    let (gate, public, _secret) = two_levels("").await;
    let agent = caller(&gate, "agent", &[], Era::Modern).await;
    let unread = Unread::of(&agent, "secret__big", json!({"bytes": 24 * MIB})).await;
    unread_bytes(&gate, 12 * MIB).await;
    reset(&gate).await;
    assert!(
        label(&gate, "agent").await.contains("CONFIDENTIAL"),
        "{}",
        label(&gate, "agent").await
    );
    let told = agent.call("public__effect", json!({})).await.unwrap();
    assert_eq!(
        told.violation(),
        Some("WouldViolateWriteDown"),
        "{}",
        told.answer
    );
    assert_eq!(public.effects().effects, 0);
    drop(unread);
    eventually("a clean beginning once it is gone", SOON, || async {
        reset(&gate).await;
        let label = label(&gate, "agent").await;
        if label.contains("CONFIDENTIAL") {
            Err(label)
        } else {
            Ok(())
        }
    })
    .await;
}

/// The same on the line door, where a client reads nothing at all.
#[tokio::test]
async fn a_reset_does_not_wash_unread_lines_off() {
    let (gate, _public, _secret) = two_levels("").await;
    let agent = caller(&gate, "agent", &[], Era::Modern).await;
    let mut line = UnixStream::connect(gate.home().join("run/gate.sock"))
        .await
        .unwrap();
    let hello = json!({"portcullis": "hello", "token": agent.target().token});
    let message = agent.message(
        1,
        "tools/call",
        json!({"name": "secret__big", "arguments": {"bytes": 8 * MIB}}),
    );
    line.write_all(format!("{hello}\n{message}\n").as_bytes())
        .await
        .unwrap();
    eventually("the answer to wait", SOON, || async {
        let label = label(&gate, "agent").await;
        if label.contains("CONFIDENTIAL") {
            Ok(())
        } else {
            Err(label)
        }
    })
    .await;
    reset(&gate).await;
    assert!(label(&gate, "agent").await.contains("CONFIDENTIAL"));
    drop(line);
    eventually("a clean beginning once it is gone", SOON, || async {
        reset(&gate).await;
        let label = label(&gate, "agent").await;
        if label.contains("CONFIDENTIAL") {
            Err(label)
        } else {
            Ok(())
        }
    })
    .await;
}

/// A client that does not read loses its connection, and what waited for it is given back.
#[tokio::test]
async fn a_client_that_does_not_read_is_let_go() {
    let (gate, _public, _secret) = two_levels("limits: { write_timeout: 1s }\n").await;
    let agent = caller(&gate, "agent", &[], Era::Modern).await;
    let unread = Unread::of(&agent, "secret__big", json!({"bytes": 24 * MIB})).await;
    unread_bytes(&gate, 12 * MIB).await;
    eventually("the bytes to be given back", 3 * SOON, || async {
        let status = admin(&gate, "GET", "status").await;
        if status.pointer("/calls/unread_bytes") == Some(&json!(0)) {
            Ok(())
        } else {
            Err(status.to_string())
        }
    })
    .await;
    let (read, _) = unread.rest().await;
    assert!(read.len() < 24 << 20, "{} bytes came through", read.len());
}

/// Many connections of one caller that never read: the gate holds what it says it may, and not more. Others are served meanwhile.
#[tokio::test]
async fn unread_answers_are_bounded_by_a_stated_figure() {
    let (gate, _public, _secret) = two_levels("limits: { max_result_bytes: 4 MiB }\n").await;
    let greedy = caller(&gate, "greedy", &[], Era::Modern).await;
    let polite = caller(&gate, "polite", &[], Era::Modern).await;
    let before = procfs::resident_bytes(gate.pid());
    let mut unread = Vec::new();
    for _ in 0..32 {
        unread.push(Unread::of(&greedy, "public__big", json!({"bytes": 7 * MIB / 2})).await);
    }
    let (began, mut most, mut held) = (Instant::now(), 0, 0);
    while began.elapsed() < SOON {
        let status = admin(&gate, "GET", "status").await;
        held = held.max(
            status
                .pointer("/calls/unread_bytes")
                .and_then(Value::as_u64)
                .unwrap_or(u64::MAX),
        );
        most = most.max(procfs::resident_bytes(gate.pid()));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    eventually("the other caller to be served", SOON, || async {
        let called = polite
            .call("public__echo", json!({"text": "still here"}))
            .await
            .unwrap();
        if called.text == "still here" {
            Ok(())
        } else {
            Err(called.answer.to_string())
        }
    })
    .await;
    assert!(held > 8 * MIB, "the attack does not work: {held}");
    assert!(held <= 16 * MIB + MIB, "one caller holds {held}");
    // Besides unread answers: what is being worked on, and the memory shared with the worker.
    assert!(
        most < before + 256 * MIB,
        "{} MiB, {} before",
        most / MIB,
        before / MIB
    );
    drop(unread);
}

/// Many connections of one caller that send all of a long request but its end: the gate holds what it says it may, and another caller is
/// served meanwhile.
#[tokio::test]
async fn requests_that_do_not_end_are_bounded_by_a_stated_figure() {
    let (gate, _public, _secret) = two_levels("limits: { max_result_bytes: 4 MiB }\n").await;
    let greedy = caller(&gate, "greedy", &[], Era::Modern).await;
    let polite = caller(&gate, "polite", &[], Era::Modern).await;
    let before = procfs::resident_bytes(gate.pid());
    let mut open = Vec::new();
    for _ in 0..64 {
        let target = greedy.target().clone();
        // What the gate does not take stays with us; none of them is ever finished.
        open.push(tokio::spawn(async move {
            let headers = "mcp-protocol-version: 2026-07-28\r\nmcp-method: ping\r\n";
            let mut unfinished = Unread::begin(&target, headers, 3 * MIB as usize).await;
            let _ = unfinished
                .0
                .write_all(&vec![b' '; 3 * MIB as usize - 64])
                .await;
            std::future::pending::<()>().await;
        }));
    }
    let held = || async {
        admin(&gate, "GET", "status")
            .await
            .pointer("/calls/request_bytes")
            .and_then(Value::as_u64)
            .unwrap_or(u64::MAX)
    };
    eventually("the attack to work", SOON, || async {
        let bytes = held().await;
        if bytes > 8 * MIB {
            Ok(())
        } else {
            Err(format!("{bytes} bytes held"))
        }
    })
    .await;
    let (began, mut most) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(3) {
        most = most.max(procfs::resident_bytes(gate.pid()));
        let bytes = held().await;
        assert!(bytes <= 16 * MIB + MIB, "one caller holds {bytes}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(
        most < before + 96 * MIB,
        "{} MiB, {} before",
        most / MIB,
        before / MIB
    );
    let called = polite
        .call("public__echo", json!({"text": "a".repeat(1 << 20)}))
        .await
        .unwrap();
    assert!(!called.is_error, "{}", called.answer);
    open.iter().for_each(tokio::task::JoinHandle::abort);
    eventually("room again", SOON, || async {
        let bytes = held().await;
        if bytes == 0 {
            Ok(())
        } else {
            Err(format!("{bytes} bytes held"))
        }
    })
    .await;
}

async fn door(gate: &Gate) -> UnixStream {
    UnixStream::connect(gate.home().join("run/gate.sock"))
        .await
        .unwrap()
}

/// A request that its limit allows finds room, however short answers must be, over HTTP and on a line.
#[tokio::test]
async fn the_longest_request_finds_room_where_answers_are_short() {
    let limits = "limits: { max_result_bytes: 64 KiB, max_body_bytes: 4 MiB }\n";
    let (gate, _public, _secret) = two_levels(limits).await;
    let agent = caller(&gate, "agent", &[], Era::Modern).await;
    let long = json!({"text": "a".repeat(7 << 19)});
    let called = tokio::time::timeout(SOON, agent.call("public__effect", long));
    let called = called.await.expect("room at once").unwrap();
    assert!(!called.is_error, "{}", called.answer);
    let (mut lines, token) = (door(&gate).await, new_token(&gate, "line", &[]).await);
    let hello = json!({"portcullis": "hello", "token": token}).to_string();
    let call = agent.message(
        1,
        "tools/call",
        json!({"name": "public__effect", "arguments": {"text": "a".repeat(7 << 19)}}),
    );
    lines
        .write_all(format!("{hello}\n{call}\n").as_bytes())
        .await
        .unwrap();
    let mut said = Vec::new();
    let answered = async {
        while !String::from_utf8_lossy(&said).contains("\"id\":1") {
            assert!(
                lines.read_buf(&mut said).await.unwrap() > 0,
                "{}",
                String::from_utf8_lossy(&said)
            );
        }
    };
    tokio::time::timeout(SOON, answered)
        .await
        .expect("room at once");
}

/// A result that finds no room is told as what it is: the call was carried out, and nothing was too large.
#[tokio::test]
async fn a_result_without_room_says_that_the_call_was_carried_out() {
    let up = crate::support::fixture().await;
    let entry = config(&[("public", http(&up.url(), &format!("{PUBLIC}, timeout: 3s")))]);
    let gate = gate(&format!(
        "limits: {{ max_result_bytes: 4 MiB }}\n{FLOOR_ONLY}{entry}"
    ))
    .await;
    await_state(&gate, "public", "connected", SOON).await;
    let greedy = caller(&gate, "greedy", &[], Era::Modern).await;
    let mut unread = Vec::new();
    for _ in 0..4 {
        unread.push(Unread::of(&greedy, "public__big", json!({"bytes": 7 * MIB / 2})).await);
    }
    unread_bytes(&gate, 13 * MIB).await;
    let called = greedy
        .call("public__big", json!({"bytes": 7 * MIB / 2}))
        .await
        .unwrap();
    assert_eq!(
        called.violation(),
        Some("ResultDropped"),
        "{}",
        called.answer
    );
    assert!(called.text.contains("was carried out"), "{}", called.text);
    drop(unread);
    eventually("room again", SOON, || async {
        let called = greedy
            .call("public__big", json!({"bytes": 3 * MIB}))
            .await
            .unwrap();
        if called.is_error {
            Err(called.answer.to_string())
        } else {
            Ok(())
        }
    })
    .await;
}

/// Ten thousand connections that say nothing do not keep a caller out.
#[tokio::test]
async fn ten_thousand_idle_strangers_do_not_keep_a_caller_out() {
    sandbox::descriptors::raise();
    let (gate, _public, _secret) = two_levels("").await;
    let agent = caller(&gate, "agent", &[], Era::Modern).await;
    let address: SocketAddr = gate.target().unwrap().address;
    let mut strangers = Vec::new();
    for number in 0..10_000 {
        match TcpStream::connect(address).await {
            Ok(stream) => strangers.push(stream),
            // This process may have fewer descriptors than the gate; then older ones make room.
            Err(_) if !strangers.is_empty() => drop(strangers.drain(..strangers.len() / 2)),
            Err(error) => panic!("stranger {number}: {error}"),
        }
        if number % 1000 == 999 {
            let began = Instant::now();
            let called = agent
                .call("public__echo", json!({"text": "in"}))
                .await
                .unwrap();
            assert_eq!(called.text, "in", "{}", called.answer);
            assert!(began.elapsed() < SOON, "it took {:?}", began.elapsed());
        }
    }
}

/// The same on the line door.
#[tokio::test]
async fn idle_strangers_do_not_shut_the_line_door() {
    let (gate, _up) = asking("").await;
    let socket = gate.home().join("run/gate.sock");
    let mut strangers = Vec::new();
    for _ in 0..600 {
        strangers.push(UnixStream::connect(&socket).await.unwrap());
    }
    let said = tokio::time::timeout(SOON, gate.cli(&["status"]))
        .await
        .expect("an answer")
        .unwrap();
    assert_eq!(said.code, Some(0), "{said:?}");
}

/// One place on the stream of answers is not held for a client that takes long but does read.
#[tokio::test]
async fn a_slow_reader_gets_everything() {
    let (gate, _public, _secret) = two_levels("limits: { write_timeout: 2s }\n").await;
    let agent = caller(&gate, "agent", &[], Era::Modern).await;
    let mut slow = Unread::of(&agent, "public__big", json!({"bytes": 6 * MIB})).await;
    let (mut all, mut buffer) = (0usize, vec![0; 256 << 10]);
    // Slower than the gate can write, faster than it must be: more than a second passes before everything is read.
    while all < (6 << 20) {
        let read = tokio::time::timeout(SOON, slow.0.read(&mut buffer))
            .await
            .expect("more")
            .unwrap();
        assert!(read > 0, "it ended after {all} bytes");
        all += read;
        if all % (1 << 20) < read {
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
    }
}

/// Connected servers and nothing else: nothing waits, nothing is held.
#[tokio::test]
async fn an_idle_gate_holds_nothing() {
    let up = crate::support::fixture().await;
    let gate = connected(&[("up", http(&up.url(), PUBLIC))]).await;
    client(&gate, Era::Modern)
        .await
        .call("up__big", json!({"bytes": 3 * MIB}))
        .await
        .unwrap();
    eventually("nothing to be held", SOON, || async {
        let status = admin(&gate, "GET", "status").await;
        let held = ["in_flight", "waiting", "parked", "unread_bytes"]
            .map(|key| status["calls"][key].clone());
        if held.iter().all(|count| *count == json!(0)) {
            Ok(())
        } else {
            Err(status.to_string())
        }
    })
    .await;
}
