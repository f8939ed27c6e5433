//! Tokens that are bound to a key: the gate signs a proof for each request, and the worker sends it.

use serde_json::json;
use testkit::client::Era;
use testkit::gate::Gate;
use testkit::guarded::Guarded;

use super::users::{self, OWN, connect};
use super::{assert_no_secret, echo, gate_before, log_in};
use crate::operator::caller;
use crate::support::{client, config, gate, http};

async fn bound() -> (Guarded, Gate) {
    let guarded = Guarded::start(3600).unwrap();
    guarded.with(|books| books.binds = true);
    let gate = gate_before(&guarded).await;
    log_in(&gate, &[]).await;
    (guarded, gate)
}

async fn many(gate: &Gate, calls: usize) {
    let client = client(gate, Era::Legacy).await;
    let calls: Vec<_> = (0..calls)
        .map(|_| {
            let arguments = json!({ "name": "guarded__echo", "arguments": { "text": "x" } });
            client.start("tools/call", arguments)
        })
        .collect();
    for call in calls {
        let answer = call.answer().await.unwrap();
        assert_eq!(answer["result"]["content"][0]["text"], "x", "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bound_token_goes_out_with_a_proof_for_each_request() {
    let (guarded, gate) = bound().await;
    let before = guarded.with(|books| books.proofs.len());
    many(&gate, 60).await;
    guarded.with(|books| {
        assert_eq!(books.unproved, Vec::<&str>::new());
        assert_eq!(books.calls, 60);
        assert!(books.proofs.len() >= before + 60, "one proof for each");
        assert!(books.shown.iter().all(|shown| shown.starts_with("DPoP ")));
    });
    // Its renewal is bound to the same key.
    let key = guarded.with(|books| books.keys.values().next().cloned());
    guarded.end_tokens();
    many(&gate, 60).await;
    guarded.with(|books| {
        assert_eq!(books.granted.get("refresh_token"), Some(&1));
        assert!(books.keys.values().all(|other| Some(other) == key.as_ref()));
        assert_eq!(books.reused, 0);
    });
    assert_no_secret(&guarded, &gate);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nonce_that_the_server_wants_is_in_the_next_proof() {
    let (guarded, gate) = bound().await;
    guarded.with(|books| books.nonce = Some("first".to_owned()));
    assert!(!echo(&gate).await.is_error);
    // Another one, and the token ends at the same time: the authorization server wants it, too.
    guarded.with(|books| books.nonce = Some("second".to_owned()));
    guarded.end_tokens();
    many(&gate, 40).await;
    guarded.with(|books| {
        assert_eq!(books.calls, 41);
        assert_eq!(books.unproved, Vec::<&str>::new());
        assert_eq!(books.granted.get("refresh_token"), Some(&1));
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_the_key_is_the_same() {
    let (guarded, mut gate) = bound().await;
    gate.stop().await.unwrap();
    gate.start_again().await.unwrap();
    crate::support::await_state(&gate, "guarded", "connected", super::SOON).await;
    assert!(!echo(&gate).await.is_error);
    assert_eq!(guarded.with(|books| books.unproved.len()), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_users_requests_are_proved_with_a_key_of_their_own() {
    let guarded = Guarded::start(3600).unwrap();
    guarded.with(|books| books.binds = true);
    let gate = gate(&config(&[("guarded", http(&guarded.url(), OWN))])).await;
    log_in(&gate, &[]).await;
    let alice = caller(&gate, "a", &["--user", "alice"], Era::Modern).await;
    let bob = caller(&gate, "b", &["--user", "bob"], Era::Legacy).await;
    connect(&gate, "alice").await;
    connect(&gate, "bob").await;
    guarded.with(|books| books.nonce = Some("wanted".to_owned()));
    for _ in 0..3 {
        for user in [&alice, &bob] {
            let called = users::echo(user).await;
            assert_eq!((called.text.as_str(), called.is_error), ("hello", false));
        }
    }
    guarded.with(|books| {
        assert_eq!((books.calls, &books.unproved), (6, &Vec::new()));
        let keys: std::collections::BTreeSet<&String> = books.keys.values().collect();
        assert_eq!(keys.len(), 3, "the server's, alice's and bob's");
    });
}
