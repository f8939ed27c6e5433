//! Step 2: no entry of the context's deny list matches. It beats every capability.

use vocab::Violation;

use crate::Facts;

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    facts.boundary.map_or(Ok(()), |boundary| boundary.denied())
}
