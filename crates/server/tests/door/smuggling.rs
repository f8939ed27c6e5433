//! One request in, at most one answer out, whatever the bytes.

use crate::yard::{ALICE, Yard};

fn answers(text: &str) -> usize {
    text.matches("HTTP/1.1 ").count()
}

/// `inner` is what an attacker wants to be taken for a second request.
fn payloads(host: &str) -> Vec<Vec<u8>> {
    let inner = format!(
        "GET /v1/admin/status HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {ALICE}\r\n\r\n"
    );
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {ALICE}\r\nContent-Type: application/json\r\n"
    );
    let body = format!("0\r\n\r\n{inner}");
    let length = body.len();
    [
        format!("{head}Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n{body}"),
        format!("{head}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n{body}"),
        format!("{head}Content-Length: 0\r\nContent-Length: {length}\r\n\r\n{body}"),
        format!("{head}Content-Length: 0, {length}\r\n\r\n{body}"),
        format!("{head}Content-Length: +{length}\r\n\r\n{body}"),
        format!("{head}Content-Length: -1\r\n\r\n{body}"),
        format!("{head}Transfer-Encoding: xchunked\r\n\r\n{body}"),
        format!("{head}Transfer-Encoding: chunked, identity\r\n\r\n{body}"),
        format!("{head}Transfer-Encoding : chunked\r\n\r\n{body}"),
        format!("{head}Transfer-Encoding:\r\n chunked\r\n\r\n{body}"),
        format!("{head}Content-Length: 5\r\n X: folded\r\n\r\n{body}"),
        format!("{head}Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n{inner}"),
        format!("{head}Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n\r\n{inner}"),
        format!("{head}Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n{inner}"),
        format!("{head}\0Content-Length: 0\r\n\r\n{inner}"),
        format!("POST /mcp\r\n{inner}"),
        format!("POST  /mcp  HTTP/1.1\r\n{inner}"),
        format!("POST /mcp HTTP/9.9\r\nHost: {host}\r\n\r\n{inner}"),
    ]
    .into_iter()
    .map(String::into_bytes)
    .collect()
}

#[tokio::test]
async fn an_ambiguous_request_never_becomes_two() {
    let yard = Yard::open().await;
    let payloads = payloads(&yard.address.to_string());
    for payload in payloads {
        let shown = String::from_utf8_lossy(&payload).into_owned();
        let answer = yard.raw(&payload).await;
        // A lone `0` chunk ends a body for good, and what follows is a pipelined request of the same, authenticated, client; the
        // danger is only an answer to a request that another reading of the head would have hidden in the body.
        let clean = shown.contains("Transfer-Encoding: chunked\r\nContent-Length: 4");
        assert!(answers(&answer) <= 1 || clean, "{shown}\n→ {answer}");
        assert!(!answer.contains("200 OK"), "{shown}\n→ {answer}");
    }
}
