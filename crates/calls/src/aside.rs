//! Long texts are worked on aside, on threads of their own, so that nobody else waits for them.
//!
//! A call runs on the thread that carries everybody's calls. What it does with a short text takes microseconds there. Validating,
//! digesting, searching and checking thirty megabytes takes up to a second, so a call that comes to such a text moves to these
//! threads, and stays there to its end. The system shares the processor between them and the rest.
//!
//! **Invariant: no caller's long texts keep another's waiting.** A caller works on one at a time; those of different callers take turns.
//! Test `a_long_odd_result_keeps_nobody_else_waiting`.
//!
//! A text of medium length is worked on in place as long as one caller is alone: it delays nobody but itself, and a megabyte costs less
//! where it already is in the caches.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use callers::{Caller, ForGate};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::{OwnedSemaphorePermit, Semaphore},
};

use crate::running::Wires;

/// From here on a text is worked on aside, whoever else is there. Below it is what may delay a caller who comes first thing after a
/// pause: a few milliseconds.
const LONG: usize = 2 << 20;
/// From here on, while there are other callers: what is shorter takes less time than going aside does.
const MEDIUM: usize = 64 << 10;
/// A caller counts as there for this long after its last call.
const PRESENCE_US: u64 = 10_000_000;
/// Long texts that are worked on at once, each of another caller.
const TURNS: usize = 4;

pub struct Aside {
    /// Made for the first long text; `None` if the system gives us no threads, and then everything happens in place.
    threads: OnceLock<Option<Runtime>>,
    turns: Arc<Semaphore>,
    /// Who called last, and until when more than one caller counts as there.
    last: AtomicUsize,
    crowded_until_us: AtomicU64,
}

impl Default for Aside {
    fn default() -> Self {
        Self {
            threads: OnceLock::new(),
            turns: Arc::new(Semaphore::new(TURNS)),
            last: AtomicUsize::new(0),
            crowded_until_us: AtomicU64::new(0),
        }
    }
}

/// A caller's turn to work on a long text; over when it is dropped.
#[derive(Debug)]
#[must_use = "the turn is over when this is dropped"]
pub struct Turn {
    _held: Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)>,
}

impl Aside {
    /// Notes who calls. Looks at the clock only when it is not who called last.
    pub fn note(&self, caller: &Caller, now_us: impl FnOnce() -> u64) {
        let key = caller.key();
        let last = self.last.load(Ordering::Relaxed);
        if last != key {
            self.last.store(key, Ordering::Relaxed);
            if last != 0 {
                self.crowded_until_us
                    .store(now_us().saturating_add(PRESENCE_US), Ordering::Relaxed);
            }
        }
    }

    /// Whether work on a text of this length would keep somebody waiting.
    pub fn is_long(&self, bytes: usize, now_us: impl FnOnce() -> u64) -> bool {
        bytes >= LONG || bytes >= MEDIUM && self.is_crowded(now_us)
    }

    /// Whether more than one caller is there.
    pub fn is_crowded(&self, now_us: impl FnOnce() -> u64) -> bool {
        let until = self.crowded_until_us.load(Ordering::Relaxed);
        until > 0 && now_us() < until
    }

    /// The caller's turn to work on a text of this length. If it is a long one, the call goes on aside.
    pub async fn turn(
        &self,
        caller: &Caller,
        bytes: usize,
        now_us: impl FnOnce() -> u64,
        wires: &Wires,
    ) -> Turn {
        if !self.is_long(bytes, now_us) {
            return Turn { _held: None };
        }
        // First among its own, then among all: so that nobody has two in the queue for the second.
        let own = Arc::clone(caller.long_texts()).acquire_owned().await;
        let any = Arc::clone(&self.turns).acquire_owned().await;
        if let Some(threads) = self.threads() {
            wires.go_on(threads).await;
        }
        Turn {
            _held: own.ok().zip(any.ok()),
        }
    }

    fn threads(&self) -> Option<Handle> {
        let build = || {
            // One more than turns, for calls that are done with their long text.
            let threads = Builder::new_multi_thread()
                .worker_threads(TURNS + 1)
                .thread_name("portcullis-long")
                .enable_time()
                .build();
            threads.inspect_err(|error| tracing::warn!(%error, "no threads for long texts; they are worked on in place")).ok()
        };
        self.threads
            .get_or_init(build)
            .as_ref()
            .map(|threads| threads.handle().clone())
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // Waiting for threads is not allowed everywhere; calls have come to their end before the gate does.
        if let Some(threads) = self.threads.take().flatten() {
            threads.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Aside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Aside")
            .field("turns", &self.turns.available_permits())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_alone_is_served_in_place_and_long_texts_never_are() {
        let aside = Aside::default();
        assert!(!aside.is_long(1 << 20, || 1) && aside.is_long(30 << 20, || 1));
        aside.crowded_until_us.store(100, Ordering::Relaxed);
        assert!(aside.is_long(1 << 20, || 99) && !aside.is_long(1 << 20, || 100));
        assert!(!aside.is_long(1 << 10, || 99));
    }
}
