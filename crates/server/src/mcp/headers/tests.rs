use http::{HeaderMap, HeaderName, HeaderValue};
use wire::{Json, Limits};

use super::{method_agrees, name_agrees, param_agrees, version_agrees};

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        map.append(
            HeaderName::try_from(*name).unwrap(),
            HeaderValue::from_bytes(value.as_bytes()).unwrap(),
        );
    }
    map
}

fn json(text: &str) -> Json<'_> {
    Json::parse(text.as_bytes(), Limits::default()).unwrap()
}

#[test]
fn the_version_must_be_there_once_and_agree() {
    assert!(
        version_agrees(
            &headers(&[("MCP-Protocol-Version", " 2026-07-28 ")]),
            "2026-07-28"
        )
        .is_ok()
    );
    for wrong in [
        &[][..],
        &[("mcp-protocol-version", "2025-11-25")],
        &[
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-protocol-version", "2026-07-28"),
        ],
    ] {
        assert_eq!(
            version_agrees(&headers(wrong), "2026-07-28")
                .unwrap_err()
                .code,
            -32020
        );
    }
}

#[test]
fn the_method_is_case_sensitive_and_its_header_name_is_not() {
    assert!(method_agrees(&headers(&[("MCP-METHOD", "tools/list")]), "tools/list").is_ok());
    for wrong in ["TOOLS/LIST", "tools/call", "tools/list x", ""] {
        assert_eq!(
            method_agrees(&headers(&[("mcp-method", wrong)]), "tools/list")
                .unwrap_err()
                .code,
            -32020,
            "{wrong}"
        );
    }
    assert!(method_agrees(&HeaderMap::new(), "tools/list").is_err());
}

#[test]
fn the_name_repeats_what_the_method_names() {
    let body = json(r#"{"name":"echo","uri":"file:///a%20b","taskId":"t 1"}"#);
    let cases = [
        ("tools/call", "echo"),
        ("prompts/get", "echo"),
        ("resources/read", "file:///a%20b"),
        ("tasks/get", "t 1"),
        ("tasks/update", "t 1"),
        ("tasks/cancel", "t 1"),
    ];
    for (method, name) in cases {
        assert!(
            name_agrees(
                &headers(&[("mcp-name", &format!("  {name}  "))]),
                method,
                Some(body)
            )
            .is_ok(),
            "{method}"
        );
        assert!(
            name_agrees(&headers(&[("mcp-name", "other")]), method, Some(body)).is_err(),
            "{method}"
        );
        assert!(
            name_agrees(&HeaderMap::new(), method, Some(body)).is_err(),
            "{method}"
        );
    }
    assert!(name_agrees(&HeaderMap::new(), "tools/list", Some(body)).is_ok());
}

#[test]
fn names_that_headers_cannot_carry_come_encoded() {
    let body = json(r#"{"name":"é\n"}"#);
    let encoded = wire::header::encode("é\n").into_owned();
    assert!(
        name_agrees(
            &headers(&[("mcp-name", &encoded)]),
            "tools/call",
            Some(body)
        )
        .is_ok()
    );
    assert!(name_agrees(&headers(&[("mcp-name", "é")]), "tools/call", Some(body)).is_err());
}

#[test]
fn arguments_repeat_in_their_headers() {
    let rows = [
        (Some("=?base64?SGVsbG8=?="), Some(r#""Hello""#), true),
        (Some("Hello"), Some(r#""Hello""#), true),
        (Some("=?base64?SGVsbG8?="), Some(r#""Hello""#), false),
        (Some("=?base64?SGVs!!!bG8=?="), Some(r#""Hello""#), false),
        (Some("SGVsbG8="), Some(r#""SGVsbG8=""#), true),
        (
            Some("=?base64?SGVsbG8="),
            Some(r#""=?base64?SGVsbG8=""#),
            true,
        ),
        (None, Some(r#""Hello""#), false),
        (None, None, true),
        (None, Some("null"), true),
        (Some("null"), Some("null"), false),
        (Some("x"), None, false),
        (Some(""), Some(r#""""#), true),
        (Some("true"), Some("true"), true),
        (Some("True"), Some("true"), false),
        (Some("42"), Some("42"), true),
        (Some("42"), Some("42.0"), true),
        (Some("9007199254740993"), Some("9007199254740992"), false),
        (Some("{}"), Some("{}"), false),
    ];
    for (header, argument, agrees) in rows {
        let map = header.map_or_else(HeaderMap::new, |value| {
            headers(&[("mcp-param-text", value)])
        });
        for name in ["Text", "mcp-param-text", "Mcp-Param-Text"] {
            assert_eq!(
                param_agrees(&map, name, argument.map(json)).is_ok(),
                agrees,
                "{header:?} {argument:?}"
            );
        }
    }
    assert!(
        param_agrees(
            &headers(&[("mcp-param-text", "a"), ("mcp-param-text", "a")]),
            "Text",
            Some(json(r#""a""#))
        )
        .is_err()
    );
}
