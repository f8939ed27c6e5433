//! What of a known caller's refusals is kept: each one while they are few, a count where they are many.
//!
//! **Invariant: what one caller is refused costs the disk a bounded amount.** A minute, a caller has [`RECORDS`] records of refusals, some
//! 700 bytes each, and [`KEPT`] of arguments kept with them: less than two megabytes in all, after a first burst of as much again.
//! Test `refusals_in_numbers_are_counted_and_fill_no_disk`.

use std::time::Duration;

use crate::{Caller, Gate, meters::Bucket, settings::Rate};

const MINUTE: Duration = Duration::from_secs(60);
/// Refusals of one caller that are on record one by one.
const RECORDS: Rate = Rate {
    calls: 600,
    per: MINUTE,
};
/// What is kept of their arguments, in units of [`UNIT`].
const KEPT: Rate = Rate {
    calls: 256,
    per: MINUTE,
};
const UNIT: u64 = 4 << 10;
/// Characters of a path or of a verb that are recorded.
const MAX_PATH: usize = 200;

/// The meters of one caller.
#[derive(Debug)]
pub(crate) struct Refusals {
    records: Bucket,
    kept: Bucket,
}

impl Default for Refusals {
    fn default() -> Self {
        Self {
            records: Bucket::new("refusals".to_owned(), RECORDS),
            kept: Bucket::new("arguments".to_owned(), KEPT),
        }
    }
}

impl Refusals {
    /// Whether one more is recorded by itself.
    pub(crate) fn may_record(&self) -> bool {
        self.records.take().is_ok()
    }

    /// Whether arguments of this length are kept with it.
    pub(crate) fn may_keep(&self, bytes: usize) -> bool {
        self.kept.take_many((bytes as u64).div_ceil(UNIT)).is_ok()
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_has_so_many_records_and_so_much_of_its_arguments() {
        let refusals = Refusals::default();
        let records = (0..10_000).filter(|_| refusals.may_record()).count();
        assert!((600..700).contains(&records), "{records}");
        let kept = (0..1_000).filter(|_| refusals.may_keep(64 << 10)).count();
        assert!((16..20).contains(&kept), "{kept}");
        assert!(!refusals.may_keep(64 << 10));
    }
}
