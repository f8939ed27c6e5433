//! The names secrets go by in a configuration.

use std::fmt;

/// Where a secret is kept. Safe to print, log and record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SecretRef {
    /// `env:NAME`: a variable of the gate's own environment.
    Env { name: String },
    /// `keychain:name`: an entry of the vault in the home.
    Keychain { name: String },
    /// `secret:engine/path#field`: a field in OpenBao or Vault.
    Engine {
        engine: String,
        path: String,
        field: String,
    },
}

/// Why a text is no reference. Never holds the text where it might be a credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefError {
    #[error(
        "not a secret reference; write `env:NAME`, `keychain:NAME` or `secret:ENGINE/PATH#FIELD`"
    )]
    NotAReference,
    #[error("`env:` needs a variable name of letters, digits and `_`, as in `env:GITHUB_TOKEN`")]
    EnvName,
    #[error(
        "`keychain:` needs a name of at most 128 letters, digits, `.`, `_`, `-`, as in `keychain:github-token`"
    )]
    KeychainName,
    #[error("`secret:` needs an engine, a path and a field, as in `secret:kv/team/github#token`")]
    EnginePath,
}

impl SecretRef {
    pub fn parse(text: &str) -> Result<SecretRef, RefError> {
        let (scheme, rest) = text.split_once(':').ok_or(RefError::NotAReference)?;
        match scheme {
            "env" => is_variable(rest)
                .then(|| SecretRef::Env { name: rest.into() })
                .ok_or(RefError::EnvName),
            "keychain" => is_entry(rest)
                .then(|| SecretRef::Keychain { name: rest.into() })
                .ok_or(RefError::KeychainName),
            "secret" => parse_engine(rest).ok_or(RefError::EnginePath),
            _ => Err(RefError::NotAReference),
        }
    }
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretRef::Env { name } => write!(f, "env:{name}"),
            SecretRef::Keychain { name } => write!(f, "keychain:{name}"),
            SecretRef::Engine {
                engine,
                path,
                field,
            } => write!(f, "secret:{engine}/{path}#{field}"),
        }
    }
}

/// Whether `name` can name a vault entry.
pub(crate) fn is_entry(name: &str) -> bool {
    (1..=128).contains(&name.len()) && name.bytes().all(is_entry_byte)
}

fn is_entry_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}

fn is_variable(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && name.len() <= 128
}

fn parse_engine(text: &str) -> Option<SecretRef> {
    let (place, field) = text.split_once('#')?;
    let (engine, path) = place.split_once('/')?;
    let segment = |part: &str| is_entry(part) && part != "." && part != "..";
    let whole = segment(engine) && path.split('/').all(segment) && segment(field);
    whole.then(|| SecretRef::Engine {
        engine: engine.into(),
        path: path.into(),
        field: field.into(),
    })
}
