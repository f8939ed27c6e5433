use std::{os::unix::fs::PermissionsExt as _, time::Duration};

use crate::tokens::*;

fn counting() -> impl FnMut(&mut [u8]) -> Result<(), TokenError> {
    let mut next = 0u8;
    move |buffer| {
        for byte in buffer {
            *byte = next;
            next = next.wrapping_add(7);
        }
        Ok(())
    }
}

fn new(name: &str) -> NewCredential {
    NewCredential::plain(name, Role::Client)
}

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

#[test]
fn a_token_is_recognised_until_it_is_revoked() {
    let mut tokens = Tokens::default();
    let (credential, token) = tokens
        .issue(new("laptop"), at(7), &mut system_random)
        .unwrap();
    let (other, _) = tokens
        .issue(new("other"), at(8), &mut system_random)
        .unwrap();
    assert_eq!(tokens.verify(token.expose()), Some(&credential));
    assert_eq!(credential.created, 7);
    assert_ne!(credential.id, other.id);
    assert!(tokens.verify("pct_0000000000000000000000").is_none());
    assert!(tokens.verify("").is_none());
    tokens.revoke("laptop").unwrap();
    assert!(tokens.verify(token.expose()).is_none());
    assert_eq!(tokens.list().len(), 2, "revoked, not forgotten");
}

#[test]
fn tokens_look_like_tokens_and_use_the_given_randomness() {
    let (_, a) = Tokens::default()
        .issue(new("a"), at(0), &mut counting())
        .unwrap();
    let (_, b) = Tokens::default()
        .issue(new("a"), at(0), &mut counting())
        .unwrap();
    assert_eq!(a, b);
    assert_eq!(a.expose().len(), 28);
    assert_eq!(TokenText::parse(a.expose()), Some(a.clone()));
    assert!(TokenText::parse("pct_short").is_none());
    assert!(TokenText::parse("pct_0123456789abcdefghij-_").is_none());
    assert!(!format!("{a:?}").contains("pct_"));
}

#[test]
fn every_character_is_equally_likely() {
    let mut counts = std::collections::BTreeMap::new();
    for _ in 0..4_000 {
        let token = TokenText::random(&mut system_random).unwrap();
        for c in token.expose().chars().skip(4) {
            *counts.entry(c).or_insert(0u32) += 1;
        }
    }
    assert_eq!(counts.len(), 62);
    let expected = 4_000.0 * 24.0 / 62.0;
    // Six standard deviations: a fair generator fails once in a hundred million runs.
    let far = |count: &&u32| (f64::from(**count) - expected).abs() > 6.0 * f64::sqrt(expected);
    assert_eq!(counts.values().filter(far).count(), 0, "{counts:?}");
}

#[test]
fn failing_randomness_makes_no_token() {
    let mut broken = |_: &mut [u8]| Err(TokenError::Random("none".into()));
    assert!(
        Tokens::default()
            .issue(new("a"), at(0), &mut broken)
            .is_err()
    );
}

#[test]
fn the_file_keeps_hashes_only_and_is_private() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tokens.json");
    let (credential, token) = Tokens::update(&file, |tokens| {
        let grants = vec!["github__*".to_owned(), "notes__read_note".to_owned()];
        tokens.issue(
            NewCredential {
                view: View::Flat,
                grants,
                ..new("ci")
            },
            at(1),
            &mut system_random,
        )
    })
    .unwrap();
    let stored = fs::read_to_string(&file).unwrap();
    assert!(!stored.contains(token.expose()));
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let tokens = Tokens::load(&file).unwrap();
    assert_eq!(tokens.verify(token.expose()), Some(&credential));
    let id = |text| ServerId::parse(text).unwrap();
    assert!(credential.grants(&id("github"), "anything"));
    assert!(credential.grants(&id("notes"), "read_note"));
    assert!(!credential.grants(&id("notes"), "echo"));
    assert!(!credential.grants(&id("other"), "read_note"));
}

#[test]
fn mistakes_are_named_and_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tokens.json");
    let bad = |new| {
        Tokens::update(&file, |tokens| tokens.issue(new, at(0), &mut system_random))
            .unwrap_err()
            .to_string()
    };
    assert!(
        bad(NewCredential {
            grants: vec!["github".into()],
            ..new("a")
        })
        .contains("server__tool")
    );
    assert!(bad(new("")).contains("1 to 64"));
    assert!(bad(new("a\nb")).contains("printable"));
    assert!(!file.exists());
    assert!(
        Tokens::update(&file, |tokens| tokens.revoke("nobody"))
            .unwrap_err()
            .to_string()
            .contains("token list")
    );
    fs::write(&file, "{").unwrap();
    assert!(matches!(
        Tokens::load(&file),
        Err(TokenError::Damaged { .. })
    ));
}

#[test]
fn two_credentials_of_one_name_must_be_revoked_by_id() {
    let mut tokens = Tokens::default();
    let (first, _) = tokens
        .issue(new("twin"), at(0), &mut system_random)
        .unwrap();
    tokens
        .issue(new("twin"), at(0), &mut system_random)
        .unwrap();
    assert!(tokens.revoke("twin").is_err());
    assert_eq!(tokens.revoke(&first.id).unwrap().id, first.id);
    tokens.revoke("twin").unwrap();
}

#[test]
fn a_new_home_has_a_client_and_an_operator() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(dir.path());
    home.prepare().unwrap();
    let token = prepare_first(&home, at(5), &mut system_random)
        .unwrap()
        .unwrap();
    assert_eq!(
        prepare_first(&home, at(6), &mut system_random)
            .unwrap()
            .as_ref(),
        Some(&token),
        "the second start changes nothing"
    );
    let tokens = Tokens::load(&home.tokens_file()).unwrap();
    assert_eq!(tokens.list().len(), 2);
    assert_eq!(tokens.verify(token.expose()).unwrap().role, Role::Client);
    let operator = read_clear(&home.operator_token_file()).unwrap();
    assert_eq!(
        tokens.verify(operator.expose()).unwrap().role,
        Role::Operator
    );
    assert_eq!(
        fs::metadata(home.client_token_file())
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o600
    );

    Tokens::update(&home.tokens_file(), |tokens| tokens.revoke("first-client")).unwrap();
    assert_eq!(
        prepare_first(&home, at(7), &mut system_random).unwrap(),
        None,
        "revoked stays revoked"
    );
    fs::remove_file(home.client_token_file()).unwrap();
    assert_ne!(
        prepare_first(&home, at(8), &mut system_random).unwrap(),
        Some(token),
        "a new one, not the old one"
    );
}

#[test]
fn concurrent_changes_are_all_kept() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tokens.json");
    std::thread::scope(|scope| {
        for index in 0..8 {
            let file = &file;
            scope.spawn(move || {
                Tokens::update(file, |tokens| {
                    tokens.issue(new(&format!("t{index}")), at(0), &mut system_random)
                })
                .unwrap();
            });
        }
    });
    assert_eq!(Tokens::load(&file).unwrap().list().len(), 8);
}
