//! Arguments are named, so they come as an object.

use vocab::{Rule, Violation};

use crate::Facts;

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    if facts.arguments_are_object {
        return Ok(());
    }
    Err(Violation::new(Rule::InvalidParameters, "`arguments` is not an object").with_hint("`arguments` must be an object"))
}
