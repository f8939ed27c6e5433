use crate::*;
use proptest::prelude::*;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

fn vault(home: &Path) -> Vault {
    Vault::in_home(home, os_entropy())
}

fn put(vault: &Vault, name: &str, value: &str) {
    vault.set(name, &Secret::new(value.into())).unwrap();
}

fn value(vault: &Vault, name: &str) -> Option<String> {
    vault
        .get(name)
        .unwrap()
        .map(|secret| secret.expose().to_owned())
}

#[test]
fn set_get_list_delete() {
    let home = tempfile::tempdir().unwrap();
    let v = vault(home.path());
    assert_eq!(v.names().unwrap(), [""; 0]);
    assert_eq!(value(&v, "a"), None);
    assert!(!v.delete("a").unwrap());
    put(&v, "b", "two\nlines");
    put(&v, "a", "first");
    put(&v, "a", "second");
    let again = vault(home.path());
    assert_eq!(again.names().unwrap(), ["a", "b"]);
    assert_eq!(value(&again, "a").as_deref(), Some("second"));
    assert_eq!(value(&again, "b").as_deref(), Some("two\nlines"));
    assert!(again.delete("a").unwrap());
    assert_eq!(again.names().unwrap(), ["b"]);
}

#[test]
fn the_files_hold_no_plain_text_and_are_private() {
    let home = tempfile::tempdir().unwrap();
    let v = vault(home.path());
    put(&v, "github", "canary-7f3a91");
    for entry in std::fs::read_dir(home.path()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        assert!(
            !bytes.windows(13).any(|w| w == b"canary-7f3a91"),
            "{path:?}"
        );
        assert_eq!(
            std::fs::metadata(&path).unwrap().mode() & 0o777,
            0o600,
            "{path:?}"
        );
    }
}

#[test]
fn any_changed_byte_of_the_vault_or_the_key_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let v = vault(home.path());
    put(&v, "a", "first");
    put(&v, "b", "second");
    for file in ["secrets.vault", "secrets.key"] {
        let path = home.path().join(file);
        let original = std::fs::read(&path).unwrap();
        for at in 0..original.len() {
            for flip in [1, 0x20, 0x80] {
                let mut changed = original.clone();
                changed[at] ^= flip;
                std::fs::write(&path, &changed).unwrap();
                for error in [
                    v.get("a").unwrap_err(),
                    v.names().unwrap_err(),
                    v.delete("a").unwrap_err(),
                ] {
                    assert!(
                        matches!(error, SecretError::VaultBroken { .. }),
                        "{file} {at}: {error}"
                    );
                }
                assert!(
                    v.set("c", &Secret::new("x".into())).is_err(),
                    "nothing is written over damage"
                );
            }
            std::fs::write(&path, &original[..at]).unwrap();
            assert!(v.get("a").is_err(), "{file} cut at {at}");
        }
        std::fs::write(&path, &original).unwrap();
    }
    assert_eq!(value(&v, "a").as_deref(), Some("first"));
}

#[test]
fn entries_cannot_be_removed_swapped_or_brought_from_another_vault() {
    let home = tempfile::tempdir().unwrap();
    let v = vault(home.path());
    put(&v, "a", "first");
    put(&v, "b", "second");
    let path = home.path().join("secrets.vault");
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (a, b) = (
        lines[1].split_once('\t').unwrap().1,
        lines[2].split_once('\t').unwrap().1,
    );
    let without = text.replace(lines[1], "");
    let swapped = text.replace(a, "X").replace(b, a).replace('X', b);
    for forged in [
        without,
        swapped,
        text.replace("seal", "sale"),
        format!("{text}\n"),
    ] {
        std::fs::write(&path, forged).unwrap();
        assert!(matches!(v.get("b"), Err(SecretError::VaultBroken { .. })));
    }
    let other = tempfile::tempdir().unwrap();
    put(&vault(other.path()), "a", "first");
    std::fs::copy(other.path().join("secrets.vault"), &path).unwrap();
    assert!(matches!(v.get("a"), Err(SecretError::VaultBroken { .. })));
}

#[test]
fn a_key_that_others_can_read_is_refused_with_the_fix() {
    let home = tempfile::tempdir().unwrap();
    let v = vault(home.path());
    put(&v, "a", "first");
    let key = home.path().join("secrets.key");
    for mode in [0o640, 0o604, 0o660, 0o601, 0o777] {
        std::fs::set_permissions(&key, PermissionsExt::from_mode(mode)).unwrap();
        let error = v.get("a").unwrap_err().to_string();
        assert!(
            error.contains(&format!("chmod 600 {}", key.display())),
            "{error}"
        );
        assert!(v.set("b", &Secret::new("x".into())).is_err());
    }
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o400)).unwrap();
    assert_eq!(value(&v, "a").as_deref(), Some("first"));
}

#[test]
fn a_lost_key_is_said_and_never_replaced() {
    let home = tempfile::tempdir().unwrap();
    let v = vault(home.path());
    put(&v, "a", "first");
    let key = home.path().join("secrets.key");
    std::fs::remove_file(&key).unwrap();
    assert!(matches!(
        v.set("b", &Secret::new("x".into())),
        Err(SecretError::KeyMissing { .. })
    ));
    assert!(!key.exists());
    std::fs::write(&key, [7; 31]).unwrap();
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
    assert!(matches!(v.get("a"), Err(SecretError::KeyBroken { .. })));
}

#[test]
fn bad_names_and_values_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let v = vault(home.path());
    for name in ["", "a b", "a\tb", "a\nb", "ü", "seal\t"] {
        assert!(matches!(
            v.set(name, &Secret::new("x".into())),
            Err(SecretError::BadName { .. })
        ));
    }
    for value in [String::new(), "a\0b".into(), "x".repeat(65 << 10)] {
        assert!(matches!(
            v.set("a", &Secret::new(value)),
            Err(SecretError::BadValue { .. })
        ));
    }
    put(&v, "seal", "an entry may have this name");
    assert_eq!(v.names().unwrap(), ["seal"]);
    assert_eq!(
        value(&v, "seal").as_deref(),
        Some("an entry may have this name")
    );
}

#[test]
fn every_write_takes_fresh_nonces() {
    let home = tempfile::tempdir().unwrap();
    let counter = AtomicU8::new(0);
    let entropy: Entropy = Arc::new(move |bytes: &mut [u8]| {
        bytes.fill(counter.fetch_add(1, Ordering::SeqCst));
        Ok(())
    });
    let v = Vault::in_home(home.path(), entropy);
    let path = home.path().join("secrets.vault");
    put(&v, "a", "same");
    let first = std::fs::read_to_string(&path).unwrap();
    put(&v, "a", "same");
    let second = std::fs::read_to_string(&path).unwrap();
    assert!(
        first.contains("a\t0101") && second.contains("a\t0303"),
        "{first}{second}"
    );
    assert!(first.contains("seal\t0202") && second.contains("seal\t0404"));
}

#[test]
fn without_randomness_nothing_is_written() {
    let home = tempfile::tempdir().unwrap();
    let v = Vault::in_home(
        home.path(),
        Arc::new(|_: &mut [u8]| Err(std::io::Error::other("none"))),
    );
    assert!(matches!(
        v.set("a", &Secret::new("x".into())),
        Err(SecretError::NoEntropy { .. })
    ));
    assert!(
        !home.path().join("secrets.key").exists() && !home.path().join("secrets.vault").exists()
    );
}

#[test]
fn what_was_changed_or_removed_meanwhile_is_not_replaced() {
    let home = tempfile::tempdir().unwrap();
    let vault = vault(home.path());
    let secret = |text: &str| Secret::new(text.to_owned());
    let replace = |before: &str, after: &str| {
        let replaced = vault.replace("name", &secret(before), &secret(after));
        replaced.unwrap()
    };
    assert!(!replace("one", "two"), "there was none");
    put(&vault, "name", "one");
    assert!(replace("one", "two"));
    assert!(!replace("one", "three"), "another took its place");
    assert_eq!(value(&vault, "name").as_deref(), Some("two"));
    vault.delete("name").unwrap();
    assert!(!replace("two", "three"), "it was removed");
    assert_eq!(value(&vault, "name"), None);
}

#[test]
fn concurrent_writers_lose_nothing() {
    let home = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for t in 0..8 {
            let v = vault(home.path());
            scope.spawn(move || {
                for i in 0..5 {
                    put(&v, &format!("{t}-{i}"), &format!("value {t} {i}"));
                    assert_eq!(
                        value(&v, &format!("{t}-{i}")),
                        Some(format!("value {t} {i}"))
                    );
                }
            });
        }
    });
    let v = vault(home.path());
    assert_eq!(v.names().unwrap().len(), 40);
    assert_eq!(value(&v, "7-4").as_deref(), Some("value 7 4"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_text_round_trips(name in "[A-Za-z0-9._-]{1,128}", text in "[^\0]{1,200}") {
        let home = tempfile::tempdir().unwrap();
        let v = vault(home.path());
        put(&v, &name, &text);
        prop_assert_eq!(value(&v, &name), Some(text));
    }
}
