//! The aggregator's own protocol, black box: first line, nine methods, ids, limits, both ways to end.

use std::time::Duration;

use crate::support::{
    Worker,
    http::{self, Server},
};
use serde_json::{Value, json};

/// A server with two tools, a resource and a prompt.
fn github() -> Server {
    Server::start(|request, reply| {
        if http::legacy(
            request,
            reply,
            &json!({"tools": {}, "resources": {}, "prompts": {}}),
        ) {
            return;
        }
        let body = request.json();
        match &*request.method() {
            "tools/list" => reply.result(request, json!({"tools": [
                {"name": "search_repos", "description": "finds", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
                {"name": "my__tool", "inputSchema": {"type": "object"}}]})),
            "resources/list" => reply.result(request, json!({"resources": [{"uri": "repo://owner/repo", "name": "repo", "mimeType": "text/plain"}]})),
            "resources/templates/list" => reply.error(200, request, -32601, "no", Value::Null),
            "prompts/list" => reply.result(request, json!({"prompts": [{"name": "review_pr", "arguments": [{"name": "n"}]}]})),
            "tools/call" => reply.result(request, json!({"content": [{"type": "text", "text": body["params"].to_string()}]})),
            "resources/read" => reply.result(request, json!({"contents": [{"uri": body["params"]["uri"], "text": "x"}]})),
            "prompts/get" => reply.result(request, json!({"messages": [], "description": body["params"]["name"]})),
            _ => reply.error(200, request, -32601, "unknown", Value::Null),
        }
    })
}

fn definition(name: &str, url: &str) -> Value {
    json!({"name": name, "url": url, "headers": {}, "enabled": true, "source": "claude", "unsupported_stdio": false})
}

#[test]
fn nine_methods_in_the_shapes_of_the_protocol() {
    let server = github();
    let mut disabled = definition("off", "http://127.0.0.1:1/");
    disabled["enabled"] = json!(false);
    let mut stdio = definition("pipes", "");
    stdio["unsupported_stdio"] = json!(true);
    let bad = [
        definition("", "http://127.0.0.1:1/"),
        definition("a__b", "http://127.0.0.1:1/"),
        definition("builtin", "http://127.0.0.1:1/"),
    ];
    let mut list = vec![definition("github", &server.url()), disabled, stdio];
    list.extend(bad);
    let mut worker = Worker::start(&Value::Array(list));

    let servers = worker.call("list_servers", json!({}));
    let names: Vec<_> = servers["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| server["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["github", "off", "pipes"]);
    assert_eq!(
        servers["servers"][0],
        json!({"name": "github", "url": server.url(), "enabled": true, "source": "claude", "is_stdio": false,
        "unsupported_stdio": false, "connected": true, "tool_count": 2, "resource_count": 1, "prompt_count": 1})
    );
    assert_eq!(servers["servers"][1]["connected"], false);

    let tools = worker.call("list_tools", json!({}));
    assert_eq!(
        tools["tools"][0],
        json!({"namespaced_name": "github__search_repos", "original_name": "search_repos", "description": "finds",
        "input_schema": {"type": "object"}, "server_name": "github", "annotations": {"readOnlyHint": true}})
    );
    let resources = worker.call("list_resources", json!({}));
    assert_eq!(
        resources["resources"],
        json!([{"namespaced_uri": "portcullis://github/repo://owner/repo", "original_uri": "repo://owner/repo",
        "name": "repo", "description": null, "mime_type": "text/plain", "server_name": "github"}])
    );
    let prompts = worker.call("list_prompts", json!({}));
    assert_eq!(
        prompts["prompts"],
        json!([{"namespaced_name": "github__review_pr", "original_name": "review_pr", "description": null,
        "arguments": [{"name": "n"}], "server_name": "github"}])
    );

    let called = worker.call(
        "call_tool",
        json!({"name": "github__my__tool", "arguments": {"q": 1}}),
    );
    let heard: Value = called["result"]["content"][0]["text"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(heard, json!({"arguments": {"q": 1}, "name": "my__tool"}));
    let empty = worker.call(
        "call_tool",
        json!({"name": "github__my__tool", "arguments": {}}),
    );
    assert_eq!(
        empty["result"]["content"][0]["text"], r#"{"name":"my__tool"}"#,
        "empty arguments travel as none"
    );
    for scheme in ["capsem", "portcullis"] {
        let read = worker.call(
            "read_resource",
            json!({"uri": format!("{scheme}://github/repo://owner/repo")}),
        );
        assert_eq!(read["result"]["contents"][0]["uri"], "repo://owner/repo");
    }
    let prompt = worker.call(
        "get_prompt",
        json!({"name": "github__review_pr", "arguments": {}}),
    );
    assert_eq!(prompt["result"]["description"], "review_pr");

    assert_eq!(
        worker.call("call_tool", json!({"name": "nope__x"}))["error"],
        "server not found: nope"
    );
    assert_eq!(
        worker.call("call_tool", json!({"name": "off__x"}))["error"],
        "server not connected: off"
    );
    assert!(
        worker.call("call_tool", json!({"name": "plain"}))["error"]
            .as_str()
            .unwrap()
            .starts_with("invalid namespaced tool name")
    );
    assert!(
        worker.call("read_resource", json!({"uri": "http://x"}))["error"]
            .as_str()
            .unwrap()
            .starts_with("invalid namespaced resource URI")
    );

    let id = worker.ask("shutdown", json!({}));
    assert_eq!(worker.end(id), json!({"id": id, "ok": true}));
    assert_eq!(worker.exit(), Some(0));
    server.wait("the end of the session", |request| {
        request.verb == "DELETE" && request.header("mcp-session-id") == Some("s-1")
    });
}

#[test]
fn the_end_of_input_ends_the_worker_and_its_sessions() {
    let server = github();
    let mut worker = Worker::start(&json!([definition("github", &server.url())]));
    worker.call("list_tools", json!({}));
    worker.close_input();
    assert_eq!(worker.exit(), Some(0));
    server.wait("the end of the session", |request| request.verb == "DELETE");
}

#[test]
fn refresh_builds_the_new_set_and_then_swaps() {
    let (old, new) = (github(), github());
    let mut worker = Worker::start(&json!([definition("old", &old.url())]));
    assert_eq!(
        worker.call("list_tools", json!({}))["tools"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let done =
        worker.call("refresh", json!({"servers": [definition("new", &new.url()), definition("dead", "http://127.0.0.1:1/")]}));
    assert_eq!(done["ok"], true);
    let servers = worker.call("list_servers", json!({}));
    let seen: Vec<_> = servers["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["name"].clone(), one["connected"].clone()))
        .collect();
    assert_eq!(
        seen,
        [(json!("dead"), json!(false)), (json!("new"), json!(true))]
    );
    assert_eq!(
        worker.call("call_tool", json!({"name": "old__search_repos"}))["error"],
        "server not found: old"
    );
    assert!(worker.call("call_tool", json!({"name": "new__search_repos"}))["result"].is_object());
}

#[test]
fn a_bad_line_costs_that_line_only() {
    let mut worker = Worker::empty();
    worker.raw(b"this is not JSON");
    worker.raw(br#"{"id": 7, "method": "list_tools", "method": "shutdown"}"#);
    assert!(
        worker.end(7)["error"]
            .as_str()
            .unwrap()
            .contains("duplicate key")
    );
    worker.raw(br#"{"id": 8, "method": 5}"#);
    assert!(worker.end(8)["error"].as_str().unwrap().contains("method"));
    worker.raw(br#"{"method": "list_tools"}"#);
    worker.raw(b"");
    worker.raw(b"[1,2]");
    worker.raw(br#"{"id": 9, "method": "unheard_of"}"#);
    assert_eq!(worker.end(9)["error"], "unknown method: unheard_of");
    let mut long = br#"{"id": 10, "method": "call_tool", "params": {"name": ""#.to_vec();
    long.resize(3 << 20, b'x');
    worker.raw(&long);
    assert!(
        worker.end(10)["error"]
            .as_str()
            .unwrap()
            .contains("1048576")
    );
    worker.raw(br#"{"id": 11, "method": "list_tools"}"#);
    assert_eq!(worker.end(11), json!({"id": 11, "tools": []}));
}

#[test]
fn a_bad_first_line_leaves_a_worker_without_servers() {
    let mut worker = Worker::start_with(
        "{\"not\": \"a list\", \"id\": 900, \"method\": \"list_tools\"}",
        &[],
    );
    assert!(
        worker.end(900)["error"]
            .as_str()
            .unwrap()
            .contains("list of servers"),
        "whoever waits for it is told"
    );
    assert_eq!(worker.call("list_servers", json!({}))["servers"], json!([]));
    worker.close_input();
    assert_eq!(worker.exit(), Some(0));
}

#[test]
fn answers_over_one_line_travel_in_parts_and_over_the_total_become_an_error() {
    let server = Server::start(|request, reply| {
        if http::legacy(request, reply, &json!({"tools": {}})) {
            return;
        }
        match &*request.method() {
            "tools/list" => reply.result(request, json!({"tools": []})),
            _ => {
                let size = request.json()["params"]["arguments"]["size"]
                    .as_u64()
                    .unwrap() as usize;
                reply.result(
                    request,
                    json!({"content": [{"type": "text", "text": "\"é\n".repeat(size / 4)}]}),
                );
            }
        }
    });
    let mut worker = Worker::start_with(
        &json!([definition("big", &server.url())]).to_string(),
        &["--total-bytes", "8388608"],
    );
    let id = worker.ask(
        "call_tool",
        json!({"name": "big__x", "arguments": {"size": 2_500_000}}),
    );
    let (answer, parts) = worker.assembled(id);
    assert!(parts > 1);
    assert_eq!(answer["id"], id);
    assert_eq!(
        answer["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .len(),
        2_500_000
    );
    let id = worker.ask(
        "call_tool",
        json!({"name": "big__x", "arguments": {"size": 9_000_000}}),
    );
    assert_eq!(worker.end(id)["kind"], "too_large");
    assert_eq!(
        worker.call("list_servers", json!({}))["servers"][0]["connected"],
        true
    );
}

#[test]
fn requests_may_come_in_parts_too() {
    let server = github();
    let mut worker = Worker::start(&json!([definition("github", &server.url())]));
    let text = "y".repeat(3 << 20);
    let whole = json!({"id": 77, "method": "call_tool", "params": {"name": "github__search_repos", "arguments": {"text": text}}})
        .to_string();
    let mut lines = Vec::new();
    wire::worker::push(&mut lines, 77, whole.as_bytes());
    worker.raw(lines.strip_suffix(b"\n").unwrap());
    let (answer, _) = worker.assembled(77);
    assert!(
        answer["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .len()
            > 3 << 20
    );
}

#[test]
fn a_slow_server_of_the_first_line_does_not_hide_the_others_for_long() {
    let server = github();
    let silent = Server::start(|_, reply| reply.wait_for_close());
    let mut worker = Worker::start(&json!([
        definition("github", &server.url()),
        definition("silent", &silent.url())
    ]));
    let before = std::time::Instant::now();
    let id = worker.ask("list_servers", json!({}));
    worker.end(id);
    assert!(
        before.elapsed() < Duration::from_secs(5),
        "{:?}",
        before.elapsed()
    );
    assert_eq!(
        worker.call(
            "call_tool",
            json!({"name": "github__search_repos", "arguments": {}})
        )["result"]["content"][0]["type"],
        "text"
    );
}

#[test]
fn what_was_asked_before_the_end_of_input_is_still_answered() {
    let server = github();
    let mut worker = Worker::start(&json!([definition("github", &server.url())]));
    let tools = worker.ask("list_tools", json!({}));
    let called = worker.ask(
        "call_tool",
        json!({"name": "github__search_repos", "arguments": {}}),
    );
    worker.close_input();
    assert_eq!(worker.end(tools)["tools"].as_array().unwrap().len(), 2);
    assert!(worker.end(called)["result"].is_object());
    assert_eq!(worker.exit(), Some(0));
}

#[test]
fn a_call_that_never_ends_does_not_keep_the_worker_alive() {
    let server = Server::start(|request, reply| {
        if !http::legacy(request, reply, &json!({})) {
            reply.wait_for_close();
        }
    });
    let mut worker = Worker::start(&json!([definition("slow", &server.url())]));
    let id = worker.ask("call_tool", json!({"name": "slow__x"}));
    server.wait("the call", |request| request.method() == "tools/call");
    let before = std::time::Instant::now();
    worker.call("shutdown", json!({}));
    assert!(
        worker.end(id)["error"]
            .as_str()
            .unwrap()
            .contains("shutting down")
    );
    assert_eq!(worker.exit(), Some(0));
    assert!(before.elapsed() < Duration::from_secs(8));
}

/// Not even a goodbye to say gives those who wait a turn: they are answered all the same, by either way to end.
#[test]
fn whoever_still_waits_at_the_end_is_told() {
    let server = Server::start(|request, reply| match &*request.method() {
        "initialize" => {
            let result = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}});
            reply.result(request, result);
        }
        "tools/call" => reply.wait_for_close(),
        "tools/list" => reply.result(request, json!({"tools": []})),
        _ if request.verb == "POST" && request.json().get("id").is_none() => reply.accepted(),
        _ => reply.error(200, request, -32601, "unknown", Value::Null),
    });
    for by_shutdown in [true, false] {
        let mut worker = Worker::start(&json!([definition("slow", &server.url())]));
        let ids = [0, 1].map(|_| worker.ask("call_tool", json!({"name": "slow__x"})));
        server.wait("the call", |request| request.method() == "tools/call");
        match by_shutdown {
            true => drop(worker.call("shutdown", json!({}))),
            false => worker.close_input(),
        }
        for id in ids {
            assert!(
                worker.end(id)["error"]
                    .as_str()
                    .unwrap()
                    .contains("shutting down"),
                "{by_shutdown}"
            );
        }
        assert_eq!(worker.exit(), Some(0));
    }
}
