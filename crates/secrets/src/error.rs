//! What can go wrong between a reference and a lease, and what repairs it. No variant can hold a secret.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error(
        "`env:{name}` is not set; start the gate with {name} in its environment, or keep the secret in the vault: \
         `portcullis secret set {name}`, and write `keychain:{name}`"
    )]
    EnvMissing { name: String },
    #[error("`keychain:{name}` is not stored; store it with `portcullis secret set {name}`")]
    KeychainMissing { name: String },
    #[error(
        "`{reference}` cannot be read: no store under `secrets.stores` has its engine; use `env:` or `keychain:` (`portcullis secret set NAME`)"
    )]
    EngineNotConfigured { reference: String },
    #[error("`{reference}` cannot be read from the secret store `{store}`: {why}")]
    Store {
        reference: String,
        store: String,
        /// In words without a secret.
        why: String,
    },
    #[error("`{name}` cannot name a secret: use 1 to 128 letters, digits, `.`, `_`, `-`")]
    BadName { name: String },
    #[error("a secret must be 1 to {limit} bytes of text without NUL")]
    BadValue { limit: usize },
    #[error(
        "{} can be read by others (mode {mode:03o}); run `chmod 600 {}`, and replace the secrets if others may have read it",
        path.display(), path.display()
    )]
    KeyExposed { path: PathBuf, mode: u32 },
    #[error(
        "{} is not a key of 32 bytes; restore it from a backup, or remove it together with the vault and store the secrets again",
        path.display()
    )]
    KeyBroken { path: PathBuf },
    #[error(
        "{} is missing, and the vault cannot be read without it; restore it from a backup, or remove the vault and store the secrets again",
        path.display()
    )]
    KeyMissing { path: PathBuf },
    #[error(
        "{} was changed outside the gate, or belongs to another key; restore both from a backup, or remove them and store the secrets again",
        path.display()
    )]
    VaultBroken { path: PathBuf },
    #[error("{what} {} failed", path.display())]
    Disk {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("the system gave no randomness")]
    NoEntropy { source: io::Error },
}

impl SecretError {
    /// For `map_err`: which step, on which file.
    pub(crate) fn disk(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> SecretError {
        let path = path.into();
        move |source| SecretError::Disk { what, path, source }
    }
}
