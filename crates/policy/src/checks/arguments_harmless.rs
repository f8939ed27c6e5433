//! No string or key at any depth of what is sent matches the injection table.

use vocab::{Rule, Violation};

use crate::Facts;

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    let Some(sent) = facts.sent.filter(|_| facts.scans_injection) else {
        return Ok(());
    };
    match shape::injection::scan(sent) {
        None => Ok(()),
        Some(hit) => Err(Violation::new(
            Rule::PotentialInjection,
            format!(
                "`{}` matches the pattern `{}`; `injection_scan: false` in the entry of server `{}` would allow it",
                hit.path, hit.rule, facts.server
            ),
        )
        .with_hint(format!("in `{}`", hit.path))),
    }
}
