//! Evidence. Each type here has a private constructor and no `Clone`; holding one proves that its stage said yes.

use std::time::Duration;

use flow::Weighed;
use vocab::{Mark, Stage, Violation};

use crate::{Facts, checks};

/// Admit said yes.
#[derive(Debug)]
pub struct Admitted(());

/// The ceilings of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    pub time: Duration,
    pub result_bytes: usize,
}

/// Bound said yes, within this budget.
#[derive(Debug)]
pub struct Bounded(Budget);

/// Shape said yes.
#[derive(Debug)]
pub struct Shaped(());

/// The spendable yes. `digest` names the very bytes that were judged; only they may be dispatched.
#[derive(Debug)]
pub struct Permit {
    budget: Budget,
    digest: [u8; 32],
    weighed: Weighed,
}

impl Permit {
    #[must_use]
    pub const fn budget(&self) -> Budget {
        self.budget
    }

    #[must_use]
    pub const fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// The session's label when the call was weighed.
    #[must_use]
    pub const fn label(&self) -> Mark {
        self.weighed.before()
    }
}

pub fn admit(facts: &Facts<'_>) -> Result<Admitted, Violation> {
    checks::run(Stage::Admit, facts).map(|()| Admitted(()))
}

/// Fixes what the call may cost: what the server's entry asks for, never more than the node allows.
pub fn bound(facts: &Facts<'_>, wanted: Budget, ceiling: Budget) -> Result<Bounded, Violation> {
    checks::run(Stage::Bound, facts)?;
    Ok(Bounded(Budget { time: wanted.time.min(ceiling.time), result_bytes: wanted.result_bytes.min(ceiling.result_bytes) }))
}

pub fn shape(facts: &Facts<'_>) -> Result<Shaped, Violation> {
    checks::run(Stage::Shape, facts).map(|()| Shaped(()))
}

/// Turns the evidence of every earlier stage into a permit for exactly the bytes that hash to `digest`.
pub fn judge(
    facts: &Facts<'_>,
    _: Admitted,
    Bounded(budget): Bounded,
    weighed: Weighed,
    _: Shaped,
    digest: [u8; 32],
) -> Result<Permit, Violation> {
    checks::run(Stage::Judge, facts)?;
    Ok(Permit { budget, digest, weighed })
}
