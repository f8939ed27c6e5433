//! The only HTTP client of Portcullis: dialling, TLS, pooled HTTP/1.1 connections, capped bodies.
//!
//! Everything it needs from the file system (certificates, resolver configuration, hosts) is read by [`Net::read`] before the jail
//! closes; afterwards it opens sockets and nothing else. Certificates are always verified; there is no switch.

mod client;
mod dial;
mod exchange;
mod gzip;
mod held;
mod inlet;
mod payload;
mod reach;
mod target;

pub(crate) use client::Client;
pub(crate) use dial::Net;
pub(crate) use exchange::Exchange;
pub(crate) use held::Account;
pub(crate) use payload::Payload;
pub(crate) use reach::{Bounds, Network, Reach};
pub(crate) use target::Target;

#[cfg(test)]
mod tests;
