//! Logins when something else happens at the same moment, or when the authorization server misbehaves.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;
use testkit::client::Era;
use testkit::guarded::Guarded;

use super::{SOON, assert_no_secret, begin, echo, gate_before, log_in, visit};
use crate::support::{await_state, client, eventually, server};

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_is_ended_while_it_is_renewed_stays_ended() {
    let guarded = Guarded::start(3600).unwrap();
    let gate = gate_before(&guarded).await;
    log_in(&gate, &[]).await;
    let asked = guarded.with(|books| {
        books.thinks = Duration::from_secs(3);
        books.asked
    });
    guarded.end_tokens();
    let client = client(&gate, Era::Legacy).await;
    let call = client.start(
        "tools/call",
        json!({ "name": "guarded__echo", "arguments": { "text": "x" } }),
    );
    eventually("a renewal under way", SOON, || async {
        match guarded.with(|books| books.asked) > asked {
            true => Ok(()),
            false => Err("nothing was asked".to_owned()),
        }
    })
    .await;
    let said = gate.cli(&["servers", "logout", "guarded"]).await.unwrap();
    assert_eq!(said.code, Some(0), "{said:?}");
    let answer = call.answer().await.unwrap();
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    await_state(&gate, "guarded", "failed", SOON).await;
    eventually("the renewal's end", SOON, || async {
        match guarded.granted("refresh_token") {
            0 => Err("not yet".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    let again = gate.cli(&["servers", "logout", "guarded"]).await.unwrap();
    assert_eq!(again.code, Some(2), "there is no login: {again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authorization_server_that_asks_for_time_gets_it() {
    let guarded = Guarded::start(3600).unwrap();
    let gate = gate_before(&guarded).await;
    log_in(&gate, &[]).await;
    let asked = guarded.with(|books| {
        books.is_down = true;
        books.retry_after = Some(1800);
        books.asked
    });
    guarded.end_tokens();
    for _ in 0..5 {
        assert!(echo(&gate).await.is_error);
    }
    // Whoever tries to connect it again does not ask either.
    assert_eq!(
        gate.cli(&["servers", "retry", "guarded"])
            .await
            .unwrap()
            .code,
        Some(0)
    );
    assert!(echo(&gate).await.is_error);
    assert_eq!(guarded.with(|books| books.asked), asked + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_are_said_to_end_at_once_are_not_asked_for_without_end() {
    let guarded = Guarded::start(3600).unwrap();
    guarded.with(|books| books.said_life = Some(0));
    let gate = gate_before(&guarded).await;
    log_in(&gate, &[]).await;
    let (asked, since) = (guarded.with(|books| books.asked), Instant::now());
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(!echo(&gate).await.is_error);
    // One each two seconds, and those of a connection that is made meanwhile.
    let most = usize::try_from(since.elapsed().as_secs() / 2 + 3).unwrap();
    assert!(guarded.with(|books| books.asked) - asked <= most);
    assert_eq!(guarded.with(|books| books.reused), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_was_forgotten_is_registered_anew() {
    let guarded = Guarded::start(3600).unwrap();
    let gate = gate_before(&guarded).await;
    log_in(&gate, &[]).await;
    guarded.with(|books| books.forgot_clients = true);
    guarded.end_tokens();
    assert_eq!(echo(&gate).await.violation(), Some("LoginRequired"));
    guarded.with(|books| books.forgot_clients = false);
    log_in(&gate, &[]).await;
    assert!(!echo(&gate).await.is_error);
    assert_eq!(guarded.with(|books| books.registered), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_removed_takes_its_login_along() {
    let guarded = Guarded::start(3600).unwrap();
    let gate = gate_before(&guarded).await;
    log_in(&gate, &[]).await;
    let said = gate.cli(&["servers", "remove", "guarded"]).await.unwrap();
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(guarded.with(|books| books.revoked), 2);
    let said = gate.cli(&["servers", "logout", "guarded"]).await.unwrap();
    assert_eq!(said.code, Some(2), "there is no login: {said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn visitors_who_say_nothing_keep_nobody_waiting() {
    let guarded = Guarded::start(3600).unwrap();
    let gate = gate_before(&guarded).await;
    let home = gate.home().to_owned();
    let done = tokio::task::spawn_blocking(move || {
        let person = begin(&home, &[]);
        let since = Instant::now();
        let silent: Vec<TcpStream> = (0..8)
            .map(|_| TcpStream::connect(("127.0.0.1", person.port)).unwrap())
            .collect();
        assert_eq!(visit(&person), 200);
        drop(silent);
        (person.end().0, since.elapsed())
    });
    let (code, took) = done.await.unwrap();
    // One after the other they would be waited for for forty seconds.
    assert!(
        code == Some(0) && took < Duration::from_secs(30),
        "{took:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_at_another_place_is_named() {
    let guarded = Guarded::start(3600).unwrap();
    let gate = gate_before(&guarded).await;
    guarded.with(|books| books.page = Some("http://127.0.0.1:9/honest/authorize".to_owned()));
    let home = gate.home().to_owned();
    let said = tokio::task::spawn_blocking(move || {
        let mut person = begin(&home, &[]);
        let said = person.heard_until("if both belong to whom you expect");
        person.give_up();
        said
    });
    let said = said.await.unwrap();
    assert!(said.contains("http://127.0.0.1:9,"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_greets_everybody_gets_its_login_too() {
    let guarded = Guarded::start(3600).unwrap();
    guarded.with(|books| books.greets = true);
    let gate = gate_before(&guarded).await;
    let waiting = await_state(&gate, "guarded", "failed", SOON).await;
    assert_eq!(waiting["login"]["state"], "login_required", "{waiting}");
    log_in(&gate, &[]).await;
    assert!(!echo(&gate).await.is_error);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_rights_are_named_and_a_person_gives_them() {
    let guarded = Guarded::start(3600).unwrap();
    let gate = gate_before(&guarded).await;
    log_in(&gate, &[]).await;
    let client = client(&gate, Era::Legacy).await;
    let refused = client.call("guarded__write", json!({})).await.unwrap();
    assert_eq!(refused.violation(), Some("LoginRequired"), "{refused:?}");
    let shown = server(&gate, "guarded").await;
    assert_eq!(
        (&shown["login"]["state"], &shown["login"]["scopes"]),
        (&json!("scope_required"), &json!("write")),
        "{shown}"
    );
    let said = gate.cli(&["servers", "list"]).await.unwrap();
    assert!(
        said.stdout.contains("portcullis servers login guarded"),
        "{said:?}"
    );
    // Nothing else is kept from going on, and nothing was asked of anybody.
    assert!(!echo(&gate).await.is_error);
    assert_eq!(guarded.granted("authorization_code"), 1);
    log_in(&gate, &[]).await;
    let scopes = guarded.with(|books| books.scopes.clone());
    assert!(
        scopes.contains("use") && scopes.contains("write"),
        "{scopes}"
    );
    let called = client.call("guarded__write", json!({})).await.unwrap();
    assert!(!called.is_error, "{called:?}");
    assert_eq!(
        server(&gate, "guarded").await["login"]["state"],
        "connected"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_is_killed_while_it_renews_keeps_its_login_or_says_that_it_has_ended() {
    let guarded = Guarded::start(3600).unwrap();
    let mut gate = gate_before(&guarded).await;
    log_in(&gate, &[]).await;
    guarded.with(|books| books.thinks = Duration::from_millis(30));
    for round in 0..8 {
        let (asked, reused) = guarded.with(|books| (books.asked, books.reused));
        guarded.end_tokens();
        let client = client(&gate, Era::Legacy).await;
        let call = client.start(
            "tools/call",
            json!({ "name": "guarded__echo", "arguments": { "text": "x" } }),
        );
        eventually("a renewal under way", SOON, || async {
            match guarded.with(|books| books.asked) > asked {
                true => Ok(()),
                false => Err("nothing was asked".to_owned()),
            }
        })
        .await;
        // From before the answer to after it is on the disk.
        tokio::time::sleep(Duration::from_millis(round * 12)).await;
        gate.kill().unwrap();
        drop((call, client));
        assert_no_secret(&guarded, &gate);
        gate.start_again().await.unwrap();
        let now = eventually("an outcome", SOON, || async {
            let now = server(&gate, "guarded").await;
            match now["state"].as_str() {
                Some("connected" | "failed") => Ok(now),
                _ => Err(now.to_string()),
            }
        })
        .await;
        if now["state"] == "failed" {
            // Only where the answer was lost, and with it the one refresh token that counted.
            assert_eq!(now["login"]["state"], "expired", "{now}");
            assert!(guarded.with(|books| books.reused) > reused, "{now}");
            log_in(&gate, &[]).await;
        }
        assert!(!echo(&gate).await.is_error);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_token_that_is_repeated_in_a_refusal_is_shown_to_nobody() {
    let guarded = Guarded::start(3600).unwrap();
    let gate = gate_before(&guarded).await;
    log_in(&gate, &[]).await;
    guarded.with(|books| books.repeats = true);
    guarded.forget_logins();
    guarded.end_tokens();
    assert_eq!(echo(&gate).await.violation(), Some("LoginRequired"));
    let failed = await_state(&gate, "guarded", "failed", SOON).await;
    assert!(
        failed.to_string().contains("[secret] is not known here"),
        "{failed}"
    );
    assert_no_secret(&guarded, &gate);
    for secret in guarded.secrets() {
        assert!(!gate.output().contains(&secret), "in the log");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_is_no_secret_that_other_verbs_touch() {
    let guarded = Guarded::start(3600).unwrap();
    let gate = gate_before(&guarded).await;
    log_in(&gate, &[]).await;
    let listed = gate.cli(&["secret", "list"]).await.unwrap();
    assert!(!listed.stdout.contains("login"), "{listed:?}");
    for args in [
        &["secret", "delete", "login.guarded"][..],
        &["secret", "set", "login.guarded"],
        &[
            "servers",
            "login",
            "guarded",
            "--paste",
            "--param",
            "state=mine",
        ],
    ] {
        let said = gate.cli_with_input(args, "x").await.unwrap();
        assert_eq!(said.code, Some(2), "{said:?}");
    }
    assert!(!echo(&gate).await.is_error);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_token_reaches_an_open_connection_of_the_oldest_kind() {
    let guarded = Guarded::start(3600).unwrap();
    guarded.with(|books| books.is_legacy = true);
    let gate = gate_before(&guarded).await;
    log_in(&gate, &[]).await;
    assert!(!echo(&gate).await.is_error);
    for round in 1..=3 {
        guarded.end_tokens();
        let called = echo(&gate).await;
        assert!(!called.is_error, "{called:?}");
        assert_eq!(guarded.granted("refresh_token"), round);
        assert_eq!(
            server(&gate, "guarded").await["login"]["state"],
            "connected"
        );
    }
    guarded.forget_logins();
    guarded.end_tokens();
    let called = echo(&gate).await;
    assert!(called.is_error, "{called:?}");
    let now = eventually("a login that has ended", SOON, || async {
        let now = server(&gate, "guarded").await;
        match now["login"]["state"].as_str() {
            Some("expired") => Ok(now),
            _ => Err(now.to_string()),
        }
    })
    .await;
    assert_eq!(now["login"]["state"], "expired", "{now}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_is_stopped_while_it_renews_keeps_its_login() {
    let guarded = Guarded::start(3600).unwrap();
    let mut gate = gate_before(&guarded).await;
    log_in(&gate, &[]).await;
    let asked = guarded.with(|books| {
        books.thinks = Duration::from_secs(4);
        books.asked
    });
    guarded.end_tokens();
    let client = client(&gate, Era::Legacy).await;
    let call = client.start(
        "tools/call",
        json!({ "name": "guarded__echo", "arguments": { "text": "x" } }),
    );
    eventually("a renewal under way", SOON, || async {
        match guarded.with(|books| books.asked) > asked {
            true => Ok(()),
            false => Err("nothing was asked".to_owned()),
        }
    })
    .await;
    drop((call, client));
    // Said twice, so that the call is cancelled and only the renewal is waited for.
    testkit::gate::signal(gate.pid(), Signal::INT).unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    gate.stop().await.unwrap();
    // What the authorization server gives now has replaced what the gate had.
    eventually("the answer", SOON, || async {
        match guarded.granted("refresh_token") {
            0 => Err("not yet".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    guarded.with(|books| books.thinks = Duration::ZERO);
    gate.start_again().await.unwrap();
    assert!(!echo(&gate).await.is_error);
    assert_eq!(guarded.with(|books| books.reused), 0);
}
