//! Listing again: only what is wanted, and only if it changed.

use std::{
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
    http::{self, Server},
};

/// A server whose list of tools is the text in `tools`, and which says how often each list was asked for.
fn listing(tools: Arc<Mutex<String>>) -> Server {
    Server::start(move |request, reply| {
        if http::legacy(
            request,
            reply,
            &json!({"tools": {}, "resources": {}, "prompts": {}}),
        ) {
            return;
        }
        let id = &request.json()["id"];
        match &*request.method() {
            "tools/list" => {
                let body = format!(
                    "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{}}}",
                    tools.lock().unwrap()
                );
                reply.respond(
                    200,
                    &[("content-type", "application/json")],
                    body.as_bytes(),
                );
            }
            "resources/list" => reply.result(request, json!({"resources": []})),
            "resources/templates/list" => reply.error(200, request, -32601, "no", Value::Null),
            "prompts/list" => reply.result(request, json!({"prompts": [{"name": "p"}]})),
            _ => {
                thread::sleep(Duration::from_millis(300));
                reply.result(request, json!({"content": []}));
            }
        }
    })
}

fn relist(worker: &mut Worker, tags: &Value) -> Value {
    worker.call(
        "catalog",
        json!({"server": "s", "only": ["tools"], "if_changed": tags}),
    )["result"]
        .clone()
}

#[test]
fn only_the_lists_named_are_asked_for() {
    let server = listing(Arc::new(Mutex::new(r#"{"tools":[{"name":"t"}]}"#.into())));
    let mut worker = Worker::empty();
    worker.connect_http("s", &server.url(), json!({}));
    let all = worker.call("catalog", json!({"server": "s"}))["result"].clone();
    let mut tags: Vec<&String> = all["tags"].as_object().unwrap().keys().collect();
    tags.sort_unstable();
    assert_eq!(tags, ["prompts", "resources", "templates", "tools"]);
    let before = server.requests().len();
    let tools = worker.call("catalog", json!({"server": "s", "only": ["tools"]}))["result"].clone();
    assert_eq!(
        tools,
        json!({"tools": [{"name": "t"}], "truncated": [], "tags": {"tools": all["tags"]["tools"]}})
    );
    let asked: Vec<String> = server
        .requests()
        .iter()
        .skip(before)
        .map(|request| request.method())
        .collect();
    assert_eq!(asked, ["tools/list"]);
    for only in [json!(["tools", "sorcery"]), json!([]), json!("tools")] {
        assert_eq!(
            worker.call("catalog", json!({"server": "s", "only": only}))["kind"],
            "invalid",
            "{only}"
        );
    }
}

#[test]
fn an_unchanged_list_is_not_sent_again_and_every_change_is() {
    let first = r#"{"tools":[{"name":"a","description":"x"},{"name":"b"}]}"#;
    let tools = Arc::new(Mutex::new(first.to_owned()));
    let server = listing(Arc::clone(&tools));
    let mut worker = Worker::empty();
    worker.connect_http("s", &server.url(), json!({}));
    let all = worker.call("catalog", json!({"server": "s"}))["result"].clone();
    let tags = all["tags"].clone();
    let unchanged = json!({"unchanged": true});
    assert_eq!(relist(&mut worker, &tags), unchanged);
    assert_eq!(
        worker.call("catalog", json!({"server": "s", "if_changed": tags}))["result"],
        unchanged,
        "all lists"
    );
    // What stands beside the items is not part of them.
    *tools.lock().unwrap() =
        r#"{"ttlMs":5,"tools":[{"name":"a","description":"x"},{"name":"b"}]}"#.into();
    assert_eq!(relist(&mut worker, &tags), unchanged);
    let changes = [
        r#"{"tools":[{"name":"a","description":"y"},{"name":"b"}]}"#,
        r#"{"tools":[{"name":"a","description":"x"}]}"#,
        r#"{"tools":[{"name":"b"},{"name":"a","description":"x"}]}"#,
        r#"{"tools":[{"name":"a","description":"x"},{"name":"b"},{"name":"c"}]}"#,
        r#"{"tools":[{"name":"a", "description":"x"},{"name":"b"}]}"#,
        r#"{"tools":[]}"#,
    ];
    for change in changes {
        *tools.lock().unwrap() = change.into();
        let seen = relist(&mut worker, &tags);
        assert_eq!(
            seen["tools"],
            serde_json::from_str::<Value>(change).unwrap()["tools"]
        );
        assert_ne!(seen["tags"], tags);
        // Asking with the old tags once more, as a gate does that gave up on the answer, shows the change once more.
        assert_eq!(relist(&mut worker, &tags), seen);
        assert_eq!(relist(&mut worker, &seen["tags"]), unchanged);
    }
    *tools.lock().unwrap() = first.into();
    assert_eq!(relist(&mut worker, &tags), unchanged, "back again");
    for unknown in [
        json!(true),
        json!({}),
        json!({"tools": null}),
        json!({"prompts": tags["prompts"]}),
        json!({"tools": "0"}),
    ] {
        assert_eq!(
            relist(&mut worker, &unknown)["tools"]
                .as_array()
                .unwrap()
                .len(),
            2,
            "{unknown}"
        );
    }
}

#[test]
fn a_list_that_fails_has_no_tag_and_is_never_unchanged() {
    let tools = Arc::new(Mutex::new(r#"{"tools":[]}"#.to_owned()));
    let server = listing(Arc::clone(&tools));
    let mut worker = Worker::empty();
    worker.connect_http("s", &server.url(), json!({}));
    let empty = relist(&mut worker, &json!({}));
    *tools.lock().unwrap() = "{}".into();
    let failed = relist(&mut worker, &empty["tags"]);
    assert!(
        failed["failed"]["tools"]
            .as_str()
            .unwrap()
            .contains("tools/list"),
        "{failed}"
    );
    assert_eq!(failed["tags"], json!({}));
}

#[test]
fn a_new_generation_has_tags_of_its_own() {
    let server = listing(Arc::new(Mutex::new(r#"{"tools":[{"name":"t"}]}"#.into())));
    let mut worker = Worker::empty();
    worker.connect_http("s", &server.url(), json!({}));
    let tags = relist(&mut worker, &json!({}))["tags"].clone();
    worker.connect_http("s", &server.url(), json!({"generation": 2}));
    assert_eq!(relist(&mut worker, &tags)["tools"], json!([{"name": "t"}]));
}

#[test]
fn listing_again_disturbs_no_call_and_has_its_own_time() {
    let slow = Arc::new(AtomicUsize::new(0));
    let pace = Arc::clone(&slow);
    let server = Server::start(move |request, reply| {
        if http::legacy(request, reply, &json!({"tools": {}})) {
            return;
        }
        match &*request.method() {
            "tools/list" if pace.load(Ordering::SeqCst) == 1 => reply.wait_for_close(),
            "tools/list" => reply.result(request, json!({"tools": [{"name": "t"}]})),
            _ => {
                thread::sleep(Duration::from_millis(200));
                reply.result(
                    request,
                    json!({"n": request.json()["params"]["arguments"]["n"]}),
                );
            }
        }
    });
    let mut worker = Worker::empty();
    worker.connect_http("s", &server.url(), json!({}));
    let tags = relist(&mut worker, &json!({}))["tags"].clone();
    let calls: Vec<u64> = (0..20)
        .map(|n| {
            worker.forward(
                "s",
                "tools/call",
                json!({"name": "t", "arguments": {"n": n}}),
                json!({}),
            )
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(relist(&mut worker, &tags), json!({"unchanged": true}));
    }
    slow.store(1, Ordering::SeqCst);
    let late = worker.call(
        "catalog",
        json!({"server": "s", "only": ["tools"], "timeout_ms": 100}),
    );
    assert_eq!(late["kind"], "timeout");
    for (n, id) in calls.into_iter().enumerate() {
        assert_eq!(worker.end(id)["result"]["n"], n);
    }
}
