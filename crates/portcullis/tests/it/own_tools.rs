//! The gate's own tools: called like any other, labelled, on record, and silent about what is not the caller's business.

use serde_json::{Value, json};
use testkit::client::{Client, Era};

use crate::support::{client, connected, fixture, http, records};

const STATUS: &str = "portcullis.status";

async fn status(client: &Client) -> Value {
    let called = client.call(STATUS, json!({})).await.unwrap();
    assert!(!called.is_error, "{}", called.answer);
    let told = called.answer["result"]["structuredContent"].clone();
    let text: Value = serde_json::from_str(&called.text).unwrap();
    assert_eq!(text, told, "both kinds of clients are told the same");
    told
}

#[tokio::test]
async fn status_tells_a_caller_about_itself_and_nothing_about_others() {
    let (open, kept, unclassified) = (fixture().await, fixture().await, fixture().await);
    let gate = connected(&[
        ("open", http(&open.url(), "classification: CONFIDENTIAL")),
        (
            "kept",
            http(
                &kept.url(),
                "classification: PUBLIC, access: { users: [somebody] }",
            ),
        ),
        ("unclassified", http(&unclassified.url(), "enabled: true")),
    ])
    .await;
    for era in [Era::Legacy, Era::Modern] {
        let client = client(&gate, era).await;
        let told = status(&client).await;
        assert_eq!(told["servers"], json!(["open"]), "{told}");
        assert!(told["version"].is_string() && told["caller"].is_string());
        let listed = client.list("tools").await.unwrap();
        assert!(
            !listed.iter().any(|tool| tool["name"] == STATUS),
            "lists show what people approved of servers"
        );
    }
    for fixture in [&open, &kept, &unclassified] {
        assert_eq!(fixture.effects().effects, 0);
    }
    let records = records(&gate).await;
    let of_status = |kind: &str| {
        let found = records
            .iter()
            .filter(|record| record["kind"] == kind && record["tool"] == STATUS);
        found.cloned().collect::<Vec<_>>()
    };
    let (intents, outcomes) = (of_status("intent"), of_status("outcome"));
    assert_eq!((intents.len(), outcomes.len()), (2, 2), "{records:#?}");
    for outcome in outcomes {
        assert_eq!(outcome["server"], "built-in");
        assert_eq!(outcome["verdict"], "permitted");
        assert_eq!(outcome["label_after"], "PUBLIC", "{outcome}");
    }
}

#[tokio::test]
async fn status_can_be_asked_at_every_label_and_raises_none() {
    let secret = fixture().await;
    let gate = connected(&[("secret", http(&secret.url(), "classification: RESTRICTED"))]).await;
    let client = client(&gate, Era::Modern).await;
    let before = status(&client).await;
    assert_eq!(before["label"], "PUBLIC", "{before}");
    client
        .call("secret__echo", json!({"text": "x"}))
        .await
        .unwrap();
    let after = status(&client).await;
    assert!(
        after["label"].as_str().unwrap().starts_with("RESTRICTED"),
        "{after}"
    );
    assert_eq!(after["calls"], 3, "{after}");
}

#[tokio::test]
async fn no_server_takes_a_name_of_the_gate() {
    let greedy = fixture().await;
    let gate = connected(&[(
        "greedy",
        http(
            &greedy.url(),
            "classification: PUBLIC, capabilities: [\"portcullis.*\"]",
        ),
    )])
    .await;
    let client = client(&gate, Era::Legacy).await;
    assert!(status(&client).await["version"].is_string());
    let called = client.call("portcullis.echo", json!({"text": "x"})).await;
    assert!(called.is_err() || called.unwrap().is_error);
    assert_eq!(greedy.effects().effects, 0);
}
