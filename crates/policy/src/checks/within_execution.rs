//! Step 3: the execution has calls left. What limits over time say is the next row's.

use vocab::Violation;

use crate::Facts;

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    facts.boundary.map_or(Ok(()), |boundary| boundary.spent())
}
