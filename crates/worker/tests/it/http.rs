//! Streamable HTTP of both eras, and HTTP+SSE.

mod streams;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use crate::support::{
    Worker,
    http::{self, Reply, Request, Server},
};
use serde_json::{Value, json};

fn legacy_server(tool: impl Fn(&Request, &mut Reply) + Send + Sync + 'static) -> Server {
    Server::start(move |request, reply| {
        if !http::legacy(request, reply, &json!({"tools": {}, "logging": {}})) {
            tool(request, reply);
        }
    })
}

fn modern_server(tool: impl Fn(&Request, &mut Reply) + Send + Sync + 'static) -> Server {
    Server::start(move |request, reply| {
        if !http::modern(request, reply, &json!({"tools": {}})) {
            tool(request, reply);
        }
    })
}

fn done(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

#[test]
fn a_legacy_server_is_recognised_and_called_with_its_session() {
    let server = legacy_server(|request, reply| reply.result(request, done("hi")));
    let mut worker = Worker::empty();
    let connected = worker.connect_http("s", &server.url(), json!({}));
    assert_eq!(
        connected["result"],
        json!({"protocol": "2025-11-25", "era": "legacy", "capabilities": {"tools": {}, "logging": {}},
        "server_info": {"name": "scripted", "version": "1"}, "instructions": "be kind"})
    );
    let id = worker.forward(
        "s",
        "tools/call",
        json!({"name": "t", "arguments": {"n": 1}}),
        json!({}),
    );
    assert_eq!(worker.end(id), json!({"id": id, "result": done("hi")}));
    let call = server.wait("the call", |request| request.method() == "tools/call");
    assert_eq!(call.header("mcp-session-id"), Some("s-1"));
    assert_eq!(call.header("mcp-protocol-version"), Some("2025-11-25"));
    assert_eq!(
        call.header("accept"),
        Some("application/json, text/event-stream")
    );
    assert_eq!(
        call.json()["params"],
        json!({"name": "t", "arguments": {"n": 1}}),
        "params travel verbatim"
    );
    let opening = server
        .wait("initialize", |request| request.method() == "initialize")
        .json();
    assert_eq!(opening["params"]["capabilities"], json!({}));
    assert_eq!(opening["params"]["clientInfo"]["name"], "portcullis");
}

#[test]
fn a_modern_server_gets_metadata_and_matching_headers() {
    let server = modern_server(|request, reply| {
        reply.result(request, json!({"resultType": "complete", "content": []}))
    });
    let mut worker = Worker::empty();
    let connected = worker.connect_http(
        "s",
        &server.url(),
        json!({"client": {"name": "gate", "version": "9"}, "allow": {"elicitation": true}}),
    );
    assert_eq!(connected["result"]["era"], "modern");
    assert_eq!(
        connected["result"]["server_info"],
        json!({"name": "scripted", "version": "2"})
    );
    let caps = json!({"elicitation": {}, "sampling": {}, "extensions": {"x/y": {}}});
    let id = worker.forward(
        "s",
        "tools/call",
        json!({"name": "größe ", "_meta": {"trace": "t", "io.modelcontextprotocol/protocolVersion": "forged"}}),
        json!({"caps": caps, "log": "info", "progress": true, "mrtr": true}),
    );
    assert_eq!(worker.end(id)["result"]["resultType"], "complete");
    let call = server.wait("the call", |request| request.method() == "tools/call");
    assert_eq!(call.header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(call.header("mcp-method"), Some("tools/call"));
    assert_eq!(call.header("mcp-name"), Some("=?base64?Z3LDtsOfZSA=?="));
    assert_eq!(call.header("mcp-session-id"), None);
    let body = call.json();
    assert_eq!(
        body["params"]["_meta"],
        json!({"trace": "t", "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "gate", "version": "9"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "extensions": {"x/y": {}}},
        "io.modelcontextprotocol/logLevel": "info", "progressToken": body["id"]})
    );
}

#[test]
fn a_refused_version_is_retried_and_never_becomes_initialize() {
    let tries = AtomicUsize::new(0);
    let server = Server::start(move |request, reply| {
        if tries.fetch_add(1, Ordering::SeqCst) == 0 {
            return reply.error(
                400,
                request,
                -32022,
                "unsupported",
                json!({"supported": ["2026-07-28"], "requested": "2026-07-28"}),
            );
        }
        http::modern(request, reply, &json!({}));
    });
    let mut worker = Worker::empty();
    assert_eq!(
        worker.connect_http("s", &server.url(), json!({}))["result"]["era"],
        "modern"
    );
    assert!(
        server
            .requests()
            .iter()
            .all(|request| request.method() == "server/discover")
    );
}

#[test]
fn an_empty_discovery_means_legacy() {
    let server = Server::start(|request, reply| match &*request.method() {
        "server/discover" => reply.result(request, json!({})),
        _ => {
            http::legacy(request, reply, &json!({}));
        }
    });
    let mut worker = Worker::empty();
    assert_eq!(
        worker.connect_http("s", &server.url(), json!({}))["result"]["era"],
        "legacy"
    );
}

#[test]
fn progress_and_logs_arrive_before_the_result_and_connections_are_reused() {
    let server = legacy_server(|request, reply| {
        let body = request.json();
        let token = &body["params"]["_meta"]["progressToken"];
        reply.stream();
        reply.event(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": 1, "total": 2, "x": "y"}}));
        reply.event(
            &json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 999_999, "progress": 7}}),
        );
        reply.event(&json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}));
        reply.event(&json!({"jsonrpc": "2.0", "id": body["id"], "result": done("end")}));
        reply.end_stream();
    });
    let mut worker = Worker::empty();
    worker.connect_http("s", &server.url(), json!({}));
    for _ in 0..3 {
        let id = worker.forward(
            "s",
            "tools/call",
            json!({"name": "t"}),
            json!({"progress": true}),
        );
        assert_eq!(
            worker.event(id, "progress")["params"],
            json!({"progress": 1, "total": 2, "x": "y"})
        );
        assert_eq!(
            worker.event(id, "log")["params"],
            json!({"level": "info", "data": 1})
        );
        assert_eq!(worker.end(id)["result"], done("end"));
    }
    let ids: Vec<_> = server
        .requests()
        .iter()
        .filter(|request| request.method() == "tools/call")
        .map(|request| request.json()["id"].as_u64().unwrap())
        .collect();
    assert!(
        ids.windows(2).all(|pair| pair[0] < pair[1]),
        "ids are never reused: {ids:?}"
    );
}

#[test]
fn a_question_mid_call_reaches_the_gate_and_its_answer_the_server() {
    let answers: Arc<Mutex<Vec<Value>>> = Arc::default();
    let seen = Arc::clone(&answers);
    let server = legacy_server(move |request, reply| {
        let body = request.json();
        if body.get("method").is_none() {
            seen.lock().unwrap().push(body);
            return reply.accepted();
        }
        reply.stream();
        reply.event(&json!({"jsonrpc": "2.0", "id": "q1", "method": "elicitation/create", "params": {"message": "name?", "requestedSchema": {"type": "object"}}}));
        reply.event(&json!({"jsonrpc": "2.0", "id": "q2", "method": "sampling/createMessage", "params": {}}));
        reply.event(&json!({"jsonrpc": "2.0", "id": "q3", "method": "ping"}));
        while seen.lock().unwrap().len() < 3 {
            thread::sleep(Duration::from_millis(2));
        }
        reply.event(&json!({"jsonrpc": "2.0", "id": body["id"], "result": done("thanks")}));
        reply.end_stream();
    });
    let mut worker = Worker::empty();
    worker.connect_http(
        "s",
        &server.url(),
        json!({"allow": {"elicitation": true, "sampling": false}}),
    );
    let id = worker.forward(
        "s",
        "tools/call",
        json!({"name": "t"}),
        json!({"caps": {"elicitation": {}, "sampling": {}}}),
    );
    let ask = worker.event(id, "ask");
    assert_eq!(
        (&ask["method"], &ask["params"]["message"]),
        (&json!("elicitation/create"), &json!("name?"))
    );
    assert_eq!(
        worker.call("answer", json!({"call": id, "key": "nope", "result": {}}))["kind"],
        "not_found"
    );
    assert_eq!(
        worker.call("answer", json!({"call": id, "key": ask["key"], "result": {"action": "accept", "content": {"n": 1.50}}}))["ok"],
        true
    );
    assert_eq!(worker.end(id)["result"], done("thanks"));
    let answers = answers.lock().unwrap();
    let find = |id: &str| {
        answers
            .iter()
            .find(|answer| answer["id"] == id)
            .unwrap_or_else(|| panic!("no answer to {id}: {answers:?}"))
    };
    assert_eq!(find("q1")["result"]["action"], "accept");
    assert_eq!(
        find("q2")["error"]["code"],
        -32601,
        "sampling is not allowed for this server"
    );
    assert_eq!(find("q3")["result"], json!({}));
}

#[test]
fn the_clock_stands_still_while_a_question_is_open() {
    let server = legacy_server(move |request, reply| {
        let body = request.json();
        if body.get("method").is_none() {
            return reply.accepted();
        }
        reply.stream();
        reply.event(&json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {"message": "?"}}));
        thread::sleep(Duration::from_millis(900));
        reply.event(&json!({"jsonrpc": "2.0", "id": body["id"], "result": done("late")}));
        reply.end_stream();
    });
    let mut worker = Worker::empty();
    worker.connect_http("s", &server.url(), json!({"allow": {"elicitation": true}}));
    let id = worker.forward(
        "s",
        "tools/call",
        json!({"name": "t"}),
        json!({"caps": {"elicitation": {}}, "timeout_ms": 400}),
    );
    worker.event(id, "ask");
    assert_eq!(worker.end(id)["result"], done("late"));
}

#[test]
fn a_modern_server_that_needs_input_is_asked_again_with_it() {
    let server = modern_server(|request, reply| {
        let params = request.json()["params"].clone();
        match params["requestState"].as_str() {
            None => reply.result(
                request,
                json!({"resultType": "input_required", "requestState": "s\u{e9}1", "inputRequests": {
                "a": {"method": "elicitation/create", "params": {"message": "a?"}}, "b": {"method": "roots/list"}}}),
            ),
            Some("s\u{e9}1") => reply.result(request, json!({"resultType": "input_required", "requestState": "s2"})),
            Some(_) => reply.result(request, json!({"resultType": "complete", "content": [], "echo": params})),
        }
    });
    let mut worker = Worker::empty();
    worker.connect_http(
        "s",
        &server.url(),
        json!({"allow": {"elicitation": true, "roots": true}}),
    );
    let caps = json!({"caps": {"elicitation": {}, "roots": {}}});
    let id = worker.forward(
        "s",
        "tools/call",
        json!({"name": "t", "arguments": {"k": 1}}),
        caps.clone(),
    );
    for _ in 0..2 {
        let ask = worker.event(id, "ask");
        worker.call(
            "answer",
            json!({"call": id, "key": ask["key"], "result": {"for": ask["method"]}}),
        );
    }
    let end = worker.end(id);
    assert_eq!(end["result"]["echo"]["requestState"], "s2");
    assert_eq!(
        end["result"]["echo"].get("inputResponses"),
        None,
        "the second round asked nothing"
    );
    let calls: Vec<_> = server
        .requests()
        .into_iter()
        .filter(|request| request.method() == "tools/call")
        .map(|request| request.json())
        .collect();
    assert_eq!(calls.len(), 3);
    assert_eq!(
        calls[1]["params"]["inputResponses"],
        json!({"a": {"for": "elicitation/create"}, "b": {"for": "roots/list"}})
    );
    assert_eq!(calls[1]["params"]["arguments"], json!({"k": 1}));
    assert!(calls[0]["id"] != calls[1]["id"] && calls[1]["id"] != calls[2]["id"]);

    let mut passing = caps;
    passing["mrtr"] = json!(true);
    let id = worker.forward("s", "tools/call", json!({"name": "t"}), passing);
    assert_eq!(
        worker.end(id)["result"]["resultType"],
        "input_required",
        "a modern client does its own rounds"
    );

    let id = worker.forward("s", "tools/call", json!({"name": "t"}), json!({"caps": {}}));
    assert_eq!(
        worker.end(id)["kind"],
        "refused",
        "a client that cannot be asked is not asked"
    );
}

#[test]
fn endless_rounds_are_cut_short() {
    let server = modern_server(|request, reply| {
        reply.result(
            request,
            json!({"resultType": "input_required", "requestState": "again"}),
        )
    });
    let mut worker = Worker::empty();
    worker.connect_http("s", &server.url(), json!({}));
    let id = worker.forward("s", "tools/call", json!({"name": "t"}), json!({}));
    assert!(
        worker.end(id)["error"]
            .as_str()
            .unwrap()
            .contains("more than 8 times")
    );
    assert_eq!(
        server
            .requests()
            .iter()
            .filter(|request| request.method() == "tools/call")
            .count(),
        9
    );
}

#[test]
fn json_rpc_errors_pass_with_their_object_whatever_the_status() {
    let server = modern_server(
        |request, reply| match request.json()["params"]["name"].as_str() {
            Some("caps") => reply.error(
                400,
                request,
                -32021,
                "needs sampling",
                json!({"requiredCapabilities": {"sampling": {}}}),
            ),
            _ => reply.error(200, request, -32602, "no such tool", Value::Null),
        },
    );
    let mut worker = Worker::empty();
    worker.connect_http("s", &server.url(), json!({}));
    let id = worker.forward("s", "tools/call", json!({"name": "caps"}), json!({}));
    let end = worker.end(id);
    assert_eq!(
        (&end["kind"], &end["rpc"]["code"]),
        (&json!("upstream"), &json!(-32021))
    );
    assert_eq!(
        end["rpc"]["data"],
        json!({"requiredCapabilities": {"sampling": {}}})
    );
    let id = worker.forward("s", "tools/call", json!({"name": "x"}), json!({}));
    assert_eq!(worker.end(id)["rpc"]["message"], "no such tool");
}

#[test]
fn mirrored_arguments_become_headers_and_bad_annotations_drop_the_tool() {
    let server = modern_server(|request, reply| {
        match &*request.method() {
        "tools/list" => reply.result(
            request,
            json!({"resultType": "complete", "tools": [
            {"name": "good", "inputSchema": {"type": "object", "properties": {
                "region": {"type": "string", "x-mcp-header": "Region"}, "n": {"type": "integer", "x-mcp-header": "N"},
                "flag": {"type": "boolean", "x-mcp-header": "Flag"}, "empty": {"type": "string", "x-mcp-header": "Empty"},
                "deep": {"type": "object", "properties": {"inner": {"type": "string", "x-mcp-header": "Inner"}}},
                "plain": {"type": "string"}}}},
            {"name": "bad", "inputSchema": {"type": "object", "properties": {"f": {"type": "number", "x-mcp-header": "F"}}}}]}),
        ),
        _ => reply.result(request, json!({"resultType": "complete", "content": []})),
    }
    });
    let mut worker = Worker::empty();
    worker.connect_http("s", &server.url(), json!({}));
    let catalog = worker.call("catalog", json!({"server": "s"}));
    assert_eq!(catalog["result"]["tools"].as_array().unwrap().len(), 1);
    assert_eq!(catalog["result"]["dropped"][0]["name"], "bad");
    let arguments = json!({"region": "a b", "n": -7, "flag": null, "empty": "", "deep": {"inner": " ü "}, "plain": "p"});
    let id = worker.forward(
        "s",
        "tools/call",
        json!({"name": "good", "arguments": arguments}),
        json!({}),
    );
    worker.end(id);
    let call = server.wait("the call", |request| request.method() == "tools/call");
    assert_eq!(call.header("mcp-param-region"), Some("a b"));
    assert_eq!(call.header("mcp-param-n"), Some("-7"));
    assert_eq!(call.header("mcp-param-flag"), None);
    assert_eq!(call.header("mcp-param-empty"), Some(""));
    assert_eq!(call.header("mcp-param-inner"), Some("=?base64?IMO8IA==?="));
    let id = worker.forward(
        "s",
        "tools/call",
        json!({"name": "bad", "arguments": {}}),
        json!({}),
    );
    assert_eq!(worker.end(id)["kind"], "refused");
    assert!(
        server
            .requests()
            .iter()
            .all(|request| request.json()["params"]["name"] != "bad")
    );
}

#[test]
fn a_header_mismatch_makes_us_look_at_the_tools_again() {
    let server = modern_server(|request, reply| match &*request.method() {
        "tools/list" => reply.result(
            request,
            json!({"tools": [{"name": "t", "inputSchema": {"type": "object",
            "properties": {"r": {"type": "string", "x-mcp-header": "R"}}}}]}),
        ),
        _ if request.header("mcp-param-r").is_some() => {
            reply.result(request, json!({"content": []}))
        }
        _ => reply.error(400, request, -32020, "header mismatch", Value::Null),
    });
    let mut worker = Worker::empty();
    worker.connect_http("s", &server.url(), json!({}));
    let id = worker.forward(
        "s",
        "tools/call",
        json!({"name": "t", "arguments": {"r": "x"}}),
        json!({}),
    );
    assert_eq!(worker.end(id)["result"], json!({"content": []}));
}

#[test]
fn http_with_sse_of_the_first_revision() {
    type Waiting = Arc<Mutex<Vec<Value>>>;
    let queue: Waiting = Arc::default();
    let (posts, stream) = (Arc::clone(&queue), queue);
    let server = Server::start(move |request, reply| {
        if request.verb == "POST" {
            if request.path != "/messages?session=1" {
                return reply.respond(405, &[], b"");
            }
            posts.lock().unwrap().push(request.json());
            return reply.accepted();
        }
        reply.stream();
        reply.chunk("event: endpoint\ndata: /messages?session=1\n\n");
        loop {
            thread::sleep(Duration::from_millis(2));
            for message in stream.lock().unwrap().drain(..) {
                let result = match message["method"].as_str() {
                    Some("initialize") => {
                        json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": {"name": "old", "version": "0"}})
                    }
                    Some("tools/call") => done("old but fine"),
                    _ => continue,
                };
                if !reply.event(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result})) {
                    return;
                }
            }
        }
    });
    let mut worker = Worker::empty();
    let connected = worker.connect_http("s", &server.url(), json!({}));
    assert_eq!(connected["result"]["protocol"], "2024-11-05");
    let id = worker.forward("s", "tools/call", json!({"name": "t"}), json!({}));
    assert_eq!(worker.end(id)["result"], done("old but fine"));
}

#[test]
fn an_endpoint_elsewhere_is_refused() {
    let server = Server::start(|request, reply| match &*request.verb {
        "POST" => reply.respond(404, &[], b""),
        _ => {
            reply.stream();
            reply.chunk("event: endpoint\ndata: http://127.0.0.2:9/steal\n\n");
            reply.wait_for_close();
        }
    });
    let mut worker = Worker::empty();
    let refused = worker.connect_http(
        "s",
        &server.url(),
        json!({"transport": {"http": {"bearer": "top-secret"}}}),
    );
    assert_eq!(refused["kind"], "refused");
    assert!(refused["error"].as_str().unwrap().contains("127.0.0.2:9"));
}

#[test]
fn disconnecting_fails_what_is_under_way_and_a_newer_generation_takes_over() {
    let old = legacy_server(|_, reply| reply.wait_for_close());
    let new = legacy_server(|request, reply| reply.result(request, done("new")));
    let mut worker = Worker::empty();
    worker.connect_http("s", &old.url(), json!({}));
    let hanging = worker.forward("s", "tools/call", json!({"name": "t"}), json!({}));
    old.wait("the call", |request| request.method() == "tools/call");
    worker.connect_http("s", &new.url(), json!({"generation": 2}));
    let id = worker.forward("s", "tools/call", json!({"name": "t"}), json!({}));
    assert_eq!(worker.end(id)["result"], done("new"));
    assert_eq!(
        worker.call("disconnect", json!({"server": "s", "generation": 1}))["ok"],
        true
    );
    assert!(
        worker.end(hanging)["error"]
            .as_str()
            .unwrap()
            .contains("disconnected")
    );
    let id = worker.forward("s", "tools/call", json!({"name": "t"}), json!({}));
    assert_eq!(worker.end(id)["result"], done("new"));
    worker.call("disconnect", json!({"server": "s", "generation": 2}));
    let id = worker.forward("s", "tools/call", json!({"name": "t"}), json!({}));
    assert_eq!(worker.end(id)["kind"], "not_found");
}

#[test]
fn health_log_level_and_notify_reach_the_server() {
    let server = legacy_server(|request, reply| match request.json().get("id") {
        Some(_) => reply.result(request, json!({})),
        None => reply.accepted(),
    });
    let mut worker = Worker::empty();
    worker.connect_http("s", &server.url(), json!({}));
    assert_eq!(worker.call("health", json!({"server": "s"}))["ok"], true);
    assert_eq!(
        worker.call("log_level", json!({"server": "s", "level": "debug"}))["ok"],
        true
    );
    assert_eq!(
        worker.call(
            "notify",
            json!({"server": "s", "method": "notifications/roots/list_changed"})
        )["ok"],
        true
    );
    assert_eq!(
        worker.call("health", json!({"server": "nobody"}))["kind"],
        "not_found"
    );
    let methods: Vec<_> = server.requests().iter().map(Request::method).collect();
    for wanted in [
        "ping",
        "logging/setLevel",
        "notifications/roots/list_changed",
    ] {
        assert!(
            methods.iter().any(|method| method == wanted),
            "{wanted} is missing in {methods:?}"
        );
    }
}
