//! Step 4a: every path in the arguments is inside the boundary, and none climbs.

use vocab::Violation;

use crate::Facts;

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    facts.boundary.map_or(Ok(()), |boundary| boundary.path())
}
