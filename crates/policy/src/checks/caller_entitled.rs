//! A restricted tool may be called only with a credential that names it.

use vocab::{Rule, Violation};

use crate::{Facts, Permission};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    if facts.permission != Permission::Restricted || facts.granted {
        return Ok(());
    }
    let (server, target) = (facts.server, facts.target);
    Err(Violation::new(
        Rule::PermissionDenied,
        format!(
            "`{target}` of server `{server}` is restricted; a credential made with `--grant {server}__{target}` would be allowed"
        ),
    ))
}
