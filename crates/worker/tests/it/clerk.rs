//! The clerk: carries one request, hands back what was asked for, and goes nowhere else.

use serde_json::{Value, json};

use crate::support::{Worker, http::Server};

fn exchange(worker: &mut Worker, params: Value) -> Value {
    let mut all =
        json!({ "method": "GET", "reach": "anywhere", "timeout_ms": 5000, "want": ["a", "b"] });
    for (name, value) in params.as_object().unwrap() {
        all[name] = value.clone();
    }
    worker.call("exchange", all)
}

fn server() -> Server {
    Server::start(|request, reply| match request.path.as_str() {
        "/doc" => reply.respond(
            200,
            &[
                ("content-type", "application/json"),
                ("x-other", "1"),
                ("retry-after", "7"),
            ],
            b"{\"a\": {\n\"x\": 1},\n \"secret\": \"no\", \"b\": [1,\n2]}",
        ),
        "/moved" => reply.respond(302, &[("location", "/doc")], b""),
        "/around" => reply.respond(302, &[("location", "/around")], b""),
        "/away" => reply.respond(302, &[("location", "http://127.0.0.2:1/doc")], b""),
        "/refused" => reply.respond(
            401,
            &[
                ("www-authenticate", "Bearer scope=\"a\""),
                ("www-authenticate", "Basic"),
            ],
            b"<html>",
        ),
        "/long" => reply.respond(200, &[], &vec![b' '; 70_000]),
        "/twice" => reply.respond(200, &[], b"{\"a\":1,\"a\":2}"),
        _ => reply.respond(404, &[], b""),
    })
}

#[test]
fn an_answer_has_the_members_and_headers_that_count() {
    let server = server();
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", server.port);
    let mut worker = Worker::clerk();
    let answer = exchange(&mut worker, json!({ "url": url("/doc") }));
    let wanted = json!({ "status": 200, "headers": { "retry-after": "7" }, "json": { "a": { "x": 1 }, "b": [1, 2] } });
    assert_eq!(answer["result"], wanted, "{answer}");
    let answer = exchange(&mut worker, json!({ "url": url("/refused") }));
    assert_eq!(
        answer["result"]["headers"]["www-authenticate"],
        "Bearer scope=\"a\", Basic"
    );
    assert_eq!(answer["result"]["json"], Value::Null);
    // Whatever has two readings is no document.
    assert_eq!(
        exchange(&mut worker, json!({ "url": url("/twice") }))["result"]["json"],
        Value::Null
    );
    assert_eq!(
        exchange(&mut worker, json!({ "url": url("/long") }))["kind"],
        "too_large"
    );
    let body = json!({ "method": "POST", "url": url("/none"), "headers": { "content-type": "application/x-www-form-urlencoded" }, "body": "a=b" });
    assert_eq!(exchange(&mut worker, body)["result"]["status"], 404);
    let seen = server.requests();
    let last = seen.last().unwrap();
    assert_eq!(
        (last.verb.as_str(), last.body.as_slice()),
        ("POST", &b"a=b"[..])
    );
    assert_eq!(
        last.header("content-type"),
        Some("application/x-www-form-urlencoded")
    );
}

#[test]
fn a_document_is_fetched_within_its_origin() {
    let server = server();
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", server.port);
    let mut worker = Worker::clerk();
    assert_eq!(
        exchange(&mut worker, json!({ "url": url("/moved") }))["result"]["status"],
        200
    );
    for path in ["/away", "/around"] {
        let answer = exchange(&mut worker, json!({ "url": url(path) }));
        assert!(
            answer["error"].as_str().unwrap().contains("redirects"),
            "{answer}"
        );
    }
}

#[test]
fn a_body_follows_no_redirect() {
    let server = server();
    let mut worker = Worker::clerk();
    let url = format!("http://127.0.0.1:{}/moved", server.port);
    let answer = exchange(
        &mut worker,
        json!({ "method": "POST", "url": url, "body": "refresh_token=x" }),
    );
    assert_eq!(answer["result"]["status"], 302);
    assert_eq!(server.requests().len(), 1);
}

/// What somebody outside names may lead to nothing inside, however it is spelled.
#[test]
fn what_is_beyond_reach_is_never_connected_to() {
    let server = server();
    let mut worker = Worker::clerk();
    for host in [
        "127.0.0.1",
        "localhost",
        "a.localhost",
        "[::ffff:127.0.0.1]",
        "[::1]",
        "0.0.0.0",
        "169.254.169.254",
    ] {
        for reach in ["public", "private"] {
            let url = format!("http://{host}:{}/doc", server.port);
            let answer = exchange(&mut worker, json!({ "url": url, "reach": reach }));
            assert_eq!(answer["kind"], "refused", "{host} {reach}: {answer}");
        }
    }
    assert!(server.requests().is_empty());
    // Without a word about it there is no request at all.
    let url = format!("http://127.0.0.1:{}/doc", server.port);
    let answer = worker.call("exchange", json!({ "url": url, "method": "GET" }));
    assert_eq!(answer["kind"], "invalid", "{answer}");
    assert_eq!(
        worker.call("post", json!({ "url": url, "body": "" }))["error"],
        "this role does not do this"
    );
}
