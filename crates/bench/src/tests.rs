use std::time::Duration;

use bytes::BytesMut;
use tokio::{net::TcpListener, task::LocalSet};

use super::{
    decide, floor,
    load::{self, Plan, quantile},
    options::Options,
    reply::Replies,
    template::{Address, Era, FIRST_ID},
    texts::Text,
    upstream,
};

fn collect(wire: &[u8], step: usize) -> Vec<(u16, String)> {
    let (mut replies, mut buffer, mut all) = (Replies::default(), BytesMut::new(), Vec::new());
    for piece in wire.chunks(step) {
        buffer.extend_from_slice(piece);
        while let Some(reply) = replies.take(&mut buffer).unwrap() {
            all.push((reply.status, String::from_utf8(reply.body).unwrap()));
        }
    }
    assert!(buffer.is_empty(), "left over: {buffer:?}");
    all
}

#[test]
fn replies_are_read_however_they_are_cut() {
    let wire = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nContent-Length: 5\r\n\r\n{\"a\"}HTTP/1.1 202 Accepted\r\n\r\n\
        HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n6\r\ndata: \r\n3;x=y\r\n1\n\n\r\n0\r\n\r\n";
    let expected = [(200, "{\"a\"}"), (202, ""), (200, "data: 1\n\n")]
        .map(|(status, body)| (status, body.to_owned()));
    for step in [1, 2, 3, 7, 50, 4096] {
        assert_eq!(collect(wire, step), expected, "in pieces of {step}");
    }
}

#[test]
fn broken_replies_are_told() {
    for wire in [
        "HTTP/1.1\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ] {
        let mut replies = Replies::default();
        assert!(replies.take(&mut BytesMut::from(wire)).is_err(), "{wire:?}");
    }
}

#[test]
fn an_answer_to_another_call_is_noticed() {
    let address =
        Address::new("http://127.0.0.1:1/mcp", Some("pct_x"), "echo", Era::Legacy).unwrap();
    let mut call = address.call(None, 100);
    let request = String::from_utf8(call.stamped(FIRST_ID + 7).to_vec()).unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(
        head.contains("Authorization: Bearer pct_x")
            && head.contains(&format!("Content-Length: {}", body.len()))
    );
    let answer = upstream::answer(body.as_bytes()).unwrap();
    super::reply::answers(&answer, FIRST_ID + 7).unwrap();
    assert!(super::reply::answers(&answer, FIRST_ID + 8).is_err());
    let refused = format!(
        r#"{{"id":{0},"result":{{"content":[{{"text":"{0}"}}],"isError":true}}}}"#,
        FIRST_ID + 7
    );
    assert!(super::reply::answers(refused.as_bytes(), FIRST_ID + 7).is_err());
}

#[test]
fn texts_have_the_size_asked_for() {
    for (text, size) in Text::ALL
        .into_iter()
        .flat_map(|text| [100, 101, 102, 10_000, 1_000_000].map(|size| (text, size)))
    {
        let body = super::template::call_body("echo", Era::Modern, text, size);
        let json: serde_json::Value =
            serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        let written = serde_json::to_string(&json["params"]["arguments"]["text"])
            .unwrap()
            .len()
            - 2;
        assert_eq!(written, size, "{text:?}");
    }
}

#[test]
fn quantiles_are_ranks() {
    let sorted: Vec<_> = (1..=100).map(Duration::from_micros).collect();
    let at = |q| quantile(&sorted, q).round();
    assert_eq!(
        (at(0.5), at(0.99), at(1.0), quantile(&[], 0.5)),
        (50.0, 99.0, 100.0, 0.0)
    );
}

#[test]
fn options_are_named() {
    let parse = |text: &str| Options::parse(text.split(' ').map(str::to_owned));
    let options = parse("--size 9 -- run --it").unwrap();
    assert_eq!(
        (
            options.read("size", 1).unwrap(),
            options.read("other", 1).unwrap()
        ),
        (9, 1)
    );
    assert_eq!(options.rest, ["run", "--it"]);
    assert!(
        parse("--size").is_err()
            && parse("size").is_err()
            && parse("--size x").unwrap().read("size", 1).is_err()
    );
}

/// Says nothing about how long it takes; every piece of work checks its own answer.
#[test]
fn every_decision_comes_out_as_it_should() {
    let costs = decide::measure(&decide::Plan {
        rounds: 2,
        ..decide::Plan::default()
    })
    .unwrap();
    let whats: Vec<&str> = costs.iter().map(|cost| cost.what.as_str()).collect();
    assert_eq!(
        whats[..6],
        [
            "decide-1",
            "decide-10",
            "decide-100",
            "decide-1000",
            "decide-stranger",
            "check"
        ]
    );
    assert_eq!(
        whats[6..11],
        [
            "weigh-10k",
            "injection-1k",
            "digest-1m",
            "secrets-10k",
            "secrets-10k-found"
        ]
    );
    let long =
        |text: &str| ["validate", "injection", "secrets"].map(|what| format!("{what}-1m-{text}"));
    let texts: Vec<String> = Text::ALL
        .into_iter()
        .flat_map(|text| long(text.name()))
        .chain(long("prose-plain"))
        .collect();
    assert_eq!(whats[11..], texts);
    assert!(
        costs.iter().all(|cost| cost.microseconds.len() == 2
            && cost.microseconds.iter().all(|each| *each >= 0.0))
    );
}

/// The whole bench in miniature, without a gate: upstream, floor and load in one process.
#[tokio::test(flavor = "current_thread")]
async fn direct_and_floor_answer_under_load() {
    let plan = |connections, size| Plan {
        connections,
        size,
        warm_up: Duration::from_millis(20),
        measure: Duration::from_millis(100),
        pids: vec![std::process::id()],
    };
    let run = async {
        let echo = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let front = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (behind, before) = (echo.local_addr().unwrap(), front.local_addr().unwrap());
        tokio::task::spawn_local(upstream::http(echo));
        tokio::task::spawn_local(async move { floor::run(front, &behind.to_string()).await });
        for (place, connections, size) in [
            (behind, 1, 100),
            (before, 1, 100),
            (before, 4, 10_000),
            (before, 2, 1_000_000),
        ] {
            for era in [Era::Legacy, Era::Modern] {
                let address =
                    Address::new(&format!("http://{place}/mcp"), None, "echo", era).unwrap();
                let measured = load::http(address, plan(connections, size)).await.unwrap();
                assert!(
                    measured.calls > 0 && measured.p50_us > 0.0 && measured.resident_bytes > 0,
                    "{measured:?}"
                );
            }
        }
    };
    LocalSet::new().run_until(run).await;
}
