//! The ledger: nothing happens unrecorded.
//!
//! A call is *opened* in memory, *intended* on disk before its effect, and *concluded* on disk before its reply; where it matters, it
//! waits to be *synced*. Each record is one canonical JSON line, chained by SHA-256 to the line before it and a leaf of a hash tree
//! whose head is signed; `docs/integrate/ledger-format.md` gives the bytes.
//!
//! This crate must never know an async runtime, a protocol or a secret: the disk and the clock are passed in, results arrive as
//! digests, and arguments as digests and redacted bodies, which are kept apart from the chain and sealed.
//!
//! Invariants kept here:
//! - an [`Intent`] exists only if the intent record was handed to the kernel, and a [`Concluded`] only if the outcome was;
//! - records are written in `seq` order, whole lines, and only an unacknowledged tail is ever cut;
//! - after a failed write or sync nothing is acknowledged until [`Ledger::reopen`] has re-read the tail;
//! - a signed head covers only what is synced;
//! - events are projections of records: the bus keeps nothing of its own;
//! - [`verify`] and [`check_proof`] share nothing with the writer but the hash function.

mod bodies;
mod bus;
mod chain;
mod checkpoint;
mod clock;
mod commit;
mod disk;
mod encode;
mod entropy;
mod error;
mod evidence;
mod filter;
mod ledger;
mod open;
mod orphans;
mod places;
mod proof;
mod read;
mod record;
mod recover;
mod refusals;
mod render;
mod retain;
mod strangers;
mod tree;
mod verify;
mod write;

pub use bodies::{BODY_LIMIT, Body, BodyReader, BodyReport, body, verify_bodies};
pub use bus::{
    Batch, Event, Feed, NoPlace, Payload, Place, Severity, event_families, newest_events, project,
    render_event, render_event_head,
};
pub use chain::Hash;
pub use checkpoint::{read_checkpoint, read_public_key};
pub use clock::{Clock, Moment, rfc3339, system_clock};
pub use commit::Synced;
pub use disk::{Disk, Lock, RealDisk, SegmentFile};
pub use encode::printable;
pub use error::{LedgerUnavailable, OpenError};
pub use evidence::{Concluded, Facts, Intent, Opened, Outcome};
pub use filter::Filter;
pub use ledger::{Appended, Ledger, Options, Position, Scrub, Status};
pub use places::{LineReader, Places, Spot, oldest};
pub use proof::{
    ExportError, Exported, ProofError, Proven, check_export, check_proof, export, prove,
};
pub use read::{Follow, Records, read, tail};
pub use record::{Change, Kind, Record, TOOL_ERROR, UPSTREAM_ERROR, Verdict, level_of};
pub use refusals::{Counted, RefusalCounter};
pub use render::{render_head, render_line, render_records, render_story};
pub use retain::{Keep, RetainError, Trimmed, removable};
pub use strangers::StrangerCounter;
pub use verify::{BadHead, Finding, Head, Report, verify, verify_against, verify_signed};

#[cfg(test)]
mod tests;
