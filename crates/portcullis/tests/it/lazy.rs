//! The gate is ready before any server is, and servers come and go without disturbing each other.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::client::Era;
use testkit::everything::{self, World, serve_http};
use tokio::net::TcpListener;

use crate::support::{await_state, client, config, eventually, fixture, gate, http, server, stdio};

const PUBLIC: &str = "classification: PUBLIC";

/// A port nobody listens on; a server may come up there later.
async fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap()
}

/// The everything fixture at a given address, until the task is aborted.
async fn serve_at(address: SocketAddr) -> tokio::task::AbortHandle {
    let listener = TcpListener::bind(address)
        .await
        .expect("the port is still free");
    let world = Arc::new(World::new(everything::Era::Both));
    tokio::spawn(serve_http(listener, world)).abort_handle()
}

fn at(address: SocketAddr) -> String {
    format!("http://{address}/mcp")
}

#[tokio::test]
async fn the_gate_is_ready_before_its_servers() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let yaml = config(&[
        ("silent", http(&at(silent.local_addr().unwrap()), PUBLIC)),
        ("dead", http(&at(free_address().await), PUBLIC)),
        ("missing", stdio("no-such-program-anywhere", &[], PUBLIC)),
        ("sleeper", stdio("sleep", &["1000"], PUBLIC)),
    ]);
    let began = Instant::now();
    let gate = gate(&yaml).await;
    let caller = client(&gate, Era::Modern).await;
    assert_eq!(caller.tool_names().await.unwrap(), Vec::<String>::new());
    let took = began.elapsed();
    assert!(
        took < Duration::from_secs(3),
        "ready and listing after {took:?}"
    );
    for id in ["silent", "dead", "missing", "sleeper"] {
        let called = caller
            .call(&format!("{id}__echo"), json!({}))
            .await
            .unwrap();
        assert!(called.is_error, "{}", called.answer);
    }
}

/// Dead and slow servers hide nothing of the living.
#[tokio::test]
async fn a_dead_or_slow_server_delays_nobody() {
    let fixture = fixture().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let yaml = config(&[
        ("dead", http(&at(free_address().await), PUBLIC)),
        ("silent", http(&at(silent.local_addr().unwrap()), PUBLIC)),
        ("sleeper", stdio("sleep", &["1000"], PUBLIC)),
        ("alive", http(&fixture.url(), PUBLIC)),
    ]);
    let began = Instant::now();
    let gate = gate(&yaml).await;
    let caller = client(&gate, Era::Modern).await;
    eventually(
        "the living server's tools",
        Duration::from_secs(3),
        || async {
            let called = caller
                .call("alive__echo", json!({"text": "here"}))
                .await
                .map_err(|error| error.to_string())?;
            if called.text == "here" {
                Ok(())
            } else {
                Err(called.answer.to_string())
            }
        },
    )
    .await;
    println!("alive after {:?}", began.elapsed());
    for _ in 0..20 {
        let began = Instant::now();
        assert!(
            caller
                .tool_names()
                .await
                .unwrap()
                .contains(&"alive__echo".to_owned())
        );
        assert!(
            began.elapsed() < Duration::from_millis(300),
            "listing took {:?}",
            began.elapsed()
        );
    }
}

/// A server that comes up late is found by itself, and clients are told.
/// Without the key the gate would wait a minute for this program.
#[tokio::test]
async fn connect_timeout_bounds_one_attempt() {
    let sleeper = stdio("sleep", &["1000"], "connect_timeout: 300ms");
    let gate = gate(&config(&[("sleeper", sleeper)])).await;
    let server = await_state(&gate, "sleeper", "disconnected", Duration::from_secs(20)).await;
    let error = server["last_error"].as_str().unwrap_or_default();
    assert!(error.contains("time"), "{server}");
}

#[tokio::test]
async fn a_late_servers_tools_appear_with_list_changed() {
    let address = free_address().await;
    let gate = gate(&config(&[("late", http(&at(address), PUBLIC))])).await;
    let (legacy, modern) = (
        client(&gate, Era::Legacy).await,
        client(&gate, Era::Modern).await,
    );
    for caller in [&legacy, &modern] {
        caller.listen(&[]).await.unwrap();
        assert_eq!(caller.tool_names().await.unwrap(), Vec::<String>::new());
    }
    let waiting = eventually("a failed attempt", Duration::from_secs(5), || async {
        let server = server(&gate, "late").await;
        if server["attempt"].as_u64() >= Some(1) && !server["last_error"].is_null() {
            Ok(server)
        } else {
            Err(server.to_string())
        }
    })
    .await;
    assert_ne!(waiting["state"], "connected");
    assert_ne!(
        waiting["state"], "failed",
        "it is tried again by itself: {waiting}"
    );
    let running = serve_at(address).await;
    for caller in [&legacy, &modern] {
        caller
            .wait_for("notifications/tools/list_changed", Duration::from_secs(12))
            .await
            .unwrap();
        assert!(
            caller
                .tool_names()
                .await
                .unwrap()
                .contains(&"late__echo".to_owned())
        );
    }
    assert_eq!(
        modern
            .call("late__echo", json!({"text": "at last"}))
            .await
            .unwrap()
            .text,
        "at last"
    );
    running.abort();
}

/// A server that was connected and goes away is an error at once, and comes back by itself.
#[tokio::test]
async fn a_server_that_goes_away_comes_back() {
    let address = free_address().await;
    let running = serve_at(address).await;
    let gate = gate(&config(&[("up", http(&at(address), PUBLIC))])).await;
    await_state(&gate, "up", "connected", Duration::from_secs(10)).await;
    let caller = client(&gate, Era::Modern).await;
    assert_eq!(
        caller
            .call("up__echo", json!({"text": "one"}))
            .await
            .unwrap()
            .text,
        "one"
    );
    running.abort();
    eventually(
        "the server to be missed",
        Duration::from_secs(5),
        || async {
            let began = Instant::now();
            let called = caller
                .call("up__echo", json!({"text": "two"}))
                .await
                .map_err(|error| error.to_string())?;
            if !called.is_error {
                return Err("the old connection still answers".to_owned());
            }
            assert_eq!(
                called.error_code(),
                Some("upstream_unavailable"),
                "{}",
                called.answer
            );
            assert!(
                began.elapsed() < Duration::from_secs(2),
                "the error took {:?}",
                began.elapsed()
            );
            Ok(())
        },
    )
    .await;
    let again = serve_at(address).await;
    eventually("the server to be back", Duration::from_secs(15), || async {
        let called = caller
            .call("up__echo", json!({"text": "three"}))
            .await
            .map_err(|error| error.to_string())?;
        if called.text == "three" {
            Ok(())
        } else {
            Err(called.answer.to_string())
        }
    })
    .await;
    again.abort();
}

/// Back-off is visible, ends in `failed`, and a person can try again.
#[tokio::test]
async fn giving_up_is_visible_and_retry_brings_it_back() {
    let address = free_address().await;
    let yaml = format!(
        "retry: {{ attempts: 2 }}\n{}",
        config(&[("up", http(&at(address), PUBLIC))])
    );
    let gate = gate(&yaml).await;
    let waiting = eventually(
        "a pause before the next attempt",
        Duration::from_secs(5),
        || async {
            let server = server(&gate, "up").await;
            if server["next_retry_ms"].as_u64().is_some_and(|ms| ms > 0) {
                Ok(server)
            } else {
                Err(server.to_string())
            }
        },
    )
    .await;
    assert!(
        waiting["next_retry_ms"].as_u64() <= Some(2_500),
        "the first pause is two seconds: {waiting}"
    );
    assert!(waiting["last_error"].is_string(), "{waiting}");
    let failed = await_state(&gate, "up", "failed", Duration::from_secs(15)).await;
    assert!(failed["last_error"].is_string(), "{failed}");
    let said = gate.cli(&["servers", "list"]).await.unwrap();
    assert!(said.stdout.contains("failed"), "{}", said.stdout);
    let running = serve_at(address).await;
    let said = gate.cli(&["servers", "retry", "up"]).await.unwrap();
    assert_eq!(said.code, Some(0), "{said:?}");
    await_state(&gate, "up", "connected", Duration::from_secs(5)).await;
    running.abort();
}

/// What a server showed last time is listed at once, before it is reached again.
#[tokio::test]
async fn a_snapshot_is_served_while_the_server_is_away() {
    let address = free_address().await;
    let running = serve_at(address).await;
    let mut gate = gate(&config(&[("up", http(&at(address), PUBLIC))])).await;
    await_state(&gate, "up", "connected", Duration::from_secs(10)).await;
    let before = client(&gate, Era::Modern).await.tools().await.unwrap();
    assert!(!before.is_empty());
    gate.stop().await.unwrap();
    running.abort();
    gate.start_again().await.unwrap();
    let caller = client(&gate, Era::Modern).await;
    let began = Instant::now();
    assert_eq!(
        caller.tools().await.unwrap(),
        before,
        "the same list, word for word"
    );
    assert!(
        began.elapsed() < Duration::from_millis(500),
        "it took {:?}",
        began.elapsed()
    );
    let called = caller.call("up__effect", json!({})).await.unwrap();
    assert_eq!(
        called.error_code(),
        Some("upstream_unavailable"),
        "{}",
        called.answer
    );
}
