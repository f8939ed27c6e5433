use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use sha2::{Digest as _, Sha256};
use vocab::View;

use super::*;
use crate::caller::{Callers, Credential, CredentialSet};

/// Not random, and never the same twice.
fn entropy() -> Entropy {
    let next = AtomicU8::new(1);
    Arc::new(move |bytes: &mut [u8]| {
        for byte in bytes {
            *byte = next.fetch_add(7, Ordering::Relaxed).rotate_left(3);
        }
        Ok(())
    })
}

struct Scene {
    callers: Callers,
    known: CredentialSet,
    visits: Visits,
}

impl Scene {
    fn new() -> Self {
        let callers = Callers::new(Vec::new(), [0; 32]);
        let credentials =
            [("ann", Role::Operator), ("bob", Role::Viewer)].map(|(name, role)| Credential {
                id: name.to_owned(),
                name: name.to_owned(),
                role,
                view: View::Double,
                grants: Vec::new(),
                user: None,
                departments: Vec::new(),
                agent: None,
                tenant: None,
                context: None,
                digest: Sha256::digest(name.as_bytes()).into(),
            });
        let known = callers.prepare(&CredentialSet::default(), credentials.to_vec());
        Self {
            callers,
            known,
            visits: Visits::new(entropy()),
        }
    }

    fn caller(&self, name: &str) -> Caller {
        self.known.identify(name).unwrap()
    }

    fn code(&self, name: &str, now_ms: u64) -> String {
        let code = self.visits.code(&self.caller(name), Role::Operator, now_ms);
        code.unwrap().expose().clone()
    }

    fn visit(&self, name: &str, now_ms: u64) -> (String, Visitor) {
        let code = self.code(name, now_ms);
        let (cookie, visitor) = self.visits.open(&code, None, now_ms).unwrap();
        (cookie.expose().clone(), visitor)
    }
}

#[test]
fn a_code_opens_once_and_not_for_long() {
    let scene = Scene::new();
    let code = scene.code("ann", 1_000);
    let (cookie, visitor) = scene
        .visits
        .open(&format!(" {code} "), None, 2_000)
        .unwrap();
    assert_eq!(visitor.caller.name(), "ann");
    assert_eq!(
        scene.visits.open(&code, None, 2_000).unwrap_err(),
        NotOpened::UnknownCode
    );
    assert!(scene.visits.find(cookie.expose(), 3_000).is_some());
    assert!(scene.visits.find("0".repeat(64).as_str(), 3_000).is_none());
    let late = scene.code("ann", 1_000);
    assert!(scene.visits.open(&late, None, 1_000 + CODE_MS).is_err());
}

#[test]
fn who_guesses_codes_voids_those_that_are_open() {
    let scene = Scene::new();
    let code = scene.code("ann", 0);
    for wrong in 0..MAX_WRONG {
        assert!(
            scene
                .visits
                .open(&format!("wrong-{wrong}"), None, 1)
                .is_err()
        );
    }
    assert!(scene.visits.open(&code, None, 1).is_err());
    // A code that is asked for afterwards is as good as any.
    let code = scene.code("ann", 2);
    assert!(scene.visits.open(&code, None, 2).is_ok());
}

#[test]
fn a_visit_can_do_no_more_than_its_credential_and_ends_with_it() {
    let scene = Scene::new();
    let (cookie, visitor) = scene.visit("bob", 0);
    assert_eq!(visitor.role, Role::Viewer);
    assert!(scene.visits.lasts(&visitor, 1));
    let after = scene.callers.prepare(&scene.known, Vec::new());
    scene.callers.retire(&scene.known, &after);
    assert!(!scene.visits.lasts(&visitor, 1));
    assert!(scene.visits.find(&cookie, 1).is_none());
}

#[test]
fn a_visit_ends_when_nobody_looks_and_after_its_longest_time() {
    let scene = Scene::new();
    for (name, idle, most) in [
        ("ann", 30 * MINUTE, 12 * HOUR),
        ("bob", 12 * HOUR, 7 * 24 * HOUR),
    ] {
        let (cookie, visitor) = scene.visit(name, 0);
        assert!(scene.visits.find(&cookie, idle).is_some(), "{name}");
        assert!(scene.visits.find(&cookie, 2 * idle + 1).is_none(), "{name}");
        let (cookie, _) = scene.visit(name, 0);
        // A stream that looks again and again is not a person who looks.
        assert!(!scene.visits.lasts(&visitor, idle + 1));
        let mut now = 0;
        while now <= most {
            assert!(scene.visits.find(&cookie, now).is_some(), "{name} at {now}");
            now += idle;
        }
        assert!(scene.visits.find(&cookie, now).is_none(), "{name}");
    }
}

#[test]
fn a_form_is_of_one_visit_and_looks_different_each_time() {
    let scene = Scene::new();
    let (_, ann) = scene.visit("ann", 0);
    let (_, bob) = scene.visit("bob", 0);
    let token = |visitor: &Visitor| visitor.form_token(scene.visits.entropy()).unwrap();
    let (first, second) = (token(&ann), token(&ann));
    assert_ne!(first, second);
    assert!(ann.is_own_form(&first) && ann.is_own_form(&second));
    assert!(!bob.is_own_form(&first));
    for wrong in [
        "",
        "00",
        &"0".repeat(64),
        first.strip_suffix(char::is_alphanumeric).unwrap(),
        "ä".repeat(32).as_str(),
    ] {
        assert!(!ann.is_own_form(wrong), "{wrong}");
    }
}

#[test]
fn a_cookie_alone_does_not_act() {
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random)
        .unwrap();
    // SubjectPublicKeyInfo of a P-256 point, as browsers export it.
    let mut spki = vec![
        0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08,
        0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
    ];
    spki.extend_from_slice(pair.public_key().as_ref());
    let scene = Scene::new();
    let code = scene.code("ann", 0);
    assert_eq!(
        scene.visits.open(&code, Some(b"no key"), 0).unwrap_err(),
        NotOpened::BadKey
    );
    let (_, visitor) = scene.visits.open(&code, Some(&spki), 0).unwrap();
    let sign = |message: &[u8]| pair.sign(&random, message).unwrap().as_ref().to_vec();
    let prove = |visitor: &Visitor, message: &[u8], signature: &[u8], at_ms: u64| {
        let proof = Proof::Signature {
            message,
            signature,
            at_ms,
        };
        scene.visits.prove(visitor, proof, 10_000)
    };
    let good = sign(b"approve 7");
    assert_eq!(
        prove(&visitor, b"approve 8", &good, 9_000),
        Err(NotOpened::Unsigned)
    );
    assert_eq!(
        prove(&visitor, b"approve 7", &[], 9_000),
        Err(NotOpened::Unsigned)
    );
    assert_eq!(
        prove(&visitor, b"approve 7", &good, 400_000),
        Err(NotOpened::Unsigned)
    );
    assert_eq!(prove(&visitor, b"approve 7", &good, 9_000), Ok(()));
    // The same again, as somebody would who has listened.
    assert_eq!(
        prove(&visitor, b"approve 7", &good, 9_000),
        Err(NotOpened::Unsigned)
    );
    let (_, without) = scene.visit("ann", 0);
    assert_eq!(
        prove(&without, b"approve 7", &good, 9_001),
        Err(NotOpened::Unsigned)
    );
    // Who has no key types a code, and one of their own.
    let theirs = scene.code("bob", 10_000);
    let own = scene.code("ann", 10_000);
    let typed = |code: &str| scene.visits.prove(&without, Proof::Code(code), 10_000);
    assert_eq!(typed(&theirs), Err(NotOpened::UnknownCode));
    assert_eq!(typed(&own), Ok(()));
    assert_eq!(typed(&own), Err(NotOpened::UnknownCode));
}

#[test]
fn visits_have_a_bound_and_the_oldest_make_room() {
    let scene = Scene::new();
    let (first, _) = scene.visit("ann", 0);
    let (bobs, _) = scene.visit("bob", 0);
    for at in 1..=MAX_PER_CALLER as u64 {
        scene.visit("ann", at);
    }
    assert!(scene.visits.find(&first, 10).is_none());
    assert!(scene.visits.find(&bobs, 10).is_some());
    assert_eq!(scene.visits.list(10).len(), MAX_PER_CALLER + 1);
    for _ in 0..2 * MAX_CODES {
        scene.code("ann", 10);
    }
    assert_eq!(scene.visits.held().codes.len(), MAX_CODES);
}
