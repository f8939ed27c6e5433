use std::task::{Context, Poll, Waker};

use crate::*;

const CANARY: &str = "canary-7f3a91";

fn resolver(home: &std::path::Path) -> Resolver {
    let environment = [
        ("TOKEN".to_owned(), CANARY.to_owned()),
        ("EMPTY".to_owned(), String::new()),
    ];
    Resolver::new(environment, Vault::in_home(home, os_entropy()))
}

fn lease(resolver: &Resolver, text: &str) -> Result<Lease, SecretError> {
    let reference = SecretRef::parse(text).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    match resolver.lease(&reference).as_mut().poll(&mut context) {
        Poll::Ready(lease) => lease,
        Poll::Pending => panic!("what is in a file is there at once"),
    }
}

#[test]
fn references_become_leases() {
    let home = tempfile::tempdir().unwrap();
    let resolver = resolver(home.path());
    assert_eq!(lease(&resolver, "env:TOKEN").unwrap().expose(), CANARY);
    resolver
        .vault()
        .set("TOKEN", &Secret::new("other".into()))
        .unwrap();
    let from_vault = lease(&resolver, "keychain:TOKEN").unwrap();
    assert_eq!(from_vault.expose(), "other");
    assert_eq!(from_vault.reference().to_string(), "keychain:TOKEN");
    assert_eq!(from_vault.into_secret().expose(), "other");
}

#[test]
fn what_is_missing_is_named_with_the_command_that_stores_it() {
    let home = tempfile::tempdir().unwrap();
    let resolver = resolver(home.path());
    for (text, command) in [
        ("env:ABSENT", "`portcullis secret set ABSENT`"),
        ("env:EMPTY", "`portcullis secret set EMPTY`"),
        ("keychain:github", "`portcullis secret set github`"),
        (
            "secret:kv/a#b",
            "no store under `secrets.stores` has its engine",
        ),
    ] {
        let error = lease(&resolver, text).unwrap_err().to_string();
        assert!(error.contains(text) && error.contains(command), "{error}");
    }
}

#[test]
fn nothing_prints_a_secret() {
    let home = tempfile::tempdir().unwrap();
    let resolver = resolver(home.path());
    let secret = Secret::new(CANARY.into());
    resolver.vault().set("x", &secret).unwrap();
    let lease = lease(&resolver, "env:TOKEN").unwrap();
    let printed = format!(
        "{secret:?} {secret:#?} {lease:?} {resolver:#?} {:?}",
        resolver.vault()
    );
    assert!(printed.contains("[secret]"));
    assert!(!printed.contains(CANARY), "{printed}");
}

#[test]
fn a_wiped_secret_is_gone() {
    let mut secret = Secret::new(CANARY.into());
    assert!(std::mem::needs_drop::<Secret>());
    secret.wipe();
    assert_eq!(secret.expose(), "");
}

/// Does not compile if one of them becomes `Clone` or printable.
#[test]
fn secrets_are_not_clone_and_not_display() {
    trait Ambiguous<Marker> {
        fn check() {}
    }
    impl<T> Ambiguous<()> for T {}
    impl<T: Clone> Ambiguous<u8> for T {}
    impl<T: std::fmt::Display> Ambiguous<u16> for T {}
    <Secret as Ambiguous<_>>::check();
    <Lease as Ambiguous<_>>::check();
}
