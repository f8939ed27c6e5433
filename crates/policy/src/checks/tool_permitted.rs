//! A blocked tool is blocked for everyone.

use vocab::{Rule, Violation};

use crate::{Facts, Permission};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    if facts.permission != Permission::Blocked {
        return Ok(());
    }
    Err(Violation::new(
        Rule::ToolNotAllowed,
        format!(
            "`{0}` of server `{1}` is blocked by the `tools` key of its entry; `tools: {{ {0}: permitted }}` in the entry of `{1}` would allow it",
            facts.target, facts.server
        ),
    ))
}
