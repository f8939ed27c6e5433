//! Messages for one request that arrive on a stream shared by many.

use std::{
    cell::RefCell,
    collections::VecDeque,
    future::poll_fn,
    task::{Poll, Waker},
};

use tokio::sync::Notify;

use super::incoming::Incoming;
use crate::failure::Failure;

/// Messages kept for a request whose task is busy. The reader of the shared stream then waits.
const MAX_WAITING: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    state: RefCell<State>,
    room: Notify,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Incoming>,
    closed: Option<Failure>,
    waker: Option<Waker>,
}

impl Inbox {
    pub(crate) fn push(&self, message: Incoming) {
        let mut state = self.state.borrow_mut();
        if state.closed.is_some() {
            return;
        }
        state.queue.push_back(message);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// What is queued is still delivered, then the failure.
    pub(crate) fn close(&self, failure: Failure) {
        let mut state = self.state.borrow_mut();
        state.closed.get_or_insert(failure);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
        self.room.notify_waiters();
    }

    pub(crate) async fn next(&self) -> Result<Incoming, Failure> {
        poll_fn(|cx| {
            let mut state = self.state.borrow_mut();
            if let Some(message) = state.queue.pop_front() {
                self.room.notify_waiters();
                return Poll::Ready(Ok(message));
            }
            if let Some(failure) = &state.closed {
                return Poll::Ready(Err(failure.clone()));
            }
            if !state
                .waker
                .as_ref()
                .is_some_and(|waker| waker.will_wake(cx.waker()))
            {
                state.waker = Some(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    /// Resolves once the inbox was closed, with the reason.
    pub(crate) async fn closed(&self) -> Failure {
        poll_fn(|cx| {
            let mut state = self.state.borrow_mut();
            if let Some(failure) = &state.closed {
                return Poll::Ready(failure.clone());
            }
            state.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Waits until this request has caught up.
    pub(crate) async fn room(&self) {
        loop {
            let freed = self.room.notified();
            {
                let state = self.state.borrow();
                if state.queue.len() < MAX_WAITING || state.closed.is_some() {
                    return;
                }
            }
            freed.await;
        }
    }
}
