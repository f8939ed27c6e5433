use crate::*;

#[test]
fn names_that_carry_credentials() {
    for key in [
        "Authorization",
        "authorization",
        "Proxy-Authorization",
        "X-Api-Key",
        "x-api-key",
        "api-key",
        "apikey",
        "Cookie",
        "X-GitHub-Token",
        "GITHUB_TOKEN",
        "OPENAI_API_KEY",
        "AWS_SECRET",
        "CLIENT_SECRET",
        "PGPASSWORD",
        "DB_PASSWORD_RO",
        "password",
        "githubToken",
        "--api-key",
        "bearer",
        "NPM_PAT",
        "X-Auth-Token",
        "AWS_ACCESS_KEY",
    ] {
        let reason = looks_like_credential(key, "hunter2");
        assert!(
            matches!(reason, Some(Reason::Name { .. })),
            "{key}: {reason:?}"
        );
    }
}

#[test]
fn names_that_do_not() {
    for key in [
        "Accept",
        "User-Agent",
        "LOG_LEVEL",
        "MAX_TOKENS",
        "KEYBOARD",
        "MONKEY",
        "PUBLIC_KEY",
        "Idempotency-Key",
        "HOME",
        "tokenizer",
        "X-Region",
    ] {
        assert_eq!(looks_like_credential(key, "hunter2"), None, "{key}");
    }
}

#[test]
fn shapes_are_known_under_any_name() {
    let jwt = format!("eyJ{}.eyJ{}.sig", "a".repeat(20), "b".repeat(20));
    for value in [
        "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "github_pat_11ABCDEFG0abcdefghij",
        "sk-proj-0123456789abcdefghij",
        "xoxb-123456789012-abcdef",
        "AKIAIOSFODNN7EXAMPLE",
        "Bearer ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "--token=ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "https://host/path?access=ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "postgres://me:hunter2@db/x",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nabc",
        &jwt,
    ] {
        let reason = looks_like_credential("X-Anything", value);
        assert!(matches!(reason, Some(Reason::Shape { .. })), "{value}");
    }
}

#[test]
fn references_switches_and_plain_values_pass() {
    for (key, value) in [
        ("Authorization", "env:GITHUB_TOKEN"),
        ("GITHUB_TOKEN", "keychain:github"),
        ("GITHUB_TOKEN", " secret:kv/github#token "),
        ("GITHUB_TOKEN", ""),
        ("USE_TOKEN", "true"),
        ("LOG_LEVEL", "info"),
        ("URL", "https://user@host:8080/a:b@c"),
        ("URL", "https://host:8080/x"),
        ("MODE", "sk-short"),
        ("NAME", "AKIArat of japan"),
    ] {
        assert_eq!(looks_like_credential(key, value), None, "{key}: {value}");
    }
}

#[test]
fn the_fix_is_a_command_and_never_repeats_the_value() {
    let value = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let text = looks_like_credential("X-GitHub-Token", value)
        .unwrap()
        .to_string();
    assert!(text.contains("a GitHub token"), "{text}");
    assert!(
        text.contains("`portcullis secret set x-github-token`")
            && text.contains("`keychain:x-github-token`"),
        "{text}"
    );
    assert!(!text.contains(value));
    let text = looks_like_credential("A\u{1b}[2J_TOKEN", "hunter2")
        .unwrap()
        .to_string();
    assert!(!text.contains('\u{1b}') && !text.contains("hunter2"));
}
