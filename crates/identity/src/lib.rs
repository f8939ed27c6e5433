//! Who signed what: signed envelopes, tokens, key rings, access tokens, proofs of possession, and the window in which nothing is
//! accepted twice.
//!
//! Pure: the clock is an argument in every function that needs one, randomness is handed in, and nothing here opens a file or a
//! connection. A key is only ever found by looking its id up in a ring; what a token says about its own key is never followed. Every
//! text has a cap, and of two readings of a text there is never one that is checked and another that is used.

pub mod access;
mod cache;
mod claims;
mod der;
pub mod dpop;
mod envelope;
mod freshness;
mod jwk;
mod jws;
mod key;
mod keyring;
mod replay;
mod roca;
mod sign;
pub mod sshsig;
mod text64;
mod token;

pub use cache::TokenCache;
pub use claims::Claims;
pub use envelope::{Envelope, Malformed};
pub use freshness::{Freshness, Stale};
pub use jwk::{Jwks, JwksError};
pub use jws::JwsError;
pub use key::{KeyError, PublicKey};
pub use keyring::{Algorithm, KeyRing, VerifyingKey};
pub use replay::{Bounds, Entry, Journal, Replay, Restored, Spent};
pub use sign::{AgentKey, SigningKey};
pub use token::{Expect, TokenError, TokenKeys};

#[cfg(test)]
mod tests;
