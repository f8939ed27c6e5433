//! A yes that lasts: for this tool with these targets, as long as the conversation does, and no longer than nobody revokes it.

use serde_json::{Value, json};
use testkit::client::{Client, Era};

use super::{Yard, id, is_refused};
use crate::operator::{done, listed, post, told};
use crate::support::records;

async fn agent(yard: &Yard, token: &str) -> Client {
    Client::plain(&yard.target(token), Era::Modern)
        .await
        .unwrap()
}

fn pay(client: &Client, to: &str, note: &str) -> testkit::client::Pending {
    let arguments = json!({"to": to, "text": note});
    client.start(
        "tools/call",
        json!({"name": "bank__pay", "arguments": arguments}),
    )
}

/// The call is asked about, and nobody pays; what was asked.
async fn is_asked(yard: &Yard, client: &Client, to: &str, note: &str) -> Value {
    let paid = yard.paid();
    let asking = pay(client, to, note);
    let asked = yard.pending(1).await.remove(0);
    assert_eq!(yard.paid(), paid);
    done(
        &yard.gate,
        &["approvals", "deny", &id(&asked), "--reason", "no"],
    )
    .await;
    assert!(is_refused(&asking.answer().await.unwrap()));
    asked
}

async fn passes(yard: &Yard, client: &Client, to: &str, note: &str) {
    let paid = yard.paid();
    let answer = pay(client, to, note).answer().await.unwrap();
    assert!(!is_refused(&answer), "{answer}");
    assert_eq!(yard.paid(), paid + 1, "nobody was asked");
}

#[tokio::test]
async fn a_yes_lasts_for_what_was_shown_and_as_long_as_the_conversation() {
    let mut yard = Yard::open("").await;
    let token = yard.influenced("alice").await;
    let client = agent(&yard, &token).await;
    for end in ["revoked", "reset", "crashed"] {
        let client = match end {
            "crashed" => agent(&yard, &token).await,
            _ => client.clone(),
        };
        let asking = pay(&client, "eve@evil.net", "one");
        let asked = yard.pending(1).await.remove(0);
        assert!(
            asked["may_last"]
                .as_str()
                .is_some_and(|covers| covers.contains("`to` = `eve@evil.net`")),
            "{asked}"
        );
        let yes = ["approvals", "approve", &id(&asked), "--for", "conversation"];
        done(&yard.gate, &yes).await;
        assert!(!is_refused(&asking.answer().await.unwrap()));
        passes(&yard, &client, "eve@evil.net", "two").await;
        is_asked(&yard, &client, "mallory@evil.net", "two").await;
        is_asked(&yard, &client, "eve@evil.net", "see https://evil.net/x").await;
        let lasting = told(&yard.gate, &["approvals", "lasting"]).await;
        assert_eq!(lasting[0]["id"], asked["id"], "{lasting}");
        assert_eq!(lasting[0]["covers"], json!(["`to` = `eve@evil.net`"]));
        match end {
            "revoked" => drop(done(&yard.gate, &["approvals", "revoke", &id(&asked)]).await),
            "reset" => {
                let why = json!({"reason": "over"});
                assert_eq!(post(&yard.gate, "sessions/alice/reset", &why).await.0, 200);
                let page = json!({"text": "news"});
                client.call("news__say", page).await.unwrap();
            }
            _ => yard.crash().await,
        }
        let client = match end {
            "crashed" => agent(&yard, &token).await,
            _ => client.clone(),
        };
        is_asked(&yard, &client, "eve@evil.net", "three").await;
        assert!(listed(&yard.gate, "lasting", "answers").await.is_empty());
    }
    let kept = records(&yard.gate).await;
    let count = |action: &str, word: &str| {
        let of = |record: &&Value| {
            record["action"] == action
                && record["detail"].as_str().unwrap_or_default().contains(word)
        };
        kept.iter().filter(of).count()
    };
    assert_eq!(count("approval.approved", "lasts for the conversation"), 3);
    assert_eq!(count("approval.revoked", ""), 1);
}

#[tokio::test]
async fn what_a_policy_asks_about_is_asked_each_time() {
    let yard = Yard::under(
        "permit (principal, action, resource);\n\
         @id(\"money\")\n@effect(\"ask\")\n\
         permit (principal, action == Action::\"call\", resource == Tool::\"bank/pay\");\n",
    )
    .await;
    let token = yard.influenced("alice").await;
    let client = agent(&yard, &token).await;
    let asking = pay(&client, "eve@evil.net", "one");
    let asked = yard.pending(1).await.remove(0);
    assert_eq!(asked.get("may_last"), None, "{asked}");
    let path = format!("approvals/{}/approve", id(&asked));
    let (status, said) = post(&yard.gate, &path, &json!({"lasts": true})).await;
    assert_eq!(status, 409, "{said}");
    assert_eq!(yard.paid(), 0);
    let (status, _) = post(&yard.gate, &path, &json!({})).await;
    assert_eq!(status, 200);
    assert!(!is_refused(&asking.answer().await.unwrap()));
    is_asked(&yard, &client, "eve@evil.net", "one").await;
}

/// Several that wait are shown together and answered together.
#[tokio::test]
async fn several_calls_are_shown_and_answered_together() {
    let yard = Yard::open("").await;
    let token = yard.influenced("alice").await;
    let client = agent(&yard, &token).await;
    // What the first of them returns raises no label that the second was asked at.
    let said = client.call("bank__say", json!({"text": "hello"})).await;
    assert!(!said.unwrap().is_error);
    let asking = [
        pay(&client, "eve@evil.net", "one"),
        pay(&client, "mallory@evil.net", "two"),
    ];
    let waiting = yard.pending(2).await;
    let shown = told(&yard.gate, &["approvals", "show"]).await;
    assert_eq!(shown.as_array().map(Vec::len), Some(2), "{shown}");
    let ids = [id(&waiting[0]), id(&waiting[1])];
    done(&yard.gate, &["approvals", "approve", &ids[0], &ids[1]]).await;
    for one in asking {
        assert!(!is_refused(&one.answer().await.unwrap()));
    }
    assert_eq!(yard.paid(), 2);
}
