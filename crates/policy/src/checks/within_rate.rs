//! Limits are counted last of Admit, so that a call that is refused anyway costs nobody anything.

use vocab::{Rule, Violation};

use crate::Facts;

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    facts.meter.count().map_err(|exceeded| {
        let seconds = exceeded.retry_after.as_millis().div_ceil(1000);
        Violation::new(Rule::RateLimitExceeded, format!("{} is reached; try again in {seconds} s", exceeded.limit))
            .with_hint(format!("try again in {seconds} s"))
    })
}
