//! Keys that sign: the gate's own for tokens, and an agent's for envelopes.
//!
//! Private halves are held by `ring`, which prints nothing of them. A seed is handed in; this crate draws no key.

use std::fmt;

use ring::{
    rand::SystemRandom,
    rsa::KeyPair as RsaKeyPair,
    signature::{Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256},
};
use wire::{Json, canonical::Order, write};
use zeroize::Zeroizing;

use crate::{
    KeyError, PublicKey, der, envelope,
    keyring::{Algorithm, VerifyingKey},
    text64,
};

/// A key that signs tokens: Ed25519, or RSA with RS256.
pub struct SigningKey {
    private: Private,
    public: VerifyingKey,
}

enum Private {
    Ed25519(Ed25519KeyPair),
    Rsa(Box<RsaKeyPair>),
}

impl SigningKey {
    /// The Ed25519 key of a seed: 32 random bytes that nobody else knows.
    pub fn from_seed(seed: &[u8; 32]) -> Result<Self, KeyError> {
        Self::ed25519(Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| KeyError::Unreadable)?)
    }

    /// The file in which a seed is kept: PKCS#8, as PEM.
    #[must_use]
    pub fn seed_to_pem(seed: &[u8; 32]) -> Zeroizing<String> {
        let der = Zeroizing::new([der::ED25519_PKCS8, seed].concat());
        der::to_pem("PRIVATE KEY", &der)
    }

    /// Reads a private key: PKCS#8 with an Ed25519 or RSA key, or PKCS#1 RSA, as PEM or DER.
    pub fn parse(file: &[u8]) -> Result<Self, KeyError> {
        let block = std::str::from_utf8(file).ok().and_then(der::pem);
        let (label, der) = match &block {
            Some((label, der)) => (*label, der.as_slice()),
            None => ("PRIVATE KEY", file),
        };
        match label {
            "PRIVATE KEY" => {
                if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
                    return Self::ed25519(pair);
                }
                Self::rsa(RsaKeyPair::from_pkcs8(der).map_err(|error| refused(&error))?)
            }
            "RSA PRIVATE KEY" => {
                Self::rsa(RsaKeyPair::from_der(der).map_err(|error| refused(&error))?)
            }
            _ => Err(KeyError::Unreadable),
        }
    }

    fn ed25519(pair: Ed25519KeyPair) -> Result<Self, KeyError> {
        let public = pair
            .public_key()
            .as_ref()
            .try_into()
            .map_err(|_| KeyError::Unreadable)?;
        let public = VerifyingKey::ed25519(PublicKey::from_bytes(public)?)?;
        Ok(Self {
            private: Private::Ed25519(pair),
            public,
        })
    }

    fn rsa(pair: RsaKeyPair) -> Result<Self, KeyError> {
        let (modulus, exponent) =
            der::rsa_public(pair.public().as_ref()).ok_or(KeyError::Unreadable)?;
        let public = VerifyingKey::rsa(Algorithm::Rs256, modulus, exponent)?;
        Ok(Self {
            private: Private::Rsa(Box::new(pair)),
            public,
        })
    }

    #[must_use]
    pub fn public(&self) -> &VerifyingKey {
        &self.public
    }

    /// Signs; fails only if the system has no randomness to blind an RSA operation with.
    pub(crate) fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        match &self.private {
            Private::Ed25519(pair) => Some(pair.sign(message).as_ref().to_vec()),
            Private::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                // The signature does not depend on it: it keeps the time that signing takes from telling about the key.
                pair.sign(
                    &RSA_PKCS1_SHA256,
                    &SystemRandom::new(),
                    message,
                    &mut signature,
                )
                .ok()?;
                Some(signature)
            }
        }
    }
}

fn refused(error: &ring::error::KeyRejected) -> KeyError {
    match error.to_string().as_str() {
        "TooSmall" => KeyError::TooShort,
        "TooLarge" | "WrongAlgorithm" => KeyError::Unsupported,
        _ => KeyError::Unreadable,
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({:?})", self.public)
    }
}

/// An agent's key: what a client signs its envelopes with.
pub struct AgentKey {
    pair: Ed25519KeyPair,
    public: PublicKey,
}

impl AgentKey {
    pub fn from_seed(seed: &[u8; 32]) -> Result<Self, KeyError> {
        Self::new(Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| KeyError::Unreadable)?)
    }

    /// Reads the file that [`SigningKey::seed_to_pem`] writes.
    pub fn parse(file: &[u8]) -> Result<Self, KeyError> {
        let block = std::str::from_utf8(file).ok().and_then(der::pem);
        let Some(("PRIVATE KEY", der)) = &block else {
            return Err(KeyError::Unreadable);
        };
        Self::new(Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).map_err(|error| refused(&error))?)
    }

    fn new(pair: Ed25519KeyPair) -> Result<Self, KeyError> {
        let public = PublicKey::from_bytes(
            pair.public_key()
                .as_ref()
                .try_into()
                .map_err(|_| KeyError::Unreadable)?,
        )?;
        Ok(Self { pair, public })
    }

    #[must_use]
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// A signed envelope around a call.
    #[must_use]
    pub fn envelope(&self, payload: Json<'_>, token: &str, now_ms: u64) -> Vec<u8> {
        let seconds = now_ms / 1000;
        let input = envelope::signing_input(payload, token, seconds, Order::CodePoint);
        let signature = text64::padded(self.pair.sign(&input).as_ref());
        let mut out = write::Object::with_capacity(input.len() + 160);
        out.str("protocol", envelope::PROTOCOL)
            .str("security_token", token)
            .str("signature", &signature);
        out.json("payload", payload).u64("timestamp", seconds);
        out.finish()
    }
}

impl fmt::Debug for AgentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AgentKey({})", self.public.to_base64())
    }
}
