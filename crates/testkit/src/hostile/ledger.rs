//! What the upstream was made to do, counted where it happened.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// The counters of a running upstream.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) requests: AtomicU64,
    pub(super) calls: AtomicU64,
    pub(super) asks_answered: AtomicU64,
    pub(super) canary_visits: AtomicU64,
    pub(super) marks: Mutex<Vec<String>>,
    pub(super) authorizations: Mutex<Vec<String>>,
}

/// The counters as they stood at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Messages received, of any kind.
    pub requests: u64,
    /// Tool calls received.
    pub calls: u64,
    /// Answers received to requests this server sent to the client.
    pub asks_answered: u64,
    /// Connections to the place a redirect pointed at.
    pub canary_visits: u64,
    /// The marks `act` left, in order.
    pub marks: Vec<String>,
    /// Every `Authorization` header ever seen.
    pub authorizations: Vec<String>,
}

impl Ledger {
    pub(super) fn account(&self) -> Account {
        let read = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        Account {
            requests: read(&self.requests),
            calls: read(&self.calls),
            asks_answered: read(&self.asks_answered),
            canary_visits: read(&self.canary_visits),
            marks: lock(&self.marks).clone(),
            authorizations: lock(&self.authorizations).clone(),
        }
    }

    pub(super) fn count(&self, counter: impl Fn(&Self) -> &AtomicU64) {
        counter(self).fetch_add(1, Ordering::SeqCst);
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
