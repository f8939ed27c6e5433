//! From a reference to a lease.

use crate::error::SecretError;
use crate::reference::SecretRef;
use crate::secret::{Lease, Secret};
use crate::vault::Vault;
use std::collections::HashMap;
use std::fmt;

/// Whatever can turn references into leases.
pub trait Store: fmt::Debug + Send + Sync {
    fn lease(&self, reference: &SecretRef) -> Result<Lease, SecretError>;
}

/// The embedded store: the gate's environment as it was at start, and the vault in its home.
#[derive(Debug)]
pub struct Resolver {
    environment: HashMap<String, Secret>,
    vault: Vault,
}

impl Resolver {
    /// `environment` is read once, here; the vault is read at every lease, so a stored secret is found without restart.
    pub fn new(environment: impl IntoIterator<Item = (String, String)>, vault: Vault) -> Resolver {
        Resolver {
            environment: environment
                .into_iter()
                .map(|(name, value)| (name, Secret::new(value)))
                .collect(),
            vault,
        }
    }

    pub fn vault(&self) -> &Vault {
        &self.vault
    }
}

impl Store for Resolver {
    fn lease(&self, reference: &SecretRef) -> Result<Lease, SecretError> {
        let secret = match reference {
            SecretRef::Env { name } => self
                .environment
                .get(name)
                .filter(|secret| !secret.expose().is_empty())
                .map(|secret| Secret::new(secret.expose().to_owned()))
                .ok_or_else(|| SecretError::EnvMissing { name: name.clone() })?,
            SecretRef::Keychain { name } => self
                .vault
                .get(name)?
                .ok_or_else(|| SecretError::KeychainMissing { name: name.clone() })?,
            SecretRef::Engine { .. } => {
                return Err(SecretError::EngineNotConfigured {
                    reference: reference.to_string(),
                });
            }
        };
        Ok(Lease::new(reference.clone(), secret))
    }
}
