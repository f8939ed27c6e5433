//! How many requests one address may make in a window, whoever it says it is.
//!
//! The counters of this gate always run and refuse first; a store that several gates share is asked after them, and never for longer than
//! [`shared::PATIENCE`]. So a store that is lost is answered by counters that are warm. What then holds is the operator's [`Posture`].
//!
//! **Invariant: no address gets more than the limit through one gate, in any window, whatever becomes of the store** (unless the operator said
//! `open`). Tests `no_window_holds_more_than_the_limit`, `whatever_becomes_of_redis_the_limit_holds_and_nobody_waits`.

mod local;
mod shared;

use std::{
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use tokio::sync::watch;
use vocab::Redacted;

use self::{local::Local, shared::Shared};
use crate::network::site;

/// Notes of throttled addresses in a minute; more are only counted, so that many addresses fill no ledger.
const NOTES_A_MINUTE: u32 = 60;

/// So many requests in so much time, and where they are counted besides here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    pub requests: u32,
    pub window: Duration,
    pub store: Option<StoreSpec>,
    pub posture: Posture,
}

/// A Redis or Valkey that several gates share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreSpec {
    /// `host:port`.
    pub address: String,
    pub database: u32,
    pub user: Option<String>,
    /// A secret reference.
    pub password: Option<String>,
}

/// What holds while the store cannot be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Posture {
    /// This gate's share, by its own counters.
    #[default]
    Local,
    /// Nothing.
    Open,
    /// Nobody is let in.
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    Pass,
    Over(Over),
    /// The store cannot be asked, and the operator wants nobody let in meanwhile.
    Unavailable,
}

/// A request beyond the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Over {
    pub requests: u32,
    pub window: Duration,
    /// When the next one may come.
    pub retry: Duration,
    /// Refusals of this address without one that passed in between.
    pub in_a_row: u32,
    /// It is this address's first in a while, so it belongs on record.
    pub is_new: bool,
}

/// Counts by address; settings can change while it counts.
#[derive(Debug)]
pub struct Limiter {
    born: Instant,
    in_force: ArcSwapOption<InForce>,
    throttled: AtomicU64,
    notes: Mutex<(u64, u32)>,
    degraded: watch::Sender<Option<String>>,
}

#[derive(Debug)]
struct InForce {
    terms: Terms,
    local: Local,
    shared: Option<Shared>,
}

impl Default for Limiter {
    fn default() -> Self {
        Self {
            born: Instant::now(),
            in_force: ArcSwapOption::empty(),
            throttled: AtomicU64::new(0),
            notes: Mutex::default(),
            degraded: watch::Sender::new(None),
        }
    }
}

impl Limiter {
    /// Holds requests to other terms from now on, or to none. Terms that stay the same keep what they counted. `password` is what the
    /// store's reference names, or why that cannot be had. Needs a tokio runtime.
    pub fn apply(&self, terms: Option<Terms>, password: Option<Result<Redacted<String>, String>>) {
        let before = self.in_force.load();
        if before.as_ref().map(|before| &before.terms) == terms.as_ref() {
            return;
        }
        self.degraded.send_replace(None);
        let next = terms.map(|terms| {
            let shared = terms
                .store
                .as_ref()
                .map(|store| match password.transpose() {
                    Ok(password) => Shared::new(store, password, self.degraded.clone()),
                    Err(error) => {
                        tracing::error!(
                            error,
                            "the limiter's store has no password, so it is not asked"
                        );
                        Shared::unusable(error, self.degraded.clone())
                    }
                });
            Arc::new(InForce {
                local: Local::new(terms.window),
                shared,
                terms,
            })
        });
        self.in_force.store(next);
    }

    /// Whether requests are counted at all.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.in_force.load().is_some()
    }

    /// Why the store is not asked at the moment, as it changes; `None`: it is, or there is none.
    #[must_use]
    pub fn degraded(&self) -> watch::Receiver<Option<String>> {
        self.degraded.subscribe()
    }

    /// Requests that were refused.
    #[must_use]
    pub fn throttled(&self) -> u64 {
        self.throttled.load(Ordering::Relaxed)
    }

    /// Counts a request of an address, if it may be made.
    pub async fn admit(&self, address: IpAddr) -> Admission {
        let Some(now) = self.in_force.load_full() else {
            return Admission::Pass;
        };
        let address = site(address);
        let ms = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX);
        let limit = now.terms.requests;
        let is_open = now.terms.posture == Posture::Open;
        let Some(shared) = &now.shared else {
            return match now.local.take(address, limit, ms) {
                local::Taken::Yes { .. } => Admission::Pass,
                local::Taken::No { retry, in_a_row } => self.over(&now, ms, retry, in_a_row),
            };
        };
        // Even a store that is down has not made this gate forget whom it has let in.
        let taken = match now.local.take(address, limit, ms) {
            local::Taken::Yes { so_far, bucket } => (so_far, bucket),
            local::Taken::No { .. } if is_open && shared.is_lost() => return Admission::Pass,
            local::Taken::No { retry, in_a_row } => return self.over(&now, ms, retry, in_a_row),
        };
        match shared.take(address, limit, now.terms.window).await {
            Ok(None) => Admission::Pass,
            Ok(Some(retry)) => {
                let in_a_row = now.local.give_back(address, taken.1);
                self.over(&now, ms, retry, in_a_row)
            }
            Err(_) => match now.terms.posture {
                Posture::Open => Admission::Pass,
                Posture::Closed => {
                    now.local.give_back(address, taken.1);
                    Admission::Unavailable
                }
                Posture::Local => {
                    let share = (limit / shared.gates()).max(1);
                    if taken.0 <= share {
                        return Admission::Pass;
                    }
                    let in_a_row = now.local.give_back(address, taken.1);
                    self.over(&now, ms, now.local.step(), in_a_row)
                }
            },
        }
    }

    fn over(&self, now: &InForce, ms: u64, retry: Duration, in_a_row: u32) -> Admission {
        self.throttled.fetch_add(1, Ordering::Relaxed);
        Admission::Over(Over {
            requests: now.terms.requests,
            window: now.terms.window,
            retry,
            in_a_row,
            is_new: in_a_row == 1 && self.may_note(ms / 60_000),
        })
    }

    fn may_note(&self, minute: u64) -> bool {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.0 != minute {
            *notes = (minute, 0);
        }
        notes.1 += 1;
        notes.1 <= NOTES_A_MINUTE
    }
}

#[cfg(test)]
mod tests;
