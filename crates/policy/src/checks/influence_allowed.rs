//! What an untrusted text told an agent to do is not done, where the operator wants it so.

use vocab::{Effect, Rule, Violation};

use crate::{Facts, Influence};

/// Runs only for sessions whose label is untrusted.
pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    if facts.influence != Influence::Block || facts.effect == Effect::Read {
        return Ok(());
    }
    Err(Violation::new(
        Rule::UntrustedInfluence,
        format!(
            "the session has read untrusted data and `{}` is consequential; `untrusted_influence: ask`, `effect: read` for the tool, or a reset session would allow it",
            facts.target
        ),
    ))
}
