//! Step 4c: the command and its first argument are on every list, and it asks for no more time than there is.

use vocab::Violation;

use crate::Facts;

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    facts.boundary.map_or(Ok(()), |boundary| boundary.command())
}
