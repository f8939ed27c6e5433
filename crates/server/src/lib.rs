//! The front doors: HTTP and lines in, [`gateway`] behind.
//!
//! This crate adapts, it never decides. It turns bytes into an [`gateway::Ask`], and what the gate answers into bytes of the dialect
//! the client speaks. Whether a call may happen is the gate's business alone, and [`gateway::Gate::start`] is the only way from here to
//! an upstream. Everything a client can make us keep (sessions, streams, queues, listeners) has a bound.

mod admin;
mod body;
mod console;
mod cors;
mod crowd;
mod dispatch;
mod door;
mod guard;
mod inlet;
mod limit;
mod line;
mod listen;
mod mcp;
mod metrics;
mod oauth;
mod observe;
mod parcel;
mod patience;
mod query;
mod refused;
mod reply;
mod route;
mod seal;

pub use crowd::connections;
pub use line::serve_lines;
pub use listen::{Entrances, serve};
pub use metrics::Certificates;
pub use observe::{Watched, serve_watchers};
