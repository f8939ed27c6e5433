//! Servers that lie, drip, hang, flood and redirect. Whatever they do, the worker stays up and other servers stay quick.

use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::support::{
    Worker,
    http::{self, Reply, Request, Server},
};
use serde_json::{Value, json};

fn legacy_server(tool: impl Fn(&Request, &mut Reply) + Send + Sync + 'static) -> Server {
    Server::start(move |request, reply| {
        if !http::legacy(
            request,
            reply,
            &json!({"tools": {}, "resources": {}, "prompts": {}}),
        ) {
            tool(request, reply);
        }
    })
}

fn call(worker: &mut Worker, server: &str, name: &str) -> Value {
    // Those that can only end by the clock end soon.
    let timeout = if matches!(name, "hang" | "drip" | "endless-comments") {
        700
    } else {
        10_000
    };
    let id = worker.forward(
        server,
        "tools/call",
        json!({"name": name}),
        json!({"timeout_ms": timeout}),
    );
    worker.end(id)
}

/// One server with every bad habit, chosen by the tool's name.
fn villain() -> Server {
    legacy_server(|request, reply| {
        let body = request.json();
        let id = body["id"].clone();
        let good = json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}}).to_string();
        let json_type = [("content-type", "application/json")];
        match body["params"]["name"].as_str().unwrap_or_default() {
            "wrong-id" => reply.json(&json!({"jsonrpc": "2.0", "id": 987_654, "result": {}})),
            "string-id" => {
                reply.json(&json!({"jsonrpc": "2.0", "id": id.to_string(), "result": {}}))
            }
            "wrong-then-right" => {
                reply.stream();
                reply.event(&json!({"jsonrpc": "2.0", "id": 987_654, "result": {"stolen": true}}));
                reply.event(&json!({"jsonrpc": "2.0", "id": id, "result": {"right": true}}));
                reply.event(&json!({"jsonrpc": "2.0", "id": id, "result": {"double": true}}));
                reply.end_stream();
            }
            "garbage" => reply.respond(200, &json_type, b"\x00\x01garbage"),
            "duplicate-keys" => reply.respond(
                200,
                &json_type,
                format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"a\":1,\"\\u0061\":2}}}}")
                    .as_bytes(),
            ),
            "deep" => reply.respond(
                200,
                &json_type,
                format!(
                    "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{}{}}}",
                    "[".repeat(5000),
                    "]".repeat(5000)
                )
                .as_bytes(),
            ),
            "html" => reply.respond(200, &[("content-type", "text/html")], b"<h1>hi</h1>"),
            "no-http" => {
                reply.raw(b"SSH-2.0-OpenSSH_9.9\r\n");
            }
            "close" => {}
            "half" => {
                reply.raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{\"jsonrpc\"");
            }
            "hang" => {
                reply.raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{\"json");
                reply.wait_for_close();
            }
            "drip" => {
                reply.raw(
                    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", good.len())
                        .as_bytes(),
                );
                for byte in good.bytes() {
                    thread::sleep(Duration::from_millis(40));
                    if !reply.raw(&[byte]) {
                        return;
                    }
                }
            }
            "endless-header" => {
                reply.raw(b"HTTP/1.1 200 OK\r\n");
                while reply.raw(format!("x: {}\r\n", "y".repeat(1000)).as_bytes()) {}
            }
            "endless-json" => {
                reply.raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n");
                while reply.chunk(&"[".repeat(60_000)) {}
            }
            "endless-event" => {
                reply.stream();
                reply.chunk("data: ");
                while reply.chunk(&"x".repeat(60_000)) {}
            }
            "endless-stream" => {
                reply.stream();
                while reply
                    .event(&json!({"jsonrpc": "2.0", "method": "notifications/unheard/of", "params": {"x": "y".repeat(1000)}}))
                {
                }
            }
            "endless-comments" => {
                reply.stream();
                while reply.chunk(": keep-alive\n\n") {}
            }
            "empty-stream" => {
                reply.stream();
                reply.end_stream();
            }
            "bomb" | "gzip" => {
                let text = match body["params"]["name"] == "gzip" {
                    true => good,
                    false => format!(
                        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"x\":\"{}\"}}}}",
                        "a".repeat(20 << 20)
                    ),
                };
                let mut packed =
                    flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
                packed.write_all(text.as_bytes()).unwrap();
                let headers = [
                    ("content-type", "application/json"),
                    ("content-encoding", "gzip"),
                ];
                reply.respond(200, &headers, &packed.finish().unwrap());
            }
            "brotli" => reply.respond(
                200,
                &[
                    ("content-type", "application/json"),
                    ("content-encoding", "br"),
                ],
                b"...",
            ),
            "501" => reply.respond(501, &[], b""),
            "pretty" => reply.respond(
                200,
                &json_type,
                serde_json::to_string_pretty(
                    &json!({"jsonrpc": "2.0", "id": id, "result": {"a": [1, 2]}}),
                )
                .unwrap()
                .as_bytes(),
            ),
            _ => reply.respond(200, &json_type, good.as_bytes()),
        }
    })
}

#[test]
fn every_bad_habit_fails_its_own_call_and_nothing_else() {
    let server = villain();
    let mut worker = Worker::empty();
    worker.connect_http("v", &server.url(), json!({"max_result_bytes": 1 << 20}));
    let expected = [
        ("wrong-id", "invalid", "not to what it was asked"),
        ("string-id", "invalid", "not to what it was asked"),
        ("garbage", "invalid", "not acceptable JSON"),
        ("duplicate-keys", "invalid", "duplicate key"),
        ("deep", "invalid", "deeper"),
        ("html", "invalid", "text/html"),
        ("no-http", "upstream", ""),
        ("close", "upstream", "closed"),
        ("half", "upstream", "broke off"),
        ("hang", "timeout", "timeout"),
        ("drip", "timeout", "timeout"),
        ("endless-header", "upstream", ""),
        ("endless-json", "too_large", "larger than"),
        ("endless-event", "too_large", "larger than"),
        ("endless-stream", "too_large", "larger than"),
        ("empty-stream", "upstream", "without a reply"),
        ("bomb", "too_large", ""),
        ("brotli", "invalid", "content encoding"),
        ("501", "upstream", "HTTP 501"),
    ];
    for (habit, kind, text) in expected {
        let end = call(&mut worker, "v", habit);
        assert_eq!(end["kind"], kind, "{habit}: {end}");
        assert!(
            end["error"].as_str().unwrap().contains(text),
            "{habit}: {end}"
        );
        assert_eq!(
            call(&mut worker, "v", "fine")["result"],
            json!({"content": []}),
            "after {habit}"
        );
    }
    let comments = call(&mut worker, "v", "endless-comments");
    assert!(
        comments["kind"] == "timeout" || comments["kind"] == "too_large",
        "{comments}"
    );
    assert_eq!(
        call(&mut worker, "v", "wrong-then-right")["result"],
        json!({"right": true})
    );
    assert_eq!(
        call(&mut worker, "v", "gzip")["result"],
        json!({"content": []})
    );
    assert_eq!(
        call(&mut worker, "v", "pretty")["result"],
        json!({"a": [1, 2]})
    );
}

#[test]
fn a_flooding_and_a_hanging_server_do_not_slow_another() {
    let villain = villain();
    let good = legacy_server(|request, reply| reply.result(request, json!({"ok": true})));
    let mut worker = Worker::empty();
    worker.connect_http("v", &villain.url(), json!({}));
    worker.connect_http("g", &good.url(), json!({}));
    for habit in [
        "endless-json",
        "endless-stream",
        "endless-comments",
        "hang",
        "drip",
    ]
    .repeat(4)
    {
        worker.forward(
            "v",
            "tools/call",
            json!({"name": habit}),
            json!({"timeout_ms": 3000}),
        );
    }
    let mut times = Vec::new();
    for _ in 0..100 {
        let before = Instant::now();
        assert_eq!(call(&mut worker, "g", "x")["result"], json!({"ok": true}));
        times.push(before.elapsed());
    }
    times.sort();
    assert!(
        times[95] < Duration::from_millis(250),
        "p95 was {:?}",
        times[95]
    );
}

#[test]
fn memory_stays_bounded_when_the_gate_does_not_read() {
    let server = Server::start(|request, reply| {
        if request.verb == "GET" {
            reply.stream();
            let big = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "z".repeat(60_000)}});
            while reply.event(&big) {}
            return;
        }
        http::legacy(request, reply, &json!({}));
    });
    let mut worker = Worker::empty();
    worker.ask("watch", json!({}));
    worker.pause();
    worker.ask(
        "connect",
        json!({"server": "s", "generation": 1, "transport": {"http": {"url": server.url()}}}),
    );
    let until = Instant::now() + Duration::from_secs(3);
    let mut most = 0;
    while Instant::now() < until {
        most = most.max(worker.resident_bytes());
        thread::sleep(Duration::from_millis(20));
    }
    assert!(most < 64 << 20, "the worker grew to {most} bytes");
    worker.resume();
    worker.wait("a log line", |line| line["event"] == "log");
}

#[test]
fn catalogues_are_capped_in_every_direction() {
    let pages = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&pages);
    let server = legacy_server(move |request, reply| {
        let tool = |n: usize| json!({"name": format!("t{n}"), "inputSchema": {"type": "object"}});
        match &*request.method() {
            "tools/list" => {
                let page = counted.fetch_add(1, Ordering::SeqCst);
                let tools: Vec<_> = (page * 3000..(page + 1) * 3000).map(tool).collect();
                reply.result(
                    request,
                    json!({"tools": tools, "nextCursor": format!("c{page}")}),
                );
            }
            "resources/list" => reply.result(
                request,
                json!({"resources": [{"uri": "a://a", "name": "a"}], "nextCursor": "same"}),
            ),
            "resources/templates/list" => reply.error(200, request, -32601, "no", Value::Null),
            _ => reply.error(200, request, -32603, "prompts are broken", Value::Null),
        }
    });
    let mut worker = Worker::empty();
    worker.connect_http("s", &server.url(), json!({}));
    let id = worker.ask("catalog", json!({"server": "s"}));
    let (answer, _) = worker.assembled(id);
    let catalog = &answer["result"];
    assert_eq!(catalog["tools"].as_array().unwrap().len(), 10_000);
    assert_eq!(pages.load(Ordering::SeqCst), 4);
    assert_eq!(
        catalog["resources"].as_array().unwrap().len(),
        2,
        "the same cursor twice ends the list"
    );
    assert_eq!(catalog["templates"], json!([]));
    assert_eq!(catalog["truncated"], json!(["tools", "resources"]));
    assert_eq!(catalog["failed"], json!({"prompts": "prompts are broken"}));
}

#[test]
fn redirects_stay_on_the_origin_and_credentials_with_them() {
    let elsewhere = Server::start(|_, reply| reply.respond(200, &[], b""));
    let target = format!("http://localhost:{}/steal", elsewhere.port);
    let server = Server::start(move |request, reply| match &*request.path {
        "/mcp" => reply.respond(308, &[("location", "/real/")], b""),
        "/loop" => reply.respond(307, &[("location", "/loop")], b""),
        "/away" => reply.respond(307, &[("location", &target)], b""),
        _ => {
            if !http::legacy(request, reply, &json!({})) {
                reply.result(request, json!({}));
            }
        }
    });
    let mut worker = Worker::empty();
    let bearer = json!({"transport": {"http": {"bearer": "s3cr3t-value", "headers": {"X-Key": "k3y-value", "Host": "evil", "Mcp-Method": "x", "Accept": "x"}}}});
    assert_eq!(
        worker.connect_http("s", &server.url(), bearer.clone())["result"]["era"],
        "legacy"
    );
    let seen = server.wait("initialize", |request| {
        request.method() == "initialize" && request.path == "/real/"
    });
    assert_eq!(seen.header("authorization"), Some("Bearer s3cr3t-value"));
    assert_eq!(seen.header("x-key"), Some("k3y-value"));
    assert_eq!(
        seen.header("host"),
        Some(&*format!("127.0.0.1:{}", server.port)),
        "reserved headers stay ours"
    );
    assert_eq!(seen.header("mcp-method"), None);
    for (path, kind, text) in [
        ("away", "refused", format!("localhost:{}", elsewhere.port)),
        ("loop", "upstream", "redirects more than".to_owned()),
    ] {
        let refused = worker.connect_http(
            "x",
            &format!("http://127.0.0.1:{}/{path}", server.port),
            bearer.clone(),
        );
        assert_eq!(refused["kind"], kind, "{refused}");
        let error = refused["error"].as_str().unwrap();
        assert!(
            error.contains(&text) && !error.contains("s3cr3t") && !error.contains("k3y"),
            "{error}"
        );
    }
    assert!(
        elsewhere.requests().is_empty(),
        "nothing was sent to the other host"
    );
}

#[test]
fn what_cannot_be_reached_is_named() {
    let silent = Server::start(|_, reply| reply.wait_for_close());
    let denied = Server::start(|_, reply| {
        reply.respond(
            401,
            &[("www-authenticate", "Bearer resource_metadata=x")],
            b"",
        )
    });
    let scoped = Server::start(|_, reply| {
        reply.respond(
            403,
            &[("www-authenticate", "Bearer error=\"insufficient_scope\"")],
            b"",
        )
    });
    let mut worker = Worker::empty();
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let cases = [
        (format!("http://127.0.0.1:{closed}/"), "connection refused"),
        (
            "http://no-such-host.invalid/".to_owned(),
            "no-such-host.invalid",
        ),
        (format!("https://127.0.0.1:{}/", denied.port), "TLS"),
        (denied.url(), "authentication required"),
        (scoped.url(), "insufficient scope"),
        ("ftp://x/".to_owned(), "scheme"),
        (
            "http://user:hunter2@127.0.0.1/".to_owned(),
            "user name or password",
        ),
        ("not a url".to_owned(), "URL"),
    ];
    for (url, text) in cases {
        let failed = worker.connect_http("x", &url, json!({}));
        let error = failed["error"]
            .as_str()
            .unwrap_or_else(|| panic!("{url}: {failed}"));
        assert!(error.contains(text), "{url}: {error}");
        assert!(!error.contains("hunter2"));
    }
    let before = Instant::now();
    let failed = worker.connect_http("x", &silent.url(), json!({"timeout_ms": 400}));
    assert_eq!(failed["kind"], "timeout");
    assert!(before.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_listen_stream_that_ends_at_once_is_not_reopened_in_a_hurry() {
    let server = Server::start(|request, reply| {
        if !http::modern(request, reply, &json!({"tools": {"listChanged": true}})) {
            reply.result(request, json!({"resultType": "complete"}));
        }
    });
    let mut worker = Worker::empty();
    worker.connect_http("s", &server.url(), json!({}));
    thread::sleep(Duration::from_millis(1500));
    let listens = server
        .requests()
        .iter()
        .filter(|request| request.method() == "subscriptions/listen")
        .count();
    assert!((1..=4).contains(&listens), "{listens} attempts");
}

#[test]
fn a_server_that_goes_away_for_good_is_reported() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = thread::spawn(move || {
        use std::io::{BufRead, BufReader, Read};
        // Serves the handshake and one standing stream, then closes everything.
        for _ in 0..16 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line == "\r\n" {
                    break;
                }
                head.push_str(&line);
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
            let answer = match body["method"].as_str() {
                Some("initialize") => json!({"jsonrpc": "2.0", "id": body["id"], "result": {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}}).to_string(),
                _ => String::new(),
            };
            let status = if body["method"] == "server/discover" {
                404
            } else {
                200
            };
            let kind = if head.starts_with("GET") {
                "text/event-stream"
            } else {
                "application/json"
            };
            let _ = write!(
                stream,
                "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{answer}",
                answer.len()
            );
            if head.starts_with("GET") {
                return;
            }
        }
    });
    let mut worker = Worker::empty();
    let watch = worker.ask("watch", json!({}));
    assert_eq!(
        worker.connect_http("s", &format!("http://127.0.0.1:{port}/"), json!({}))["result"]["era"],
        "legacy"
    );
    serving.join().unwrap();
    let closed = worker.event(watch, "closed");
    assert!(
        closed["error"].as_str().unwrap().contains("refused"),
        "{closed}"
    );
}

#[test]
fn floods_of_notes_and_questions_are_thinned_out_and_slow_nobody() {
    let flood = legacy_server(|request, reply| {
        let body = request.json();
        if body.get("method").is_none() {
            thread::sleep(Duration::from_millis(50));
            return reply.accepted();
        }
        let token = body["params"]["_meta"]["progressToken"].clone();
        reply.stream();
        let mut text = String::new();
        for n in 0..20_000 {
            let note = match n % 4 {
                0 => {
                    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": n}})
                }
                1 => {
                    json!({"jsonrpc": "2.0", "id": n, "method": "sampling/createMessage", "params": {}})
                }
                2 => json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}),
                _ => {
                    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "forged", "progress": n}})
                }
            };
            text.push_str(&format!("data: {note}\n\n"));
        }
        reply.chunk(&text);
        reply.event(&json!({"jsonrpc": "2.0", "id": body["id"], "result": {"done": true}}));
        reply.end_stream();
    });
    let good = legacy_server(|request, reply| reply.result(request, json!({"ok": true})));
    let mut worker = Worker::empty();
    let watch = worker.ask("watch", json!({}));
    worker.connect_http("f", &flood.url(), json!({}));
    worker.connect_http("g", &good.url(), json!({}));
    let id = worker.forward(
        "f",
        "tools/call",
        json!({"name": "t"}),
        json!({"progress": true, "timeout_ms": 60_000}),
    );
    flood.wait("the call", |request| request.method() == "tools/call");
    let mut slowest = Duration::ZERO;
    for _ in 0..50 {
        let before = Instant::now();
        assert_eq!(call(&mut worker, "g", "x")["result"], json!({"ok": true}));
        slowest = slowest.max(before.elapsed());
    }
    assert!(
        slowest < Duration::from_millis(400),
        "another server's call took {slowest:?}"
    );
    assert_eq!(worker.end(id)["result"], json!({"done": true}));
    let progress = worker.count(|line| line["event"] == "progress");
    assert!(
        (200..5000).contains(&progress),
        "{progress} progress notes were passed on"
    );
    let changes = worker.count(|line| line["id"] == watch && line["event"] == "changed");
    assert!(
        (1..=100).contains(&changes),
        "{changes} changes were announced"
    );
}
