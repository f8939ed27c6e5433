//! Logins to servers: what to ask an authorization server next, and what to make of its answer.
//!
//! Pure: time and randomness are arguments, and nothing here opens a file or a connection. [`Flow`] says the next request and is told
//! the answer; [`Login`] is what it ends with, and [`renewal`] keeps that alive. Every document that a server or an authorization
//! server wrote has a cap and one reading. What is secret lives in [`secrets::Secret`] and has no other way out than a [`Request`] or
//! the text that is sealed.
//!
//! **Invariant: a code is redeemed only where it was asked for.** State, issuer, client, redirect, resource and verifier are fixed before
//! a person is sent anywhere, and an answer that names another issuer is used for nothing. Tests
//! `an_answer_of_another_issuer_is_used_for_nothing`, `the_token_request_goes_where_the_person_was_sent`.
//!
//! **Invariant: nothing prints a token.** Test `no_type_prints_what_is_secret`.

mod address;
mod authorize;
mod challenge;
mod client;
mod exchange;
mod flow;
mod jwt;
mod login;
mod metadata;
mod pkce;
mod problem;
pub mod renewal;
mod scopes;
mod token;

pub use address::{Address, AddressError, Near, Plain};
pub use authorize::{Authorization, Returned, from_pasted, sets_parameter};
pub use challenge::Challenge;
pub use client::{Client, Configured, Proof};
pub use exchange::{Answer, Body, Exchange, Method, Request};
pub use flow::{Flow, Grant, Next, Plan, Redirects, ResourceChoice, Subject};
pub use jwt::{SigningKey, SigningKeyError};
pub use login::Login;
pub use metadata::{Endpoints, Issuer, ProtectedResource};
pub use pkce::Drawn;
pub use problem::{Problem, Step, theirs};
pub use scopes::{ScopeError, Scopes, StepUp};
pub use token::{Moment, Scheme};

#[cfg(test)]
mod tests;
