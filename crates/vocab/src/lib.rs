//! The words of Portcullis: levels, labels, names, stages, violations, faults.
//!
//! Pure values. This crate does no I/O, reads no clock and knows no protocol: how a violation looks on the MCP door is the
//! door's business. Everything depends on `vocab`, so it stays small and inert.

mod backoff;
pub mod calendar;
mod effect;
mod fault;
mod label;
mod level;
mod name;
mod record_columns;
mod redacted;
mod stage;
mod text;
mod violation;

pub use backoff::Backoff;
pub use effect::{Effect, UnknownEffect};
pub use fault::{ErrorCode, Fault, FaultKind, Stop};
pub use label::{Integrity, Label, Mark};
pub use level::{Level, UnknownLevel};
pub use name::{NameError, ServerId, ToolName, View, is_caller_name, skeleton, split_double};
pub use redacted::Redacted;
pub use stage::Stage;
pub use text::{is_hidden, tame};
pub use violation::{Kind, Rule, Violation};

#[cfg(test)]
mod tests;
