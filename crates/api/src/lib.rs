//! The operator interface: every type that the gate and its operators exchange, one error, and one table of what can be asked.
//!
//! The HTTP routes, the OpenAPI document and the command line's calls are drawn from [`Operation`]. This crate must never know HTTP,
//! a file, a clock or the gate. Every answer has a field's default where an older gate does not send the field, and ignores fields that
//! it does not know: a command line and a gate need not be of one version.
//!
//! Invariant: an operation has one path, one method, one role. Test `every_operation_is_found_by_its_own_path_and_no_other`.

mod audit;
mod connectors;
mod console;
mod decide;
mod executions;
mod files;
mod input;
#[cfg(feature = "schema")]
mod openapi;
mod operations;
mod path;
mod problem;
mod role;
mod servers;
mod status;
mod task;
mod volumes;

pub use audit::{
    ApprovalCounts, CallCounts, Item, LedgerState, Lineage, Listed, LogRecord, Party, Period,
    Records, RecordsQuery, Report, Row, ShownCall, Step,
};
pub use connectors::{
    Connector, ConnectorRemoved, Connectors, MODE, NewConnector, PROFILE, Reloaded,
};
pub use console::{ConsoleCode, ConsoleCodeWanted, Visit};
pub use decide::{
    Answered, Approval, Check, CheckedStage, Explain, Explanation, LastingAnswer, RecordedVerdict,
    Session, SessionReset,
};
pub use executions::{BeginExecution, Execution, ExecutionBegun};
pub use files::{
    BundleCheck, BundleMistake, BundleText, ConfigCheck, ConfigValue, Decided, Finding,
    PolicyChange, PolicyDiff, PolicyDiffQuery, PolicySuggestQuery, Suggestion,
};
pub use input::{
    AllOrOpen, ApproveDefinitions, Classify, Direction, EventsQuery, Input, MAX_REASON, MustReason,
    Nothing, Reason, Reasoned, Yes, of_pairs, read,
};
#[cfg(feature = "schema")]
pub use openapi::document;
pub use operations::{Ask, Method, Needs, Operation, OperationRow, ask};
pub use path::{Found, find, find_unescaped, unescaped};
pub use problem::{Kind, Problem, ProblemDocument, is_full};
pub use role::{Role, UnknownRole};
pub use serde::Serialize;
pub use servers::{
    Approved, Definition, Jail, Login, Review, Server, ServerChange, ServerState, Tool,
};
pub use status::{
    Caller, Calls, Confinement, Done, EventStream, Issuer, Ledger, OAuth, Sink, Status, Worker,
};
pub use task::{MAX_TASK, Task, TaskBegun, UNKNOWN_LABEL};
pub use volumes::{
    Volume, VolumeAttached, VolumeAttachment, VolumeContent, VolumeDetachment, VolumeEntry,
    VolumeFile, VolumeLabel, VolumePlace, VolumeRemoval,
};

/// Where operations are found on the HTTP door; on a line, `portcullis/` stands in its place.
pub const PREFIX: &str = "/v1/admin/";

/// The OpenAPI 3.1 document of this interface, as `GET /v1/openapi.json` serves it.
pub const OPENAPI: &str = include_str!("../../../docs/openapi.json");

/// The text of an answer.
#[must_use]
pub fn text(answer: &impl Serialize) -> Vec<u8> {
    // No type of this crate has a map whose keys are not text, which is all that could fail.
    serde_json::to_vec(answer).unwrap_or_default()
}

#[cfg(test)]
mod tests;
