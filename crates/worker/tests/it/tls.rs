//! TLS is verified, always: against the system's roots and the files named at start, and nothing else.
//!
//! The certificates beside this file were made for this test and are trusted by nobody.

use std::{
    io::{Read, Write},
    net::TcpListener,
    path::Path,
    sync::Arc,
    thread,
};

use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use serde_json::{Value, json};

use crate::support::Worker;

fn file(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/tls")
        .join(name)
        .display()
        .to_string()
}

/// A modern MCP server over TLS that answers discovery and every call.
fn server() -> u16 {
    let certificate = CertificateDer::from_pem_file(file("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(file("server-test-only.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let Ok(tls) = ServerConnection::new(Arc::clone(&config)) else {
                return;
            };
            let mut stream = StreamOwned::new(tls, stream);
            thread::spawn(move || while answer(&mut stream).is_some() {});
        }
    });
    port
}

fn answer(stream: &mut (impl Read + Write)) -> Option<()> {
    let mut text = Vec::new();
    let body: Value = loop {
        let mut chunk = [0; 4096];
        let read = stream.read(&mut chunk).ok().filter(|read| *read > 0)?;
        text.extend_from_slice(&chunk[..read]);
        let Some(at) = text.windows(4).position(|window| window == b"\r\n\r\n") else {
            continue;
        };
        if let Ok(body) = serde_json::from_slice(&text[at + 4..]) {
            break body;
        }
    };
    let result = json!({"supportedVersions": ["2026-07-28"], "capabilities": {}, "serverInfo": {}, "resultType": "complete"});
    let reply = json!({"jsonrpc": "2.0", "id": body["id"], "result": result}).to_string();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{reply}",
        reply.len()
    )
    .ok()?;
    stream.flush().ok()
}

#[test]
fn a_server_of_an_authority_named_at_start_is_trusted() {
    let port = server();
    let mut worker = Worker::start_with("[]", &["--ca-file", &file("authority.pem")]);
    for host in ["127.0.0.1", "localhost"] {
        let connected = worker.connect_http("s", &format!("https://{host}:{port}/mcp"), json!({}));
        assert_eq!(connected["result"]["era"], "modern", "{host}: {connected}");
        let id = worker.forward("s", "tools/call", json!({"name": "t"}), json!({}));
        assert_eq!(worker.end(id)["result"]["resultType"], "complete");
    }
}

#[test]
fn a_server_nobody_vouches_for_is_refused_before_a_credential_leaves() {
    let port = server();
    let mut worker = Worker::empty();
    let bearer = json!({"transport": {"http": {"bearer": "never-shown"}}});
    let refused = worker.connect_http("s", &format!("https://127.0.0.1:{port}/mcp"), bearer);
    let error = refused["error"].as_str().unwrap();
    assert!(
        error.contains("TLS") && error.contains("certificate") && !error.contains("never-shown"),
        "{error}"
    );
}
