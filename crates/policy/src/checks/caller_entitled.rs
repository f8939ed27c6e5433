//! A server or tool that is kept for some is refused to everyone else.

use vocab::{Rule, Violation};

use crate::{Facts, Permission};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    let (server, target) = (facts.server, facts.target);
    if !facts.may_use_server {
        let detail = format!(
            "the `access` of server `{server}` names neither the caller's user, department nor agent; a credential of one that it names would be allowed"
        );
        return Err(Violation::new(Rule::PermissionDenied, detail));
    }
    if facts.permission != Permission::Restricted || facts.is_named {
        return Ok(());
    }
    Err(Violation::new(
        Rule::PermissionDenied,
        format!(
            "`{target}` of server `{server}` is restricted; a credential made with `--grant {server}__{target}`, or of a user, department or agent that the tool's rule names, would be allowed"
        ),
    ))
}
