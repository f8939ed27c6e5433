//! Places: of calls in flight, and of calls that wait for somebody outside.
//!
//! **Invariant: nobody outside keeps a place.** A call that waits for a person, or for its client to answer a server's question, gives its
//! places among the calls in flight back and has one among those who wait instead. When the answer is there it takes its places
//! again, at once: it was under way already. So at most as many calls as may wait come on top of those in flight.

use std::sync::Arc;

use policy::{Admitted, Facts};
use tokio::sync::OwnedSemaphorePermit;
use vocab::{Rule, Violation};

use super::{Case, context};
use crate::places::{Places, Taken};

/// Calls of one caller that may wait for somebody outside, those that ask the same included.
pub(crate) const MAX_WAITING: usize = 64;
/// And of all callers together.
pub(crate) const MAX_WAITING_IN_ALL: usize = 1024;
/// What every caller may have waiting, however many others there are.
pub(crate) const FEW_WAITING: usize = 4;

/// A place among the calls in flight, of the gate, of the caller and of its context; given back when the call ends.
#[derive(Debug)]
pub(super) struct Slots {
    under_way: Option<[Taken; 2]>,
    waiting: Option<Waiting>,
    _context: Option<OwnedSemaphorePermit>,
}

/// A place among those who wait.
#[derive(Debug)]
pub(crate) struct Waiting {
    _places: [Taken; 2],
}

impl Waiting {
    /// `None`: too many calls of this caller wait already, of what the others leave it.
    pub(super) fn of(case: Case<'_>) -> Option<Self> {
        Self::take(case.ask.caller.waiting(), &case.gate.waiting)
    }

    pub(crate) fn take(own: &Arc<Places>, all: &Arc<Places>) -> Option<Self> {
        let others = all.taken().saturating_sub(own.taken());
        let most = (MAX_WAITING_IN_ALL.saturating_sub(others) / 2).clamp(FEW_WAITING, MAX_WAITING);
        Some(Self { _places: [own.take(most)?, all.take_again()] })
    }
}

impl Slots {
    /// Gives the places back for as long as somebody outside is waited for. `false`: too many calls wait already.
    pub(super) fn step_aside(&mut self, case: Case<'_>) -> bool {
        if self.waiting.is_none() {
            self.waiting = Waiting::of(case);
        }
        if self.waiting.is_some() {
            self.under_way = None;
        }
        self.waiting.is_some()
    }

    /// Takes them again.
    pub(super) fn come_back(&mut self, case: Case<'_>) {
        if self.waiting.take().is_some() {
            self.under_way = Some([case.ask.caller.slots().take_again(), case.gate.slots.take_again()]);
        }
    }
}

pub(super) fn admit(case: Case<'_>, facts: &Facts<'_>) -> Result<(Admitted, Slots), Violation> {
    let admitted = policy::admit(facts)?;
    if case.answer.is_some() {
        // Its call has its places.
        return Ok((admitted, Slots { under_way: None, waiting: None, _context: None }));
    }
    let take = |places: &Arc<Places>, most: usize, limit: &str| {
        places.take(most).ok_or_else(|| {
            Violation::new(Rule::RateLimitExceeded, format!("`limits.{limit}` calls are in flight")).with_hint("too many at once")
        })
    };
    if case.ask.caller.room().is_full() {
        let detail = format!("{} bytes of answers wait to be read", case.ask.caller.room().held());
        return Err(Violation::new(Rule::RateLimitExceeded, detail).with_hint("answers to earlier calls wait to be read"));
    }
    let terms = case.gate.terms();
    let slots = Slots {
        under_way: Some([
            take(case.ask.caller.slots(), terms.max_calls_per_caller, "max_concurrent_calls_per_caller")?,
            take(&case.gate.slots, terms.max_concurrent_calls, "max_concurrent_calls")?,
        ]),
        waiting: None,
        _context: match facts.boundary {
            Some(boundary) => context::concurrency(&case.ask.caller, boundary)?,
            None => None,
        },
    };
    Ok((admitted, slots))
}
