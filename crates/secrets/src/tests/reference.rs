use crate::*;
use proptest::prelude::*;

#[test]
fn three_kinds_of_reference() {
    for text in [
        "env:GITHUB_TOKEN",
        "keychain:github-token",
        "secret:kv/team/github#token",
    ] {
        assert_eq!(SecretRef::parse(text).unwrap().to_string(), text);
    }
    assert_eq!(
        SecretRef::parse("secret:kv/a/b#c").unwrap(),
        SecretRef::Engine {
            engine: "kv".into(),
            path: "a/b".into(),
            field: "c".into()
        }
    );
}

#[test]
fn everything_else_is_refused_without_being_repeated() {
    for (text, error) in [
        (
            "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
            RefError::NotAReference,
        ),
        ("Bearer abc", RefError::NotAReference),
        ("https://host/x", RefError::NotAReference),
        ("ENV:NAME", RefError::NotAReference),
        ("", RefError::NotAReference),
        ("env:", RefError::EnvName),
        ("env:1ABC", RefError::EnvName),
        ("env:A B", RefError::EnvName),
        ("keychain:", RefError::KeychainName),
        ("keychain:a/b", RefError::KeychainName),
        ("keychain:a\tb", RefError::KeychainName),
        ("secret:kv", RefError::EnginePath),
        ("secret:kv/a", RefError::EnginePath),
        ("secret:kv/../b#c", RefError::EnginePath),
        ("secret:/a#c", RefError::EnginePath),
        ("secret:kv/a#", RefError::EnginePath),
        ("secret:kv//a#b", RefError::EnginePath),
    ] {
        let found = SecretRef::parse(text).unwrap_err();
        assert_eq!(found, error, "{text}");
        let repeats = !text.is_empty() && found.to_string().contains(text);
        assert!(found != RefError::NotAReference || !repeats);
    }
}

proptest! {
    #[test]
    fn what_parses_prints_as_it_was(text in "(env|keychain|secret):[A-Za-z0-9_.#/-]{0,20}|.{0,20}") {
        if let Ok(reference) = SecretRef::parse(&text) {
            prop_assert_eq!(reference.to_string(), text);
        }
    }
}
