//! References in, short leases out.
//!
//! A configuration names a secret ([`SecretRef`]); a [`Store`] turns the name into a [`Lease`] for the moment in which it
//! is spent. This crate must never print a secret, put one into an error, or keep one longer than its holder does.
//!
//! Invariants kept here:
//! - material lives only in [`Secret`], which is wiped when dropped, prints as `[secret]` and cannot be cloned;
//! - nothing is read from a vault that fails its seal, or with a key that others can read;
//! - an error names the reference and the command that repairs it, never the value.
//!
//! **Invariant: nothing prints a secret.** Tests `nothing_prints_a_secret`,
//! `a_credential_that_a_server_reflects_in_its_lists_is_neither_shown_nor_written`,
//! `credentials_in_clear_are_refused_and_not_repeated`, `the_files_hold_no_plain_text_and_are_private`,
//! `the_file_keeps_hashes_only_and_is_private`, `secrets_in_arguments_are_not_recorded`.

mod entropy;
mod error;
mod literal;
mod reference;
mod secret;
mod store;
mod vault;

pub use entropy::{Entropy, os_entropy};
pub use error::SecretError;
pub use literal::{Reason, looks_like_credential};
pub use reference::{RefError, SecretRef};
pub use secret::{Lease, Secret};
pub use store::{Leasing, Resolver, Store};
pub use vault::Vault;

#[cfg(test)]
mod tests;
