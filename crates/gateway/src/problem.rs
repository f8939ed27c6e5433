//! What goes wrong below an operator's word, as the problem that the operator is told.

use api::{Kind, Problem};
use audit::LedgerUnavailable;
use state::{AnswerError, StateError};

/// No record, no action.
pub(crate) fn ledger(error: &LedgerUnavailable) -> Problem {
    Problem::storage("ledger_unavailable", error.to_string())
}

pub(crate) fn state(error: &StateError) -> Problem {
    match error {
        StateError::Full { .. } => Problem::full(&error.to_string()),
        StateError::Busy { .. } => Problem::new(Kind::Busy, "state_busy", error.to_string()),
        _ => Problem::storage("state_unavailable", error.to_string()),
    }
}

pub(crate) fn no_approval(id: &str) -> Problem {
    let text = format!("there is no approval `{id}`");
    Problem::new(Kind::NotFound, "no_such_approval", text)
}

pub(crate) fn answer(id: &str, error: &AnswerError) -> Problem {
    match error {
        AnswerError::Unknown => no_approval(id),
        AnswerError::AlreadyAnswered(_) => conflict("already_answered", error.to_string()),
        AnswerError::Expired(_) => conflict("approval_expired", error.to_string()),
        AnswerError::State(error) => state(error),
    }
}

/// Something that can be done, and not now.
pub(crate) fn conflict(code: &'static str, text: impl Into<String>) -> Problem {
    Problem::new(Kind::Conflict, code, text)
}
