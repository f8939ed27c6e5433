//! What may flow where: the label of a session.
//!
//! Pure. A session's label is the join of everything it was shown; it only rises. There is no function here that lowers one:
//! starting clean means a new [`Session`].
//!
//! **Invariant (no stale label).** A call reads the label in [`Session::weigh`] after it has been received in full, and a result,
//! or any part of one, raises the label in [`Session::absorb`] before a byte of it leaves the gate. So a call that could know a
//! result is always weighed against a label that includes it, without a lane or a lock between calls.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU8, Ordering},
};

use vocab::{Label, Level, Mark, ServerId};

/// What one caller has been shown so far.
#[derive(Debug, Default)]
pub struct Session {
    mark: AtomicU8,
    /// Only touched when a new origin appears, so the path of a call does not wait for it.
    label: Mutex<Label>,
}

/// Evidence that a session's label was at or below a ceiling when it was weighed.
#[derive(Debug)]
pub struct Weighed {
    before: Mark,
}

impl Weighed {
    /// The label the decision was made on.
    #[must_use]
    pub const fn before(&self) -> Mark {
        self.before
    }
}

/// Sending would move data below its level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteDown {
    pub session: Mark,
    pub ceiling: Level,
}

impl Session {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The label that decisions read.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark::unpack(self.mark.load(Ordering::Acquire))
    }

    /// The label with its origins.
    #[must_use]
    pub fn label(&self) -> Label {
        self.label.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// May what this session knows be sent to a server that takes at most `ceiling`?
    pub fn weigh(&self, ceiling: Level) -> Result<Weighed, WriteDown> {
        let before = self.mark();
        if before.secrecy.flows_to(ceiling) { Ok(Weighed { before }) } else { Err(WriteDown { session: before, ceiling }) }
    }

    /// Raises the label to include a result from `origin`; returns the label afterwards. Must happen before the result is shown.
    pub fn absorb(&self, mark: Mark, origin: &ServerId) -> Mark {
        let raised = self.raise(mark);
        let mut label = self.label.lock().unwrap_or_else(PoisonError::into_inner);
        label.mark = label.mark.join(raised);
        if !label.origins.contains(origin) {
            label.origins.insert(origin.clone());
        }
        raised
    }

    fn raise(&self, mark: Mark) -> Mark {
        let previous = self.mark.fetch_update(Ordering::AcqRel, Ordering::Acquire, |byte| {
            let joined = Mark::unpack(byte).join(mark).pack();
            (joined != byte).then_some(joined)
        });
        match previous {
            Ok(before) | Err(before) => Mark::unpack(before).join(mark),
        }
    }
}

#[cfg(test)]
mod tests;
