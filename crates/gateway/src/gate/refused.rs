//! Requests that a door refused before they were calls, on record.

use callers::ForGate;

use super::Gate;
use crate::Caller;

/// Characters of a path or of a verb that are recorded.
const MAX_PATH: usize = 200;

/// A request of a known caller that a door refused before it was a call.
#[derive(Debug, Clone, Copy)]
pub struct DoorRefusal<'a> {
    pub door: &'static str,
    /// The path that was asked for, or the verb.
    pub asked: &'a str,
    pub rule: &'static str,
    /// What the caller was told.
    pub told: &'a str,
}

impl Gate {
    /// Puts on record that a door refused a caller we know. The caller is answered whether that succeeds or not: it gets nothing either
    /// way.
    pub fn refused_at_door(&self, caller: &Caller, refusal: DoorRefusal<'_>) {
        let inner = self.inner();
        let door = refusal.door;
        let recorded = if caller.refusals().may_record() {
            let asked: String = refusal.asked.chars().take(MAX_PATH).collect();
            let told: String = refusal.told.chars().take(MAX_PATH).collect();
            let signed = caller.signed();
            let change = audit::Change {
                action: "credential.refused",
                door,
                caller: caller.id(),
                user: caller.user().unwrap_or_default(),
                agent: caller.agent_name().unwrap_or_default(),
                tenant: caller.tenant().unwrap_or_default(),
                execution: signed.map_or("", |session| session.execution.as_str()),
                context: caller.context().unwrap_or_default(),
                target: &asked,
                violation: refusal.rule,
                detail: &told,
                ..audit::Change::default()
            };
            inner.ledger.change(&change).map(drop)
        } else {
            inner
                .refusals
                .note(&inner.ledger, caller.id().to_owned(), door, refusal.rule)
                .map(drop)
        };
        if let Err(error) = recorded {
            tracing::error!(%error, caller = caller.id(), "a refusal could not be recorded");
        }
    }
}
