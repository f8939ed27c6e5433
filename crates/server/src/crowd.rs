//! Who is connected: strangers, who have shown no valid credential yet, and callers.
//!
//! **Invariant: strangers cannot keep a caller out.** They have a share of their own. When it is full, whoever has been a stranger for
//! longest makes room for the newcomer, so a newcomer always gets in, and is a caller from its first good request on. Of the callers'
//! share nobody holds more than half of what the others leave. Tests `no_number_of_strangers_moves_a_caller`,
//! `a_newcomer_takes_the_place_of_the_oldest_idle_stranger`, `ten_thousand_idle_strangers_do_not_keep_a_caller_out`.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use gateway::Caller;
use http::request::Parts;
use tokio::{sync::Notify, time::Instant};

/// A stranger that does nothing for this long, or takes this long to show a credential, is let go.
const PATIENCE: Duration = Duration::from_secs(10);
/// How soon after its request has ended a stranger that was busy is looked at again.
const LOOK: Duration = Duration::from_secs(1);
/// Descriptors that are not for clients: servers, the ledger, the state, the worker.
const RESERVED: usize = 256;
const MAX_STRANGERS: usize = 1024;
const MAX_CALLERS: usize = 32_768;
/// What every caller may hold, however many others there are.
const FEW: usize = 16;

/// How many connections of strangers and of callers so many descriptors allow.
#[must_use]
pub fn connections(descriptors: usize) -> (usize, usize) {
    let spare = descriptors.saturating_sub(RESERVED).max(8);
    let strangers = (spare / 4).min(MAX_STRANGERS);
    (strangers, (spare - strangers).min(MAX_CALLERS))
}

/// Notes that a request came with a credential that we know.
pub(crate) fn recognise(parts: &Parts, caller: &Caller) {
    if let Some(guest) = parts.extensions.get::<Arc<Guest>>() {
        guest.recognise(caller.id());
    }
}

/// The connections of one door.
#[derive(Debug)]
pub(crate) struct Crowd {
    present: Mutex<Present>,
    max_strangers: usize,
    max_callers: usize,
}

#[derive(Debug, Default)]
struct Present {
    /// By when they came.
    strangers: BTreeMap<u64, Arc<Signs>>,
    /// Connections of each caller, and of all.
    callers: HashMap<String, usize>,
    known: usize,
    came: u64,
}

/// One connection's place, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Guest {
    crowd: Arc<Crowd>,
    number: u64,
    /// Set once it has shown a credential and there was room for it.
    caller: Mutex<Option<String>>,
    signs: Arc<Signs>,
    idle_since: Mutex<Instant>,
    /// It has a credential, but all places of callers are taken: its connection ends with this request.
    is_surplus: AtomicBool,
}

/// What a connection and its crowd tell each other.
#[derive(Debug, Default)]
struct Signs {
    is_busy: AtomicBool,
    dismissed: Notify,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Crowd {
    pub(crate) fn new(max_strangers: usize, max_callers: usize) -> Arc<Self> {
        Arc::new(Self {
            present: Mutex::default(),
            max_strangers,
            max_callers,
        })
    }

    /// Lets a newcomer in, as a stranger. If there are too many, the one that came first and waits for nothing goes.
    pub(crate) fn enter(self: &Arc<Self>) -> Arc<Guest> {
        let mut present = lock(&self.present);
        if present.strangers.len() >= self.max_strangers
            && let Some(number) = present.oldest_stranger()
            && let Some(gone) = present.strangers.remove(&number)
        {
            gone.dismissed.notify_one();
        }
        present.came += 1;
        let guest = Arc::new(Guest {
            crowd: Arc::clone(self),
            number: present.came,
            caller: Mutex::default(),
            signs: Arc::default(),
            idle_since: Mutex::new(Instant::now()),
            is_surplus: AtomicBool::new(false),
        });
        present
            .strangers
            .insert(guest.number, Arc::clone(&guest.signs));
        guest
    }

    #[cfg(test)]
    pub(crate) fn counts(&self) -> (usize, usize) {
        let present = lock(&self.present);
        (present.strangers.len(), present.known)
    }
}

impl Present {
    fn oldest_stranger(&self) -> Option<u64> {
        let idle = self
            .strangers
            .iter()
            .find(|(_, signs)| !signs.is_busy.load(Ordering::Relaxed));
        idle.or_else(|| self.strangers.first_key_value())
            .map(|(number, _)| *number)
    }

    /// A place among the callers, unless all are taken or this caller has its share.
    fn take_place(&mut self, caller: &str, most: usize) -> bool {
        let own = self.callers.get(caller).copied().unwrap_or(0);
        let share = (most.saturating_sub(self.known - own) / 2).max(FEW);
        if self.known >= most || own >= share {
            return false;
        }
        self.known += 1;
        *self.callers.entry(caller.to_owned()).or_default() += 1;
        true
    }
}

impl Guest {
    /// It has shown a credential that we know. `false`: there is no place for more connections of this caller, so this one ends with
    /// the request.
    pub(crate) fn recognise(&self, caller: &str) -> bool {
        let mut known = lock(&self.caller);
        if known.is_some() {
            return true;
        }
        let mut present = lock(&self.crowd.present);
        let taken = present.take_place(caller, self.crowd.max_callers);
        if taken {
            present.strangers.remove(&self.number);
            *known = Some(caller.to_owned());
        }
        self.is_surplus.store(!taken, Ordering::Relaxed);
        taken
    }

    pub(crate) fn is_surplus(&self) -> bool {
        self.is_surplus.load(Ordering::Relaxed)
    }

    /// A request begins or has ended.
    pub(crate) fn set_busy(&self, is_busy: bool) {
        self.signs.is_busy.store(is_busy, Ordering::Relaxed);
        *lock(&self.idle_since) = Instant::now();
    }

    fn is_known(&self) -> bool {
        lock(&self.caller).is_some()
    }

    /// Resolves when this stranger must go: another one needs its place, or it has shown no credential for too long.
    pub(crate) async fn dismissed(&self) {
        let overdue = async {
            loop {
                let due = *lock(&self.idle_since) + PATIENCE;
                tokio::time::sleep_until(due.max(Instant::now() + LOOK)).await;
                if self.is_known() {
                    return std::future::pending().await;
                }
                let is_idle = !self.signs.is_busy.load(Ordering::Relaxed);
                if is_idle && lock(&self.idle_since).elapsed() >= PATIENCE {
                    return;
                }
            }
        };
        tokio::select! {
            () = self.signs.dismissed.notified() => {}
            () = overdue => {}
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let caller = lock(&self.caller).take();
        let mut present = lock(&self.crowd.present);
        present.strangers.remove(&self.number);
        let Some(caller) = caller else { return };
        present.known -= 1;
        if let Some(own) = present.callers.get_mut(&caller) {
            *own -= 1;
            if *own == 0 {
                present.callers.remove(&caller);
            }
        }
    }
}

#[cfg(test)]
mod tests;
