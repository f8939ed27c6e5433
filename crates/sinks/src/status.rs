//! How a sink is doing, for the operator.

use std::sync::{Mutex, MutexGuard, PoisonError};

use audit::Place;
use serde::Serialize;

/// A moment's view of one sink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    pub name: String,
    pub kind: &'static str,
    /// `delivering`, `idle` (nothing to deliver), `failing` or `stopped`.
    pub state: &'static str,
    /// The next event; everything before it is done with.
    pub position: String,
    /// Records between that and the end of the ledger.
    pub lag: u64,
    /// Events handed over since the gate opened.
    pub delivered: u64,
    /// Records that were removed from the ledger before they could be delivered.
    pub lost: u64,
    /// Failures in a row.
    pub failures: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// What the delivery says of itself as it goes.
#[derive(Debug, Default)]
pub(crate) struct Board(Mutex<Notes>);

#[derive(Debug, Clone, Default)]
pub(crate) struct Notes {
    pub(crate) state: State,
    pub(crate) next: Place,
    pub(crate) delivered: u64,
    pub(crate) lost: u64,
    pub(crate) failures: u32,
    pub(crate) error: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum State {
    #[default]
    Delivering,
    Idle,
    Failing,
    Stopped,
}

impl State {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            State::Delivering => "delivering",
            State::Idle => "idle",
            State::Failing => "failing",
            State::Stopped => "stopped",
        }
    }
}

impl Board {
    pub(crate) fn note(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn well(&self, state: State) {
        let mut notes = self.note();
        notes.state = state;
        notes.failures = 0;
        notes.error.clear();
    }

    pub(crate) fn delivered(&self, events: usize, next: Place) {
        let mut notes = self.note();
        notes.delivered += events as u64;
        notes.next = next;
    }

    /// Returns how many failures that makes in a row.
    pub(crate) fn failed(&self, why: &str) -> u32 {
        let mut notes = self.note();
        notes.state = State::Failing;
        notes.failures = notes.failures.saturating_add(1);
        notes.error = why.to_owned();
        notes.failures
    }
}
