//! The spine: the one path from a call to an effect, and the gate as doors and operators see it.
//!
//! `call.rs` is the path. It stands on three crates: `callers` says who calls and what they may use up, `upstreams` what there is to call
//! and who is shown what servers say, `calls` what one call is while it is under way. Doors use [`Gate`] and nothing else; what they
//! need of the three is passed on here.
//!
//! This crate must never parse a byte that came straight from an upstream, open a connection, or read a file it was not handed.

mod admin;
mod call;
mod events;
mod explain;
mod gate;
pub mod mount;
mod offers;
mod problem;
mod readers;
mod route;
mod said;
pub mod settings;
mod tally;
mod volumes;
mod web;
mod words;

pub use admin::Admin;
pub use audit::{Filter, NoPlace, Place};
pub use call::SEALED_DEFINITION;
pub use callers::{
    Caller, Credential, RequestRoom, Role, SignedSession,
    oauth::{PROOF_WINDOW, Presented, Unaccepted},
    signed::{
        AttestError, AttestProof, AttestRequest, Attested, Ended, Launchable, NewWorkload,
        SessionRequest,
    },
    visits::{NotOpened, Proof, Visitor},
};
pub use calls::{
    Action, Answer, CallRequest, ClientFace, Door, Event, Origin, Outcome, Reply, Running, Wrapper,
};
pub use events::{Missed, News, Subscription, Told};
pub use gate::{Certified, DispatchRefusal, DoorRefusal, Edit, Executor, Gate, Program, Reading};
pub use identity::Envelope;
pub use mount::Mount;
pub use route::own::{open::DEFINITION as OPEN_DEFINITION, plan::DEFINITION as PLAN_DEFINITION};
pub use settings::DoorSettings;
pub use state::SignedStatus;
pub use tally::Tallied;
pub use upstreams::{
    Catalog, Change, Pins,
    catalog::{HeaderParam, Listed, RefusedName},
    clerk::Clerk,
    courier::{Courier, Delivered},
    pins::Chosen,
    words::{ListKind, Pass, Sight, SightKey, Source, Words},
};
pub use wire::mcp::Era;

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
