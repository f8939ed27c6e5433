//! Envelopes, tokens and keys.

use std::sync::LazyLock;

use identity::{Envelope, Expect, Jwks, PublicKey, TokenKeys, access};
use wire::{
    Json, Limits,
    canonical::{Order, canonical_after},
};

/// What was signed is what was parsed: the signing input says the same call, token and second as the envelope.
pub fn envelope(data: &[u8]) {
    let Ok(envelope) = Envelope::parse(data) else {
        return;
    };
    assert!(
        Json::parse(data, Limits::default()).is_ok(),
        "accepted what is not JSON"
    );
    for order in [Order::CodePoint, Order::Utf16] {
        let input = envelope.signing_input(order);
        let json = Json::parse(&input, Limits::new(8 << 20, 80));
        let Ok(json) = json else {
            return assert!(json.is_ok(), "signed what is not JSON");
        };
        assert_eq!(json.fields().count(), 3);
        assert_eq!(
            json.get("security_token").and_then(Json::as_str).as_deref(),
            Some(envelope.token())
        );
        assert_eq!(
            json.get("timestamp").and_then(Json::as_u64),
            Some(envelope.seconds())
        );
        let payload = json
            .get("payload")
            .map(|payload| canonical_after(Vec::new(), payload, order));
        assert_eq!(
            payload,
            Some(canonical_after(Vec::new(), envelope.payload(), order))
        );
    }
}

static KEYS: LazyLock<Option<TokenKeys>> = LazyLock::new(|| TokenKeys::generate(&[7; 32]).ok());

/// No text is a token of a key that nobody used; and nothing about keys depends on how often one looks.
pub fn token(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Some(keys) = &*KEYS {
        assert!(
            keys.verify(
                &text,
                &Expect {
                    issuer: "i",
                    audience: "a"
                },
                0
            )
            .is_err(),
            "a forged token"
        );
    }
    assert_eq!(access::claimed_issuer(&text), access::claimed_issuer(&text));
    if let Ok(set) = Jwks::parse(data) {
        for (_, key) in set.ring().iter() {
            let again = Jwks::parse(format!(r#"{{"keys":[{}]}}"#, key.to_jwk()).as_bytes());
            assert!(
                again.is_ok_and(|again| again.ring().only() == Some(key)),
                "a key was changed"
            );
        }
    }
    if let Ok(key) = PublicKey::parse(&text) {
        assert_eq!(PublicKey::parse(&key.to_base64()), Ok(key));
    }
}
