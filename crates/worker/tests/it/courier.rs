//! The courier: posts what it is told to, answers with the status, and does nothing else.

use serde_json::{Value, json};

use crate::support::{Worker, http::Server};

fn post(worker: &mut Worker, url: &str, body: &str) -> Value {
    let headers = json!({ "content-type": "application/json", "x-key": "k-1" });
    worker.call(
        "post",
        json!({ "url": url, "headers": headers, "timeout_ms": 5000, "body": body }),
    )
}

#[test]
fn a_parcel_arrives_as_it_was_given_and_the_status_comes_back() {
    let server = Server::start(|request, reply| match request.path.as_str() {
        "/in?a=b" => reply.respond(202, &[], b"taken"),
        "/away" => reply.respond(307, &[("location", "/in?a=b")], b""),
        "/large" => reply.respond(200, &[], &vec![b'x'; 100_000]),
        _ => reply.respond(500, &[], b"no"),
    });
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", server.port);
    let mut worker = Worker::courier();
    let answer = post(&mut worker, &url("/in?a=b"), "{\"events\":[]}");
    assert_eq!(
        answer["result"],
        json!({ "status": 202, "body": "taken" }),
        "{answer}"
    );
    // Longer than a line, so it comes in parts.
    let long = format!("{{\"text\":\"{}\"}}", "é".repeat(900_000));
    let params = json!({ "url": url("/in?a=b"), "body": long }).to_string();
    let mut lines = Vec::new();
    wire::worker::push(
        &mut lines,
        900,
        &wire::worker::request(900, "post", params.as_bytes()),
    );
    worker.raw(lines.strip_suffix(b"\n").unwrap());
    assert_eq!(
        worker.wait("an answer", |answer| answer["id"] == 900)["result"]["status"],
        202
    );
    let seen = server.requests();
    assert_eq!(seen.len(), 2);
    assert_eq!(
        (seen[0].verb.as_str(), seen[0].header("x-key")),
        ("POST", Some("k-1"))
    );
    assert_eq!(seen[0].body, b"{\"events\":[]}");
    assert!(seen[1].body == long.as_bytes(), "a long body arrives whole");
    assert_eq!(
        post(&mut worker, &url("/away"), "{}")["result"]["status"],
        307,
        "no redirect is followed"
    );
    assert_eq!(
        post(&mut worker, &url("/no"), "{}")["result"]["status"],
        500
    );
    let large = post(&mut worker, &url("/large"), "{}");
    assert_eq!(
        large["result"]["body"].as_str().map(str::len),
        Some(4096),
        "only the beginning of an answer comes back"
    );
    assert_eq!(server.requests().len(), 5);
}

#[test]
fn what_cannot_be_sent_is_an_error_without_secrets() {
    let mut worker = Worker::courier();
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    for url in [
        format!("http://127.0.0.1:{port}/"),
        "ftp://x/".to_owned(),
        "http://me:password@host/".to_owned(),
        "nonsense".to_owned(),
    ] {
        let answer = post(&mut worker, &url, "{}");
        let error = answer["error"]
            .as_str()
            .unwrap_or_else(|| panic!("{url}: {answer}"));
        assert!(
            !error.contains("k-1") && !error.contains("password@"),
            "{error}"
        );
    }
    let bad =
        worker.call("post", json!({ "url": format!("http://127.0.0.1:{port}/"), "headers": { "a": "b\r\nc: d" }, "body": "" }));
    assert!(bad["error"].as_str().unwrap().contains("header"), "{bad}");
}

#[test]
fn it_is_in_its_jail_and_has_no_other_method() {
    let mut worker = Worker::courier();
    let report = worker.call("confinement", json!({}));
    let applied = report["result"]["applied"].as_array().unwrap();
    assert!(
        applied
            .iter()
            .any(|line| line.as_str().unwrap().starts_with("seccomp")),
        "{report}"
    );
    for method in ["connect", "forward", "call_tool", "list_servers"] {
        assert!(
            worker.call(method, json!({ "server": "x" }))["error"].is_string(),
            "{method}"
        );
    }
    worker.raw(b"{\"id\":77, not json");
    assert!(worker.wait("a complaint", |answer| answer["id"] == 77)["error"].is_string());
    assert_eq!(worker.call("ping", json!({}))["ok"], true);
    assert_eq!(worker.call("shutdown", json!({}))["ok"], true);
}
