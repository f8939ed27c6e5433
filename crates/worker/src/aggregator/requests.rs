//! The bound on requests under way, and those that wait for room.
//!
//! Only requests that reach an upstream wait. Answers, cancellations and the like are served at once: they are what makes room.

use std::{
    cell::{Cell, RefCell},
    collections::{HashSet, VecDeque},
    rc::Rc,
};

use bytes::Bytes;
use wire::{Json, Limits, worker};

use super::{Aggregator, methods};
use crate::failure::{Failure, Kind};

const MAX_UNDER_WAY: usize = 256;
/// Beyond these the gate's pipe is not read any further.
const MAX_PARKED: usize = 1024;
const MAX_PARKED_BYTES: usize = 32 << 20;

#[derive(Debug, Default)]
pub(crate) struct Queue {
    under_way: Cell<usize>,
    /// Their ids, for those who must be told that no answer will come.
    unanswered: RefCell<HashSet<u64>>,
    parked: RefCell<VecDeque<(u64, Bytes)>>,
    parked_bytes: Cell<usize>,
}

impl Queue {
    pub(crate) fn has_room(&self, aggregator: &Aggregator) -> bool {
        let under_way = self.under_way.get();
        // The exact count is only needed near the bound.
        under_way < MAX_UNDER_WAY
            || under_way - aggregator.waiting_calls().min(under_way) < MAX_UNDER_WAY
    }

    pub(crate) fn began(&self, id: u64) {
        self.unanswered.borrow_mut().insert(id);
        self.under_way.set(self.under_way.get() + 1);
    }

    /// True if somebody waits for the room this makes.
    pub(crate) fn finished(&self, id: u64) -> bool {
        self.unanswered.borrow_mut().remove(&id);
        self.under_way.set(self.under_way.get().saturating_sub(1));
        !self.parked.borrow().is_empty()
    }

    pub(crate) fn park(&self, id: u64, text: Bytes) {
        self.parked_bytes.set(self.parked_bytes.get() + text.len());
        self.parked.borrow_mut().push_back((id, text));
    }

    /// Nothing is under way and nothing waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.get() == 0 && self.parked.borrow().is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.parked.borrow().len() >= MAX_PARKED || self.parked_bytes.get() >= MAX_PARKED_BYTES
    }

    /// Starts what there is room for now.
    pub(crate) fn advance(&self, aggregator: &Rc<Aggregator>) {
        while !self.parked.borrow().is_empty() && self.has_room(aggregator) {
            let Some((id, text)) = self.parked.borrow_mut().pop_front() else {
                return;
            };
            self.parked_bytes
                .set(self.parked_bytes.get().saturating_sub(text.len()));
            let Ok(json) = Json::parse(&text, Limits::new(text.len(), worker::DEPTH)) else {
                continue;
            };
            let method = json
                .get("method")
                .and_then(Json::as_str)
                .and_then(|name| methods::find(&name));
            if let Some(method) = method {
                (method.run)(
                    aggregator,
                    id,
                    &text,
                    json.get("params").unwrap_or(Json::EMPTY_OBJECT),
                );
            }
        }
    }

    /// Everything that has no answer yet, under way or not; nothing is left afterwards.
    pub(crate) fn give_up(&self) -> Vec<u64> {
        let mut ids: Vec<u64> = self.unanswered.take().into_iter().collect();
        ids.extend(self.parked.take().into_iter().map(|(id, _)| id));
        ids.sort_unstable();
        ids
    }

    /// Takes back a request that had not started. False if it is not here.
    pub(crate) fn cancel(&self, aggregator: &Aggregator, id: u64) -> bool {
        let mut parked = self.parked.borrow_mut();
        let Some(at) = parked.iter().position(|(waiting, _)| *waiting == id) else {
            return false;
        };
        if let Some((_, text)) = parked.remove(at) {
            self.parked_bytes
                .set(self.parked_bytes.get().saturating_sub(text.len()));
        }
        aggregator.attached(id);
        aggregator
            .hub
            .out
            .failure(id, &Failure::new(Kind::Cancelled, "the call was cancelled"));
        true
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::Queue;

    #[test]
    fn whoever_has_no_answer_is_known_at_the_end_and_only_once() {
        let queue = Queue::default();
        for id in [3, 1, 2] {
            queue.began(id);
        }
        assert!(!queue.finished(1));
        queue.park(7, Bytes::from_static(b"{}"));
        assert!(queue.finished(2), "there is room for who waits");
        assert_eq!(queue.give_up(), [3, 7]);
        assert!(queue.give_up().is_empty());
    }
}
