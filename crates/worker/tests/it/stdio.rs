//! Stdio servers through handed-over pipes: attribution, garbage, death.

use std::{os::fd::AsFd, thread, time::Duration};

use crate::support::{Worker, merge, pipes::PipeServer};
use serde_json::{Value, json};

/// Connects to a scripted legacy stdio server.
fn connect(worker: &mut Worker, name: &str, tag: u64, more: Value) -> PipeServer {
    let mut server = PipeServer::hand_over(&worker.handover, tag);
    let mut params = json!({"server": name, "generation": 1, "transport": {"stdio": {"handover": tag}}, "timeout_ms": 5000});
    merge(&mut params, more);
    let id = worker.ask("connect", params);
    server.greet(&json!({"tools": {}}));
    let connected = worker.end(id);
    assert_eq!(connected["result"]["protocol"], "2025-06-18", "{connected}");
    server
}

#[test]
fn calls_overlap_and_replies_find_their_way() {
    let mut worker = Worker::empty();
    let mut server = connect(&mut worker, "p", 7, json!({}));
    let first = worker.forward(
        "p",
        "tools/call",
        json!({"name": "a"}),
        json!({"progress": true}),
    );
    let second = worker.forward("p", "tools/call", json!({"name": "b"}), json!({}));
    let (one, two) = (server.read(), server.read());
    assert_eq!(one["params"]["_meta"]["progressToken"], one["id"]);
    server.result(&two, json!({"for": "b"}));
    server.write(
        &json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": one["id"], "progress": 0.5}}),
    );
    server.write(
        &json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": two["id"], "progress": 9}}),
    );
    server.result(&one, json!({"for": "a"}));
    assert_eq!(worker.end(second)["result"]["for"], "b");
    assert_eq!(
        worker.event(first, "progress")["params"],
        json!({"progress": 0.5})
    );
    assert_eq!(worker.end(first)["result"]["for"], "a");
}

#[test]
fn a_modern_stdio_server_is_recognised_and_listened_to() {
    let mut worker = Worker::empty();
    let watch = worker.ask("watch", json!({}));
    let mut server = PipeServer::hand_over(&worker.handover, 1);
    let id = worker.ask(
        "connect",
        json!({"server": "m", "generation": 4, "transport": {"stdio": {"handover": 1}}}),
    );
    let probe = server.read();
    assert_eq!(
        probe["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"],
        "2026-07-28"
    );
    server.result(&probe, json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": true}}, "serverInfo": {"name": "m", "version": "1"}}));
    let listen = server.read();
    assert_eq!(listen["method"], "subscriptions/listen");
    let meta = json!({"io.modelcontextprotocol/subscriptionId": listen["id"]});
    server.write(&json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {"_meta": meta}}));
    assert_eq!(worker.end(id)["result"]["era"], "modern");
    server.write(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": meta}}));
    assert_eq!(
        worker.event(watch, "changed"),
        json!({"id": watch, "event": "changed", "server": "m", "generation": 4, "what": "tools"})
    );
    let call = worker.forward("m", "tools/call", json!({"name": "t"}), json!({}));
    let seen = server.read();
    assert!(seen["params"]["_meta"]["io.modelcontextprotocol/clientInfo"].is_object());
    worker.call("cancel", json!({"call": call}));
    let told = server.read();
    assert_eq!(
        (&told["method"], &told["params"]["requestId"]),
        (&json!("notifications/cancelled"), &seen["id"])
    );
    assert_eq!(worker.end(call)["kind"], "cancelled");
}

#[test]
fn a_silent_server_counts_as_legacy_after_a_moment() {
    let mut worker = Worker::empty();
    let mut server = PipeServer::hand_over(&worker.handover, 3);
    let id = worker.ask(
        "connect",
        json!({"server": "slow", "generation": 1, "transport": {"stdio": {"handover": 3}}}),
    );
    let probe = server.read();
    let opening = server.read();
    assert_eq!(opening["method"], "initialize");
    server.result(&probe, json!({"supportedVersions": ["2026-07-28"]}));
    server.result(
        &opening,
        json!({"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {}}),
    );
    assert_eq!(worker.end(id)["result"]["protocol"], "2024-11-05");
}

#[test]
fn questions_go_to_the_only_lane_or_to_nobody() {
    let mut worker = Worker::empty();
    let mut server = connect(&mut worker, "p", 1, json!({"allow": {"elicitation": true}}));
    let caps = |lane: &str| json!({"lane": lane, "caps": {"elicitation": {}}});
    let question = |id: &str| json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {"message": id}});

    server.write(&question("nobody"));
    let refused = server.read();
    assert_eq!(
        (&refused["id"], &refused["error"]["code"]),
        (&json!("nobody"), &json!(-32601)),
        "no call is under way"
    );

    let older = worker.forward("p", "tools/call", json!({"name": "a"}), caps("alice"));
    let newer = worker.forward("p", "tools/call", json!({"name": "b"}), caps("alice"));
    let (one, two) = (server.read(), server.read());
    server.write(&question("same lane"));
    let ask = worker.event(newer, "ask");
    assert_eq!(
        ask["params"]["message"], "same lane",
        "the newest call of the only lane is asked"
    );
    worker.call(
        "answer",
        json!({"call": newer, "key": ask["key"], "error": {"code": -1, "message": "no"}}),
    );
    assert_eq!(server.read()["error"]["code"], -1);

    let other = worker.forward("p", "tools/call", json!({"name": "c"}), caps("bob"));
    let three = server.read();
    server.write(&question("two lanes"));
    let refused = server.read();
    assert_eq!(
        (&refused["id"], &refused["error"]["code"]),
        (&json!("two lanes"), &json!(-32601)),
        "it could be either's, so it is nobody's"
    );
    for (request, id) in [(one, older), (two, newer), (three, other)] {
        server.result(&request, json!({}));
        assert_eq!(worker.end(id)["result"], json!({}));
    }
}

#[test]
fn logs_without_a_certain_owner_go_to_the_watchers() {
    let mut worker = Worker::empty();
    let watch = worker.ask("watch", json!({}));
    let mut server = connect(&mut worker, "p", 1, json!({}));
    let log = |text: &str| json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": text}});
    server.write(&log("idle"));
    assert_eq!(worker.event(watch, "log")["params"]["data"], "idle");
    let id = worker.forward(
        "p",
        "tools/call",
        json!({"name": "a"}),
        json!({"lane": "x"}),
    );
    let request = server.read();
    server.write(&log("mine"));
    assert_eq!(worker.event(id, "log")["params"]["data"], "mine");
    let second = worker.forward(
        "p",
        "tools/call",
        json!({"name": "b"}),
        json!({"lane": "y"}),
    );
    let other = server.read();
    server.write(&log("whose"));
    assert_eq!(worker.event(watch, "log")["params"]["data"], "whose");
    server.result(&request, json!({}));
    server.result(&other, json!({}));
    worker.end(id);
    worker.end(second);
}

#[test]
fn garbage_costs_nothing_but_itself() {
    let mut worker = Worker::empty();
    let mut server = connect(&mut worker, "p", 1, json!({"max_result_bytes": 65536}));
    let id = worker.forward("p", "tools/call", json!({"name": "a"}), json!({}));
    let request = server.read();
    server.raw(b"Starting up...\n\n\x00\xff\xfe\n{\"half\": \n[]\n");
    server.write(&json!({"jsonrpc": "2.0", "id": 123_456, "result": {}}));
    server.write(&json!({"jsonrpc": "2.0", "id": "text", "result": {}}));
    server.write(&json!({"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "?"}}));
    server.raw(&[b'x'; 200_000]);
    server.raw(b"\n");
    server.result(&request, json!({"ok": 1}));
    server.result(&request, json!({"ok": 2}));
    assert_eq!(worker.end(id)["result"], json!({"ok": 1}));
    assert!(
        worker.silent(id, Duration::from_millis(100)),
        "a second reply is dropped"
    );

    let id = worker.forward("p", "tools/call", json!({"name": "a"}), json!({}));
    let request = server.read();
    server.raw(
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"a\":1,\"a\":2}}}}\n",
            request["id"]
        )
        .as_bytes(),
    );
    let end = worker.end(id);
    assert_eq!(end["kind"], "invalid", "{end}");
    assert!(end["error"].as_str().unwrap().contains("duplicate key"));

    let id = worker.forward("p", "tools/call", json!({"name": "a"}), json!({}));
    let request = server.read();
    server.result(&request, json!({"text": "y".repeat(100_000)}));
    assert_eq!(worker.end(id)["kind"], "too_large");
}

#[test]
fn a_server_that_dies_fails_its_calls_at_once_and_is_reported() {
    let mut worker = Worker::empty();
    let watch = worker.ask("watch", json!({}));
    let mut server = connect(&mut worker, "p", 1, json!({}));
    let id = worker.forward("p", "tools/call", json!({"name": "a"}), json!({}));
    server.read();
    server.stdout = None;
    let end = worker.end(id);
    assert_eq!(end["kind"], "upstream");
    assert!(end["error"].as_str().unwrap().contains("closed its output"));
    let closed = worker.event(watch, "closed");
    assert_eq!(
        (&closed["server"], &closed["generation"]),
        (&json!("p"), &json!(1))
    );
    let id = worker.forward("p", "tools/call", json!({"name": "a"}), json!({}));
    assert_eq!(worker.end(id)["error"], "server not connected: p");
}

#[test]
fn descriptors_may_come_late_but_not_never() {
    let mut worker = Worker::empty();
    let missing = worker.call(
        "connect",
        json!({"server": "p", "generation": 1, "transport": {"stdio": {"handover": 99}}}),
    );
    assert_eq!(missing["kind"], "not_found");
    let id = worker.ask(
        "connect",
        json!({"server": "p", "generation": 1, "transport": {"stdio": {"handover": 5}}}),
    );
    thread::sleep(Duration::from_millis(100));
    let mut server = PipeServer::hand_over(&worker.handover, 5);
    server.greet(&json!({}));
    assert_eq!(worker.end(id)["result"]["era"], "legacy");
}

#[test]
fn more_calls_than_the_bound_wait_their_turn_and_can_still_be_cancelled() {
    let mut worker = Worker::empty();
    let mut server = connect(&mut worker, "p", 1, json!({}));
    let ids: Vec<_> = (0..300)
        .map(|n| {
            worker.forward(
                "p",
                "tools/call",
                json!({"name": "t", "arguments": {"n": n}}),
                json!({"timeout_ms": 20000}),
            )
        })
        .collect();
    let under_way: Vec<_> = (0..256).map(|_| server.read()).collect();
    assert!(
        server
            .lines
            .recv_timeout(Duration::from_millis(100))
            .is_err(),
        "the 257th waits"
    );
    assert_eq!(worker.call("cancel", json!({"call": ids[299]}))["ok"], true);
    assert_eq!(worker.end(ids[299])["kind"], "cancelled");
    for request in &under_way {
        server.result(request, request["params"]["arguments"].clone());
    }
    for _ in 256..299 {
        let request = server.read();
        let arguments = request["params"]["arguments"].clone();
        server.result(&request, arguments);
    }
    for (n, id) in ids.iter().enumerate().take(299) {
        assert_eq!(worker.end(*id)["result"], json!({"n": n}));
    }
}

#[test]
fn a_server_that_does_not_read_holds_up_nobody_and_lets_go_when_disconnected() {
    let mut worker = Worker::empty();
    let (stdin_read, stdin_write) = std::io::pipe().unwrap();
    let (stdout_read, stdout_write) = std::io::pipe().unwrap();
    worker
        .handover
        .send(9, b"", &[stdin_write.as_fd(), stdout_read.as_fd()])
        .unwrap();
    drop((stdin_write, stdout_read));
    let id = worker
        .ask("connect", json!({"server": "deaf", "generation": 1, "transport": {"stdio": {"handover": 9}}, "timeout_ms": 1000}));
    assert_eq!(worker.end(id)["kind"], "timeout");
    drop(stdout_write);
    // What was written before is still there, then comes the end: the worker holds the pipe no more.
    let mut text = String::new();
    std::io::Read::read_to_string(&mut { stdin_read }, &mut text).unwrap();
    assert!(text.contains("server/discover"));
    let mut server = connect(&mut worker, "other", 10, json!({}));
    let id = worker.forward("other", "tools/call", json!({"name": "a"}), json!({}));
    let request = server.read();
    server.result(&request, json!({}));
    worker.end(id);
}

#[test]
fn a_hung_server_fails_its_health_check() {
    let mut worker = Worker::empty();
    let mut server = connect(&mut worker, "p", 1, json!({}));
    let id = worker.ask("health", json!({"server": "p", "timeout_ms": 200}));
    assert_eq!(server.read()["method"], "ping");
    assert_eq!(worker.end(id)["kind"], "timeout");
    let id = worker.ask("health", json!({"server": "p"}));
    let ping = server.read();
    server.result(&ping, json!({}));
    assert_eq!(worker.end(id)["ok"], true);
}

#[test]
fn an_endless_line_is_not_kept() {
    let mut worker = Worker::empty();
    let mut server = connect(&mut worker, "p", 1, json!({}));
    let mut most = 0;
    for _ in 0..96 {
        server.raw(&vec![b'x'; 1 << 20]);
        most = most.max(worker.resident_bytes());
    }
    server.raw(b"\n");
    let id = worker.forward("p", "tools/call", json!({"name": "a"}), json!({}));
    let request = server.read();
    server.result(&request, json!({}));
    assert_eq!(worker.end(id)["result"], json!({}));
    assert!(most < 96 << 20, "the worker grew to {most} bytes");
}
