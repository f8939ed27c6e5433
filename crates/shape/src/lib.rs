//! What a value looks like: JSON Schema, injection patterns, secret shapes, and how one definition differs from another.
//!
//! Pure: text goes in, a verdict comes out. Nothing here opens a file or a connection, so a `$ref` to another host is a refusal, and
//! nothing here knows who calls or what the session has seen. What a value means for a call is decided by whoever asked.
//!
//! Every function is bounded in what it costs, whatever a hostile server puts in a schema or a hostile caller in an argument.

pub mod definition;
pub mod injection;
mod pattern;
pub mod schema;
pub mod secrets;
mod sieve;

pub use schema::{Mismatch, Schema, SchemaProblem};
