//! The control: a hostile upstream is an ordinary server apart from its one way of misbehaving.

use serde_json::json;

use super::{Hostile, Script};
use crate::client::{Client, Era, Target};

#[test]
fn every_script_has_a_name_that_finds_it() {
    for script in Script::ALL {
        assert_eq!(script.name().parse(), Ok(*script));
        assert!(
            script.on_http() || script.on_stdio(),
            "{script} runs nowhere"
        );
    }
    assert!(
        "no-such-script"
            .parse::<Script>()
            .unwrap_err()
            .contains("honest")
    );
}

#[tokio::test]
async fn the_honest_script_echoes_and_leaves_marks() {
    let upstream = Hostile::start(Script::Honest, 1).await.unwrap();
    let client = Client::plain(&Target::new(&upstream.url(), None).unwrap(), Era::Legacy)
        .await
        .unwrap();
    assert_eq!(client.tool_names().await.unwrap(), ["echo", "act"]);
    assert_eq!(
        client
            .call("echo", json!({"text": "hello"}))
            .await
            .unwrap()
            .text,
        "hello"
    );
    client
        .call("act", json!({"text": "was here"}))
        .await
        .unwrap();
    assert_eq!(upstream.account().marks, ["was here"]);
    assert_eq!(upstream.account().calls, 2);
}

#[tokio::test]
async fn a_forger_is_caught_by_a_client_that_checks_ids() {
    let upstream = Hostile::start(Script::WrongId, 1).await.unwrap();
    let client = Client::plain(&Target::new(&upstream.url(), None).unwrap(), Era::Legacy)
        .await
        .unwrap();
    let error = client
        .call("echo", json!({"text": "hello"}))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("somebody else's request"),
        "{error}"
    );
}

#[tokio::test]
async fn a_redirect_points_at_the_canary() {
    let upstream = Hostile::start(Script::Redirect, 1).await.unwrap();
    let target = Target::new(&upstream.url(), None).unwrap();
    let client = Client::plain(&target, Era::Legacy).await.unwrap();
    let message = client.message(9, "tools/call", json!({"name": "echo", "arguments": {}}));
    let reply = client.post(&message, &[]).await.unwrap();
    assert_eq!(reply.status, 307);
    let canary = reply
        .header("location")
        .unwrap()
        .replace("localhost", "127.0.0.1");
    assert_eq!(upstream.account().canary_visits, 0);
    let _closed = Target::new(&canary, None)
        .unwrap()
        .send("GET", &[], Vec::new())
        .await;
    assert_eq!(upstream.account().canary_visits, 1);
}
