//! Places: of calls in flight, and of calls that wait for somebody outside.
//!
//! **Invariant: nobody outside keeps a place.** A call that waits for a person, or for its client to answer a server's question, gives its
//! places among the calls in flight back and has one among those who wait instead. When the answer is there it takes its places
//! again, at once: it was under way already. So at most as many calls as may wait come on top of those in flight. Tests
//! `abandoned_questions_hold_no_places`, `a_caller_leaves_at_most_64_questions_open`.

use std::sync::Arc;

use callers::{
    ForGate,
    places::{Places, Taken},
};
use policy::Admitted;
use tokio::sync::OwnedSemaphorePermit;
use upstreams::catalog::Target;
use vocab::{Rule, Violation};

use super::{Case, Gathered, context};

/// Calls of one caller that may wait for somebody outside, those that ask the same included.
pub(crate) const MAX_WAITING: usize = 64;
/// And of all callers together.
pub(crate) const MAX_WAITING_IN_ALL: usize = 1024;
/// What every caller may have waiting, however many others there are.
pub(crate) const FEW_WAITING: usize = 4;

/// A place among the calls in flight, of the gate, of the caller, of the server and of its context; given back when the call ends.
#[derive(Debug)]
pub(crate) struct Slots {
    under_way: Option<[Taken; 3]>,
    /// Of the server that the call goes to.
    of_server: Arc<Places>,
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
        Self::take(case.request.caller.waiting(), &case.gate.waiting)
    }

    pub(crate) fn take(own: &Arc<Places>, all: &Arc<Places>) -> Option<Self> {
        let others = all.taken().saturating_sub(own.taken());
        let most = (MAX_WAITING_IN_ALL.saturating_sub(others) / 2).clamp(FEW_WAITING, MAX_WAITING);
        Some(Self {
            _places: [own.take(most)?, all.take_again()],
        })
    }
}

impl Slots {
    /// Gives the places back for as long as somebody outside is waited for. `false`: too many calls wait already.
    pub(crate) fn step_aside(&mut self, case: Case<'_>) -> bool {
        if self.waiting.is_none() {
            self.waiting = Waiting::of(case);
        }
        if self.waiting.is_some() {
            self.under_way = None;
        }
        self.waiting.is_some()
    }

    /// Takes them again.
    pub(crate) fn come_back(&mut self, case: Case<'_>) {
        if self.waiting.take().is_some() {
            let places = [
                case.request.caller.slots(),
                &self.of_server,
                &case.gate.slots,
            ];
            self.under_way = Some(places.map(Places::take_again));
        }
    }
}

pub(super) fn admit(
    case: Case<'_>,
    gathered: &Gathered<'_>,
    target: &Target,
) -> Result<(Admitted, Slots), Violation> {
    if let Some(violation) = gathered.unbounded {
        return Err(violation.clone());
    }
    let facts = gathered.facts;
    let admitted = policy::admit(facts)?;
    let of_server = Arc::clone(target.meters.places());
    if case.answer.is_some() || case.part.is_some() {
        // Its call has its places.
        return Ok((
            admitted,
            Slots {
                under_way: None,
                of_server,
                waiting: None,
                _context: None,
            },
        ));
    }
    if case.request.caller.room().is_full() {
        let detail = format!(
            "{} bytes of answers wait to be read",
            case.request.caller.room().held()
        );
        return Err(Violation::new(Rule::RateLimitExceeded, detail)
            .with_hint("answers to earlier calls wait to be read"));
    }
    let (terms, all) = (&case.now.terms, &case.gate.slots);
    let refused = |detail: &str| {
        Violation::new(Rule::RateLimitExceeded, detail).with_hint("too many at once")
    };
    // Who has many of the places may take no more of those that are left: others need them.
    let share = |places: &Arc<Places>, most: usize, detail: &str| {
        places
            .take_share(most, all, terms.max_concurrent_calls)
            .ok_or_else(|| refused(detail))
    };
    let own = "the caller has `limits.max_concurrent_calls_per_caller` calls in flight, or its share of `limits.max_concurrent_calls`";
    let slots = Slots {
        under_way: Some([
            share(case.request.caller.slots(), terms.max_calls_per_caller, own)?,
            share(
                &of_server,
                usize::MAX,
                "calls to this server have their share of `limits.max_concurrent_calls`",
            )?,
            all.take(terms.max_concurrent_calls)
                .ok_or_else(|| refused("`limits.max_concurrent_calls` calls are in flight"))?,
        ]),
        of_server,
        waiting: None,
        _context: match facts.boundary {
            Some(boundary) => context::concurrency(&case.request.caller, boundary)?,
            None => None,
        },
    };
    Ok((admitted, slots))
}
