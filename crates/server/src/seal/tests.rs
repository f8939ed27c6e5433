use std::time::Duration;

use gateway::Outcome;
use http::StatusCode;
use vocab::{Fault, FaultKind, Rule, Stop, Violation};
use wire::{Json, Limits};

use super::{Verb, render};

fn said(rule: Rule) -> (u16, i64) {
    let outcome = Outcome::Stopped(Stop::Refused(Violation::new(rule, "for the operator")));
    let said = render::outcome(None, outcome);
    let json = Json::parse(&said.body, Limits::default()).unwrap();
    let message = json
        .path(&["error", "message"])
        .and_then(Json::as_str)
        .unwrap();
    assert!(!message.contains("for the operator"), "{message}");
    (
        said.status.as_u16(),
        json.path(&["error", "code"])
            .and_then(Json::as_i64)
            .unwrap(),
    )
}

#[test]
fn every_rule_has_the_status_of_the_table() {
    for &rule in Rule::ALL {
        let wanted = match rule {
            Rule::InvalidArguments | Rule::InvalidParameters | Rule::PotentialInjection => {
                (422, -32602)
            }
            Rule::Malformed => (400, -32600),
            Rule::SignatureVerificationFailed
            | Rule::TokenExpired
            | Rule::EnvelopeExpired
            | Rule::EnvelopeReplayed
            | Rule::Unauthenticated => (401, -32000),
            Rule::ToolNotServed => (501, -32000),
            Rule::LedgerUnavailable => (500, -32603),
            Rule::InvalidResult | Rule::ResultDropped | Rule::ResultTooLarge => (502, -32603),
            _ => (403, -32000),
        };
        assert_eq!(said(rule), wanted, "{rule}");
    }
}

#[test]
fn a_missing_argument_is_said_as_the_document_says_it() {
    let hint = "required field 'manifest_yaml' is missing or null for tool 'aegis.agent.create'";
    let violation = Violation::new(Rule::InvalidArguments, "").with_hint(hint);
    let said = render::refusal(None, &violation);
    let json = Json::parse(&said.body, Limits::default()).unwrap();
    let wanted =
        format!(r#"{{"code":-32602,"message":"Invalid tool arguments: {hint}","data":null}}"#);
    assert_eq!(json.get("error").unwrap().text(), wanted);
    assert_eq!(json.get("jsonrpc").and_then(Json::as_str).unwrap(), "2.0");
}

#[test]
fn both_kinds_of_clients_find_the_result() {
    let id = br#""req-1""#;
    let said = render::outcome(
        Some(Json::checked_before(id)),
        Outcome::Result(br#"{"content":[]}"#.to_vec().into()),
    );
    assert_eq!(said.status, StatusCode::OK);
    let json = Json::parse(&said.body, Limits::default()).unwrap();
    for path in [&["result"][..], &["payload", "result"]] {
        assert_eq!(json.path(path).unwrap().text(), r#"{"content":[]}"#);
    }
    for path in [&["id"][..], &["payload", "id"]] {
        assert_eq!(json.path(path).unwrap().text(), r#""req-1""#);
    }
    assert_eq!(
        json.get("status").and_then(Json::as_str).unwrap(),
        "success"
    );
}

#[test]
fn waiting_is_said_where_it_helps() {
    let refused =
        Violation::new(Rule::RateLimitExceeded, "").with_retry_after(Duration::from_secs(7));
    assert_eq!(
        render::refusal(None, &refused).retry_after,
        Some(Duration::from_secs(7))
    );
    for (wait, seconds) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (29_100, 30)] {
        assert_eq!(
            render::whole_seconds(Duration::from_millis(wait)),
            seconds,
            "{wait} ms"
        );
    }
    let fault = |kind| render::outcome(None, Outcome::Stopped(Fault::new(kind, "").into()));
    assert_eq!(fault(FaultKind::Upstream).status.as_u16(), 503);
    assert!(fault(FaultKind::Upstream).retry_after.is_some());
    assert_eq!(fault(FaultKind::Timeout).status.as_u16(), 504);
    assert_eq!(fault(FaultKind::Gate).status.as_u16(), 500);
}

#[test]
fn paths_are_the_ones_there_are() {
    assert_eq!(
        Verb::parse("sessions/e-1"),
        Some(Verb::Session("e-1".into()))
    );
    for nothing in ["", "sessions/", "sessions/a/b", "invoke/x", "Attest"] {
        assert_eq!(Verb::parse(nothing), None, "{nothing}");
    }
}
