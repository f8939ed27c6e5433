//! The gate at a glance: what it is, what it holds, how its parts are doing.

use serde::{Deserialize, Serialize};

use crate::Server;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Status {
    pub version: String,
    pub pid: u32,
    pub url: String,
    pub uptime_ms: u64,
    /// `bearer` or `none`.
    pub authentication: String,
    /// Identity providers whose tokens are taken, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OAuth>,
    /// Keys of the configuration whose values are in force only after a restart.
    pub awaiting_restart: Vec<String>,
    pub servers: Vec<Server>,
    pub callers: Vec<Caller>,
    pub calls: Calls,
    /// The version of the policies in force.
    pub bundle: String,
    /// Calls that wait for a person.
    pub pending_approvals: u64,
    pub ledger: Ledger,
    pub sinks: Vec<Sink>,
    pub worker: Worker,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct OAuth {
    pub resource: String,
    /// `off`, `allowed` or `required`.
    pub dpop: String,
    pub issuers: Vec<Issuer>,
}

/// An identity provider, and what is known of its keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Issuer {
    pub issuer: String,
    pub keys: u64,
    /// Where its keys are fetched from, once they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwks_url: Option<String>,
    /// Since they were last fetched, where they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// Why they could not be fetched again, and whether the last ones are still good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usable: Option<bool>,
}

/// Where events are sent, and how that is going.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Sink {
    pub name: String,
    pub kind: String,
    /// `delivering`, `idle`, `failing` or `stopped`.
    pub state: String,
    /// The next event; everything before it is done with.
    pub position: String,
    /// Records between that and the end of the ledger.
    pub lag: u64,
    pub delivered: u64,
    /// Records that were gone before they could be delivered.
    pub lost: u64,
    pub failures: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// A credential that has been used since the gate started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Caller {
    pub id: String,
    pub name: String,
    /// What its session has seen.
    pub label: String,
}

/// Calls, by how they stand or ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Calls {
    pub in_flight: u64,
    /// Calls that wait for a person or for their client.
    pub waiting: u64,
    /// Calls whose modern client has to come back with answers.
    pub parked: u64,
    /// Bytes of answers that callers have not read yet, and of requests that are held.
    pub unread_bytes: u64,
    pub request_bytes: u64,
    pub answered: u64,
    pub refused: u64,
    pub failed: u64,
    /// Words of servers that nobody could be shown.
    pub withheld: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Ledger {
    pub path: String,
    pub records: u64,
    /// Why nothing can be recorded, and therefore nothing done.
    pub broken: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Worker {
    pub pid: Option<u32>,
    pub restarts: u64,
    pub confinement: Vec<Confinement>,
}

/// One restriction of the worker, and whether this kernel could apply it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Confinement {
    pub name: String,
    pub applied: bool,
    pub detail: String,
}

/// It was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Done {
    pub ok: bool,
    pub detail: String,
}

/// Server-sent events: each is a record's event as one line of JSON, with its position as its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventStream(String);
