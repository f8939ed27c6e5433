use curve25519_dalek::{
    constants,
    edwards::{CompressedEdwardsY, EdwardsPoint},
    scalar::Scalar,
    traits::Identity,
};
use ring::signature::{ED25519, UnparsedPublicKey};
use sha2::{Digest, Sha512};
use wycheproof_ng_eddsa::{TestName, TestSet};

use crate::{
    KeyError, KeyRing, PublicKey, SigningKey, VerifyingKey, keyring::Algorithm, tests::flipped,
};

const RSA: &[u8] = include_bytes!("keys/rsa.pem");
const ED25519_FILE: &[u8] = include_bytes!("keys/ed25519.pem");

/// A set from a package. All published signatures over all published messages, none retyped here.
#[test]
fn wycheproof_ed25519_has_no_mismatch() {
    let set = TestSet::load(TestName::Ed25519).unwrap();
    let mut count = 0;
    for (at, group) in set.test_groups.iter().enumerate() {
        let key = PublicKey::from_bytes(group.key.pk.as_slice().try_into().unwrap()).unwrap();
        // Looking at a key is slow without optimisation, so not every group is read in every form.
        if at % 8 == 0 {
            assert_eq!(key, PublicKey::parse(&group.pem).unwrap());
            assert_eq!(key, PublicKey::from_der(group.der.as_slice()).unwrap());
        }
        for test in &group.tests {
            let accepted = <&[u8; 64]>::try_from(test.sig.as_slice())
                .is_ok_and(|sig| key.verifies_bytes(test.msg.as_slice(), sig));
            assert_eq!(
                accepted,
                !test.result.must_fail(),
                "{}: {}",
                test.tc_id,
                test.comment
            );
            count += 1;
        }
    }
    assert!(count >= 150, "{count}");
}

/// With a scalar of nought anybody who knows the private key can make a signature whose first half has small order.
#[test]
fn a_signature_that_begins_with_the_identity_is_refused() {
    let private = Scalar::from(1_234_567_u64);
    let key = (constants::ED25519_BASEPOINT_TABLE * &private)
        .compress()
        .to_bytes();
    let nought = EdwardsPoint::identity().compress().to_bytes();
    let hash = Sha512::new()
        .chain_update(nought)
        .chain_update(key)
        .chain_update(b"message")
        .finalize();
    let scalar = Scalar::from_bytes_mod_order_wide(&hash.into()) * private;
    let signature: [u8; 64] = [nought, scalar.to_bytes()].concat().try_into().unwrap();
    assert!(
        UnparsedPublicKey::new(&ED25519, &key)
            .verify(b"message", &signature)
            .is_ok(),
        "not the case this is about"
    );
    assert!(
        !PublicKey::from_bytes(&key)
            .unwrap()
            .verifies_bytes(b"message", &signature)
    );
}

#[test]
fn keys_with_a_small_component_are_not_registered() {
    let clean = constants::ED25519_BASEPOINT_TABLE * &Scalar::from(1_234_567_u64);
    assert!(PublicKey::from_bytes(&clean.compress().to_bytes()).is_ok());
    for (at, torsion) in constants::EIGHT_TORSION.iter().enumerate() {
        let small = PublicKey::from_bytes(&torsion.compress().to_bytes());
        assert_eq!(small, Err(KeyError::SmallOrder), "{at}");
        let mixed = PublicKey::from_bytes(&(clean + torsion).compress().to_bytes());
        assert_eq!(mixed.is_ok(), at == 0, "{at}");
    }
}

#[test]
fn other_spellings_of_a_point_are_not_registered() {
    // y + p for every y that leaves room: a second spelling that a lax reader takes for the first.
    let mut other_spellings = 0;
    for small in 0..19_u8 {
        for sign in [0, 0x80] {
            let mut bytes = [0xff; 32];
            bytes[0] = 0xed + small;
            bytes[31] = 0x7f | sign;
            let refused = PublicKey::from_bytes(&bytes).unwrap_err();
            other_spellings += usize::from(CompressedEdwardsY(bytes).decompress().is_some());
            assert!(
                matches!(refused, KeyError::NotCanonical | KeyError::NotAPoint),
                "{small}: {refused}"
            );
        }
    }
    assert!(other_spellings > 0, "nothing was tried");
    // Minus zero: the identity with its sign bit set.
    let mut minus = [0; 32];
    (minus[0], minus[31]) = (1, 0x80);
    assert!(PublicKey::from_bytes(&minus).is_err());
}

#[test]
fn agents_keys_are_read_in_the_forms_clients_write() {
    let raw = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo";
    let key = PublicKey::parse(&format!(" {raw}=\n")).unwrap();
    let url = raw.replace('/', "_").replace('+', "-");
    let der = "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo";
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{der}=\n-----END PUBLIC KEY-----\n");
    let crlf = pem.replace('\n', "\r\n");
    for text in [
        raw,
        &url,
        &format!("{url}="),
        der,
        &format!("{der}="),
        &pem,
        &crlf,
    ] {
        assert_eq!(PublicKey::parse(text).as_ref(), Ok(&key), "{text}");
    }
    assert_eq!(key.to_base64(), format!("{raw}="));
    for text in [
        "",
        "=",
        "AAAA",
        raw.split_at(40).0,
        &format!("{raw}AAAA"),
        &raw.replace("URo", "URp"),
        "-----BEGIN PUBLIC KEY-----",
        &pem.replace("PUBLIC", "PRIVATE"),
        &pem.replacen("PUBLIC", "RSA PUBLIC", 1),
        include_str!("keys/p256.pub.pem"),
        include_str!("keys/rsa.pub.pem"),
        &"A".repeat(1 << 20),
    ] {
        assert!(PublicKey::parse(text).is_err(), "{text:.80}");
    }
}

#[test]
fn signing_keys_are_read_from_files_and_print_nothing() {
    for (file, algorithm, public) in [
        (
            ED25519_FILE,
            Algorithm::EdDsa,
            include_bytes!("keys/ed25519.pub.pem").as_slice(),
        ),
        (RSA, Algorithm::Rs256, include_bytes!("keys/rsa.pub.pem")),
        (
            include_bytes!("keys/rsa-pkcs1.pem"),
            Algorithm::Rs256,
            include_bytes!("keys/rsa-pkcs1.pub.pem"),
        ),
    ] {
        let key = SigningKey::parse(file).unwrap();
        assert_eq!(key.public().algorithm(), algorithm);
        assert_eq!(key.public(), &VerifyingKey::parse(public).unwrap());
        let signature = key.sign(b"message").unwrap();
        assert!(key.public().verifies(b"message", &signature));
        assert!(!key.public().verifies(b"massage", &signature));
        assert!(!format!("{key:?}").contains("private"));
    }
    assert_eq!(
        SigningKey::parse(include_bytes!("keys/rsa-1024.pem")).unwrap_err(),
        KeyError::TooShort
    );
    assert!(SigningKey::parse(include_bytes!("keys/p256.pem")).is_err());
    assert!(
        SigningKey::parse(b"").is_err()
            && SigningKey::parse(include_bytes!("keys/rsa.pub.pem")).is_err()
    );
    assert_eq!(
        VerifyingKey::parse(include_bytes!("keys/p256.pub.pem"))
            .unwrap()
            .algorithm(),
        Algorithm::Es256
    );
    assert!(VerifyingKey::parse(include_bytes!("keys/p384.pub.pem")).is_err());
}

#[test]
fn a_generated_key_survives_its_file() {
    let seed = [7; 32];
    let key = SigningKey::from_seed(&seed).unwrap();
    let again = SigningKey::parse(SigningKey::seed_to_pem(&seed).as_bytes()).unwrap();
    assert_eq!(key.public(), again.public());
    let agent = crate::AgentKey::parse(SigningKey::seed_to_pem(&seed).as_bytes()).unwrap();
    assert_eq!(
        VerifyingKey::ed25519(agent.public().clone()).unwrap(),
        *key.public()
    );
}

#[test]
fn damaged_key_files_are_refused_or_are_other_keys() {
    let public = VerifyingKey::parse(include_bytes!("keys/rsa.pub.pem")).unwrap();
    for (at, changed) in flipped(include_bytes!("keys/rsa.pub.pem")).step_by(3) {
        if let Ok(key) = VerifyingKey::parse(&changed) {
            let white = include_bytes!("keys/rsa.pub.pem")[at].is_ascii_whitespace()
                || changed[at].is_ascii_whitespace();
            assert!(key != public || white, "byte {at}");
        }
    }
}

/// RFC 7638 §3.1 and RFC 8037 appendix A.3.
#[test]
fn thumbprints_are_the_published_ones() {
    let rsa = r#"{"keys":[{"kty":"RSA","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw","e":"AQAB","alg":"RS256","kid":"2011-04-29"}]}"#;
    let set = crate::Jwks::parse(rsa.as_bytes()).unwrap();
    assert_eq!(
        set.ring().get("2011-04-29").unwrap().thumbprint(),
        "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"
    );
    let ed = VerifyingKey::ed25519(
        PublicKey::parse("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo").unwrap(),
    )
    .unwrap();
    assert_eq!(
        ed.thumbprint(),
        "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
    );
}

#[test]
fn a_ring_is_bounded_and_ids_are_unique() {
    let mut ring = KeyRing::default();
    let key = |at: u8| SigningKey::from_seed(&[at; 32]).unwrap().public().clone();
    ring.add("a", key(1)).unwrap();
    ring.add("a", key(1)).unwrap();
    assert_eq!(ring.add("a", key(2)), Err(KeyError::Twice));
    assert!(ring.only().is_some());
    let same = key(3);
    for at in 2..65 {
        ring.add(&format!("{at}"), same.clone()).unwrap();
    }
    assert_eq!(ring.add("one more", same), Err(KeyError::Full));
    assert_eq!(ring.len(), 64);
    assert!(ring.only().is_none());
}
