//! Bytes of Portcullis: strict JSON, JSON-RPC, MCP, server-sent events, the worker's line protocol, and dispatch.
//!
//! Sans-I/O: bytes go in, values come out; nothing here opens, reads or waits. Every decoder has a cap. What is not changed is
//! never re-serialised: values are slices of the input, and messages are rebuilt by splicing those slices.
//!
//! **Invariant: everything has a cap.** Lines, events, depth, headers, bodies, results and lists. Tests
//! `depth_and_size_have_limits`, `an_over_long_line_costs_that_line_only`, and those of the hostile server.

pub mod buffers;
pub mod builtin;
pub mod canonical;
pub mod dispatch;
mod enclosed;
pub mod header;
pub mod json;
pub mod letters;
pub mod line;
pub mod mcp;
mod pretty;
pub mod rpc;
mod skim;
pub mod sse;
mod text;
pub mod vector;
pub mod worker;
pub mod write;

pub use canonical::canonical;
pub use enclosed::Enclosed;
pub use json::{Json, JsonError, Kind, Limits};
pub use pretty::pretty;
pub use skim::Skim;
pub use text::Text;

#[cfg(test)]
mod tests;
