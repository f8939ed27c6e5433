use std::sync::{Arc, LazyLock};

use proptest::prelude::*;

use crate::{
    Claims, Expect, JwsError, SigningKey, TokenCache, TokenError, TokenKeys, VerifyingKey, text64,
};

const NOW: u64 = 1_800_000_000_000;
const EXPECT: Expect<'static> = Expect {
    issuer: "portcullis",
    audience: "agents",
};

fn claims() -> Claims {
    Claims {
        iss: "portcullis".into(),
        aud: vec!["agents".into()],
        sub: "agent-1".into(),
        scp: "code-assistant".into(),
        wid: "workload-1".into(),
        jti: "token-1".into(),
        exec_id: "exec-1".into(),
        tenant_id: Some("acme".into()),
        task_summary: None,
        iat: NOW / 1000,
        nbf: None,
        exp: NOW / 1000 + 3600,
    }
}

fn keys() -> TokenKeys {
    TokenKeys::generate(&[1; 32]).unwrap()
}

static KEYS: LazyLock<TokenKeys> = LazyLock::new(keys);

fn rsa_keys() -> TokenKeys {
    TokenKeys::new(SigningKey::parse(include_bytes!("keys/rsa.pem")).unwrap()).unwrap()
}

/// A token with any header and payload, signed as they stand.
fn forge(key: &SigningKey, header: &str, payload: &[u8]) -> String {
    let signed = format!(
        "{}.{}",
        text64::url(header.as_bytes()),
        text64::url(payload)
    );
    let signature = key.sign(signed.as_bytes()).unwrap();
    format!("{signed}.{}", text64::url(&signature))
}

#[test]
fn what_is_issued_verifies_with_both_algorithms() {
    for keys in [keys(), rsa_keys()] {
        let mut full = claims();
        full.aud.push("others".into());
        full.task_summary = Some("Fix \"the\" build\n".into());
        full.nbf = Some(full.iat);
        let mut bare = claims();
        bare.tenant_id = None;
        for claims in [full, bare] {
            let token = keys.issue(&claims, NOW).unwrap();
            assert_eq!(keys.verify(&token, &EXPECT, NOW), Ok(claims));
        }
        let mut long = claims();
        long.task_summary = Some("x".repeat(257));
        let token = keys.issue(&long, NOW).unwrap();
        assert_eq!(
            keys.verify(&token, &EXPECT, NOW).unwrap().task_summary,
            None
        );
    }
}

#[test]
fn every_changed_character_of_a_token_is_refused() {
    for keys in [keys(), rsa_keys()] {
        let token = keys.issue(&claims(), NOW).unwrap();
        for at in 0..token.len() {
            for other in ['A', 'b', '-', '_', '.', '='] {
                let mut changed: Vec<char> = token.chars().collect();
                if changed[at] != other {
                    changed[at] = other;
                    let changed: String = changed.into_iter().collect();
                    assert!(keys.verify(&changed, &EXPECT, NOW).is_err(), "{at} {other}");
                }
            }
        }
    }
}

#[test]
fn times_are_kept_to_the_second() {
    let keys = keys();
    let verify = |change: fn(&mut Claims), now: u64| {
        let mut claims = claims();
        change(&mut claims);
        let payload = claims.to_json();
        let header = format!(r#"{{"alg":"EdDSA","kid":"{}"}}"#, keys.signing_key_id());
        keys.verify(
            &forge(&SigningKey::from_seed(&[1; 32]).unwrap(), &header, &payload),
            &EXPECT,
            now,
        )
        .map(drop)
    };
    let same = |_: &mut Claims| {};
    assert_eq!(verify(same, NOW + 3_599_999), Ok(()));
    assert_eq!(verify(same, NOW + 3_600_000), Err(TokenError::Expired));
    assert_eq!(verify(same, NOW + 24 * 3_600_000), Err(TokenError::Expired));
    assert_eq!(verify(same, NOW - 30_000), Ok(()));
    assert_eq!(verify(same, NOW - 31_000), Err(TokenError::NotYetValid));
    assert_eq!(
        verify(|claims| claims.nbf = Some(NOW / 1000 + 31), NOW),
        Err(TokenError::NotYetValid)
    );
    assert_eq!(
        verify(|claims| claims.nbf = Some(NOW / 1000 + 30), NOW),
        Ok(())
    );
    assert_eq!(
        verify(|claims| claims.exp = claims.iat + 86_400, NOW),
        Ok(())
    );
    assert_eq!(
        verify(|claims| claims.exp = claims.iat + 86_401, NOW),
        Err(TokenError::TooLongLived)
    );
    assert_eq!(
        verify(|claims| claims.exp = u64::MAX, NOW),
        Err(TokenError::TooLongLived)
    );
    assert_eq!(
        verify(|claims| (claims.iat, claims.exp) = (0, 0), NOW),
        Err(TokenError::Expired)
    );
    let mut expired = claims();
    expired.exp = expired.iat;
    assert_eq!(keys.issue(&expired, NOW), Err(TokenError::Expired));
}

#[test]
fn issuer_audience_and_claims_are_demanded() {
    let keys = keys();
    let token = keys.issue(&claims(), NOW).unwrap();
    let other = |expect| keys.verify(&token, &expect, NOW).map(drop);
    assert_eq!(
        other(Expect {
            issuer: "Portcullis",
            ..EXPECT
        }),
        Err(TokenError::Issuer)
    );
    assert_eq!(
        other(Expect {
            audience: "agent",
            ..EXPECT
        }),
        Err(TokenError::Audience)
    );
    let key = SigningKey::from_seed(&[1; 32]).unwrap();
    let header = format!(r#"{{"alg":"EdDSA","kid":"{}"}}"#, keys.signing_key_id());
    let good = String::from_utf8(claims().to_json()).unwrap();
    let verify = |payload: &str| {
        keys.verify(&forge(&key, &header, payload.as_bytes()), &EXPECT, NOW)
            .map(drop)
    };
    assert_eq!(verify(&good), Ok(()));
    for name in [
        "iss", "aud", "sub", "scp", "wid", "jti", "exec_id", "iat", "exp",
    ] {
        assert_eq!(
            verify(&good.replace(&format!("\"{name}\":"), "\"x\":")),
            Err(TokenError::Claims(name))
        );
        let twice = good.replacen('{', &format!("{{\"{name}\":1,"), 1);
        assert_eq!(verify(&twice), Err(TokenError::Claims("{}")), "{twice}");
    }
    for (from, to, name) in [
        ("\"agent-1\"", "\"\"", "sub"),
        ("\"agent-1\"", "7", "sub"),
        ("\"agents\"", "[]", "aud"),
        ("\"agents\"", "[1]", "aud"),
        ("\"agents\"", "{\"agents\":1}", "aud"),
        ("\"acme\"", "null", "tenant_id"),
        ("\"acme\"", "[\"acme\"]", "tenant_id"),
        ("1800000000", "\"1800000000\"", "iat"),
        ("1800003600", "1800003600.5", "exp"),
        ("1800003600", "-1", "exp"),
    ] {
        assert_eq!(
            verify(&good.replace(from, to)),
            Err(TokenError::Claims(name)),
            "{to}"
        );
    }
    for payload in ["", "null", "[]", "\"a\"", "{", "{}{}", "\u{feff}{}"] {
        assert!(verify(payload).is_err());
    }
    // A token inside a token is no claims.
    assert_eq!(verify(&token), Err(TokenError::Claims("{}")));
}

#[test]
fn the_header_decides_nothing() {
    let (ed, rsa) = (
        SigningKey::from_seed(&[1; 32]).unwrap(),
        SigningKey::parse(include_bytes!("keys/rsa.pem")).unwrap(),
    );
    let keys = keys().also_verify(rsa.public().clone()).unwrap();
    let (ed_id, rsa_id) = (
        ed.public().thumbprint().to_owned(),
        rsa.public().thumbprint().to_owned(),
    );
    let payload = claims().to_json();
    let verify = |key: &SigningKey, header: &str| {
        keys.verify(&forge(key, header, &payload), &EXPECT, NOW)
            .map(drop)
    };
    assert_eq!(
        verify(&ed, &format!(r#"{{"alg":"EdDSA","kid":"{ed_id}"}}"#)),
        Ok(())
    );
    assert_eq!(
        verify(
            &rsa,
            &format!(r#"{{"alg":"RS256","kid":"{rsa_id}","typ":"jwt"}}"#)
        ),
        Ok(())
    );
    let algorithms = [
        "none", "None", "NONE", "", "HS256", "HS384", "HS512", "RS256", "rs256", "RS512", "PS256",
        "ES256", "ES256K", "ES384", "EdDSA ", "eddsa", "EDDSA", "Ed25519", "dir", "RSA1_5",
        "A128KW",
    ];
    for algorithm in algorithms {
        let refused = Err(TokenError::Signed(JwsError::Algorithm));
        assert_eq!(
            verify(&ed, &format!(r#"{{"alg":"{algorithm}","kid":"{ed_id}"}}"#)),
            refused,
            "{algorithm}"
        );
        if algorithm != "RS256" {
            assert_eq!(
                verify(
                    &rsa,
                    &format!(r#"{{"alg":"{algorithm}","kid":"{rsa_id}"}}"#)
                ),
                refused,
                "{algorithm}"
            );
        }
    }
    // The signature of one key under the id of the other.
    assert_eq!(
        verify(&ed, &format!(r#"{{"alg":"RS256","kid":"{rsa_id}"}}"#)),
        Err(TokenError::Signed(JwsError::Signature))
    );
    let jwk = SigningKey::from_seed(&[9; 32]).unwrap();
    for (extra, refused) in [
        (format!(r#""jwk":{}"#, jwk.public().to_jwk()), "jwk"),
        (r#""jku":"https://evil.example/keys""#.into(), "jku"),
        (r#""x5u":"https://evil.example/cert""#.into(), "x5u"),
        (r#""x5c":["MIIB"]"#.into(), "x5c"),
        (r#""crit":["exp"]"#.into(), "crit"),
        (r#""crit":[]"#.into(), "crit"),
        (r#""b64":false"#.into(), "b64"),
        (r#""zip":"DEF""#.into(), "zip"),
        (r#""cty":"JWT""#.into(), "cty"),
        (r#""enc":"A128GCM""#.into(), "enc"),
    ] {
        for signer in [&ed, &jwk] {
            let header = format!(r#"{{"alg":"EdDSA","kid":"{ed_id}",{extra}}}"#);
            assert_eq!(
                verify(signer, &header),
                Err(TokenError::Signed(JwsError::Refused(refused)))
            );
        }
    }
    for header in [
        "",
        "{}",
        "null",
        "[]",
        "{\"alg\":1}",
        r#"{"kid":"a"}"#,
        r#"{"alg":"EdDSA","alg":"none","kid":"a"}"#,
        r#"{"alg":"EdDSA","\u0061lg":"none","kid":"a"}"#,
        r#"{"alg":["EdDSA"],"kid":"a"}"#,
        r#"{"alg":"EdDSA","kid":7}"#,
    ] {
        assert_eq!(
            verify(&ed, header),
            Err(TokenError::Signed(JwsError::Header)),
            "{header}"
        );
    }
    assert_eq!(
        verify(&ed, r#"{"alg":"EdDSA"}"#),
        Err(TokenError::Signed(JwsError::NoKeyId))
    );
    assert_eq!(
        verify(
            &ed,
            &format!(r#"{{"alg":"EdDSA","kid":"{ed_id}","typ":"dpop+jwt"}}"#)
        ),
        Err(TokenError::Signed(JwsError::Type))
    );
}

/// A key id is a name in a map, whatever it looks like.
#[test]
fn hostile_key_ids_lead_nowhere() {
    let keys = keys();
    let key = SigningKey::from_seed(&[1; 32]).unwrap();
    let base = [
        "../../etc/passwd",
        "/dev/null",
        "http://169.254.169.254/",
        "' OR 1=1 --",
        "$(id)",
        "`id`",
        "%00",
        "\\u0000",
        "file:///proc/self/mem",
        "\\\\host\\share",
        "*",
        "",
        " ",
        "null",
        "undefined",
        "__proto__",
        "key\\n",
        "😀",
    ];
    let id = keys.signing_key_id().to_owned();
    let mut tried = 0;
    for text in base {
        for wrapped in [
            text.to_owned(),
            format!("{text}{id}"),
            format!("{id}{text}"),
            format!("../{text}"),
            text.repeat(3),
        ] {
            for suffix in ["", "#", ".pem", "\\t", "?a=b", "|cat"] {
                let header = format!(
                    r#"{{"alg":"EdDSA","kid":"{}{suffix}"}}"#,
                    wrapped.replace("\\\\", "\\\\\\\\")
                );
                if format!("{wrapped}{suffix}") != id {
                    assert!(
                        keys.verify(&forge(&key, &header, &claims().to_json()), &EXPECT, NOW)
                            .is_err(),
                        "{header}"
                    );
                    tried += 1;
                }
            }
        }
    }
    assert!(tried >= 500, "{tried}");
}

#[test]
fn sizes_are_bounded() {
    let keys = keys();
    let key = SigningKey::from_seed(&[1; 32]).unwrap();
    let verify = |header: &str, payload: &[u8]| {
        keys.verify(&forge(&key, header, payload), &EXPECT, NOW)
            .map(drop)
    };
    let header = format!(r#"{{"alg":"EdDSA","kid":"{}"}}"#, keys.signing_key_id());
    assert_eq!(
        verify(&header, &vec![b' '; 9000]),
        Err(TokenError::Signed(JwsError::TooLong))
    );
    let wide = format!(
        r#"{{"alg":"EdDSA","kid":"{}","x":"{}"}}"#,
        keys.signing_key_id(),
        "x".repeat(1024)
    );
    assert_eq!(
        verify(&wide, &claims().to_json()),
        Err(TokenError::Signed(JwsError::Header))
    );
    let deep = format!(
        r#"{{"alg":"EdDSA","kid":"{}","x":{}1{}}}"#,
        keys.signing_key_id(),
        "[".repeat(8),
        "]".repeat(8)
    );
    assert_eq!(
        verify(&deep, &claims().to_json()),
        Err(TokenError::Signed(JwsError::Header))
    );
    for token in [
        "",
        ".",
        "..",
        "...",
        "a.b",
        "a.b.c",
        "e30.e30.",
        "e30.e30.e30.",
        ".e30.e30",
        "e30.e30.e30\n",
        " e30.e30.e30",
        "e30.e30.e3 0",
    ] {
        assert!(keys.verify(token, &EXPECT, NOW).is_err(), "{token:?}");
    }
    let mut large = claims();
    large.aud = vec!["x".repeat(500); 16];
    assert_eq!(
        keys.issue(&large, NOW),
        Err(TokenError::Signed(JwsError::TooLong))
    );
}

#[test]
fn keys_rotate_with_overlap() {
    let old = keys();
    let before = old.issue(&claims(), NOW).unwrap();
    let old_id = old.signing_key_id().to_owned();
    let mut rotated = old
        .rotate(SigningKey::parse(include_bytes!("keys/rsa.pem")).unwrap())
        .unwrap();
    let after = rotated.issue(&claims(), NOW).unwrap();
    assert_ne!(rotated.signing_key_id(), old_id);
    let cache = TokenCache::new(100);
    for token in [&before, &after] {
        assert!(rotated.verify(token, &EXPECT, NOW).is_ok());
        assert!(rotated.verify_cached(&cache, token, &EXPECT, NOW).is_ok());
    }
    assert_eq!(rotated.jwks().matches("\"kid\"").count(), 2);
    let published = crate::Jwks::parse(rotated.jwks().as_bytes()).unwrap();
    assert_eq!(published.ring(), rotated.ring());
    let signs = rotated.signing_key_id().to_owned();
    assert!(!rotated.retire(&signs), "the key that signs stays");
    assert!(rotated.retire(&old_id));
    let unknown = TokenError::Signed(JwsError::UnknownKey);
    assert_eq!(rotated.verify(&before, &EXPECT, NOW), Err(unknown));
    assert_eq!(
        rotated.verify_cached(&cache, &before, &EXPECT, NOW),
        Err(unknown),
        "a remembered token outlived its key"
    );
    assert!(rotated.verify_cached(&cache, &after, &EXPECT, NOW).is_ok());
}

#[test]
fn a_remembered_token_is_not_verified_again_but_still_expires() {
    let keys = keys();
    let cache = TokenCache::new(100);
    let token = keys.issue(&claims(), NOW).unwrap();
    let first = keys.verify_cached(&cache, &token, &EXPECT, NOW).unwrap();
    let second = keys.verify_cached(&cache, &token, &EXPECT, NOW).unwrap();
    assert!(Arc::ptr_eq(&first, &second), "it was read again");
    assert_eq!(cache.len(), 1);
    assert_eq!(
        keys.verify_cached(&cache, &token, &EXPECT, NOW + 3_600_000),
        Err(TokenError::Expired)
    );
    assert_eq!(
        keys.verify_cached(
            &cache,
            &token,
            &Expect {
                issuer: "other",
                ..EXPECT
            },
            NOW
        ),
        Err(TokenError::Issuer)
    );
    assert!(
        keys.verify_cached(&cache, &format!("{token}A"), &EXPECT, NOW)
            .is_err()
    );
    assert_eq!(cache.len(), 1, "what was refused is not remembered");
}

#[test]
fn the_cache_is_bounded() {
    let keys = keys();
    let cache = TokenCache::new(32);
    for at in 0..200 {
        let mut claims = claims();
        claims.jti = format!("token-{at}");
        let token = keys.issue(&claims, NOW).unwrap();
        assert_eq!(
            keys.verify_cached(&cache, &token, &EXPECT, NOW)
                .unwrap()
                .jti,
            claims.jti
        );
    }
    assert!(cache.len() <= 32);
}

#[test]
fn another_gates_key_is_unknown() {
    let other = TokenKeys::generate(&[2; 32]).unwrap();
    let token = other.issue(&claims(), NOW).unwrap();
    assert_eq!(
        keys().verify(&token, &EXPECT, NOW),
        Err(TokenError::Signed(JwsError::UnknownKey))
    );
    let both = keys()
        .also_verify(VerifyingKey::clone(other.ring().only().unwrap()))
        .unwrap();
    assert!(both.verify(&token, &EXPECT, NOW).is_ok());
}

proptest! {
    #[test]
    fn any_claims_survive(sub in ".{1,40}", scp in ".{1,40}", wid in ".{1,40}", tenant in proptest::option::of(".{1,40}"), aud in proptest::collection::vec(".{1,20}", 1..4)) {
        let mut claims = claims();
        (claims.sub, claims.scp, claims.wid, claims.tenant_id) = (sub, scp, wid, tenant);
        claims.aud.extend(aud);
        let token = KEYS.issue(&claims, NOW).unwrap();
        prop_assert_eq!(KEYS.verify(&token, &EXPECT, NOW), Ok(claims));
    }

    #[test]
    fn no_text_is_a_token(text in "[A-Za-z0-9_.-]{0,200}") {
        prop_assert!(KEYS.verify(&text, &EXPECT, NOW).is_err());
    }
}
