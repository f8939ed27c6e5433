//! Messages above the cap: whom they are for is told at once, wherever the id stands, and nobody else is disturbed.

use std::{
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::support::{
    Worker,
    http::{self, Server},
    pipes::PipeServer,
};

const CAP: usize = 64 << 10;

fn long() -> String {
    "x".repeat(2 * CAP)
}

fn connect(worker: &mut Worker) -> PipeServer {
    let mut server = PipeServer::hand_over(&worker.handover, 7);
    let params = json!({"server": "p", "generation": 1, "transport": {"stdio": {"handover": 7}}, "timeout_ms": 5000, "max_result_bytes": CAP});
    let id = worker.ask("connect", params);
    server.greet(&json!({"tools": {}}));
    assert_eq!(worker.end(id)["result"]["era"], "legacy");
    server
}

fn call(worker: &mut Worker, server: &str) -> u64 {
    worker.forward(
        server,
        "tools/call",
        json!({"name": "t"}),
        json!({"timeout_ms": 20_000}),
    )
}

#[test]
fn an_answer_above_the_cap_is_told_at_once_wherever_its_id_stands() {
    let mut worker = Worker::empty();
    let mut server = connect(&mut worker);
    let (long, other) = (long(), call(&mut worker, "p"));
    let bystander = server.read();
    let forms: [fn(&Value, &Value, &str) -> String; 6] = [
        |id, _, long| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"text":"{long}"}}}}"#),
        |id, _, long| format!(r#"{{"result":{{"text":"{long}"}},"jsonrpc":"2.0","id":{id}}}"#),
        |id, other, long| {
            format!(
                r#"{{"result":{{"id":{other},"text":"{long}","more":[{{"id":{other}}}]}},"id":{id}}}"#
            )
        },
        |id, other, long| {
            format!(r#"{{"result":"\"id\":{other},{long}\\","jsonrpc":"2.0", "\u0069d" : {id} }}"#)
        },
        |id, _, long| {
            format!(r#"{{"error":{{"code":1,"message":"{long}"}},"jsonrpc":"2.0","id":{id}}}"#)
        },
        |id, _, long| {
            format!(r#"{{"id":{id},"result":{{"text":"{long}"}},"jsonrpc":"2.0","id":{id}}}"#)
        },
    ];
    for form in forms {
        let id = call(&mut worker, "p");
        let asked = server.read();
        server.raw(format!("{}\n", form(&asked["id"], &bystander["id"], &long)).as_bytes());
        let end = worker.end(id);
        assert_eq!(end["kind"], "too_large", "{end}");
        assert!(
            end["error"].as_str().unwrap().contains(" bytes"),
            "it says how large: {end}"
        );
    }
    server.result(&bystander, json!({"for": "the other"}));
    assert_eq!(
        worker.end(other)["result"]["for"],
        "the other",
        "what only looks like an answer to it was none"
    );
}

#[test]
fn an_answer_that_cannot_be_read_is_told_at_once_wherever_its_id_stands() {
    let mut worker = Worker::empty();
    let mut server = connect(&mut worker);
    for broken in [
        r#"{"n":NaN}"#,
        r#"{"a":1,"a":2}"#,
        r#"{"text":"\ud800"}"#,
        &"[".repeat(300),
    ] {
        let id = call(&mut worker, "p");
        let asked = server.read();
        let closed = if broken.starts_with('[') {
            "]".repeat(300)
        } else {
            String::new()
        };
        server.raw(
            format!(
                "{{\"result\":{broken}{closed},\"jsonrpc\":\"2.0\",\"id\":{}}}\n",
                asked["id"]
            )
            .as_bytes(),
        );
        let end = worker.end(id);
        assert_eq!(end["kind"], "invalid", "{broken}: {end}");
    }
}

#[test]
fn a_servers_own_words_above_the_cap_fail_no_call() {
    let mut worker = Worker::empty();
    let mut server = connect(&mut worker);
    let id = call(&mut worker, "p");
    let asked = server.read();
    let long = long();
    // The server counts its own requests; that one of them has the number of a call means nothing.
    server.raw(
        format!(
            "{{\"params\":{{\"x\":\"{long}\"}},\"id\":{},\"method\":\"roots/list\"}}\n",
            asked["id"]
        )
        .as_bytes(),
    );
    let told = server.read();
    assert_eq!(
        (&told["id"], told.get("error").is_some()),
        (&asked["id"], true),
        "who asks is told: {told}"
    );
    server.raw(
        format!("{{\"method\":\"notifications/message\",\"params\":{{\"data\":\"{long}\"}}}}\n")
            .as_bytes(),
    );
    server.result(&asked, json!({"done": true}));
    assert_eq!(worker.end(id)["result"]["done"], true);
}

#[test]
fn a_server_whose_list_is_above_the_cap_says_so_when_it_is_listed() {
    let mut worker = Worker::empty();
    let mut server = connect(&mut worker);
    let id = worker.ask("catalog", json!({"server": "p"}));
    let asked = server.read();
    assert_eq!(asked["method"], "tools/list");
    let tool = format!(r#"{{"name":"t","description":"{}"}}"#, long());
    server.raw(
        format!(
            "{{\"result\":{{\"tools\":[{tool}]}},\"jsonrpc\":\"2.0\",\"id\":{}}}\n",
            asked["id"]
        )
        .as_bytes(),
    );
    let end = worker.end(id);
    assert_eq!(end["kind"], "too_large", "{end}");
}

#[test]
fn an_event_above_the_cap_ends_its_own_call_and_is_not_fetched_again() {
    let server = Server::start(|request, reply| {
        if http::legacy(request, reply, &json!({"tools": {}})) {
            return;
        }
        reply.stream();
        reply.chunk("id: 1\ndata: \n\n");
        let notification = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": long()}});
        reply.chunk(&format!("id: 2\ndata: {notification}\n\n"));
        let text = if request.json()["params"]["name"] == "t" {
            long()
        } else {
            "short".to_owned()
        };
        reply.chunk(&format!(
            "id: 3\ndata: {{\"result\":{{\"text\":\"{text}\"}},\ndata: \"jsonrpc\":\"2.0\",\"id\":{}}}\n\n",
            request.json()["id"]
        ));
        reply.end_stream();
    });
    let mut worker = Worker::empty();
    worker.connect_http("s", &server.url(), json!({"max_result_bytes": CAP}));
    let id = call(&mut worker, "s");
    assert_eq!(worker.end(id)["kind"], "too_large");
    let id = worker.forward("s", "tools/call", json!({"name": "short"}), json!({}));
    assert_eq!(
        worker.end(id)["result"]["text"],
        "short",
        "what the server says besides does not matter"
    );
    let resumed = server
        .requests()
        .iter()
        .any(|request| request.header("last-event-id").is_some());
    assert!(!resumed, "it would be as large again");
}

#[test]
fn an_event_above_the_cap_on_a_shared_stream_costs_that_event_only() {
    let queue: Arc<Mutex<Vec<Value>>> = Arc::default();
    let (posts, stream) = (Arc::clone(&queue), queue);
    let server = Server::start(move |request, reply| {
        if request.verb == "POST" {
            if request.path != "/messages" {
                return reply.respond(405, &[], b"");
            }
            posts.lock().unwrap().push(request.json());
            return reply.accepted();
        }
        reply.stream();
        reply.chunk("event: endpoint\ndata: /messages\n\n");
        loop {
            thread::sleep(Duration::from_millis(2));
            for message in stream.lock().unwrap().drain(..) {
                let id = &message["id"];
                let result = match message["method"].as_str() {
                    Some("initialize") => {
                        json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": {"name": "old", "version": "0"}})
                    }
                    Some("tools/call") if message["params"]["name"] == "t" => {
                        json!({ "text": long() })
                    }
                    Some("tools/call") => json!({"text": "short"}),
                    _ => continue,
                };
                if !reply.chunk(&format!(
                    "data: {{\"result\":{result},\"jsonrpc\":\"2.0\",\"id\":{id}}}\n\n"
                )) {
                    return;
                }
            }
        }
    });
    let mut worker = Worker::empty();
    let connected = worker.connect_http("s", &server.url(), json!({"max_result_bytes": CAP}));
    assert_eq!(connected["result"]["protocol"], "2024-11-05");
    for _ in 0..2 {
        let id = call(&mut worker, "s");
        assert_eq!(worker.end(id)["kind"], "too_large");
        let id = worker.forward("s", "tools/call", json!({"name": "short"}), json!({}));
        assert_eq!(
            worker.end(id)["result"]["text"],
            "short",
            "the connection lives on"
        );
    }
}
