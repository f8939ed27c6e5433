//! A blocked tool is blocked for everyone.

use vocab::{Rule, Violation};

use crate::{Facts, Permission};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    if facts.permission != Permission::Blocked {
        return Ok(());
    }
    Err(Violation::new(
        Rule::ToolNotAllowed,
        format!("`{}` of server `{}` is blocked by the `tools` key of its entry", facts.target, facts.server),
    ))
}
