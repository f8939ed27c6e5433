//! Calls with a user's own credential: a session for each user, and the system's credential on none of them.

mod streams;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::support::{
    Worker,
    http::{self, Reply, Request, Server},
    pipes::PipeServer,
};

const SYSTEM: &str = "Bearer system-token";

/// How the system is connected: with a bearer and with headers, some of which let it in.
fn system() -> Value {
    json!({"allow": {"elicitation": true}, "transport": {"http": {"bearer": "system-token", "system_headers": ["X-Team-Pass"],
        "headers": {"X-Api-Key": "system-key", "Cookie": "system-cookie", "X-Team-Pass": "system-pass", "X-Team": "blue"}}}})
}

fn of(user: &str, token: &str) -> Value {
    json!({"as": {"user": user, "bearer": token}})
}

fn call(worker: &mut Worker, more: Value) -> Value {
    let id = worker.forward(
        "s",
        "tools/call",
        json!({"name": "t", "arguments": {}}),
        more,
    );
    worker.end(id)
}

fn authorization(request: &Request) -> String {
    request
        .header("authorization")
        .unwrap_or("nobody")
        .to_owned()
}

/// A legacy server that gives every `initialize` a session of its own, bound to who asked for it.
fn sessions(tool: impl Fn(&Request, &mut Reply) + Send + Sync + 'static) -> Server {
    let owners: Mutex<HashMap<String, String>> = Mutex::default();
    let count = AtomicUsize::new(0);
    Server::start(move |request, reply| {
        let who = authorization(request);
        if request.method() == "initialize" {
            let id = format!("s-{}", count.fetch_add(1, Ordering::SeqCst));
            owners.lock().unwrap().insert(id.clone(), who);
            let body = json!({"jsonrpc": "2.0", "id": request.json()["id"], "result": {"protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}, "logging": {}}, "serverInfo": {"name": "scripted", "version": "1"}}});
            let headers = [
                ("content-type", "application/json"),
                ("mcp-session-id", &*id),
            ];
            return reply.respond(200, &headers, body.to_string().as_bytes());
        }
        if let Some(session) = request.header("mcp-session-id") {
            let owner = owners.lock().unwrap().get(session).cloned();
            assert_eq!(owner, Some(who), "{session} is used by somebody else");
        }
        if !http::legacy(request, reply, &json!({})) {
            tool(request, reply);
        }
    })
}

/// Answers with who called, and in which session.
fn who_calls(request: &Request, reply: &mut Reply) {
    let session = request
        .header("mcp-session-id")
        .unwrap_or("none")
        .to_owned();
    reply.result(
        request,
        json!({"who": authorization(request), "session": session}),
    );
}

fn openings(server: &Server, token: &str) -> usize {
    let theirs = |request: &&Request| {
        request.method() == "initialize" && authorization(request) == format!("Bearer {token}")
    };
    server.requests().iter().filter(theirs).count()
}

/// Nothing that is not the system's carries anything of the system's.
fn assert_apart(server: &Server) -> usize {
    let mut users = 0;
    for request in server.requests() {
        let values = request.every("authorization");
        assert_eq!(values.len(), 1, "one credential each: {values:?}");
        if values == [SYSTEM] {
            assert_eq!(request.header("x-api-key"), Some("system-key"));
            continue;
        }
        users += 1;
        for (name, value) in &request.lines {
            assert!(
                !value.contains("system"),
                "`{name}` of the system was sent with a user's {}",
                request.method()
            );
        }
        assert_eq!(
            request.header("x-team"),
            Some("blue"),
            "what lets nobody in is still sent"
        );
    }
    users
}

#[test]
fn every_user_has_a_session_of_their_own_and_the_system_keeps_its_own() {
    let server = sessions(who_calls);
    let mut worker = Worker::empty();
    worker.connect_http("s", &server.url(), system());
    assert_eq!(
        openings(&server, "ta") + openings(&server, "tb"),
        0,
        "nothing is opened before it is needed"
    );
    let mut seen: HashMap<String, String> = HashMap::new();
    for (user, token) in [
        ("alice", "ta"),
        ("bob", "tb"),
        ("alice", "ta"),
        ("", ""),
        ("bob", "tb"),
        ("alice", "ta"),
        ("", ""),
    ] {
        let (more, who) = match user {
            "" => (json!({}), SYSTEM.to_owned()),
            _ => (of(user, token), format!("Bearer {token}")),
        };
        let answer = call(&mut worker, more);
        assert_eq!(answer["result"]["who"], who);
        let session = answer["result"]["session"].as_str().unwrap().to_owned();
        assert_eq!(
            *seen.entry(who).or_insert_with(|| session.clone()),
            session,
            "a session stays with its user"
        );
    }
    let mut ids: Vec<_> = seen.values().collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3);
    assert_eq!((openings(&server, "ta"), openings(&server, "tb")), (1, 1));
    for method in ["resources/read", "prompts/get", "completion/complete"] {
        let id = worker.forward("s", method, json!({}), of("bob", "tb"));
        assert_eq!(worker.end(id)["result"]["who"], "Bearer tb", "{method}");
    }
    assert!(assert_apart(&server) > 10);
    // The server is disconnected, and with it every session.
    worker.call("disconnect", json!({"server": "s", "generation": 1}));
    for session in seen.values() {
        server.wait("the end of a session", |request| {
            request.verb == "DELETE" && request.header("mcp-session-id") == Some(session)
        });
    }
    assert_apart(&server);
}

#[test]
fn calls_at_the_same_time_share_one_opening() {
    let server = sessions(|request, reply| {
        thread::sleep(Duration::from_millis(20));
        who_calls(request, reply);
    });
    let mut worker = Worker::empty();
    worker.connect_http("s", &server.url(), system());
    let ids: Vec<u64> = (0..24)
        .map(|n| {
            let user = ["alice", "bob", "carol"][n % 3];
            worker.forward(
                "s",
                "tools/call",
                json!({"name": "t"}),
                of(user, &format!("t-{user}")),
            )
        })
        .collect();
    for (n, id) in ids.into_iter().enumerate() {
        assert_eq!(
            worker.end(id)["result"]["who"],
            format!("Bearer t-{}", ["alice", "bob", "carol"][n % 3])
        );
    }
    for token in ["t-alice", "t-bob", "t-carol"] {
        assert_eq!(openings(&server, token), 1, "{token}");
    }
    assert_apart(&server);
}

#[test]
fn another_token_of_the_same_user_opens_another_session_and_ends_the_old_one() {
    let hold = Arc::new(AtomicUsize::new(0));
    let held = Arc::clone(&hold);
    let server = sessions(move |request, reply| {
        while request.json()["params"]["name"] == "slow" && held.load(Ordering::SeqCst) == 0 {
            thread::sleep(Duration::from_millis(2));
        }
        who_calls(request, reply);
    });
    let mut worker = Worker::empty();
    worker.connect_http("s", &server.url(), system());
    let slow = worker.forward(
        "s",
        "tools/call",
        json!({"name": "slow"}),
        of("alice", "old"),
    );
    server.wait("the slow call", |request| {
        request.json()["params"]["name"] == "slow"
    });
    assert_eq!(
        call(&mut worker, of("alice", "new"))["result"]["who"],
        "Bearer new"
    );
    let is_goodbye =
        |request: &Request| request.verb == "DELETE" && authorization(request) == "Bearer old";
    assert!(
        !server.requests().iter().any(is_goodbye),
        "a call under way is not cut off"
    );
    hold.store(1, Ordering::SeqCst);
    assert_eq!(worker.end(slow)["result"]["who"], "Bearer old");
    server.wait("the end of the old session", is_goodbye);
    assert_eq!(
        call(&mut worker, of("alice", "new"))["result"]["who"],
        "Bearer new"
    );
    assert_eq!((openings(&server, "old"), openings(&server, "new")), (1, 1));
    assert_apart(&server);
}

#[test]
fn a_credential_the_server_refuses_is_told_apart_and_forgotten() {
    let server = Server::start(|request, reply| {
        let (who, method) = (authorization(request), request.method());
        match &*who {
            "Bearer never" if request.verb == "POST" => {
                return reply.respond(401, &[("www-authenticate", "Bearer")], b"");
            }
            "Bearer late" if method == "tools/call" => {
                return reply.error(401, request, -32001, "expired", Value::Null);
            }
            "Bearer weak" if method == "tools/call" => return reply.respond(403, &[], b""),
            "Bearer system-token" if method == "tools/call" => return reply.respond(401, &[], b""),
            _ => {}
        }
        if !http::legacy(request, reply, &json!({"tools": {}})) {
            who_calls(request, reply);
        }
    });
    let mut worker = Worker::empty();
    worker.connect_http("s", &server.url(), system());
    for _ in 0..2 {
        for (token, status) in [("late", "401"), ("weak", "403")] {
            let refused = call(&mut worker, of(&format!("alice-{status}"), token));
            assert_eq!(refused["kind"], "unauthorized", "{refused}");
            assert_eq!(refused.get("rpc"), None);
            let text = refused["error"].as_str().unwrap();
            assert!(
                text.contains(&format!("`alice-{status}`"))
                    && text.contains("`s`")
                    && text.contains(status)
                    && !text.contains(token),
                "{text}"
            );
        }
    }
    assert_eq!(
        openings(&server, "late"),
        2,
        "a session whose credential was refused is not used again"
    );
    assert_eq!(
        openings(&server, "weak"),
        1,
        "one that may do other things is"
    );
    for attempt in 1..=2 {
        assert_eq!(
            call(&mut worker, of("alice", "never"))["kind"],
            "unauthorized"
        );
        assert_eq!(
            openings(&server, "never"),
            attempt,
            "the next call tries again"
        );
    }
    assert_eq!(
        call(&mut worker, of("alice", "good"))["result"]["who"],
        "Bearer good"
    );
    assert_eq!(
        call(&mut worker, json!({}))["kind"],
        "upstream",
        "the system's own trouble is not a user's"
    );
    let refused =
        |request: &&Request| request.method() == "tools/call" && authorization(request) == SYSTEM;
    assert_eq!(
        server.requests().iter().filter(refused).count(),
        1,
        "no user's call fell back to the system's credential"
    );
    assert_apart(&server);
}

#[test]
fn no_credential_is_logged_however_much_is() {
    let server =
        Server::start(
            |request, reply| match (&*authorization(request), &*request.method()) {
                ("Bearer user-secret-2", _) => reply.respond(401, &[], b""),
                (_, "tools/call") if request.json()["params"]["name"] == "gone" => {}
                _ if http::legacy(request, reply, &json!({"tools": {}, "logging": {}})) => {}
                _ => who_calls(request, reply),
            },
        );
    let mut worker = Worker::start_logging("[]", &[], "trace");
    worker.connect_http("s", &server.url(), system());
    worker.call("log_level", json!({"server": "s", "level": "debug"}));
    for token in [
        "user-secret-1",
        "user-secret-2",
        "user-secret-1\n",
        "user-secret-3",
    ] {
        call(&mut worker, of("alice", token));
        let id = worker.forward(
            "s",
            "tools/call",
            json!({"name": "gone"}),
            of("alice", token),
        );
        worker.end(id);
    }
    worker.raw(br#"{"method":"forward","id":900,"params":{"server":"s","as":{"user":"alice","bearer":"user-secret-4"}}"#);
    worker.end(900);
    worker.call("shutdown", json!({}));
    assert_eq!(worker.exit(), Some(0));
    let log = worker.log_with("skipped a line");
    for secret in [
        "user-secret",
        "system-token",
        "system-key",
        "system-cookie",
        "system-pass",
    ] {
        assert!(!log.contains(secret), "{secret} was logged: {log}");
    }
}

#[test]
fn a_stateless_server_hears_who_calls_with_each_request() {
    let server = Server::start(|request, reply| {
        if http::modern(request, reply, &json!({"tools": {}})) {
            return;
        }
        match (&*request.method(), request.header("mcp-param-r")) {
            ("tools/list", _) => reply.result(
                request,
                json!({"tools": [{"name": "t", "inputSchema": {"type": "object", "properties": {"r": {"type": "string", "x-mcp-header": "R"}}}}]}),
            ),
            ("tools/call", None) => reply.error(400, request, -32020, "header mismatch", Value::Null),
            _ if authorization(request) == "Bearer bad" => reply.respond(401, &[], b""),
            _ => who_calls(request, reply),
        }
    });
    let mut worker = Worker::empty();
    assert_eq!(
        worker.connect_http("s", &server.url(), system())["result"]["era"],
        "modern"
    );
    worker.call("catalog", json!({"server": "s"}));
    for (user, token) in [
        ("alice", "ta"),
        ("bob", "tb"),
        ("alice", "ta2"),
        ("alice", "ta"),
    ] {
        let params = json!({"name": "t", "arguments": {"r": "x"}});
        let id = worker.forward("s", "tools/call", params, of(user, token));
        assert_eq!(
            worker.end(id)["result"],
            json!({"who": format!("Bearer {token}"), "session": "none"})
        );
    }
    let id = worker.forward(
        "s",
        "tools/call",
        json!({"name": "t", "arguments": {"r": "x"}}),
        of("eve", "bad"),
    );
    assert_eq!(worker.end(id)["kind"], "unauthorized");
    let users: Vec<Request> = server
        .requests()
        .into_iter()
        .filter(|request| authorization(request) != SYSTEM)
        .collect();
    assert!(
        users.iter().all(|request| request.method() == "tools/call"),
        "no handshake, no lists: {:?}",
        users.len()
    );
    assert_eq!(users.len(), 5);
    assert_eq!(assert_apart(&server), 5);
}

#[test]
fn the_longest_idle_user_makes_room_and_a_busy_one_does_not() {
    let hold = Arc::new(AtomicUsize::new(0));
    let held = Arc::clone(&hold);
    let server = sessions(move |request, reply| {
        while request.json()["params"]["name"] == "slow" && held.load(Ordering::SeqCst) == 0 {
            thread::sleep(Duration::from_millis(2));
        }
        who_calls(request, reply);
    });
    let mut worker = Worker::empty();
    worker.connect_http("s", &server.url(), system());
    for n in 0..64 {
        assert_eq!(
            call(&mut worker, of(&format!("u{n}"), &format!("t{n}")))["result"]["who"],
            format!("Bearer t{n}")
        );
    }
    call(&mut worker, of("u0", "t0"));
    call(&mut worker, of("u64", "t64"));
    server.wait("the end of the session idle longest", |request| {
        request.verb == "DELETE" && authorization(request) == "Bearer t1"
    });
    call(&mut worker, of("u0", "t0"));
    assert_eq!(
        openings(&server, "t0"),
        1,
        "a user who was there lately stays"
    );
    call(&mut worker, of("u1", "t1"));
    assert_eq!(openings(&server, "t1"), 2);
    // Everybody is busy: the next user is told so, and nobody is cut off.
    let busy: Vec<u64> = (100..164)
        .map(|n| {
            worker.forward(
                "s",
                "tools/call",
                json!({"name": "slow"}),
                of(&format!("u{n}"), &format!("t{n}")),
            )
        })
        .collect();
    for n in 100..164 {
        server.wait("a slow call", |request| {
            request.method() == "tools/call" && authorization(request) == format!("Bearer t{n}")
        });
    }
    let refused = call(&mut worker, of("late", "tl"));
    assert_eq!(refused["kind"], "refused", "{refused}");
    assert_eq!(openings(&server, "tl"), 0);
    hold.store(1, Ordering::SeqCst);
    for id in busy {
        assert!(worker.end(id)["result"]["who"].is_string());
    }
    assert_eq!(
        call(&mut worker, of("late", "tl"))["result"]["who"],
        "Bearer tl"
    );
    assert_apart(&server);
}

#[test]
fn a_local_server_and_a_broken_credential_are_refused() {
    let mut worker = Worker::empty();
    let mut local = PipeServer::hand_over(&worker.handover, 7);
    let id = worker.ask(
        "connect",
        json!({"server": "s", "generation": 1, "transport": {"stdio": {"handover": 7}}}),
    );
    local.greet(&json!({"tools": {}}));
    worker.end(id);
    let refused = call(&mut worker, of("alice", "ta"));
    assert_eq!(refused["kind"], "refused");
    assert!(
        refused["error"].as_str().unwrap().contains("`url`"),
        "{refused}"
    );
    assert!(local.lines.try_recv().is_err(), "nothing reached it");

    let server = sessions(who_calls);
    worker.connect_http("s", &server.url(), json!({"generation": 2}));
    let before = server.requests().len();
    let broken = [
        json!(null),
        json!("alice"),
        json!({}),
        json!({"user": "alice"}),
        json!({"user": "", "bearer": "t"}),
        json!({"user": "alice", "bearer": ""}),
        json!({"user": "alice", "bearer": 1}),
        json!({"user": "alice", "bearer": "to\nken"}),
        json!({"user": "a".repeat(600), "bearer": "t"}),
    ];
    for broken in broken {
        let refused = call(&mut worker, json!({"as": broken}));
        assert_eq!(refused["kind"], "invalid", "{broken}");
    }
    assert_eq!(server.requests().len(), before, "nothing reached it");
}
