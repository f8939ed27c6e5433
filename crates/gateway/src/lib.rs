//! The spine: the one path from a call to an effect, and what it stands on.
//!
//! `call.rs` is the path. Around it: who may call ([`Caller`]), what there is to call (the catalog), the servers behind the gate and
//! the worker that talks to them, and what clients carry for us in a [`Wrapper`]. Doors use [`Gate`] and nothing else.
//!
//! This crate must never parse a byte that came straight from an upstream, open a connection, or read a file it was not handed.

mod admin;
mod aside;
mod awaited;
mod call;
mod callable;
mod caller;
mod catalog;
mod change;
mod courier;
mod events;
mod explain;
mod finish;
mod gate;
mod link;
mod meters;
mod oauth;
mod parking;
mod pins;
mod places;
mod problem;
mod readers;
mod refusals;
mod request;
mod room;
mod route;
mod running;
pub mod settings;
mod signed;
mod states;
mod tokens;
mod turns;
mod upstream;
mod words;
mod workers;
mod wrapper;

pub use admin::Admin;
pub use audit::{EventFilter, NoPlace, Place};
pub use caller::{Caller, Credential, Role};
pub use catalog::{Catalog, HeaderParam, Listed, RefusedName};
pub use change::Change;
pub use courier::{Courier, Delivered};
pub use events::{Missed, News, Subscription, Told};
pub use gate::{Edit, Editor, FileAnswers, Gate, Reload, SinksReport};
pub use identity::Envelope;
pub use oauth::{PROOF_WINDOW, Presented, Unaccepted};
pub use pins::{Chosen, Pins};
pub use refusals::DoorRefusal;
pub use request::{Action, CallRequest, ClientFace, Door, Era, Origin};
pub use room::RequestRoom;
pub use running::{Answer, Event, Outcome, Reply, Running};
pub use settings::DoorSettings;
pub use signed::{
    AttestError, AttestProof, AttestRequest, Attested, Ended, Launchable, NewWorkload,
    SessionRequest, SignedSession,
};
pub use state::SignedStatus;
pub use words::{ListKind, Pass, Sight, SightKey, Source, Words};
pub use wrapper::Wrapper;

/// JSON-RPC codes of ours, outside the range the protocol reserves: refused by a rule, upstream failed, out of time.
pub const REFUSED: i64 = -31001;
pub const UPSTREAM_FAILED: i64 = -31002;
pub const TIMED_OUT: i64 = -31003;

/// What the gate says of its own in the `_meta` of a result begins so; a server that uses such a key is not heard.
pub(crate) const OWN_META: &str = "portcullis/";
/// The key of `_meta` under which a result that the gate made itself has its envelope.
pub const ERROR_META: &str = "portcullis/error";
/// The key under which an error result has the structured content of a server that does not fit the tool's output schema.
pub(crate) const MISFIT_META: &str = "portcullis/structuredContent";

#[cfg(test)]
mod tests;
