//! Evidence about a session. Each type here has a private constructor and no `Clone`: holding one proves what it says.

use std::fmt;

use vocab::{Level, Mark};

use crate::{session::Session, sync::Arc};

/// Evidence that a session's label was at or below a ceiling when it was weighed.
#[derive(Debug)]
pub struct Weighed {
    before: Mark,
}

/// Sending would move data below its level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteDown {
    pub session: Mark,
    pub ceiling: Level,
}

impl Weighed {
    pub(crate) fn decide(before: Mark, ceiling: Level) -> Result<Self, WriteDown> {
        if before.secrecy.flows_to(ceiling) {
            Ok(Self { before })
        } else {
            Err(WriteDown {
                session: before,
                ceiling,
            })
        }
    }

    /// The label the decision was made on, integrity included.
    #[must_use]
    pub const fn before(&self) -> Mark {
        self.before
    }
}

/// A session's label includes this result, in memory. Hold it, or the [`Showable`] it becomes, until the result has left or has
/// been thrown away.
#[must_use = "nothing may be shown without the `Showable` that this becomes"]
pub struct Absorbed {
    session: Arc<Session>,
    ticket: u64,
    after: Mark,
}

/// Evidence that a session's durable label includes a result. Drop it when the result has been handed over.
#[must_use = "it must be held until the result has been handed over"]
#[derive(Debug)]
pub struct Showable(Absorbed);

impl Absorbed {
    pub(crate) fn new(session: &Arc<Session>, ticket: u64, after: Mark) -> Self {
        Self {
            session: Arc::clone(session),
            ticket,
            after,
        }
    }

    /// The label afterwards.
    #[must_use]
    pub const fn after(&self) -> Mark {
        self.after
    }

    /// The session whose [`unsaved`](Session::unsaved) label must be saved if [`durable`](Absorbed::durable) gives this back.
    #[must_use]
    pub const fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// The evidence that it may be shown, if a label that includes it is durable.
    pub fn durable(self) -> Result<Showable, Self> {
        if self.session.is_durable(self.ticket) {
            Ok(Showable(self))
        } else {
            Err(self)
        }
    }
}

impl Drop for Absorbed {
    fn drop(&mut self) {
        self.session.has_left(self.ticket);
    }
}

impl Showable {
    /// The label afterwards.
    #[must_use]
    pub const fn after(&self) -> Mark {
        self.0.after
    }
}

impl fmt::Debug for Absorbed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Absorbed")
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}
