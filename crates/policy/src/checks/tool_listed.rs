//! Step 1 of the tool policy: the tool is on the agent's list, on the session's, and some capability of the context matches it.

use vocab::Violation;

use crate::Facts;

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    facts.boundary.map_or(Ok(()), |boundary| boundary.listed())
}
