//! The one type that holds material.

use crate::reference::SecretRef;
use std::fmt;
use zeroize::{Zeroize, Zeroizing};

/// A secret value. Wiped on drop; not `Clone`, not `Display`, not serializable; `Debug` prints `[secret]`.
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes the text over; no copy is left behind.
    pub fn new(text: String) -> Secret {
        Secret(Zeroizing::new(text))
    }

    /// Takes bytes over; `None`, wiped, if they are not UTF-8.
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Option<Secret> {
        match String::from_utf8(bytes) {
            Ok(text) => Some(Secret::new(text)),
            Err(error) => {
                error.into_bytes().zeroize();
                None
            }
        }
    }

    /// The material, for the one place that spends it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Overwrites the material now instead of at drop.
    pub fn wipe(&mut self) {
        self.0.zeroize();
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Secret {
        Secret::new(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Custody of one secret for one use: take it, spend it, drop it.
#[derive(Debug)]
#[must_use = "a lease is taken to be spent"]
pub struct Lease {
    reference: SecretRef,
    secret: Secret,
}

impl Lease {
    /// For whoever keeps a store.
    pub fn new(reference: SecretRef, secret: Secret) -> Lease {
        Lease { reference, secret }
    }

    /// Which secret this is; safe to print.
    pub fn reference(&self) -> &SecretRef {
        &self.reference
    }

    pub fn expose(&self) -> &str {
        self.secret.expose()
    }

    /// The secret itself, for a holder that keeps it as long as it keeps a connection.
    pub fn into_secret(self) -> Secret {
        self.secret
    }
}
