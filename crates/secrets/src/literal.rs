//! Recognising a credential that was written where only a reference may stand.
//!
//! Two tables: names under which credentials travel, and shapes that issuers gave their tokens. It must never repeat the
//! value. It is a safety net for honest mistakes, not a proof: an unmarked secret under an innocent name passes.

use crate::reference::SecretRef;
use std::fmt;

/// Why a value looks like a credential; `Display` says it together with the fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The header or variable is one that carries credentials.
    Name { key: String },
    /// The value has the form of a known kind of token.
    Shape { key: String, kind: &'static str },
}

impl Reason {
    /// What to type and what to write instead.
    pub fn fix(&self) -> String {
        let (Reason::Name { key } | Reason::Shape { key, .. }) = self;
        let name = entry_name(key);
        format!(
            "run `portcullis secret set {name}` and write `keychain:{name}` here, or `env:NAME` to take it from the environment"
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Name { key } => write!(
                f,
                "`{}` carries a credential, which may not be written into the file",
                shown(key)
            )?,
            Reason::Shape { key, kind } => write!(
                f,
                "the value of `{}` looks like {kind}, which may not be written into the file",
                shown(key)
            )?,
        }
        write!(f, "; {}", self.fix())
    }
}

/// Whether `value`, written literally under `key` (a header, a variable, an argument), is probably a credential.
/// References, empty values and plain switches are not.
pub fn looks_like_credential(key: &str, value: &str) -> Option<Reason> {
    let value = value.trim();
    if value.is_empty() || SecretRef::parse(value).is_ok() {
        return None;
    }
    if let Some(kind) = token_shape(value) {
        return Some(Reason::Shape {
            key: key.to_owned(),
            kind,
        });
    }
    let switch = matches!(
        value.to_ascii_lowercase().as_str(),
        "true" | "false" | "yes" | "no" | "on" | "off"
    );
    (!switch && names_a_credential(key)).then(|| Reason::Name {
        key: key.to_owned(),
    })
}

/// Names that are credentials as a whole, in lower case with `_` for `-`.
const NAMES: &[&str] = &[
    "authorization",
    "proxy_authorization",
    "cookie",
    "bearer",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "pat",
    "apikey",
    "credential",
    "credentials",
    "key",
];
/// Last words of names that are credentials.
const LAST_WORDS: &[&str] = &[
    "token",
    "key",
    "apikey",
    "secret",
    "pat",
    "passwd",
    "passphrase",
    "credential",
    "credentials",
    "authorization",
    "cookie",
    "auth",
];
/// Names that end like a credential and are none.
const INNOCENT: &[&str] = &[
    "public_key",
    "idempotency_key",
    "sec_websocket_key",
    "partition_key",
    "sort_key",
    "primary_key",
    "cache_key",
];

fn names_a_credential(key: &str) -> bool {
    let name = spread(key);
    if INNOCENT.iter().any(|innocent| name.ends_with(innocent)) {
        return false;
    }
    let last = name.rsplit('_').next().unwrap_or_default();
    NAMES.contains(&name.as_str())
        || name.contains("password")
        || (name.contains('_') && LAST_WORDS.contains(&last))
}

/// `X-Api-Key`, `githubToken` and `GITHUB_TOKEN` as words: `x_api_key`, `github_token`, `github_token`.
fn spread(key: &str) -> String {
    let mut name = String::with_capacity(key.len() + 4);
    let mut after_lower = false;
    for c in key.trim_start_matches('-').chars() {
        if c.is_ascii_uppercase() && after_lower {
            name.push('_');
        }
        after_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        name.push(if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '_'
        });
    }
    name
}

/// How a token of one kind begins, and how long it is at least.
const SHAPES: &[(&str, usize, &str)] = &[
    ("ghp_", 20, "a GitHub token"),
    ("gho_", 20, "a GitHub token"),
    ("ghu_", 20, "a GitHub token"),
    ("ghs_", 20, "a GitHub token"),
    ("ghr_", 20, "a GitHub token"),
    ("github_pat_", 20, "a GitHub token"),
    ("glpat-", 20, "a GitLab token"),
    ("sk-", 20, "an AI provider's key"),
    ("sk_live_", 16, "a Stripe key"),
    ("sk_test_", 16, "a Stripe key"),
    ("rk_live_", 16, "a Stripe key"),
    ("whsec_", 16, "a webhook secret"),
    ("xoxb-", 16, "a Slack token"),
    ("xoxp-", 16, "a Slack token"),
    ("xoxa-", 16, "a Slack token"),
    ("xoxs-", 16, "a Slack token"),
    ("xapp-", 16, "a Slack token"),
    ("AIza", 35, "a Google key"),
    ("ya29.", 20, "a Google token"),
    ("npm_", 20, "an npm token"),
    ("pypi-", 20, "a PyPI token"),
    ("hf_", 20, "a Hugging Face token"),
    ("dop_v1_", 20, "a DigitalOcean token"),
    ("SG.", 20, "a SendGrid key"),
    ("hvs.", 16, "a Vault token"),
    ("lin_api_", 16, "a Linear key"),
    ("ntn_", 20, "a Notion token"),
    ("pct_", 16, "a credential of this gate"),
];

fn token_shape(value: &str) -> Option<&'static str> {
    if value.contains("-----BEGIN ") && value.contains("PRIVATE KEY-----") {
        return Some("a private key");
    }
    if has_password_in_url(value) {
        return Some("an address with a password in it");
    }
    value
        .split(|c: char| {
            c.is_whitespace() || matches!(c, '=' | ',' | ';' | '"' | '\'' | ':' | '&' | '?')
        })
        .find_map(word_shape)
}

fn word_shape(word: &str) -> Option<&'static str> {
    let listed = SHAPES
        .iter()
        .find(|(start, length, _)| word.len() >= *length && word.starts_with(start));
    if let Some((_, _, kind)) = listed {
        return Some(kind);
    }
    let aws = (word.starts_with("AKIA") || word.starts_with("ASIA"))
        && word.len() == 20
        && word
            .bytes()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    if aws {
        return Some("an AWS access key");
    }
    let jwt = word.starts_with("eyJ") && word.len() >= 30 && word.split('.').count() == 3;
    jwt.then_some("a signed token (JWT)")
}

fn has_password_in_url(value: &str) -> bool {
    let Some((_, rest)) = value.split_once("://") else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let user = authority.rsplit_once('@').map(|(user, _)| user);
    user.and_then(|user| user.split_once(':'))
        .is_some_and(|(_, password)| !password.is_empty())
}

/// A vault name made from a key, for the suggestion.
fn entry_name(key: &str) -> String {
    let dashed = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    let name: String = key.chars().take(64).map(dashed).collect();
    match name.trim_matches('-') {
        "" => "NAME".to_owned(),
        name => name.to_owned(),
    }
}

fn shown(key: &str) -> String {
    key.chars().take(64).flat_map(char::escape_debug).collect()
}
