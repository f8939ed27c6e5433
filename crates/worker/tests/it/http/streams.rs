//! Streams that break, close or stay open, and what is told on them.

use super::*;

#[test]
fn a_closed_stream_is_resumed_where_it_broke() {
    let server = Server::start(|request, reply| {
        if request.verb == "GET" {
            let Some(last) = request.header("last-event-id") else {
                return reply.respond(405, &[], b"");
            };
            let id: u64 = last.strip_prefix("event-").unwrap().parse().unwrap();
            reply.stream();
            reply.event(&json!({"jsonrpc": "2.0", "id": id, "result": done("resumed")}));
            return reply.end_stream();
        }
        if http::legacy(request, reply, &json!({"tools": {}})) {
            return;
        }
        reply.stream();
        reply.chunk(&format!(
            "id: event-{}\nretry: 300\ndata:\n\n",
            request.json()["id"]
        ));
        reply.end_stream();
    });
    let mut worker = Worker::empty();
    worker.connect_http("s", &server.url(), json!({}));
    let id = worker.forward("s", "tools/call", json!({"name": "t"}), json!({}));
    assert_eq!(worker.end(id)["result"], done("resumed"));
    let call = server.wait("the call", |request| request.method() == "tools/call");
    let resumed = server.wait("the resumption", |request| {
        request.header("last-event-id").is_some()
    });
    assert!(
        resumed.at - call.at >= Duration::from_millis(290),
        "the server's retry time is honoured"
    );
}

#[test]
fn a_forgotten_session_is_opened_anew_once() {
    let forgot = AtomicUsize::new(0);
    let server = legacy_server(
        move |request, reply| match forgot.fetch_add(1, Ordering::SeqCst) {
            0 => reply.respond(404, &[], b""),
            _ => reply.result(request, done("again")),
        },
    );
    let mut worker = Worker::empty();
    let watch = worker.ask("watch", json!({}));
    worker.connect_http("s", &server.url(), json!({}));
    let id = worker.forward("s", "tools/call", json!({"name": "t"}), json!({}));
    assert_eq!(worker.end(id)["result"], done("again"));
    assert_eq!(
        server
            .requests()
            .iter()
            .filter(|request| request.method() == "initialize")
            .count(),
        2
    );
    assert_eq!(worker.event(watch, "changed")["what"], "tools");
}

#[test]
fn the_standing_stream_brings_changes_questions_and_late_replies() {
    let late: Arc<Mutex<Option<u64>>> = Arc::default();
    let (from_post, from_get) = (Arc::clone(&late), late);
    let server = Server::start(move |request, reply| {
        if request.verb == "GET" {
            reply.stream();
            reply.event(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
            reply.event(&json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "a://b"}}));
            loop {
                thread::sleep(Duration::from_millis(5));
                if let Some(id) = from_get.lock().unwrap().take() {
                    reply.event(
                        &json!({"jsonrpc": "2.0", "id": "g", "method": "elicitation/create", "params": {"message": "from afar"}}),
                    );
                    reply.event(&json!({"jsonrpc": "2.0", "id": id, "result": done("late")}));
                    return reply.wait_for_close();
                }
            }
        }
        if http::legacy(request, reply, &json!({"tools": {}})) {
            return;
        }
        if let Some(id) = request.json()["id"].as_u64() {
            *from_post.lock().unwrap() = Some(id);
        }
        reply.accepted();
    });
    let mut worker = Worker::empty();
    let watch = worker.ask("watch", json!({}));
    worker.connect_http("s", &server.url(), json!({"allow": {"elicitation": true}}));
    assert_eq!(
        worker.event(watch, "changed"),
        json!({"id": watch, "event": "changed", "server": "s", "generation": 1, "what": "tools"})
    );
    assert_eq!(worker.event(watch, "updated")["uri"], "a://b");
    let id = worker.forward(
        "s",
        "tools/call",
        json!({"name": "t"}),
        json!({"caps": {"elicitation": {}}}),
    );
    assert_eq!(worker.event(id, "ask")["params"]["message"], "from afar");
    assert_eq!(worker.end(id)["result"], done("late"));
}

#[test]
fn modern_changes_come_through_one_listen_stream() {
    let server = Server::start(|request, reply| {
        if http::modern(
            request,
            reply,
            &json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}}),
        ) {
            return;
        }
        assert_eq!(request.method(), "subscriptions/listen");
        let body = request.json();
        let meta = json!({"io.modelcontextprotocol/subscriptionId": body["id"]});
        reply.stream();
        reply.event(&json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {"_meta": meta, "notifications": body["params"]["notifications"]}}));
        for uri in body["params"]["notifications"]["resourceSubscriptions"]
            .as_array()
            .into_iter()
            .flatten()
        {
            reply.event(
                &json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"_meta": meta, "uri": uri}}),
            );
        }
        reply.event(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": meta}}));
        reply.wait_for_close();
    });
    let mut worker = Worker::empty();
    let watch = worker.ask("watch", json!({}));
    assert_eq!(
        worker.connect_http("s", &server.url(), json!({}))["result"]["era"],
        "modern"
    );
    assert_eq!(worker.event(watch, "changed")["what"], "tools");
    assert_eq!(
        worker.call("subscribe", json!({"server": "s", "uri": "x://1"}))["ok"],
        true
    );
    assert_eq!(worker.event(watch, "updated")["uri"], "x://1");
    assert_eq!(
        worker.call("unsubscribe", json!({"server": "s", "uri": "x://1"}))["ok"],
        true
    );
    let listens: Vec<_> = server
        .requests()
        .into_iter()
        .filter(|request| request.method() == "subscriptions/listen")
        .collect();
    let filters: Vec<_> = listens
        .iter()
        .map(|request| request.json()["params"]["notifications"].clone())
        .collect();
    assert_eq!(
        filters,
        [
            json!({"toolsListChanged": true}),
            json!({"toolsListChanged": true, "resourceSubscriptions": ["x://1"]}),
            json!({"toolsListChanged": true})
        ]
    );
    assert!(
        listens
            .iter()
            .all(|request| request.header("mcp-method") == Some("subscriptions/listen"))
    );
}

#[test]
fn cancelling_tells_a_legacy_server_and_closes_a_modern_stream() {
    let legacy = legacy_server(|request, reply| match &*request.method() {
        "notifications/cancelled" => reply.accepted(),
        _ => {
            reply.stream();
            reply.wait_for_close();
        }
    });
    let closed = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&closed);
    let modern = modern_server(move |_, reply| {
        reply.stream();
        reply.wait_for_close();
        seen.fetch_add(1, Ordering::SeqCst);
    });
    let mut worker = Worker::empty();
    worker.connect_http("l", &legacy.url(), json!({}));
    worker.connect_http("m", &modern.url(), json!({}));
    for server in ["l", "m"] {
        let id = worker.forward(server, "tools/call", json!({"name": "t"}), json!({}));
        let wanted = if server == "l" { &legacy } else { &modern };
        wanted.wait("the call", |request| request.method() == "tools/call");
        assert_eq!(worker.call("cancel", json!({"call": id}))["ok"], true);
        assert_eq!(worker.end(id)["kind"], "cancelled");
    }
    let call = legacy
        .wait("the call", |request| request.method() == "tools/call")
        .json();
    let told = legacy
        .wait("the cancellation", |request| {
            request.method() == "notifications/cancelled"
        })
        .json();
    assert_eq!(told["params"]["requestId"], call["id"]);
    let until = std::time::Instant::now() + crate::support::PATIENCE;
    while closed.load(Ordering::SeqCst) == 0 {
        assert!(
            std::time::Instant::now() < until,
            "the modern stream was not closed"
        );
        thread::sleep(Duration::from_millis(5));
    }
    assert!(
        modern
            .requests()
            .iter()
            .all(|request| request.method() != "notifications/cancelled")
    );
}

#[test]
fn a_call_that_takes_too_long_times_out_and_is_taken_back() {
    let server = legacy_server(|request, reply| match &*request.method() {
        "notifications/cancelled" => reply.accepted(),
        _ => reply.wait_for_close(),
    });
    let mut worker = Worker::empty();
    worker.connect_http("s", &server.url(), json!({}));
    let id = worker.forward(
        "s",
        "tools/call",
        json!({"name": "t"}),
        json!({"timeout_ms": 150}),
    );
    let end = worker.end(id);
    assert_eq!(end["kind"], "timeout");
    assert!(end["error"].as_str().unwrap().contains("timeout"));
    server.wait("the cancellation", |request| {
        request.method() == "notifications/cancelled"
    });
}
