//! Who calls, and what each of them may hold and use up.
//!
//! A [`Caller`] is evidence that somebody showed a credential, a provider's access token or a session of signed calls; nothing outside
//! this crate makes one. With it come the caller's label, its places, its room and its meters, which all its connections share.
//!
//! Doors see a caller through what [`Caller`] itself offers. What only the call path may ask of one is in [`ForGate`], and doors do not
//! link this crate, so they cannot name it.
//!
//! This crate must never know a server, open a connection, or decide a call.

pub mod caller;
pub mod meters;
pub mod oauth;
pub mod places;
pub mod refusals;
pub mod room;
pub mod settings;
pub mod signed;
pub mod turns;
pub mod visits;

pub use caller::{Caller, Callers, Credential, CredentialSet, ForGate, Role};
pub use room::RequestRoom;
pub use signed::SignedSession;
