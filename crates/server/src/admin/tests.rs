use vocab::Level;
use wire::{Json, Limits};

use super::{Params, Verb, params_of_query};

fn params<T>(text: &str, read: impl Fn(Params<'_>) -> Result<T, String>) -> Result<T, String> {
    read(Params::read(
        Json::parse(text.as_bytes(), Limits::new(1 << 20, 16)).unwrap(),
    )?)
}

#[test]
fn looking_is_a_get_and_changing_is_a_post() {
    let looks = [
        "status",
        "servers",
        "tools",
        "servers/a/definitions",
        "sessions",
        "approvals",
    ];
    let changes = [
        "reload",
        "servers/a/retry",
        "servers/a/classify",
        "servers/a/block",
        "servers/a/unblock",
        "servers/a/approve",
        "sessions/desk/reset",
        "approvals/a1-b2/approve",
        "approvals/a1-b2/deny",
        "policy/explain",
    ];
    for path in looks {
        assert!(Verb::parse(path).unwrap().only_looks(), "{path}");
    }
    for path in changes {
        assert!(!Verb::parse(path).unwrap().only_looks(), "{path}");
    }
}

#[test]
fn a_caller_may_be_named_with_anything() {
    assert_eq!(
        Verb::parse("sessions/Ann's laptop/reset"),
        Some(Verb::ResetSession("Ann's laptop".into()))
    );
    assert_eq!(
        Verb::parse("sessions/a/b/reset"),
        Some(Verb::ResetSession("a/b".into()))
    );
    assert_eq!(Verb::parse("sessions/reset"), None);
    assert_eq!(Verb::parse("sessions//reset"), None);
}

#[test]
fn an_approval_is_named_by_its_id() {
    let answer = |approve| {
        Some(Verb::Answer {
            approval: "01JX-7".into(),
            approve,
        })
    };
    assert_eq!(Verb::parse("approvals/01JX-7/approve"), answer(true));
    assert_eq!(Verb::parse("approvals/01JX-7/deny"), answer(false));
    for nothing in [
        "approvals//approve",
        "approvals/a/b/approve",
        "approvals/a/maybe",
        "approvals/a%20/approve",
        "approvals/approve",
    ] {
        assert_eq!(Verb::parse(nothing), None, "{nothing}");
    }
}

#[test]
fn parameters_are_read_or_refused_in_words() {
    assert_eq!(params("{}", |params| params.reason()).unwrap(), "");
    assert_eq!(
        params(r#"{"reason":" it leaks "}"#, |params| params.reason()).unwrap(),
        "it leaks"
    );
    assert!(
        params("{}", |params| params.required_reason())
            .unwrap_err()
            .contains("say why")
    );
    assert!(
        params(r#"{"reason":"  "}"#, |params| params.required_reason())
            .unwrap_err()
            .contains("say why")
    );
    assert!(
        params(r#"{"reason":7}"#, |params| params.reason())
            .unwrap_err()
            .contains("must be text")
    );
    assert!(
        params(r#"{"reason":"a\u001b[2J"}"#, |params| params.reason())
            .unwrap_err()
            .contains("one line")
    );
    assert!(
        params(
            &format!(r#"{{"reason":"{}"}}"#, "x".repeat(501)),
            |params| params.reason()
        )
        .unwrap_err()
        .contains("500")
    );
    assert_eq!(
        params(r#"{"level":"PUBLIC"}"#, |params| params.level()).unwrap(),
        Level::Public
    );
    assert!(
        params(r#"{"level":"public"}"#, |params| params.level())
            .unwrap_err()
            .contains("PUBLIC")
    );
    assert!(
        params("[]", |params| params.reason())
            .unwrap_err()
            .contains("JSON object")
    );
    assert_eq!(
        params(r#"{"names":null}"#, |params| params.names()).unwrap(),
        Vec::<String>::new()
    );
    assert_eq!(
        params(r#"{"names":["tool:a","b"]}"#, |params| params.names()).unwrap(),
        ["tool:a", "b"]
    );
    for bad in [
        r#"{"names":"a"}"#,
        r#"{"names":[1]}"#,
        r#"{"names":[""]}"#,
        &format!(r#"{{"names":[{}1]}}"#, "\"a\",".repeat(1000)),
    ] {
        assert!(params(bad, |params| params.names()).is_err());
    }
    assert!(!params("{}", |params| params.flag("all")).unwrap());
    assert!(params(r#"{"all":1}"#, |params| params.flag("all")).is_err());
    assert_eq!(&params_of_query("all")[..], b"{\"all\":true}");
    assert_eq!(&params_of_query("all=false&x")[..], b"{}");
}
