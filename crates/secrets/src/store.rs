//! From a reference to a lease.

use crate::error::SecretError;
use crate::reference::SecretRef;
use crate::secret::{Lease, Secret};
use crate::vault::Vault;
use std::collections::HashMap;
use std::fmt;
use std::future::ready;
use std::pin::Pin;
use vocab::Redacted;

/// A lease on its way. A store may be a file, or far away.
pub type Leasing<'a> = Pin<Box<dyn Future<Output = Result<Lease, SecretError>> + Send + 'a>>;

/// Whatever can turn references into leases.
pub trait Store: fmt::Debug + Send + Sync {
    fn lease<'a>(&'a self, reference: &'a SecretRef) -> Leasing<'a>;
}

impl dyn Store {
    /// What a reference names, for the moment in which it is spent; or why it cannot be had, in words for the operator.
    pub async fn reveal(&self, reference: &str) -> Result<Redacted<String>, String> {
        let reference = SecretRef::parse(reference).map_err(|error| error.to_string())?;
        let lease = self.lease(&reference).await;
        let lease = lease.map_err(|error| error.to_string())?;
        Ok(Redacted::new(lease.expose().to_owned()))
    }
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
    /// The files are small and here, so the lease is ready at once.
    fn lease<'a>(&'a self, reference: &'a SecretRef) -> Leasing<'a> {
        Box::pin(ready(self.find(reference)))
    }
}

impl Resolver {
    fn find(&self, reference: &SecretRef) -> Result<Lease, SecretError> {
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
