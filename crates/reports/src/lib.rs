//! What the ledger says: records by question, a report over a period, the lineage of a call.
//!
//! The gate and the command line ask here, and both get the types of the operator interface. This crate reads the ledger and its index
//! and must never write a record, decide about a call, or print.

mod caller_names;
mod lineage;
pub mod page;
mod query;
mod report;

pub use caller_names::CallerNames;
pub use lineage::{Calls, Walk, catch_up};
pub use query::{Found, Lost, Query, compare_index, find, story};
pub use report::{Collector, report};
