//! The servers behind the gate: how they are reached, what they offer, and which of their words a caller is shown.
//!
//! [`Hub`] keeps every server connected through the worker and adds up what they offer in one [`Catalog`]. [`Pins`] say what of it a
//! person approved. [`words`] is the one door for what servers say.
//!
//! This crate must never parse a byte that came straight from a server, open a connection, or decide a call.

pub mod callable;
pub mod catalog;
pub mod change;
pub mod clerk;
pub mod commands;
pub mod courier;
pub mod executions;
pub mod link;
pub mod logins;
pub mod names;
pub mod pins;
mod provers;
pub mod route;
pub mod settings;
pub mod upstream;
pub mod web;
pub mod words;
pub mod workers;

pub use catalog::Catalog;
pub use change::Change;
pub use pins::Pins;
pub use route::Route;
pub use upstream::{Board, Hub, Servers};
pub use words::{ListKind, Pass, Sight, Words};

#[cfg(test)]
mod tests;
