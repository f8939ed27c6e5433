//! Every setting of the door follows the file at once; one that cannot is named wherever the file is said to be applied.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::client::{Client, Era, Target};
use testkit::gate::Gate;

use crate::support::{
    admin, admin_target, await_state, client, config, connected, eventually, fixture, gate, http,
    records, server,
};

const PUBLIC: &str = "classification: PUBLIC";

/// Writes this at the top of the file, and makes the gate read it.
async fn apply(gate: &Gate, top: &str, servers: &[(&str, String)]) {
    gate.write_config(&format!("{top}\n{}", config(servers)))
        .unwrap();
    let reply = admin_target(gate, "reload")
        .send("POST", &[], Vec::new())
        .await
        .unwrap();
    let status = reply.status;
    assert_eq!(status, 200, "{}", reply.json().await.unwrap());
}

fn ping(params: Value) -> Vec<u8> {
    json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": params})
        .to_string()
        .into_bytes()
}

/// What a request is answered with, by status; each on a connection of its own.
async fn status(target: &Target, more: &[(&str, &str)], body: Vec<u8>) -> u16 {
    let mut headers = vec![
        ("content-type".to_owned(), "application/json".to_owned()),
        (
            "accept".to_owned(),
            "application/json, text/event-stream".to_owned(),
        ),
    ];
    headers.extend(
        more.iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    );
    target.send("POST", &headers, body).await.unwrap().status
}

#[tokio::test]
async fn who_is_let_in_follows_the_file() {
    let fixture = fixture().await;
    let servers = [
        ("up", http(&fixture.url(), "classification: CONFIDENTIAL")),
        ("out", http(&fixture.url(), PUBLIC)),
    ];
    let gate = gate(&format!("authentication: none\n{}", config(&servers))).await;
    for (id, _) in &servers {
        await_state(&gate, id, "connected", Duration::from_secs(15)).await;
    }
    let nobody = gate.target().unwrap().with_token(None);
    let anonymous = Client::plain(&nobody, Era::Modern).await.unwrap();
    let legacy = Client::plain(&nobody, Era::Legacy).await.unwrap();
    assert!(
        !anonymous
            .call("up__echo", json!({"text": "secret"}))
            .await
            .unwrap()
            .is_error
    );
    let under_way = anonymous.start(
        "tools/call",
        json!({"name": "up__slow", "arguments": {"ms": 1_500}}),
    );
    eventually(
        "the call to be under way",
        Duration::from_secs(5),
        || async {
            if fixture.effects().started == 1 {
                Ok(())
            } else {
                Err("not yet".to_owned())
            }
        },
    )
    .await;

    apply(&gate, "authentication: bearer", &servers).await;
    assert_eq!(status(&nobody, &[], ping(json!({}))).await, 401);
    assert!(
        legacy.call("up__effect", json!({})).await.is_err(),
        "a session of before is worth nothing without a credential"
    );
    assert!(
        !client(&gate, Era::Modern)
            .await
            .call("up__echo", json!({"text": "hi"}))
            .await
            .unwrap()
            .is_error
    );
    assert!(
        under_way.answer().await.unwrap().get("result").is_some(),
        "what was under way ends as it would have"
    );
    assert_eq!(fixture.effects().effects, 0);

    apply(&gate, "authentication: none", &servers).await;
    let again = Client::plain(&nobody, Era::Modern).await.unwrap();
    assert!(
        !again
            .call("up__echo", json!({"text": "hi"}))
            .await
            .unwrap()
            .is_error
    );
    let down = again.call("out__effect", json!({})).await.unwrap();
    assert_eq!(
        down.violation(),
        Some("WouldViolateWriteDown"),
        "what it has seen is not forgotten: {}",
        down.answer
    );
    assert!(
        gate.output().contains("authentication is off"),
        "opening the door is said aloud: {}",
        gate.output()
    );
}

#[tokio::test]
async fn origins_follow_the_file() {
    let gate = gate("mcp_servers: {}\n").await;
    let target = gate.target().unwrap();
    let origin = [("origin", "https://app.example.com")];
    assert_eq!(status(&target, &origin, ping(json!({}))).await, 403);
    apply(&gate, "allowed_origins: [\"https://app.example.com\"]", &[]).await;
    assert_ne!(status(&target, &origin, ping(json!({}))).await, 403);
    apply(&gate, "", &[]).await;
    assert_eq!(status(&target, &origin, ping(json!({}))).await, 403);
}

#[tokio::test]
async fn limits_of_requests_follow_the_file() {
    let gate = gate("mcp_servers: {}\n").await;
    let target = gate.target().unwrap();
    let long = || ping(json!({"text": "x".repeat(20_000)}));
    let deep = || ping((0..20).fold(json!(1), |inner, _| json!([inner])));
    let wide = "x".repeat(6_000);
    let head = [("x-padding", wide.as_str())];
    let good = |status: u16| status < 400;
    let plain = status(&target, &[], ping(json!({}))).await;
    for round in 0..2 {
        assert_eq!(status(&target, &[], long()).await, plain, "round {round}");
        assert_eq!(status(&target, &[], deep()).await, plain, "round {round}");
        assert_eq!(
            status(&target, &head, ping(json!({}))).await,
            plain,
            "round {round}"
        );
        apply(
            &gate,
            "limits: { max_body_bytes: 4 KiB, max_depth: 8, max_header_bytes: 2 KiB }",
            &[],
        )
        .await;
        assert_eq!(status(&target, &[], long()).await, 413, "round {round}");
        assert!(!good(status(&target, &[], deep()).await), "round {round}");
        assert_eq!(
            status(&target, &head, ping(json!({}))).await,
            431,
            "round {round}"
        );
        apply(&gate, "", &[]).await;
    }
}

#[tokio::test]
async fn the_number_of_sessions_and_calls_follows_the_file() {
    let fixture = fixture().await;
    let servers = [("up", http(&fixture.url(), PUBLIC))];
    let gate = connected(&servers).await;
    let mut clients = vec![
        client(&gate, Era::Legacy).await,
        client(&gate, Era::Legacy).await,
    ];
    for (limit, word) in [
        ("max_concurrent_calls_per_caller", "caller"),
        ("max_concurrent_calls", "gate"),
    ] {
        let held = clients[0].start(
            "tools/call",
            json!({"name": "up__slow", "arguments": {"ms": 20_000}}),
        );
        eventually(
            "the call to be under way",
            Duration::from_secs(5),
            || async {
                if admin(&gate, "GET", "status")
                    .await
                    .pointer("/calls/in_flight")
                    == Some(&json!(1))
                {
                    Ok(())
                } else {
                    Err(word.to_owned())
                }
            },
        )
        .await;
        assert!(
            !clients[1]
                .call("up__echo", json!({"text": "two"}))
                .await
                .unwrap()
                .is_error
        );
        apply(&gate, &format!("limits: {{ {limit}: 1 }}"), &servers).await;
        assert_eq!(
            clients[1]
                .call("up__echo", json!({"text": "two"}))
                .await
                .unwrap()
                .violation(),
            Some("RateLimitExceeded")
        );
        apply(&gate, "", &servers).await;
        assert!(
            !clients[1]
                .call("up__echo", json!({"text": "two"}))
                .await
                .unwrap()
                .is_error,
            "{word}"
        );
        held.cancel().await.unwrap();
    }
    // Sessions that are read from are not ended to make room.
    for client in &clients {
        client.listen(&[]).await.unwrap();
    }
    apply(&gate, "limits: { max_sessions: 2 }", &servers).await;
    assert!(
        Client::plain(&gate.target().unwrap(), Era::Legacy)
            .await
            .is_err(),
        "there are two already"
    );
    apply(&gate, "limits: { max_sessions: 3 }", &servers).await;
    clients.push(client(&gate, Era::Legacy).await);
}

#[tokio::test]
async fn a_smaller_result_and_fewer_attempts_follow_the_file() {
    let fixture = fixture().await;
    let servers = [
        ("up", http(&fixture.url(), PUBLIC)),
        ("gone", http("http://127.0.0.1:1/mcp", PUBLIC)),
    ];
    let gate = gate(&config(&servers)).await;
    await_state(&gate, "up", "connected", Duration::from_secs(15)).await;
    await_state(&gate, "gone", "disconnected", Duration::from_secs(15)).await;
    let caller = client(&gate, Era::Modern).await;
    assert!(
        !caller
            .call("up__big", json!({"bytes": 20_000}))
            .await
            .unwrap()
            .is_error
    );
    apply(
        &gate,
        "retry: { attempts: 1 }\nlimits: { max_result_bytes: 10 KiB }",
        &servers,
    )
    .await;
    await_state(&gate, "up", "connected", Duration::from_secs(15)).await;
    assert!(
        caller
            .call("up__big", json!({"bytes": 20_000}))
            .await
            .unwrap()
            .is_error
    );
    // At its next attempt, which is no more than a few seconds away.
    let gone = await_state(&gate, "gone", "failed", Duration::from_secs(20)).await;
    assert_eq!(server(&gate, "gone").await["state"], "failed", "{gone}");
}

#[tokio::test]
async fn what_waits_for_a_restart_is_named_everywhere() {
    let mut gate = gate("mcp_servers: {}\n").await;
    apply(&gate, "limits: { max_depth: 9 }", &[]).await;
    assert_eq!(
        admin(&gate, "GET", "status").await["awaiting_restart"],
        json!([])
    );

    let top =
        "trust: { ca_files: [other.pem] }\nlimits: { max_result_bytes: 64 MiB, max_depth: 10 }";
    std::fs::write(gate.home().join("other.pem"), "").unwrap();
    apply(&gate, top, &[]).await;
    let keys = ["trust.ca_files", "limits.max_result_bytes"];
    assert_eq!(
        admin(&gate, "GET", "status").await["awaiting_restart"],
        json!(keys)
    );
    let applied = records(&gate).await;
    let applied = applied
        .iter()
        .rfind(|record| record["action"] == "config.applied")
        .unwrap();
    let said = gate.cli(&["status"]).await.unwrap().stdout;
    for key in keys {
        assert!(
            applied["detail"]
                .as_str()
                .unwrap()
                .contains(&format!("after a restart: {}", keys.join(", "))),
            "{applied}"
        );
        assert!(
            gate.output().contains(key) && gate.output().contains("restart"),
            "{}",
            gate.output()
        );
        assert!(said.contains(key), "{said}");
    }
    let rows = gate
        .cli(&["--json", "config", "explain"])
        .await
        .unwrap()
        .json()
        .unwrap();
    let waits = |key: &str| {
        rows.as_array()
            .unwrap()
            .iter()
            .find(|row| row["key"] == key)
            .unwrap()["awaiting_restart"]
            .clone()
    };
    assert_eq!(
        (waits("trust.ca_files"), waits("limits.max_result_bytes")),
        (json!(true), json!(true))
    );
    assert_eq!(waits("limits.max_depth"), json!(false));
    let text = gate.cli(&["config", "explain"]).await.unwrap().stdout;
    assert!(
        text.lines()
            .any(|line| line.starts_with("trust.ca_files")
                && line.contains("in force after a restart")),
        "{text}"
    );

    std::fs::write(
        gate.home().join("portcullis.yaml"),
        "mcp_servers: {}\nlimits: { max_result_bytes: 64 MiB }\n",
    )
    .unwrap();
    gate.stop().await.unwrap();
    gate.start_again().await.unwrap();
    assert_eq!(
        admin(&gate, "GET", "status").await["awaiting_restart"],
        json!([])
    );
}
