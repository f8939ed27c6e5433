//! What one fixture process remembers across sessions and requests.
//!
//! Invariant: list changes are announced on a broadcast channel after the list has changed, so whoever hears the
//! announcement and lists again sees the change.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::HeaderValue;
use rmcp::model::{RequestStateCodec, Tool};
use rmcp::task_manager::TaskManager;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

use super::{Era, tools};

/// How many announcements a slow listener may fall behind before it misses some.
const CHANGE_BACKLOG: usize = 256;

/// Something a listening client may want to hear about.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Tools,
    Prompts,
    Resources,
    Resource(String),
}

/// Counters of what calls really did, readable by a test from outside the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effects {
    /// Calls of `effect` that ran.
    pub effects: u64,
    /// Calls of `slow` that began.
    pub started: u64,
    /// Calls of `slow` that slept to the end.
    pub finished: u64,
    /// Calls of `slow` that were cancelled before the end.
    pub cancelled: u64,
}

/// Shared state of one fixture.
pub struct World {
    pub(super) era: Era,
    pub(super) tasks: TaskManager,
    pub(super) states: RequestStateCodec,
    pub(super) changes: broadcast::Sender<Change>,
    /// Sessions that came back for the rest of a stream.
    pub(super) resumptions: broadcast::Sender<HeaderValue>,
    pub(super) effects: AtomicU64,
    pub(super) started: AtomicU64,
    pub(super) finished: AtomicU64,
    pub(super) cancelled: AtomicU64,
    catalog: Vec<Tool>,
    extra_tools: Mutex<BTreeSet<String>>,
    extra_prompts: Mutex<BTreeSet<String>>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World")
            .field("era", &self.era)
            .field("effects", &self.effects())
            .finish_non_exhaustive()
    }
}

impl World {
    /// A fresh world with nothing added and nothing counted.
    pub fn new(era: Era) -> Self {
        Self {
            era,
            tasks: TaskManager::new(),
            // A fixture has no secret to keep: the key only has to differ from what a tampering client can guess.
            states: RequestStateCodec::new_unchecked(*b"everything-fixture-request-state"),
            changes: broadcast::channel(CHANGE_BACKLOG).0,
            resumptions: broadcast::channel(CHANGE_BACKLOG).0,
            effects: AtomicU64::new(0),
            started: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
            catalog: tools::catalog(),
            extra_tools: Mutex::default(),
            extra_prompts: Mutex::default(),
        }
    }

    /// The counters as they stand.
    pub fn effects(&self) -> Effects {
        Effects {
            effects: self.effects.load(Ordering::SeqCst),
            started: self.started.load(Ordering::SeqCst),
            finished: self.finished.load(Ordering::SeqCst),
            cancelled: self.cancelled.load(Ordering::SeqCst),
        }
    }

    /// Sets every counter back to zero.
    pub fn reset_effects(&self) {
        for counter in [
            &self.effects,
            &self.started,
            &self.finished,
            &self.cancelled,
        ] {
            counter.store(0, Ordering::SeqCst);
        }
    }

    /// Every tool listed now: the fixed catalog in name order, then the added ones in name order.
    pub(super) fn tools(&self) -> Vec<Tool> {
        let mut listed = self.catalog.clone();
        listed.extend(
            lock(&self.extra_tools)
                .iter()
                .map(|name| tools::added(name)),
        );
        listed
    }

    pub(super) fn tool(&self, name: &str) -> Option<Tool> {
        if let Ok(at) = self
            .catalog
            .binary_search_by(|tool| tool.name.as_ref().cmp(name))
        {
            return self.catalog.get(at).cloned();
        }
        lock(&self.extra_tools)
            .contains(name)
            .then(|| tools::added(name))
    }

    /// Adds the tool if it is missing, removes it if it is there; answers whether it is listed afterwards.
    pub(super) fn toggle_tool(&self, name: &str) -> bool {
        let present = toggle(&mut lock(&self.extra_tools), name);
        self.announce(Change::Tools);
        present
    }

    pub(super) fn toggle_prompt(&self, name: &str) -> bool {
        let present = toggle(&mut lock(&self.extra_prompts), name);
        self.announce(Change::Prompts);
        present
    }

    pub(super) fn has_added_tool(&self, name: &str) -> bool {
        lock(&self.extra_tools).contains(name)
    }

    pub(super) fn added_prompts(&self) -> Vec<String> {
        lock(&self.extra_prompts).iter().cloned().collect()
    }

    pub(super) fn announce(&self, change: Change) {
        // Nobody listening is a normal state, not a failure.
        let _heard_by = self.changes.send(change);
    }
}

fn toggle(set: &mut BTreeSet<String>, name: &str) -> bool {
    if set.remove(name) {
        return false;
    }
    set.insert(name.to_owned())
}

/// Locks a mutex, taking the data even if a panicking test thread poisoned it.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
