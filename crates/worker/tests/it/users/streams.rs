//! What is said on a user's own connection, and how calls on it end.

use super::*;

#[test]
fn questions_progress_and_cancellation_work_on_a_users_connection() {
    let answers: Arc<Mutex<Vec<Request>>> = Arc::default();
    let seen = Arc::clone(&answers);
    let server = sessions(move |request, reply| {
        let body = request.json();
        if body.get("method").is_none() {
            seen.lock().unwrap().push(request.clone());
            return reply.accepted();
        }
        if body["method"] == "notifications/cancelled" {
            return reply.accepted();
        }
        reply.stream();
        if body["params"]["name"] == "slow" {
            return reply.wait_for_close();
        }
        let token = &body["params"]["_meta"]["progressToken"];
        reply.event(
            &json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": 1}}),
        );
        reply.event(&json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {"message": "sure?"}}));
        while seen.lock().unwrap().is_empty() {
            thread::sleep(Duration::from_millis(2));
        }
        reply.event(&json!({"jsonrpc": "2.0", "id": body["id"], "result": {"content": []}}));
        reply.end_stream();
    });
    let mut worker = Worker::empty();
    worker.connect_http("s", &server.url(), system());
    let mut more = of("alice", "ta");
    more["progress"] = json!(true);
    more["caps"] = json!({"elicitation": {}});
    let id = worker.forward("s", "tools/call", json!({"name": "t"}), more);
    assert_eq!(
        worker.event(id, "progress")["params"],
        json!({"progress": 1})
    );
    let ask = worker.event(id, "ask");
    assert_eq!(
        worker.call(
            "answer",
            json!({"call": id, "key": ask["key"], "result": {"action": "accept"}})
        )["ok"],
        true
    );
    assert_eq!(worker.end(id)["result"], json!({"content": []}));
    assert_eq!(
        authorization(&answers.lock().unwrap()[0]),
        "Bearer ta",
        "the answer goes where the question came from"
    );

    let id = worker.forward(
        "s",
        "tools/call",
        json!({"name": "slow"}),
        of("alice", "ta"),
    );
    server.wait("the slow call", |request| {
        request.json()["params"]["name"] == "slow"
    });
    worker.call("cancel", json!({"call": id}));
    assert_eq!(worker.end(id)["kind"], "cancelled");
    let told = server.wait("the cancellation", |request| {
        request.method() == "notifications/cancelled"
    });
    assert_eq!(authorization(&told), "Bearer ta");
    assert_apart(&server);
}

#[test]
fn a_call_can_be_cancelled_or_run_out_of_time_while_its_session_opens() {
    let server = Server::start(|request, reply| {
        if request.method() == "initialize" && authorization(request) != SYSTEM {
            return reply.wait_for_close();
        }
        if !http::legacy(request, reply, &json!({"tools": {}})) {
            who_calls(request, reply);
        }
    });
    let mut worker = Worker::empty();
    worker.connect_http("s", &server.url(), system());
    let id = worker.forward("s", "tools/call", json!({"name": "t"}), of("alice", "ta"));
    server.wait("the opening", |request| {
        request.method() == "initialize" && authorization(request) == "Bearer ta"
    });
    worker.call("cancel", json!({"call": id}));
    assert_eq!(worker.end(id)["kind"], "cancelled");
    let mut brief = of("alice", "ta");
    brief["timeout_ms"] = json!(100);
    assert_eq!(call(&mut worker, brief)["kind"], "timeout");
    let id = worker.forward("s", "tools/call", json!({"name": "t"}), of("bob", "tb"));
    server.wait("the opening", |request| {
        request.method() == "initialize" && authorization(request) == "Bearer tb"
    });
    worker.call("disconnect", json!({"server": "s", "generation": 1}));
    assert!(
        worker.end(id)["error"]
            .as_str()
            .unwrap()
            .contains("disconnected")
    );
    assert!(
        server
            .requests()
            .iter()
            .all(|request| request.method() != "tools/call")
    );
}

#[test]
fn a_lost_session_is_opened_anew_with_the_same_credential_and_watchers_hear_nothing_of_it() {
    let calls = AtomicUsize::new(0);
    let server = sessions(
        move |request, reply| match calls.fetch_add(1, Ordering::SeqCst) {
            1 => reply.respond(404, &[], b""),
            _ => who_calls(request, reply),
        },
    );
    let mut worker = Worker::empty();
    let watch = worker.ask("watch", json!({}));
    worker.connect_http("s", &server.url(), system());
    assert_eq!(
        call(&mut worker, of("alice", "ta"))["result"]["session"],
        "s-1"
    );
    assert_eq!(
        call(&mut worker, of("alice", "ta"))["result"],
        json!({"who": "Bearer ta", "session": "s-2"})
    );
    assert!(worker.silent(watch, Duration::from_millis(100)));
    assert_apart(&server);
}

#[test]
fn what_a_users_session_says_on_its_own_is_not_told_to_everybody() {
    let server = sessions_with_stream(|reply| {
        for (method, params) in [
            (
                "notifications/message",
                json!({"level": "info", "data": "of alice"}),
            ),
            (
                "notifications/resources/updated",
                json!({"uri": "x://of-alice"}),
            ),
            ("notifications/tools/list_changed", json!({})),
        ] {
            reply.event(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
        }
    });
    let mut worker = Worker::empty();
    let watch = worker.ask("watch", json!({}));
    worker.connect_http("s", &server.url(), system());
    assert_eq!(
        call(&mut worker, of("alice", "ta"))["result"]["who"],
        "Bearer ta"
    );
    let changed = worker.event(watch, "changed");
    assert_eq!(
        (&changed["server"], &changed["what"]),
        (&json!("s"), &json!("tools"))
    );
    assert!(
        worker.silent(watch, Duration::from_millis(50)),
        "only that a list changed is for everybody"
    );
}

/// Sessions whose users, not the system, have a standing stream, on which `say` says something once a call was made.
fn sessions_with_stream(say: impl Fn(&mut Reply) + Send + Sync + 'static) -> Server {
    let called = Arc::new(AtomicUsize::new(0));
    let is_called = Arc::clone(&called);
    Server::start(move |request, reply| {
        if request.verb == "GET" && authorization(request) != SYSTEM {
            reply.stream();
            while is_called.load(Ordering::SeqCst) == 0 {
                thread::sleep(Duration::from_millis(2));
            }
            // After the answer, so that no call is under way that this could belong to.
            thread::sleep(Duration::from_millis(50));
            say(reply);
            return reply.wait_for_close();
        }
        if !http::legacy(request, reply, &json!({"tools": {}, "logging": {}})) {
            who_calls(request, reply);
            called.fetch_add(1, Ordering::SeqCst);
        }
    })
}

#[test]
fn the_level_of_log_messages_reaches_the_sessions_of_users() {
    let server = sessions(|request, reply| match &*request.method() {
        "logging/setLevel" => reply.result(request, json!({})),
        _ => who_calls(request, reply),
    });
    let mut worker = Worker::empty();
    worker.connect_http("s", &server.url(), system());
    call(&mut worker, of("alice", "ta"));
    for level in ["debug", "error"] {
        worker.call("log_level", json!({"server": "s", "level": level}));
        call(&mut worker, of("alice", "ta"));
        call(&mut worker, of("alice", "ta"));
    }
    let levels: Vec<Value> = server
        .requests()
        .iter()
        .filter(|request| {
            request.method() == "logging/setLevel" && authorization(request) == "Bearer ta"
        })
        .map(|request| request.json()["params"]["level"].clone())
        .collect();
    assert_eq!(levels, [json!("debug"), json!("error")]);
}

#[test]
fn users_of_the_first_http_transport_have_streams_of_their_own() {
    type Queues = Arc<Mutex<HashMap<String, Vec<Value>>>>;
    let queues: Queues = Arc::default();
    let (posts, streams) = (Arc::clone(&queues), queues);
    let server = Server::start(move |request, reply| {
        let who = authorization(request);
        if request.verb == "POST" {
            if !request.path.starts_with("/messages") {
                return reply.respond(405, &[], b"");
            }
            posts
                .lock()
                .unwrap()
                .entry(who)
                .or_default()
                .push(request.json());
            return reply.accepted();
        }
        if who == "Bearer bad" {
            return reply.respond(401, &[], b"");
        }
        reply.stream();
        reply.chunk("event: endpoint\ndata: /messages\n\n");
        loop {
            thread::sleep(Duration::from_millis(2));
            let waiting = streams.lock().unwrap().remove(&who).unwrap_or_default();
            for message in waiting {
                let result = match message["method"].as_str() {
                    Some("initialize") => {
                        json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": {"name": "old", "version": "0"}})
                    }
                    Some("tools/call") => json!({"who": who}),
                    _ => continue,
                };
                if !reply.event(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result})) {
                    return;
                }
            }
        }
    });
    let mut worker = Worker::empty();
    assert_eq!(
        worker.connect_http("s", &server.url(), system())["result"]["protocol"],
        "2024-11-05"
    );
    for (user, token) in [("alice", "ta"), ("bob", "tb"), ("alice", "ta")] {
        assert_eq!(
            call(&mut worker, of(user, token))["result"],
            json!({"who": format!("Bearer {token}")})
        );
    }
    assert_eq!(call(&mut worker, of("eve", "bad"))["kind"], "unauthorized");
    let streams = |token: &str| {
        let theirs = |request: &&Request| {
            request.verb == "GET" && authorization(request) == format!("Bearer {token}")
        };
        server.requests().iter().filter(theirs).count()
    };
    assert_eq!((streams("ta"), streams("tb")), (1, 1));
    assert_apart(&server);
}
