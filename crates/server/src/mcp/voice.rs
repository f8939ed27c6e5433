//! How a client hears the questions of a call, and how long they may wait.

use std::time::Duration;

use gateway::Era;
use tokio::time::Instant;

use super::asks::Question;

/// A server that asks several things at once does so within this time.
pub(super) const GATHERING: Duration = Duration::from_millis(5);

pub(super) enum Voice {
    /// As requests on the stream; `open` are those without an answer yet, and until when each is waited for.
    Inline { open: Vec<(u64, Instant)> },
    /// As an `input_required` result.
    Parked {
        asked: Vec<Question>,
        until: Instant,
    },
    /// Not at all.
    Mute,
}

impl Voice {
    pub(super) fn of(era: Era) -> Self {
        match era {
            Era::Legacy => Self::Inline { open: Vec::new() },
            Era::Modern => Self::Parked {
                asked: Vec::new(),
                until: Instant::now(),
            },
        }
    }

    /// When something must be done about open questions, if there are any.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Inline { open } => open.first().map(|(_, until)| *until),
            Self::Parked { asked, until } => (!asked.is_empty()).then_some(*until),
            Self::Mute => None,
        }
    }
}
