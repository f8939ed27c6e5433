//! One call: as it comes in, while it is under way, and what of it its client carries.
//!
//! A door makes a [`CallRequest`] and watches a [`Running`] until its [`Reply`]. In between, [`receive`] reads what the call addresses and
//! [`sent`] holds everything of it that may reach a server. [`Wrapper`] protects what clients keep for us between two requests.
//!
//! This crate must never decide a call or send one.

pub mod aside;
pub mod awaited;
pub mod finish;
pub mod parking;
pub mod receive;
pub mod request;
pub mod running;
pub mod sent;
pub mod states;
pub mod tokens;
pub mod wrapper;

pub use request::{Action, CallRequest, ClientFace, Door, Origin};
pub use running::{Answer, Event, Outcome, Reply, Running};
pub use wrapper::Wrapper;

#[cfg(test)]
mod tests;
