use crate::{AgentKey, Envelope, Freshness, Malformed, PublicKey, tests::flipped};
use sha2::{Digest, Sha256};
use wire::{Limits, canonical::Order};

use super::json;

/// RFC 8032, test 1.
const SEED: [u8; 32] = [
    0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4,
    0x44, 0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60,
];
const PUBLIC: &str = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
/// The tokens of the two published vectors.
const TOKEN: &str = "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ0ZXN0In0.c2lnbmF0dXJl";
const LONG_TOKEN: &str = "eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJ0ZXN0LWFnZW50LTEyMyIsInNjcCI6InJlYWQtb25seS1yZXNlYXJjaCIsIndpZCI6ImRvY2tlcjovL3Rlc3QiLCJpYXQiOjE3MDgyNjE5MjEsImV4cCI6MTcwODI2NTUyMX0.signature_placeholder";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn envelope(payload: &str, signature: &str, timestamp: &str) -> String {
    format!(
        r#"{{"protocol":"seal/v1","security_token":"{TOKEN}","signature":"{signature}","payload":{payload},"timestamp":{timestamp}}}"#
    )
}

/// The two vectors that the Python client produced: token, payload, digest of what it signed, signature.
const VECTORS: [(&str, &str, &str, &str); 2] = [
    (
        TOKEN,
        r#"{"jsonrpc":"2.0","id":1,"method":"test"}"#,
        "f49043299f12f278397fa2502fb1566432c506c83a162bc271b3666f8618b837",
        "xsXhC8K7RAOQCHv3t5gSqF6yZ2Slz5jYV829jP6aZ8JFuZy1V5Qk1/q2gjBgS9DHp6fIKhSSpSjh+g6wXtU1BQ==",
    ),
    (
        LONG_TOKEN,
        r#"{"jsonrpc":"2.0","id":"req-test-001","method":"tools/call","params":{"name":"fs.read","arguments":{"path":"/workspace/test.txt"}}}"#,
        "50fb4c4ea42d5da99c880a714d4e2a1fca97d1d6e3f2cd42e6d3c0a4f8219f0e",
        "+fYPYqJqonlj29Zk2C+FV54nYaaGCvQ4y0Pt9JYlTfX943l/diPADP3sQHrFn2lOeA0j1OEn2oX01zKiPQ1+DA==",
    ),
];

#[test]
fn published_vectors_verify() {
    let key = PublicKey::parse(PUBLIC).unwrap();
    for (token, payload, digest, signature) in VECTORS {
        let text = envelope(payload, signature, "1708261921").replace(TOKEN, token);
        let parsed = Envelope::parse(text.as_bytes()).unwrap();
        assert_eq!(
            hex(&Sha256::digest(parsed.signing_input(Order::CodePoint))),
            digest
        );
        assert!(key.verifies(&parsed));
        // Ed25519 is deterministic, so our own client signs the same.
        let ours =
            AgentKey::from_seed(&SEED)
                .unwrap()
                .envelope(json(payload), token, 1_708_261_921_500);
        assert_eq!(Envelope::parse(&ours).unwrap().signature_text(), signature);
    }
}

#[test]
fn what_python_and_javascript_sign_verifies() {
    let key = PublicKey::parse(PUBLIC).unwrap();
    for text in [
        include_str!("signed/python.json"),
        include_str!("signed/node.json"),
    ] {
        let parsed = Envelope::parse(text.as_bytes()).unwrap();
        assert_eq!(parsed.seconds(), 1_708_261_921);
        assert!(key.verifies(&parsed), "{text}");
    }
    // The second sorts an emoji before U+FFFD, so only the second order finds it.
    let node = Envelope::parse(include_bytes!("signed/node.json")).unwrap();
    assert!(!key.verifies_bytes(&node.signing_input(Order::CodePoint), node.signature()));
}

#[test]
fn every_flipped_bit_of_an_envelope_is_refused() {
    let key = PublicKey::parse(PUBLIC).unwrap();
    let (token, payload, _, signature) = VECTORS[1];
    for timestamp in ["1708261921", r#""2024-02-18T13:12:01Z""#] {
        let text = envelope(payload, signature, timestamp).replace(TOKEN, token);
        assert!(key.verifies(&Envelope::parse(text.as_bytes()).unwrap()));
        for (at, changed) in flipped(text.as_bytes()) {
            if let Ok(parsed) = Envelope::parse(&changed) {
                // `T` and `Z` may be written small: the same instant.
                let same =
                    matches!(text.as_bytes()[at], b'T' | b'Z') && parsed.seconds() == 1_708_261_921;
                let in_timestamp = at > text.len() - timestamp.len() - 1;
                assert!(
                    !key.verifies(&parsed) || (same && in_timestamp),
                    "{}",
                    String::from_utf8_lossy(&changed)
                );
            }
        }
    }
}

#[test]
fn a_fraction_is_not_signed_and_changes_nothing() {
    let key = PublicKey::parse(PUBLIC).unwrap();
    let (_, payload, _, signature) = VECTORS[0];
    for timestamp in [
        "2024-02-18T13:12:01.000Z",
        "2024-02-18T13:12:01.999999999Z",
        "2024-02-18T15:12:01+02:00",
        "2024-02-18t08:42:01-04:30",
    ] {
        let text = envelope(payload, signature, &format!("\"{timestamp}\""));
        let parsed = Envelope::parse(text.as_bytes()).unwrap();
        assert_eq!(parsed.seconds(), 1_708_261_921, "{timestamp}");
        assert!(key.verifies(&parsed));
    }
}

#[test]
fn timestamps_that_are_none_are_refused() {
    let (_, payload, _, signature) = VECTORS[0];
    for timestamp in [
        "null",
        "true",
        "-1",
        "1708261921.0",
        "1.7e9",
        "99999999999999",
        r#""""#,
        r#""1708261921""#,
        r#""2024-02-18""#,
        r#""2024-02-18T13:12:01""#,
        r#""2024-02-18 13:12:01Z""#,
        r#""2024-02-30T13:12:01Z""#,
        r#""2023-02-29T13:12:01Z""#,
        r#""2024-13-01T13:12:01Z""#,
        r#""2024-00-01T13:12:01Z""#,
        r#""2024-02-18T24:12:01Z""#,
        r#""2024-02-18T13:60:01Z""#,
        r#""2024-02-18T13:12:60Z""#,
        r#""2024-02-18T13:12:01.Z""#,
        r#""2024-02-18T13:12:01.0000000000Z""#,
        r#""2024-02-18T13:12:01+2:00""#,
        r#""2024-02-18T13:12:01+24:00""#,
        r#""1969-12-31T23:59:59Z""#,
        r#""1970-01-01T00:00:00+00:01""#,
        r#""２024-02-18T13:12:01Z""#,
        "[1708261921]",
    ] {
        let text = envelope(payload, signature, timestamp);
        assert!(
            matches!(
                Envelope::parse(text.as_bytes()),
                Err(Malformed::Wrong {
                    field: "timestamp",
                    ..
                })
            ),
            "{timestamp}"
        );
    }
    for (timestamp, seconds) in [
        ("0", 0),
        (r#""1970-01-01T00:00:00Z""#, 0),
        (r#""2000-02-29T23:59:59Z""#, 951_868_799),
        (r#""2026-02-17T14:32:01Z""#, 1_771_338_721),
        (r#""2100-03-01T00:00:00Z""#, 4_107_542_400),
        (r#""9999-12-31T23:59:59Z""#, 253_402_300_799),
    ] {
        let text = envelope(payload, signature, timestamp);
        assert_eq!(
            Envelope::parse(text.as_bytes()).unwrap().seconds(),
            seconds,
            "{timestamp}"
        );
    }
}

#[test]
fn what_is_no_envelope_says_why() {
    let (_, payload, _, signature) = VECTORS[0];
    let good = envelope(payload, signature, "1708261921");
    let refused = |text: &str| Envelope::parse(text.as_bytes()).unwrap_err();
    assert_eq!(refused("[]"), Malformed::NotAnObject);
    assert!(matches!(refused("{"), Malformed::Json(_)));
    for field in [
        "protocol",
        "security_token",
        "signature",
        "payload",
        "timestamp",
    ] {
        let without = good.replace(&format!("\"{field}\":"), "\"container_id\":");
        assert_eq!(refused(&without), Malformed::Missing(field));
        let twice = good.replacen('{', &format!("{{\"{field}\":null,"), 1);
        assert!(
            matches!(refused(&twice), Malformed::Json(_)),
            "two fields `{field}`"
        );
    }
    for (from, to, field) in [
        ("seal/v1", "smcp/v1", "protocol"),
        ("seal/v1", "SEAL/v1", "protocol"),
        ("\"seal/v1\"", "1", "protocol"),
        (TOKEN, "", "security_token"),
        (TOKEN, "a b", "security_token"),
        (TOKEN, "a\\\"b", "security_token"),
        ("U1BQ==", "U1BQ", "signature"),
        // The same bytes, if unused bits were not looked at.
        ("U1BQ==", "U1BR==", "signature"),
        (payload, "[]", "payload"),
        (payload, "\"call\"", "payload"),
    ] {
        let wrong = refused(&good.replace(from, to));
        assert!(
            matches!(wrong, Malformed::Wrong { field: named, .. } if named == field),
            "{to}: {wrong}"
        );
    }
    assert_eq!(
        refused(&good.replacen('{', "{\"nonce\":1,", 1)),
        Malformed::Unknown("nonce".into())
    );
    assert!(Envelope::parse(good.replacen('{', "{\"container_id\":\"c\",", 1).as_bytes()).is_ok());
    assert!(matches!(
        refused(&good.replace("\"id\":1", "\"id\":1,\"\\u0069d\":2")),
        Malformed::Json(_)
    ));
    let deep = format!("{}1{}", "[".repeat(64), "]".repeat(64));
    assert!(matches!(
        refused(&good.replace(":1,", &format!(":{deep},"))),
        Malformed::Json(_)
    ));
    assert!(matches!(
        Envelope::parse_within(good.as_bytes(), Limits::new(100, 64)),
        Err(Malformed::Json(_))
    ));
}

#[test]
fn fresh_is_thirty_seconds_to_either_side() {
    let now_ms = 1_708_261_921_999;
    for age in -40_i64..=40 {
        let signed_at = 1_708_261_921_u64.checked_add_signed(-age).unwrap();
        let checked = Freshness::STANDARD.check(signed_at, now_ms);
        assert_eq!(checked.is_ok(), age.abs() <= 30, "{age}");
        assert!(checked.err().is_none_or(|stale| stale.age == age));
    }
    assert!(
        Freshness::STANDARD.check(u64::MAX, 0).is_err()
            && Freshness::STANDARD.check(0, u64::MAX).is_err()
    );
}
