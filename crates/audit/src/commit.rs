//! Group commit: one thread syncs for everybody who waits for the disk.
//!
//! A caller that needs its record to survive a power cut waits for a [`Synced`]. The thread takes all who wait, syncs once
//! and answers them together; whoever comes meanwhile is in the next round, so nobody waits for more than two syncs.
//! It knows no async runtime: a waiter is a [`Waker`] and a place for the answer.
//!
//! It must never answer `Ok` for a record that the last successful sync did not cover. The thread starts with the first waiter and
//! ends with the ledger, which it does not keep open: while it waits it holds no handle.

use crate::error::LedgerUnavailable;
use crate::ledger::{Ledger, WeakLedger};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Ready when a record survives a power cut, or when it is known that it may not.
#[derive(Debug)]
#[must_use = "a record is durable only when this is ready"]
pub struct Synced {
    ledger: Ledger,
    seq: u64,
    place: Option<Arc<Place>>,
}

type Answer = Result<(), LedgerUnavailable>;

/// Where one waiter's answer arrives.
#[derive(Debug, Default)]
struct Place(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    answer: Option<Answer>,
    waker: Option<Waker>,
}

impl Place {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, answer: Answer) {
        let waker = {
            let mut waiting = self.lock();
            waiting.answer = Some(answer);
            waiting.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Synced {
    pub(crate) fn new(ledger: Ledger, seq: u64) -> Synced {
        Synced {
            ledger,
            seq,
            place: None,
        }
    }
}

impl Future for Synced {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        if let Some(place) = &self.place {
            let mut waiting = place.lock();
            return match waiting.answer.take() {
                Some(answer) => Poll::Ready(answer),
                None => {
                    waiting.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            };
        }
        let status = self.ledger.reach(self.seq);
        if let Some(answer) = status {
            return Poll::Ready(answer);
        }
        let place = Arc::new(Place(Mutex::new(Waiting {
            answer: None,
            waker: Some(context.waker().clone()),
        })));
        self.place = Some(Arc::clone(&place));
        match self.ledger.commits().join(&self.ledger, place) {
            Ok(()) => Poll::Pending,
            Err(unavailable) => Poll::Ready(Err(unavailable)),
        }
    }
}

/// Who waits for the next sync.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    queue: Arc<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<Queued>,
    called: Condvar,
}

#[derive(Debug, Default)]
struct Queued {
    waiting: Vec<Arc<Place>>,
    running: bool,
    closed: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Queued> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Commits {
    fn join(&self, ledger: &Ledger, place: Arc<Place>) -> Answer {
        let mut queued = self.queue.lock();
        if !queued.running {
            let (queue, weak) = (Arc::clone(&self.queue), ledger.downgrade());
            let spawned = std::thread::Builder::new()
                .name("ledger-sync".to_owned())
                .spawn(move || serve(&queue, &weak));
            if let Err(error) = spawned {
                return Err(LedgerUnavailable {
                    reason: format!("no thread to sync it: {error}").into(),
                });
            }
            queued.running = true;
        }
        queued.waiting.push(place);
        drop(queued);
        self.queue.called.notify_one();
        Ok(())
    }
}

impl Drop for Commits {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.called.notify_one();
    }
}

fn serve(queue: &Queue, ledger: &WeakLedger) {
    while let Some(round) = next_round(queue) {
        let answer = match ledger.upgrade() {
            // The handle is gone before anybody is woken: a waiter may close the ledger and open it again at once.
            Some(ledger) => ledger.sync().map(drop),
            None => Err(LedgerUnavailable {
                reason: "it was closed".into(),
            }),
        };
        for place in round {
            place.answer(answer.clone());
        }
    }
}

/// Everybody who waits, once somebody does; `None` when the ledger is gone.
fn next_round(queue: &Queue) -> Option<Vec<Arc<Place>>> {
    let mut queued = queue.lock();
    loop {
        if !queued.waiting.is_empty() {
            return Some(std::mem::take(&mut queued.waiting));
        }
        if queued.closed {
            return None;
        }
        queued = queue
            .called
            .wait(queued)
            .unwrap_or_else(PoisonError::into_inner);
    }
}
