use crate::{
    AgentKey, Bounds, Entry, Freshness, Journal, Jwks, JwksError, JwsError, Replay, SigningKey,
    Spent, TokenCache,
    access::{self, Access, AccessError, Expect},
    dpop::{self, ProofError, Request},
    text64,
};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};
use sha2::{Digest, Sha256};

const NOW: u64 = 1_800_000_000_000;
const RESOURCE: &str = "https://gate.example/mcp";
const ISSUER: &str = "https://id.example/realm";
const EXPECT: Expect<'static> = Expect {
    issuer: ISSUER,
    audience: RESOURCE,
};

fn provider() -> SigningKey {
    SigningKey::parse(include_bytes!("keys/rsa.pem")).unwrap()
}

fn set(keys: &[&SigningKey]) -> Jwks {
    let keys: Vec<_> = keys.iter().map(|key| key.public().to_jwk()).collect();
    Jwks::parse(format!(r#"{{"keys":[{}]}}"#, keys.join(",")).as_bytes()).unwrap()
}

fn signed(key: &SigningKey, header: &str, payload: &str) -> String {
    let signed = format!(
        "{}.{}",
        text64::url(header.as_bytes()),
        text64::url(payload.as_bytes())
    );
    format!(
        "{signed}.{}",
        text64::url(&key.sign(signed.as_bytes()).unwrap())
    )
}

fn payload(extra: &str) -> String {
    let (now, exp) = (NOW / 1000, NOW / 1000 + 300);
    format!(
        r#"{{"iss":"{ISSUER}","aud":["other","{RESOURCE}"],"sub":"alice","client_id":"cli","scope":"mcp:use mcp:admin","iat":{now},"exp":{exp}{extra}}}"#
    )
}

fn token(payload: &str) -> String {
    let key = provider();
    signed(
        &key,
        &format!(
            r#"{{"alg":"RS256","typ":"at+jwt","kid":"{}"}}"#,
            key.public().thumbprint()
        ),
        payload,
    )
}

fn verify(token: &str) -> Result<Access, AccessError> {
    access::verify(token, &set(&[&provider()]), &EXPECT, NOW)
}

#[test]
fn an_access_token_says_who_for_what_and_with_which_scopes() {
    let access = verify(&token(&payload(
        r#","groups":["eng","sec"],"tenant":"acme","level":3"#,
    )))
    .unwrap();
    assert_eq!(
        (access.subject.as_str(), access.client.as_deref()),
        ("alice", Some("cli"))
    );
    assert!(
        access.has_scope("mcp:use") && access.has_scope("mcp:admin") && !access.has_scope("mcp")
    );
    assert_eq!(access.claim_list("groups"), ["eng", "sec"]);
    assert_eq!(access.claim("tenant").as_deref(), Some("acme"));
    assert_eq!(access.claim_list("tenant"), ["acme"]);
    assert_eq!(access.claim("level"), None);
    assert_eq!(
        access::claimed_issuer(&token(&payload(""))).as_deref(),
        Some(ISSUER)
    );
    let other_forms = payload("")
        .replace("\"scope\":\"mcp:use mcp:admin\"", "\"scp\":[\"mcp:use\"]")
        .replace("client_id", "azp");
    let access = verify(&token(&other_forms)).unwrap();
    assert!(access.has_scope("mcp:use") && access.client.as_deref() == Some("cli"));
    let slash = payload("").replace("/mcp\"", "/mcp/\"");
    assert!(verify(&token(&slash)).is_ok());
}

#[test]
fn tokens_for_others_from_others_and_from_other_times_are_refused() {
    let refused =
        |from: &str, to: &str| verify(&token(&payload("").replace(from, to))).unwrap_err();
    assert_eq!(
        refused(RESOURCE, "https://gate.example"),
        AccessError::Audience
    );
    assert_eq!(
        refused(RESOURCE, "https://gate.example/mcp2"),
        AccessError::Audience
    );
    assert_eq!(
        refused(RESOURCE, "https://evil.example/mcp"),
        AccessError::Audience
    );
    assert_eq!(
        refused(ISSUER, "https://id.example/other"),
        AccessError::Issuer
    );
    assert_eq!(refused("\"alice\"", "\"\""), AccessError::Claim("sub"));
    assert_eq!(
        refused("\"scope\":\"mcp:use mcp:admin\"", "\"scope\":7"),
        AccessError::Claim("scope")
    );
    assert_eq!(refused("1800000300", "1800000000"), AccessError::Expired);
    assert_eq!(
        refused("\"iat\":1800000000", "\"iat\":1800000031"),
        AccessError::NotYetValid
    );
    assert_eq!(
        verify(&token(&payload(r#","nbf":1800000031"#))),
        Err(AccessError::NotYetValid)
    );
    assert_eq!(
        verify(&token(&payload(r#","cnf":{"x5t#S256":"abc"}"#))),
        Err(AccessError::Claim("cnf")),
        "a binding was dropped"
    );
    let id_token = provider();
    let header = format!(
        r#"{{"alg":"RS256","typ":"dpop+jwt","kid":"{}"}}"#,
        id_token.public().thumbprint()
    );
    assert_eq!(
        verify(&signed(&id_token, &header, &payload(""))),
        Err(AccessError::Signed(JwsError::Type))
    );
}

#[test]
fn algorithms_and_keys_cannot_be_confused() {
    let (rsa, ed) = (provider(), SigningKey::from_seed(&[3; 32]).unwrap());
    let keys = set(&[&rsa, &ed]);
    let check = |key: &SigningKey, header: &str| {
        access::verify(&signed(key, header, &payload("")), &keys, &EXPECT, NOW).map(drop)
    };
    let (rsa_id, ed_id) = (
        rsa.public().thumbprint().to_owned(),
        ed.public().thumbprint().to_owned(),
    );
    assert_eq!(
        check(&ed, &format!(r#"{{"alg":"EdDSA","kid":"{ed_id}"}}"#)),
        Ok(())
    );
    for algorithm in ["none", "HS256", "EdDSA", "PS256", "RS512", "ES256"] {
        let header = format!(r#"{{"alg":"{algorithm}","kid":"{rsa_id}"}}"#);
        assert_eq!(
            check(&rsa, &header),
            Err(AccessError::Signed(JwsError::Algorithm)),
            "{algorithm}"
        );
    }
    assert_eq!(
        check(&rsa, r#"{"alg":"RS256"}"#),
        Err(AccessError::Signed(JwsError::NoKeyId)),
        "there are two keys"
    );
    assert_eq!(
        check(&rsa, r#"{"alg":"RS256","kid":"../rsa"}"#),
        Err(AccessError::Signed(JwsError::UnknownKey))
    );
    let stranger = SigningKey::from_seed(&[4; 32]).unwrap();
    let header = format!(
        r#"{{"alg":"EdDSA","kid":"{ed_id}","jwk":{}}}"#,
        stranger.public().to_jwk()
    );
    assert_eq!(
        check(&stranger, &header),
        Err(AccessError::Signed(JwsError::Refused("jwk")))
    );
    // A provider with one key may leave the id out.
    let one = set(&[&rsa]);
    assert!(
        access::verify(
            &signed(&rsa, r#"{"alg":"RS256"}"#, &payload("")),
            &one,
            &EXPECT,
            NOW
        )
        .is_ok()
    );
}

#[test]
fn a_remembered_access_token_leaves_with_its_key() {
    let (rsa, next) = (provider(), SigningKey::from_seed(&[3; 32]).unwrap());
    let cache = TokenCache::new(16);
    let token = token(&payload(""));
    assert!(access::verify_cached(&cache, &token, &set(&[&rsa]), &EXPECT, NOW).is_ok());
    assert!(access::verify_cached(&cache, &token, &set(&[&rsa, &next]), &EXPECT, NOW).is_ok());
    let gone = access::verify_cached(&cache, &token, &set(&[&next]), &EXPECT, NOW);
    assert_eq!(gone, Err(AccessError::Signed(JwsError::UnknownKey)));
    assert_eq!(
        access::verify_cached(&cache, &token, &set(&[&rsa]), &EXPECT, NOW + 300_000),
        Err(AccessError::Expired)
    );
}

#[test]
fn key_sets_keep_what_can_be_used() {
    let (rsa, ed) = (
        provider().public().to_jwk(),
        SigningKey::from_seed(&[3; 32]).unwrap().public().to_jwk(),
    );
    let parse = |keys: &str| Jwks::parse(format!(r#"{{"keys":[{keys}]}}"#).as_bytes());
    let mixed = [
        rsa.as_str(),
        &ed,
        &rsa.replace("\"sig\"", "\"enc\""),
        r#"{"kty":"EC","crv":"P-521","x":"AA","y":"AA"}"#,
        r#"{"kty":"OKP","crv":"X25519","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}"#,
        // A key of small order.
        r#"{"kty":"OKP","crv":"Ed25519","x":"AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","kid":"weak"}"#,
        r#"{"kty":"RSA","n":"AQAB","e":"AQAB"}"#,
        r#"{"kty":7}"#,
        "null",
    ];
    let set = parse(&mixed.join(",")).unwrap();
    assert_eq!((set.ring().len(), set.unusable), (2, 7));
    assert_eq!(parse("").unwrap_err(), JwksError::Empty);
    assert_eq!(
        parse(r#"{"kty":"oct","k":"AAAA"}"#).unwrap_err(),
        JwksError::Secret
    );
    assert_eq!(
        parse(&rsa.replacen('{', "{\"d\":\"AA\",", 1)).unwrap_err(),
        JwksError::Secret
    );
    for text in [
        "",
        "[]",
        "{}",
        r#"{"keys":{}}"#,
        r#"{"keys":[],"keys":[]}"#,
        "<html>",
    ] {
        assert_eq!(
            Jwks::parse(text.as_bytes()).unwrap_err(),
            JwksError::NotASet,
            "{text}"
        );
    }
    assert_eq!(
        parse(&vec!["null"; 300].join(",")).unwrap_err(),
        JwksError::TooMany
    );
    // Two keys under one id: neither.
    let same = |key: &str| format!("{}\"kid\":\"x\"}}", key.split_once("\"kid\":").unwrap().0);
    assert_eq!(
        parse(&[same(&rsa), same(&ed)].join(",")).unwrap_err(),
        JwksError::Empty
    );
    let many: Vec<_> = (0..80)
        .map(|at| ed.replace("\"kid\":\"", &format!("\"kid\":\"{at}")))
        .collect();
    let set = parse(&many.join(",")).unwrap();
    assert_eq!((set.ring().len(), set.unusable), (64, 16));
}

struct NoJournal;

impl Journal for NoJournal {
    fn append(&self, _: &[u8; Entry::LEN]) -> std::io::Result<()> {
        Ok(())
    }
}

fn window() -> Replay {
    Replay::new(Box::new(NoJournal), Bounds::default())
}

fn proof(key: &SigningKey, header: &str, payload: &str) -> String {
    signed(key, &header.replace("JWK", &key.public().to_jwk()), payload)
}

const HEADER: &str = r#"{"typ":"dpop+jwt","alg":"EdDSA","jwk":JWK}"#;

#[test]
fn a_proof_is_for_one_request_one_token_one_key_and_one_use() {
    let key = SigningKey::from_seed(&[5; 32]).unwrap();
    let thumbprint = key.public().thumbprint().to_owned();
    let token = token(&payload(&format!(r#","cnf":{{"jkt":"{thumbprint}"}}"#)));
    assert_eq!(
        verify(&token).unwrap().bound_to.as_deref(),
        Some(thumbprint.as_str())
    );
    let ath = text64::url(&Sha256::digest(token.as_bytes()));
    let good =
        format!(r#"{{"jti":"j1","htm":"POST","htu":"{RESOURCE}","iat":1800000000,"ath":"{ath}"}}"#);
    let request = Request {
        method: "POST",
        url: RESOURCE,
        access_token: &token,
        bound_to: &thumbprint,
    };
    let replay = window();
    let check =
        |proof: &str, now: u64| dpop::verify(proof, &request, Freshness::STANDARD, &replay, now);
    let first = proof(&key, HEADER, &good);
    check(&first, NOW).unwrap();
    let replayed = check(&first, NOW).unwrap_err();
    assert!(
        matches!(replayed, ProofError::Spent(Spent::Replayed))
            && replayed.to_string().starts_with("the proof was")
    );
    // The same id again in another proof is the same proof again.
    let again = proof(&key, HEADER, &good.replace("1800000000", "1800000000 "));
    assert!(matches!(
        check(&again, NOW),
        Err(ProofError::Spent(Spent::Replayed))
    ));
    let other = |from: &str, to: &str| {
        check(
            &proof(&key, HEADER, &good.replace("j1", "j2").replace(from, to)),
            NOW,
        )
        .unwrap_err()
    };
    assert!(matches!(other("POST", "GET"), ProofError::OtherRequest));
    assert!(matches!(other("POST", "post"), ProofError::OtherRequest));
    assert!(matches!(other("/mcp", "/mcp/x"), ProofError::OtherRequest));
    assert!(matches!(
        other("gate.example", "evil.example"),
        ProofError::OtherRequest
    ));
    assert!(matches!(
        other("gate.example", "gate.example@evil.example"),
        ProofError::OtherRequest
    ));
    assert!(matches!(other("https", "http"), ProofError::OtherRequest));
    assert!(matches!(
        other(&ath, &ath.to_ascii_lowercase()),
        ProofError::OtherToken
    ));
    assert!(matches!(
        other("\"ath\"", "\"x\""),
        ProofError::Claim("ath")
    ));
    assert!(matches!(
        other("1800000000", "1799999969"),
        ProofError::Stale(_)
    ));
    let ahead = other("1800000000", "1800000031");
    assert!(
        matches!(ahead, ProofError::Stale(_))
            && ahead.to_string().starts_with("signed 31 s in the future"),
        "{ahead}"
    );
    let stranger = SigningKey::from_seed(&[6; 32]).unwrap();
    let stolen = dpop::verify(
        &proof(&stranger, HEADER, &good),
        &request,
        Freshness::STANDARD,
        &replay,
        NOW,
    );
    assert!(matches!(stolen, Err(ProofError::OtherKey)), "{stolen:?}");
    check(
        &proof(
            &key,
            HEADER,
            &good
                .replace("j1", "j3")
                .replace("https://gate.example", "HTTPS://Gate.Example:443"),
        ),
        NOW,
    )
    .unwrap();
    check(
        &proof(
            &key,
            HEADER,
            &good.replace("j1", "j4").replace("/mcp", "/mcp?q#f"),
        ),
        NOW,
    )
    .unwrap();
}

#[test]
fn headers_that_are_no_proofs_are_refused() {
    let key = SigningKey::from_seed(&[5; 32]).unwrap();
    let thumbprint = key.public().thumbprint().to_owned();
    let request = Request {
        method: "POST",
        url: RESOURCE,
        access_token: "t",
        bound_to: &thumbprint,
    };
    let ath = text64::url(&Sha256::digest(b"t"));
    let payload =
        format!(r#"{{"jti":"j","htm":"POST","htu":"{RESOURCE}","iat":1800000000,"ath":"{ath}"}}"#);
    let check = |header: &str| {
        dpop::verify(
            &proof(&key, header, &payload),
            &request,
            Freshness::STANDARD,
            &window(),
            NOW,
        )
    };
    check(HEADER).unwrap();
    for header in [
        r#"{"alg":"EdDSA","jwk":JWK}"#,
        r#"{"typ":"JWT","alg":"EdDSA","jwk":JWK}"#,
        r#"{"typ":"dpop+jwt","alg":"EdDSA"}"#,
        r#"{"typ":"dpop+jwt","alg":"none","jwk":JWK}"#,
        r#"{"typ":"dpop+jwt","alg":"HS256","jwk":JWK}"#,
        r#"{"typ":"dpop+jwt","alg":"EdDSA","jwk":{"kty":"oct","k":"AA"}}"#,
        r#"{"typ":"dpop+jwt","alg":"EdDSA","jwk":JWK,"jku":"https://evil.example"}"#,
        r#"{"typ":"dpop+jwt","alg":"EdDSA","jwk":JWK,"jwk":JWK}"#,
    ] {
        assert!(check(header).is_err(), "{header}");
    }
    // A private key in the proof gives the client away.
    let private = HEADER.replace(
        "JWK",
        &key.public().to_jwk().replacen('{', "{\"d\":\"AAAA\",", 1),
    );
    assert!(matches!(check(&private), Err(ProofError::Key(_))));
}

/// P-256 is what browsers and most libraries sign proofs with.
#[test]
fn proofs_of_p256_keys_verify() {
    let block = crate::der::pem(include_str!("keys/p256.pem")).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(
        &ECDSA_P256_SHA256_FIXED_SIGNING,
        &block.1,
        &SystemRandom::new(),
    )
    .unwrap();
    let key = crate::VerifyingKey::parse(include_bytes!("keys/p256.pub.pem")).unwrap();
    let ath = text64::url(&Sha256::digest(b"t"));
    let header = format!(
        r#"{{"typ":"dpop+jwt","alg":"ES256","jwk":{}}}"#,
        key.to_jwk()
    );
    let payload =
        format!(r#"{{"jti":"j","htm":"GET","htu":"{RESOURCE}","iat":1800000000,"ath":"{ath}"}}"#);
    let signed = format!(
        "{}.{}",
        text64::url(header.as_bytes()),
        text64::url(payload.as_bytes())
    );
    let signature = pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
    let proof = format!("{signed}.{}", text64::url(signature.as_ref()));
    let request = Request {
        method: "GET",
        url: RESOURCE,
        access_token: "t",
        bound_to: key.thumbprint(),
    };
    dpop::verify(&proof, &request, Freshness::STANDARD, &window(), NOW).unwrap();
    // An agent's key is no provider's key: it has no way to sign tokens.
    assert!(AgentKey::parse(include_bytes!("keys/p256.pem")).is_err());
}
