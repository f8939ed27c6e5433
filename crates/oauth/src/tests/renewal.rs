//! Keeping a login alive.

use proptest::prelude::*;
use secrets::Secret;
use serde_json::json;

use super::play::{NOW, SERVER, Stage, answer, moment, plan};
use crate::{
    Answer, Body, Login, SigningKey,
    renewal::{Outcome, due, outcome, request},
};

fn login() -> Login {
    Stage::new().play(plan()).unwrap()
}

#[test]
fn renewing_asks_where_the_tokens_came_from() {
    let login = login();
    let request = request(&login, None, None, moment()).unwrap().unwrap();
    assert_eq!(request.to.url(), "https://auth.example/token");
    let Body::Form(form) = &request.body else {
        panic!()
    };
    let resource: String = url::form_urlencoded::byte_serialize(SERVER.as_bytes()).collect();
    assert_eq!(
        form.expose(),
        format!("grant_type=refresh_token&refresh_token=rt-1&resource={resource}&client_id=dyn-1")
    );
    let mut without = login;
    without.refresh = None;
    assert!(
        crate::renewal::request(&without, None, None, moment())
            .unwrap()
            .is_none()
    );
    // What a client got for itself, it asks for again.
    without.is_machine = true;
    let again = crate::renewal::request(&without, None, None, moment())
        .unwrap()
        .unwrap();
    let Body::Form(form) = &again.body else {
        panic!()
    };
    assert!(form.expose().starts_with("grant_type=client_credentials&"));
    // What the place we run in vouched for, it vouches for again; nothing else is tried.
    without.assertion_file = Some("/run/token".into());
    let none = crate::renewal::request(&without, None, None, moment());
    assert!(none.unwrap().is_none());
    let assertion = Secret::new("the.assertion".into());
    let again = crate::renewal::request(&without, Some(&assertion), None, moment())
        .unwrap()
        .unwrap();
    let Body::Form(form) = &again.body else {
        panic!()
    };
    assert!(form.expose().starts_with(
        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=the.assertion&"
    ));
}

/// A new refresh token replaces the old one; none leaves it.
#[test]
fn a_refresh_token_stays_until_it_is_replaced() {
    let login = login();
    let renewed = |json| match outcome(&login, &Ok(answer(200, &json)), 0, NOW + 10) {
        Outcome::Renewed(login) => login,
        other => panic!("{other:?}"),
    };
    let kept = renewed(json!({"access_token": "at-2", "token_type": "Bearer", "expires_in": 100}));
    assert_eq!(
        (
            kept.access.expose(),
            kept.refresh.as_ref().unwrap().expose()
        ),
        ("at-2", "rt-1")
    );
    assert_eq!(kept.expires_at, Some(NOW + 110));
    let rotated =
        renewed(json!({"access_token": "at-2", "token_type": "Bearer", "refresh_token": "rt-2"}));
    assert_eq!(rotated.refresh.as_ref().unwrap().expose(), "rt-2");
    assert_eq!((rotated.expires_at, &rotated.issuer), (None, &login.issuer));
}

/// Network, 5xx, 429 and nonsense are waited out; a 200 with an error is an error.
#[test]
fn only_invalid_grant_ends_a_login() {
    let login = login();
    let judge = |exchange, tried| outcome(&login, &exchange, tried, NOW);
    for status in [200, 400, 401, 500] {
        assert!(matches!(
            judge(Ok(answer(status, &json!({"error": "invalid_grant"}))), 0),
            Outcome::Ended(_)
        ));
    }
    assert!(matches!(
        judge(Ok(answer(401, &json!({"error": "invalid_client"}))), 0),
        Outcome::ClientRefused(_)
    ));
    let nonsense = Answer {
        json: None,
        ..answer(200, &json!({}))
    };
    let others = [
        Ok(nonsense),
        Err("refused".to_owned()),
        Ok(answer(500, &json!({}))),
        Ok(answer(400, &json!({"error": "temporarily_unavailable"}))),
        Ok(answer(200, &json!({}))),
    ];
    for other in others {
        assert!(matches!(judge(other, 0), Outcome::Later { seconds: 1, .. }));
    }
    let seconds = |tried, retry_after| match judge(
        Ok(Answer {
            retry_after,
            ..answer(429, &json!({}))
        }),
        tried,
    ) {
        Outcome::Later { seconds, .. } => seconds,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        [0, 1, 2, 3, 4, 5, 6, 60].map(|tried| seconds(tried, None)),
        [1, 2, 4, 8, 16, 32, 60, 60]
    );
    assert_eq!(
        (seconds(0, Some(30)), seconds(0, Some(999_999))),
        (30, 3600)
    );
}

#[test]
fn a_nonce_is_answered_by_a_login_with_a_key() {
    let wants = || Answer {
        dpop_nonce: Some("n".into()),
        ..answer(400, &json!({"error": "use_dpop_nonce"}))
    };
    let mut login = login();
    login.key = None;
    let without = outcome(&login, &Ok(wants()), 0, NOW);
    assert!(matches!(without, Outcome::Later { .. }), "{without:?}");
    login.key = Some(SigningKey::generate().unwrap());
    assert!(matches!(outcome(&login, &Ok(wants()), 0, NOW), Outcome::Nonce(nonce) if nonce == "n"));
}

#[test]
fn a_login_that_cannot_be_renewed_is_never_due() {
    let mut login = login();
    login.expires_at = Some(login.obtained_at + 3600);
    assert!(due(&login, 0).is_some());
    login.refresh = None;
    assert_eq!(due(&login, 0), None);
    login.is_machine = true;
    assert!(due(&login, 0).is_some());
}

proptest! {
    /// After half of its life at the earliest, in time before its end, and never twice at once for all.
    #[test]
    fn a_login_is_renewed_in_time(life in 0u64..10_000_000, spread: u8) {
        let mut login = login();
        login.expires_at = Some(login.obtained_at + life);
        let at = due(&login, spread).unwrap() - login.obtained_at;
        prop_assert!(at >= life / 2 && at <= life);
        if life >= 1000 {
            prop_assert!(at <= life - 60 && at <= life / 5 * 4 + life / 10);
        }
    }
}

/// A host that the server named is looked up anew for each renewal, and must not turn out to be inside by then.
#[test]
fn a_renewal_reaches_no_further_than_the_login_did() {
    let reach = |issuer: Option<&str>| {
        let mut plan = plan();
        plan.issuer = issuer.map(str::to_owned);
        let login = Stage::new().play(plan).unwrap();
        let login = Login::open(&login.seal(), crate::Plain::OnLoopback).unwrap();
        login.near().unwrap().reach(&login.token_endpoint)
    };
    assert_eq!(reach(None), "public");
    assert_eq!(reach(Some("https://auth.example/tenant")), "anywhere");
}
