//! Users' own logins at a server: each is used for its user and for nobody else.

use std::time::Duration;

use serde_json::json;
use testkit::client::{Client, Era};
use testkit::gate::Gate;
use testkit::guarded::Guarded;

use super::{assert_no_secret, begin_by, log_in, visit};
use crate::operator::caller;
use crate::support::{config, gate, http, records};

pub(super) const OWN: &str =
    "classification: PUBLIC, tools: { echo: { requires_user_auth: true } }";

pub(super) async fn connect(gate: &Gate, user: &str) {
    let (home, user) = (gate.home().to_owned(), user.to_owned());
    let done = tokio::task::spawn_blocking(move || {
        let verb = ["connect-account", "guarded", "--user", &user, "--login"];
        let person = begin_by(&home, &verb, &[]);
        assert_eq!(visit(&person), 200);
        person.end()
    });
    let (code, said) = done.await.unwrap();
    assert_eq!(code, Some(0), "{said}");
}

pub(super) async fn echo(session: &Client) -> testkit::client::Called {
    let text = json!({ "text": "hello" });
    session.call("guarded__echo", text).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_user_is_let_in_with_a_login_of_their_own() {
    let guarded = Guarded::start(3600).unwrap();
    let gate = gate(&config(&[("guarded", http(&guarded.url(), OWN))])).await;
    log_in(&gate, &[]).await;
    let alice = caller(&gate, "a", &["--user", "alice"], Era::Modern).await;
    let bob = caller(&gate, "b", &["--user", "bob"], Era::Modern).await;
    assert_eq!(echo(&alice).await.violation(), Some("PermissionDenied"));
    connect(&gate, "alice").await;
    connect(&gate, "bob").await;
    for _ in 0..3 {
        for user in [&alice, &bob] {
            let called = echo(user).await;
            assert_eq!((called.text.as_str(), called.is_error), ("hello", false));
        }
    }
    let seen = guarded.with(|books| books.shown.clone());
    let (first, second) = (seen[0].clone(), seen[1].clone());
    assert_ne!(first, second);
    for (index, token) in seen.iter().enumerate() {
        let own = if index % 2 == 0 { &first } else { &second };
        assert_eq!(token, own, "call {index}");
    }
    assert_no_secret(&guarded, &gate);
    // Taken back where it came from, and only that one.
    let revoked = guarded.with(|books| books.revoked);
    let remove = ["connect-account", "guarded", "--user", "alice", "--remove"];
    let said = gate.cli(&remove).await.unwrap();
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(guarded.with(|books| books.revoked), revoked + 2);
    assert_eq!(echo(&alice).await.violation(), Some("PermissionDenied"));
    assert!(!echo(&bob).await.is_error);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_users_login_is_renewed_for_many_calls_once() {
    let guarded = Guarded::start(3600).unwrap();
    let gate = gate(&config(&[("guarded", http(&guarded.url(), OWN))])).await;
    log_in(&gate, &[]).await;
    guarded.with(|books| books.said_life = Some(4));
    connect(&gate, "alice").await;
    guarded.with(|books| books.said_life = None);
    let alice = caller(&gate, "a", &["--user", "alice"], Era::Legacy).await;
    let before = guarded.granted("refresh_token");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let arguments = json!({ "name": "guarded__echo", "arguments": { "text": "x" } });
            alice.start("tools/call", arguments)
        })
        .collect();
    for call in calls {
        let answer = call.answer().await.unwrap();
        assert_eq!(answer["result"]["content"][0]["text"], "x", "{answer}");
    }
    assert_eq!(guarded.granted("refresh_token"), before + 1);
    assert_eq!(guarded.with(|books| books.reused), 0);
    // A login that has ended asks for its user, and for nobody else.
    guarded.with(|books| books.said_life = Some(4));
    connect(&gate, "alice").await;
    guarded.forget_logins();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(echo(&alice).await.violation(), Some("LoginRequired"));
    let ours = alice.call("guarded__reflect", json!({})).await.unwrap();
    assert!(!ours.is_error, "{ours:?}");
    let all = records(&gate).await;
    let told = |action: &str| {
        let found = all.iter().filter(|record| record["action"] == action);
        found
            .map(|record| (record["server"].clone(), record["target"].clone()))
            .collect::<Vec<_>>()
    };
    let alices = (json!("guarded"), json!("alice"));
    assert_eq!(told("account.login_renewed"), std::slice::from_ref(&alices));
    assert_eq!(told("account.login_ended"), [alices]);
}
