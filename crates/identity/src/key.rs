//! The public key of an agent: what its envelopes are verified with.
//!
//! A key is looked at once, when it is registered: it must be a point of the prime-order subgroup in its one canonical spelling.
//! `ring` then demands a reduced scalar and compares the first half of a signature byte for byte with the point it computes; that point
//! lies in the same subgroup, so the only one of small order it can be is the identity, and that is refused here. Together this is strict
//! verification: no signature is left that two verifiers could disagree about.

use std::fmt;

use curve25519_dalek::{edwards::CompressedEdwardsY, traits::IsIdentity};
use ring::signature::{ED25519, UnparsedPublicKey};
use thiserror::Error;
use wire::canonical::Order;

use crate::{
    Envelope,
    der::{self, Spki},
    text64,
};

/// An Ed25519 key that passed registration.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

/// How a signature would begin that was made with the number nought.
const IDENTITY: [u8; 32] = [
    1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

/// Why a key cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeyError {
    #[error("the key is neither base64 of 32 bytes nor a PEM or DER key that is known here")]
    Unreadable,
    #[error("the key is not a point of the curve")]
    NotAPoint,
    #[error("the key is not in its canonical form")]
    NotCanonical,
    #[error(
        "the key has a component of small order, so signatures under it prove nothing; generate a new one"
    )]
    SmallOrder,
    #[error("only Ed25519, RSA of 2048 to 8192 bits, and P-256 keys are used here")]
    Unsupported,
    #[error("the RSA key is shorter than 2048 bits; generate a longer one")]
    TooShort,
    #[error(
        "the RSA key comes from a generator whose keys can be factored (CVE-2017-15361); generate a new one"
    )]
    Weak,
    #[error("another key of the ring has the same id")]
    Twice,
    #[error("the ring is full; take out keys whose tokens have expired")]
    Full,
}

impl PublicKey {
    /// Reads a key as clients write them: base64 of the 32 bytes in either alphabet, a PEM block, or base64 of the DER form.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let text = text.trim();
        let bytes = match der::pem(text) {
            Some(("PUBLIC KEY", bytes)) => bytes.to_vec(),
            Some(_) => return Err(KeyError::Unreadable),
            // Longer than the base64 of a DER key; the decoder need not see it.
            None if text.len() > 64 => return Err(KeyError::Unreadable),
            None => text64::from_any(text).ok_or(KeyError::Unreadable)?,
        };
        match <[u8; 32]>::try_from(bytes.as_slice()) {
            Ok(raw) => Self::from_bytes(&raw),
            Err(_) => Self::from_der(&bytes),
        }
    }

    /// Reads the 44 bytes of `SubjectPublicKeyInfo`.
    pub fn from_der(bytes: &[u8]) -> Result<Self, KeyError> {
        match der::spki(bytes) {
            Some(Spki::Ed25519(key)) => {
                Self::from_bytes(key.try_into().map_err(|_| KeyError::Unreadable)?)
            }
            Some(_) => Err(KeyError::Unsupported),
            None => Err(KeyError::Unreadable),
        }
    }

    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, KeyError> {
        let point = CompressedEdwardsY(*bytes)
            .decompress()
            .ok_or(KeyError::NotAPoint)?;
        if point.compress().to_bytes() != *bytes {
            return Err(KeyError::NotCanonical);
        }
        if point.is_identity() || !point.is_torsion_free() {
            return Err(KeyError::SmallOrder);
        }
        Ok(Self(*bytes))
    }

    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    #[must_use]
    pub fn to_base64(&self) -> String {
        text64::padded(self.as_bytes())
    }

    /// Is the envelope signed by this key? Clients sort keys by code point or, in JavaScript, by UTF-16 unit: the second is tried
    /// where it gives other bytes.
    #[must_use]
    pub fn verifies(&self, envelope: &Envelope<'_>) -> bool {
        let input = envelope.signing_input(Order::CodePoint);
        if self.verifies_bytes(&input, envelope.signature()) {
            return true;
        }
        let other = envelope.signing_input(Order::Utf16);
        other != input && self.verifies_bytes(&other, envelope.signature())
    }

    /// Is this a signature over exactly these bytes?
    #[must_use]
    pub fn verifies_bytes(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        !signature.starts_with(&IDENTITY)
            && UnparsedPublicKey::new(&ED25519, &self.0)
                .verify(message, signature)
                .is_ok()
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.to_base64())
    }
}
