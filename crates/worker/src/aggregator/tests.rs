//! The parts that need no connection.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderName;
use proptest::prelude::*;
use serde_json::json;
use wire::{Json, Limits};

use super::{
    call::{Abilities, Answer, Call, Stop},
    http::is_reserved,
    incoming::Incoming,
    outgoing::value,
    plan::Plan,
};
use crate::failure::Kind;

fn parsed(text: &str) -> Json<'_> {
    Json::parse(text.as_bytes(), Limits::default()).unwrap()
}

fn plan(properties: serde_json::Value) -> Plan {
    let tool = json!({"name": "t", "inputSchema": {"type": "object", "properties": properties}})
        .to_string();
    Plan::of(parsed(&tool))
}

#[test]
fn annotations_that_break_the_rules_make_the_tool_invalid() {
    let good = plan(
        json!({"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": ["integer", "null"], "x-mcp-header": "B"}}),
    );
    assert_eq!(good.invalid, None);
    assert!(
        plan(json!({"x-mcp-header": {"type": "string"}})).is_plain(),
        "a property may bear that name"
    );
    assert!(
        plan(json!({"a": {"type": "object", "default": {"x-mcp-header": 1}}})).is_plain(),
        "example values are data"
    );
    let bad = [
        json!({"a": {"type": "string", "x-mcp-header": ""}}),
        json!({"a": {"type": "string", "x-mcp-header": "a b"}}),
        json!({"a": {"type": "string", "x-mcp-header": "a:b"}}),
        json!({"a": {"type": "string", "x-mcp-header": "ä"}}),
        json!({"a": {"type": "string", "x-mcp-header": "a\nb"}}),
        json!({"a": {"type": "string", "x-mcp-header": 1}}),
        json!({"a": {"type": "number", "x-mcp-header": "A"}}),
        json!({"a": {"type": "object", "x-mcp-header": "A"}}),
        json!({"a": {"type": "array", "x-mcp-header": "A"}}),
        json!({"a": {"type": "null", "x-mcp-header": "A"}}),
        json!({"a": {"x-mcp-header": "A"}}),
        json!({"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}}),
        json!({"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}}),
        json!({"a": {"anyOf": [{"type": "string", "x-mcp-header": "A"}]}}),
    ];
    for properties in bad {
        assert!(plan(properties.clone()).invalid.is_some(), "{properties}");
    }
}

#[test]
fn integers_are_mirrored_in_plain_digits() {
    let plan = plan(json!({"n": {"type": "integer", "x-mcp-header": "N"}}));
    for (written, sent) in [
        ("42", "42"),
        ("-7", "-7"),
        ("42.0", "42"),
        ("1e3", "1000"),
        ("0.5", "0.5"),
    ] {
        let arguments = format!("{{\"n\":{written}}}");
        let headers = plan.headers(Some(parsed(&arguments))).unwrap();
        assert_eq!(headers[0].1, sent);
    }
    assert!(
        plan.headers(Some(parsed("{\"n\":null}")))
            .unwrap()
            .is_empty()
    );
    assert!(plan.headers(Some(parsed("{\"n\":{}}"))).unwrap().is_empty());
    assert!(plan.headers(None).unwrap().is_empty());
}

#[test]
fn capabilities_decide_what_a_client_can_be_asked() {
    let read = |text: &str| Abilities::read(parsed(text));
    let form = read(r#"{"elicitation":{}}"#);
    assert!(
        form.allows("elicitation/create", None)
            && !form.allows("elicitation/create", Some(parsed(r#"{"mode":"url"}"#)))
    );
    let url = read(r#"{"elicitation":{"url":{}}}"#);
    assert!(
        url.allows("elicitation/create", Some(parsed(r#"{"mode":"url"}"#)))
            && !url.allows("elicitation/create", None)
    );
    let none = read("{}");
    for method in [
        "elicitation/create",
        "sampling/createMessage",
        "roots/list",
        "tools/call",
    ] {
        assert!(!none.allows(method, None), "{method}");
    }
    assert!(read(r#"{"roots":{}}"#).allows("roots/list", None));
}

#[test]
fn the_protocols_own_headers_cannot_be_configured() {
    for name in [
        "accept",
        "content-type",
        "host",
        "content-length",
        "mcp-session-id",
        "mcp-param-x",
        "last-event-id",
        "transfer-encoding",
    ] {
        assert!(is_reserved(&HeaderName::from_static(name)), "{name}");
    }
    for name in ["authorization", "x-api-key", "cookie"] {
        assert!(!is_reserved(&HeaderName::from_static(name)), "{name}");
    }
}

/// A long result is found without being validated, and nothing else may be long.
#[tokio::test]
async fn of_a_long_message_only_the_result_may_be_long() {
    let padding = "x".repeat(5 << 20);
    let read = |text: String| Incoming::read(text.into(), 32 << 20);
    let text =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\n\"result\":{{\"a\":\"{padding}\",\"b\":tru}}}}");
    let Ok(Incoming::Result {
        id,
        result,
        is_checked,
    }) = read(text).await
    else {
        panic!("not a result")
    };
    assert_eq!(
        (id, is_checked, result.len()),
        (Some(7), false, padding.len() + 16)
    );
    for (message, kind) in [
        (
            format!("{{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":{{\"a\":\"{padding}\"}}}}"),
            Kind::TooLarge,
        ),
        (
            format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{{\"code\":1,\"message\":\"{padding}\"}}}}"
            ),
            Kind::TooLarge,
        ),
        (
            format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":1,\"result\":{{\"a\":\"{padding}\"}}}}"
            ),
            Kind::TooLarge,
        ),
        (
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{{,\"result\":{{\"a\":\"{padding}\"}}}}"),
            Kind::Invalid,
        ),
    ] {
        assert_eq!(read(message).await.unwrap_err().kind, kind);
    }
}

#[test]
fn messages_are_cut_from_their_own_bytes_and_put_on_one_line() {
    let text = Bytes::from_static(
        b"{\r\n \"jsonrpc\": \"2.0\",\n \"id\": 7,\n \"result\": {\n  \"n\": 1.50\n }\n}",
    );
    let Incoming::Result {
        id,
        result,
        is_checked: true,
    } = Incoming::parse(text, 1000).unwrap()
    else {
        panic!("not a result")
    };
    assert_eq!((id, &result[..]), (Some(7), &b"{   \"n\": 1.50  }"[..]));
    for (bad, kind) in [
        ("[]", Kind::Invalid),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":1,\"a\":1}}",
            Kind::Invalid,
        ),
        ("{}", Kind::Invalid),
    ] {
        assert_eq!(
            Incoming::parse(Bytes::from_static(bad.as_bytes()), 1000)
                .unwrap_err()
                .kind,
            kind,
            "{bad}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_calls_clock_stops_for_questions_and_only_for_them() {
    let call = Call::new(
        1,
        String::new(),
        Abilities::default(),
        false,
        Duration::from_millis(100),
    );
    let before = tokio::time::Instant::now();
    let (key, answer) = call.open_ask(None).unwrap();
    let answering = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(call.answer(&key, Answer::Result(Bytes::from_static(b"{}"))));
        assert!(
            !call.answer(&key, Answer::Result(Bytes::from_static(b"{}"))),
            "a question is answered once"
        );
        answer.await.unwrap();
    };
    let (stop, ()) = tokio::join!(call.interrupted(), answering);
    assert!(matches!(stop, Stop::TimedOut));
    let took = before.elapsed();
    assert!(
        took >= Duration::from_millis(60_099) && took < Duration::from_millis(60_300),
        "{took:?}"
    );
    let asks: Vec<_> = std::iter::from_fn(|| call.open_ask(None))
        .take(100)
        .collect();
    assert_eq!(asks.len(), 16, "questions are bounded");
}

proptest! {
    #[test]
    fn any_text_can_be_a_header_value_and_be_read_back(text in any::<String>()) {
        let header = value(&text).unwrap();
        let back = wire::header::decode(header.to_str().unwrap()).unwrap().into_owned();
        prop_assert_eq!(back, text);
    }

    #[test]
    fn nothing_a_server_sends_makes_parsing_panic(text in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Incoming::parse(text.into(), 1 << 20);
    }
}
