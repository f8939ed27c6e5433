//! Turns at the doors: whoever asks as fast as it can waits behind itself.
//!
//! One thread carries everybody's calls, and what it has to do waits in one queue. A caller with sixty-four requests at once would
//! stand in it sixty-four times, and everybody else behind all of them. So a request takes its caller's turn before it is worked on:
//! in each round a caller has [`SHARE`] of them, and the rest of its requests wait for the next round. Between two rounds the thread
//! looks at its sockets, so whoever comes meanwhile is next.
//!
//! **Invariant: nobody's requests keep another's waiting for more than a round**
//! (`a_caller_with_many_requests_waits_behind_itself`). While one caller is alone there are no rounds.

use std::{
    collections::{HashMap, VecDeque},
    future::poll_fn,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Poll, Waker},
};

/// Requests of one caller in a round.
const SHARE: usize = 2;

#[derive(Debug, Default)]
pub struct Turns(Arc<Mutex<Round>>);

/// Who had a turn in this round, and who waits for the next one.
#[derive(Debug, Default)]
struct Round {
    callers: HashMap<usize, Line>,
    /// Whether somebody begins the next round.
    goes_on: bool,
}

#[derive(Debug, Default)]
struct Line {
    taken: usize,
    waiting: VecDeque<Arc<Ticket>>,
}

/// One request that waits.
#[derive(Debug)]
struct Ticket {
    is_next: AtomicBool,
    waker: Mutex<Waker>,
}

impl Turns {
    fn round(&self) -> MutexGuard<'_, Round> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for this caller's turn.
    pub async fn turn(&self, caller: usize) {
        let mut ticket: Option<Arc<Ticket>> = None;
        poll_fn(|cx| {
            if let Some(ticket) = &ticket {
                if ticket.is_next.load(Ordering::Acquire) {
                    return Poll::Ready(());
                }
                let mut waker = ticket.waker.lock().unwrap_or_else(PoisonError::into_inner);
                waker.clone_from(cx.waker());
                return Poll::Pending;
            }
            let mut round = self.round();
            let line = round.callers.entry(caller).or_default();
            if line.taken < SHARE && line.waiting.is_empty() {
                line.taken += 1;
            } else {
                let waits = Arc::new(Ticket {
                    is_next: AtomicBool::new(false),
                    waker: Mutex::new(cx.waker().clone()),
                });
                line.waiting.push_back(Arc::clone(&waits));
                ticket = Some(waits);
            }
            if !std::mem::replace(&mut round.goes_on, true) {
                tokio::spawn(go_on(Arc::clone(&self.0)));
            }
            if ticket.is_some() {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
    }
}

/// Begins one round after the other, until one has passed in which nobody came.
async fn go_on(rounds: Arc<Mutex<Round>>) {
    loop {
        // Lets everything run that is ready, and looks at the sockets.
        tokio::task::yield_now().await;
        let mut round = rounds.lock().unwrap_or_else(PoisonError::into_inner);
        round.callers.retain(|_, line| line.next_round());
        if round.callers.is_empty() {
            round.goes_on = false;
            return;
        }
    }
}

impl Line {
    /// Gives its turns to those who wait longest; `false` if there were none in the last round and nobody waits.
    fn next_round(&mut self) -> bool {
        let was_there = self.taken > 0;
        self.taken = 0;
        while self.taken < SHARE
            && let Some(ticket) = self.waiting.pop_front()
        {
            // Who has gone away meanwhile has dropped the other half.
            if Arc::strong_count(&ticket) > 1 {
                self.taken += 1;
                ticket.is_next.store(true, Ordering::Release);
                ticket
                    .waker
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .wake_by_ref();
            }
        }
        was_there || self.taken > 0
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, rc::Rc};

    use tokio::task::LocalSet;

    use super::*;

    /// A hundred requests of one caller are there first; the one of another is served within the first rounds.
    #[tokio::test]
    async fn a_caller_with_many_requests_waits_behind_itself() {
        let (turns, order) = (Rc::new(Turns::default()), Rc::new(RefCell::new(Vec::new())));
        let local = LocalSet::new();
        for caller in std::iter::repeat_n(1, 100).chain([2]) {
            let (turns, order) = (Rc::clone(&turns), Rc::clone(&order));
            local.spawn_local(async move {
                turns.turn(caller).await;
                order.borrow_mut().push(caller);
            });
        }
        local.await;
        let order = order.borrow();
        assert_eq!(order.len(), 101, "everybody had a turn");
        let polite = order.iter().position(|caller| *caller == 2).unwrap();
        assert!(polite <= SHARE, "it came after {polite} others");
        assert!(turns.round().callers.is_empty() || turns.round().goes_on);
    }

    /// Requests that were given up take no turns from those behind them.
    #[tokio::test]
    async fn who_went_away_is_passed_over() {
        let turns = Arc::new(Turns::default());
        let waits = |turns: &Arc<Turns>| {
            let turns = Arc::clone(turns);
            tokio::spawn(async move { turns.turn(1).await })
        };
        let first: Vec<_> = (0..50).map(|_| waits(&turns)).collect();
        first.iter().for_each(tokio::task::JoinHandle::abort);
        tokio::time::timeout(std::time::Duration::from_secs(5), waits(&turns))
            .await
            .expect("a turn in time")
            .unwrap();
        while turns.round().goes_on {
            tokio::task::yield_now().await;
        }
        assert!(turns.round().callers.is_empty());
    }
}
