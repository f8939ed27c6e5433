//! Where events go besides the ledger: files, syslog, webhooks, OTLP collectors, NATS.
//!
//! The ledger is the queue. Each sink has a durable cursor, reads on from it, hands events over in order and moves the cursor when the
//! other side has them. So an outage makes a sink fall behind on the disk and nowhere else, and what was handed over but not yet noted
//! is handed over again: at least once, in order, nothing lost.
//!
//! This crate must never make a call wait, hold more than a few batches in memory, or send what the ledger does not hold. It opens
//! connections only to what its operator named; HTTP goes through the [`Courier`], which is a worker's job.
//!
//! Invariant: a cursor only moves past events that the other side has taken, that the filter leaves out, or that the ledger no
//! longer has; the last are counted as lost.
//!
//! **Invariant: a sink loses nothing over an outage or a crash, and keeps the order.** Tests
//! `a_file_whose_directory_was_away_gets_everything`, `a_syslog_daemon_that_comes_and_goes_gets_everything`,
//! `a_webhook_that_is_down_or_refuses_gets_everything_signed`, `a_collector_that_was_down_gets_everything`,
//! `a_stream_that_was_down_gets_everything_once`, `a_killed_gate_goes_on_delivering_where_it_was`,
//! `a_killed_courier_only_delays_its_sinks`.

mod backoff;
mod cursor;
mod delivery;
mod driver;
mod file;
mod nats;
mod otlp;
mod settings;
mod settling;
mod sinks;
mod status;
mod syslog;
mod webhook;

pub use cursor::{BadCursor, lowest_cursor, position};
pub use nats::NatsSpec;
pub use settings::{Address, Facility, Kind, Outside, Parcel, Receipt, Sending, Spec, Start, Text};
pub use sinks::{Sinks, Source};
pub use status::Status;

#[cfg(test)]
mod tests;
