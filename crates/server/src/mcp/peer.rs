//! The far end of a legacy session or of a line: its calls in flight, the questions it has been asked, its subscriptions.
//!
//! Answers and cancellations arrive on other requests than the call they are for. They reach it through its [`Reins`], found here
//! by id. Everything is bounded, and a call that ends takes its entries with it.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use gateway::Answer;
use tokio::sync::Notify;
use vocab::ServerId;
use wire::rpc::Id;

use super::{answer::Problem, log::Severity, render};

const MAX_CALLS: usize = 256;
const MAX_SUBSCRIPTIONS: usize = 1024;
/// Visits to an address that may still be reported as completed.
const MAX_VISITS: usize = 64;

/// What another request does to a call.
pub(crate) enum Pull {
    Cancel,
    Answer { key: String, answer: Answer },
}

/// How a call under way is reached from outside the task that carries it.
#[derive(Default)]
pub(crate) struct Reins {
    pulls: Mutex<VecDeque<Pull>>,
    pulled: Notify,
}

impl Reins {
    pub(crate) fn pull(&self, pull: Pull) {
        let mut pulls = lock(&self.pulls);
        // Answers are bounded by the questions; of cancellations one says it all.
        if !matches!(pull, Pull::Cancel)
            || !pulls.iter().any(|waiting| matches!(waiting, Pull::Cancel))
        {
            pulls.push_back(pull);
        }
        drop(pulls);
        self.pulled.notify_one();
    }

    /// The next pull. Losing the future loses nothing.
    pub(crate) async fn pulled(&self) -> Pull {
        loop {
            if let Some(pull) = lock(&self.pulls).pop_front() {
                return pull;
            }
            self.pulled.notified().await;
        }
    }
}

struct OpenAsk {
    reins: Arc<Reins>,
    key: String,
}

/// A call under way, as its peer knows it.
struct Held {
    reins: Arc<Reins>,
    /// It goes on when the client hangs up.
    lasts: bool,
}

#[derive(Default)]
pub(crate) struct Peer {
    calls: Mutex<HashMap<Id, Held>>,
    asks: Mutex<HashMap<u64, OpenAsk>>,
    last_ask: AtomicU64,
    log: Mutex<Option<Severity>>,
    subscriptions: Mutex<BTreeSet<String>>,
    /// Visits that servers asked the client for, by the server's own id; the oldest are forgotten.
    visits: Mutex<VecDeque<(ServerId, String)>>,
    told: AtomicBool,
}

impl Peer {
    /// Whether news is already carried to this peer; from now on it is.
    pub(crate) fn is_told(&self) -> bool {
        self.told.swap(true, Ordering::AcqRel)
    }

    /// Nobody carries news to this peer any more.
    pub(crate) fn untold(&self) {
        self.told.store(false, Ordering::Release);
    }

    /// Enters a call under its id, until the registration is dropped. Hanging up cancels it.
    pub(crate) fn register(self: &Arc<Self>, id: &Id) -> Result<Registration, Problem> {
        self.enter(id, false)
    }

    /// The same for a call that is finished whether the client hangs up or not, as in the legacy era.
    pub(crate) fn register_lasting(self: &Arc<Self>, id: &Id) -> Result<Registration, Problem> {
        self.enter(id, true)
    }

    fn enter(self: &Arc<Self>, id: &Id, lasts: bool) -> Result<Registration, Problem> {
        let mut calls = lock(&self.calls);
        if calls.len() >= MAX_CALLS {
            return Err(Problem::new(
                render::REFUSED,
                "Too many requests in flight: wait for some to end",
            ));
        }
        if calls.contains_key(id) {
            return Err(Problem::new(
                wire::mcp::code::INVALID_REQUEST,
                "A request with this id is still in flight",
            ));
        }
        let reins = Arc::<Reins>::default();
        calls.insert(
            id.clone(),
            Held {
                reins: Arc::clone(&reins),
                lasts,
            },
        );
        Ok(Registration {
            peer: Arc::clone(self),
            id: id.clone(),
            reins,
        })
    }

    pub(crate) fn cancel(&self, id: &Id) -> bool {
        let reins = lock(&self.calls)
            .get(id)
            .map(|held| Arc::clone(&held.reins));
        reins.map(|reins| reins.pull(Pull::Cancel)).is_some()
    }

    pub(crate) fn cancel_all(&self) {
        self.cancel_where(|_| true);
    }

    /// The client has gone: what hanging up means is over.
    pub(crate) fn hang_up(&self) {
        self.cancel_where(|held| !held.lasts);
    }

    fn cancel_where(&self, wanted: impl Fn(&Held) -> bool) {
        let calls = lock(&self.calls);
        let reins: Vec<_> = calls
            .values()
            .filter(|held| wanted(held))
            .map(|held| Arc::clone(&held.reins))
            .collect();
        drop(calls);
        reins.iter().for_each(|reins| reins.pull(Pull::Cancel));
    }

    pub(crate) fn is_busy(&self) -> bool {
        !lock(&self.calls).is_empty()
    }

    /// A number under which the client will answer.
    pub(crate) fn open_ask(&self, reins: &Arc<Reins>, key: String) -> u64 {
        let number = self.last_ask.fetch_add(1, Ordering::Relaxed) + 1;
        lock(&self.asks).insert(
            number,
            OpenAsk {
                reins: Arc::clone(reins),
                key,
            },
        );
        number
    }

    pub(crate) fn is_asked(&self, number: u64) -> bool {
        lock(&self.asks).contains_key(&number)
    }

    pub(crate) fn close_ask(&self, number: u64) {
        lock(&self.asks).remove(&number);
    }

    /// Hands an answer to the call that asked. `false`: nobody asked, or no longer wants to know.
    pub(crate) fn answer(&self, id: &Id, answer: Answer) -> bool {
        let ask = id
            .as_u64()
            .and_then(|number| lock(&self.asks).remove(&number));
        ask.map(|ask| {
            ask.reins.pull(Pull::Answer {
                key: ask.key,
                answer,
            })
        })
        .is_some()
    }

    /// The client was asked by `server` to visit an address; it may be told when that is done.
    pub(crate) fn asked_to_visit(&self, server: &ServerId, id: String) {
        let mut visits = lock(&self.visits);
        if visits.len() >= MAX_VISITS {
            visits.pop_front();
        }
        visits.push_back((server.clone(), id));
    }

    /// Whether this server asked for this visit. Each is completed once.
    pub(crate) fn has_visited(&self, server: &ServerId, id: &str) -> bool {
        let mut visits = lock(&self.visits);
        let place = visits
            .iter()
            .position(|(of, visit)| of == server && visit == id);
        place.and_then(|place| visits.remove(place)).is_some()
    }

    pub(crate) fn log(&self) -> Option<Severity> {
        *lock(&self.log)
    }

    pub(crate) fn set_log(&self, level: Severity) {
        *lock(&self.log) = Some(level);
    }

    /// `Ok(true)` if the uri is new to this peer, so that the gate hears of each one once.
    pub(crate) fn subscribe(&self, uri: &str) -> Result<bool, Problem> {
        let mut subscriptions = lock(&self.subscriptions);
        if subscriptions.contains(uri) {
            return Ok(false);
        }
        if subscriptions.len() >= MAX_SUBSCRIPTIONS {
            return Err(Problem::new(
                render::REFUSED,
                "Too many subscriptions in one session",
            ));
        }
        Ok(subscriptions.insert(uri.to_owned()))
    }

    pub(crate) fn unsubscribe(&self, uri: &str) -> bool {
        lock(&self.subscriptions).remove(uri)
    }

    pub(crate) fn is_subscribed(&self, uri: &str) -> bool {
        lock(&self.subscriptions).contains(uri)
    }

    pub(crate) fn subscriptions(&self) -> Vec<String> {
        lock(&self.subscriptions).iter().cloned().collect()
    }

    /// Forgets every subscription and returns them, to be given back to the gate.
    pub(crate) fn take_subscriptions(&self) -> BTreeSet<String> {
        std::mem::take(&mut *lock(&self.subscriptions))
    }
}

/// A call's place in the peer's table.
pub(crate) struct Registration {
    pub(crate) peer: Arc<Peer>,
    id: Id,
    pub(crate) reins: Arc<Reins>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        lock(&self.peer.calls).remove(&self.id);
    }
}

/// A panic elsewhere leaves these tables as they were after the last whole change, so they stay usable.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
