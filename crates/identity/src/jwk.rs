//! Key sets of identity providers (RFC 7517). Keys that cannot be used here are left out and counted; those that can are bound to one
//! algorithm each.

use thiserror::Error;
use wire::{Json, Limits};

use crate::{
    KeyError, PublicKey,
    keyring::{Algorithm, KeyRing, MAX_KEYS, VerifyingKey},
    text64,
};

/// Key sets with certificates are long; this is several times the longest seen.
const MAX_SET: usize = 256 << 10;
/// Entries that are looked at, usable or not.
const MAX_ENTRIES: usize = 4 * MAX_KEYS;

/// A provider's keys.
#[derive(Debug, Clone, Default)]
pub struct Jwks {
    ring: KeyRing,
    /// Entries that are not used: encryption keys, other curves, weak keys, ids that occur twice.
    pub unusable: usize,
}

/// Why a text is no key set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum JwksError {
    #[error("the key set is not a JSON object with a list `keys`, of at most 256 KiB")]
    NotASet,
    #[error("the key set mixes secret keys with public ones, so it cannot be trusted")]
    Secret,
    #[error("the key set has more than 256 keys")]
    TooMany,
    #[error("the key set has no key that can be used here")]
    Empty,
}

impl Jwks {
    pub fn parse(text: &[u8]) -> Result<Self, JwksError> {
        let json = Json::parse(text, Limits::new(MAX_SET, 8)).map_err(|_| JwksError::NotASet)?;
        let keys = json
            .get("keys")
            .filter(|keys| keys.is_array())
            .ok_or(JwksError::NotASet)?;
        let mut set = Self::default();
        let mut twice = Vec::new();
        for (at, jwk) in keys.items().enumerate() {
            if at >= MAX_ENTRIES {
                return Err(JwksError::TooMany);
            }
            if is_secret(jwk) {
                return Err(JwksError::Secret);
            }
            let Ok(key) = read(jwk) else {
                set.unusable += 1;
                continue;
            };
            let id = jwk
                .get("kid")
                .and_then(Json::as_str)
                .map_or_else(|| key.thumbprint().to_owned(), |id| id.into_owned());
            if let Err(error) = set.ring.add(&id, key) {
                set.unusable += 1;
                if error == KeyError::Twice {
                    twice.push(id);
                }
            }
        }
        // Two keys under one id: neither says which signed.
        for id in twice {
            set.unusable += usize::from(set.ring.remove(&id));
        }
        if set.ring.is_empty() {
            Err(JwksError::Empty)
        } else {
            Ok(set)
        }
    }

    #[must_use]
    pub fn ring(&self) -> &KeyRing {
        &self.ring
    }
}

/// Does the key hold what only its owner may know?
fn is_secret(jwk: Json<'_>) -> bool {
    let symmetric = jwk
        .get("kty")
        .and_then(Json::as_str)
        .is_some_and(|kind| kind == "oct");
    symmetric || jwk.get("k").is_some() || jwk.get("d").is_some()
}

/// Reads one public key that signs.
pub(crate) fn read(jwk: Json<'_>) -> Result<VerifyingKey, KeyError> {
    let text = |name| jwk.get(name).and_then(Json::as_str);
    if is_secret(jwk) || jwk.get("use").is_some() && text("use").as_deref() != Some("sig") {
        return Err(KeyError::Unsupported);
    }
    if jwk.get("key_ops").is_some_and(|uses| {
        !uses
            .items()
            .any(|item| item.as_str().as_deref() == Some("verify"))
    }) {
        return Err(KeyError::Unsupported);
    }
    let said = match jwk.get("alg") {
        None => None,
        Some(_) => Some(
            text("alg")
                .as_deref()
                .and_then(algorithm)
                .ok_or(KeyError::Unsupported)?,
        ),
    };
    let bytes = |name| {
        text(name)
            .as_deref()
            .and_then(text64::from_url)
            .ok_or(KeyError::Unreadable)
    };
    let key = match (text("kty").as_deref(), text("crv").as_deref()) {
        (Some("OKP"), Some("Ed25519")) => {
            let key = bytes("x")?.try_into().map_err(|_| KeyError::Unreadable)?;
            VerifyingKey::ed25519(PublicKey::from_bytes(&key)?)?
        }
        (Some("EC"), Some("P-256")) => {
            let point = [vec![4], coordinate(bytes("x")?)?, coordinate(bytes("y")?)?].concat();
            VerifyingKey::p256(point.try_into().map_err(|_| KeyError::Unreadable)?)?
        }
        (Some("RSA"), None) => {
            VerifyingKey::rsa(said.unwrap_or(Algorithm::Rs256), &bytes("n")?, &bytes("e")?)?
        }
        _ => return Err(KeyError::Unsupported),
    };
    if said.is_some_and(|said| said != key.algorithm()) {
        Err(KeyError::Unsupported)
    } else {
        Ok(key)
    }
}

/// An algorithm as keys name it. RFC 9864 calls EdDSA on this curve by the curve's name.
fn algorithm(name: &str) -> Option<Algorithm> {
    if name == "Ed25519" {
        Some(Algorithm::EdDsa)
    } else {
        Algorithm::parse(name)
    }
}

fn coordinate(bytes: Vec<u8>) -> Result<Vec<u8>, KeyError> {
    if bytes.len() == 32 {
        Ok(bytes)
    } else {
        Err(KeyError::Unreadable)
    }
}
