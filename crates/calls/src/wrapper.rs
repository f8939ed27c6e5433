//! Wrapped text: values of ours that a client carries and hands back (page cursors, request states, task ids).
//!
//! Authenticated encryption under a key that never leaves the gate, bound to a purpose, so a value cannot be read, changed, or
//! used for something else. Equal values wrap to equal text: the nonce is a keyed digest of the value.

use std::fmt;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};

const NONCE: usize = 24;
/// Longer than anything we wrapper, so a hostile text costs nothing to refuse.
const MAX_TEXT: usize = 1 << 20;

pub struct Wrapper {
    cipher: XChaCha20Poly1305,
    nonce_key: [u8; 32],
}

impl fmt::Debug for Wrapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wrapper([redacted])")
    }
}

impl Wrapper {
    #[must_use]
    pub fn new(key: &[u8; 32]) -> Self {
        let cipher =
            XChaCha20Poly1305::new(&blake3::derive_key("portcullis seal 1 cipher", key).into());
        Self {
            cipher,
            nonce_key: blake3::derive_key("portcullis seal 1 nonce", key),
        }
    }

    /// Wraps a value for one purpose.
    #[must_use]
    pub fn wrap(&self, purpose: &str, value: &[u8]) -> String {
        let mut hasher = blake3::Hasher::new_keyed(&self.nonce_key);
        hasher
            .update(&(purpose.len() as u64).to_le_bytes())
            .update(purpose.as_bytes())
            .update(value);
        let mut nonce = [0; NONCE];
        hasher.finalize_xof().fill(&mut nonce);
        let payload = Payload {
            msg: value,
            aad: purpose.as_bytes(),
        };
        // Encryption fails only for values of many gigabytes; an empty text opens as nothing.
        let inside = self
            .cipher
            .encrypt(&XNonce::from(nonce), payload)
            .unwrap_or_default();
        URL_SAFE_NO_PAD.encode([&nonce[..], &inside].concat())
    }

    /// Opens a wrapped text; `None` if it is not ours, was changed, or was wrapped for another purpose.
    #[must_use]
    pub fn open(&self, purpose: &str, text: &str) -> Option<Vec<u8>> {
        if text.len() > MAX_TEXT {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (nonce, inside) = bytes.split_at_checked(NONCE)?;
        let nonce: [u8; NONCE] = nonce.try_into().ok()?;
        self.cipher
            .decrypt(
                &XNonce::from(nonce),
                Payload {
                    msg: inside,
                    aad: purpose.as_bytes(),
                },
            )
            .ok()
    }
}

/// Joins fields so that no two different lists give the same bytes.
#[must_use]
pub fn join(fields: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::with_capacity(fields.iter().map(|field| field.len() + 4).sum());
    for field in fields {
        out.extend_from_slice(&u32::try_from(field.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(field);
    }
    out
}

/// The inverse of [`join`], for exactly `N` fields.
#[must_use]
pub fn split<const N: usize>(mut bytes: &[u8]) -> Option<[&[u8]; N]> {
    let mut fields = [&[][..]; N];
    for field in &mut fields {
        let (length, rest) = bytes.split_at_checked(4)?;
        let length = usize::try_from(u32::from_le_bytes(length.try_into().ok()?)).ok()?;
        (*field, bytes) = rest.split_at_checked(length)?;
    }
    bytes.is_empty().then_some(fields)
}
