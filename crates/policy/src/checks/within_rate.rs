//! Limits are counted last of Admit, so that a call that is refused anyway costs nobody anything.

use vocab::Violation;

use crate::{Facts, context::refusal};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    facts.meter.count().map_err(|exceeded| {
        refusal::too_many(&exceeded.limit, exceeded.calls, exceeded.retry_after)
    })
}
