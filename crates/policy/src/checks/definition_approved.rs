//! Only what a person approved may be called: a definition that changed since then waits for a second look.

use vocab::{Rule, Violation};

use crate::{Facts, Standing};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    let Standing::Quarantined(why) = facts.standing else {
        return Ok(());
    };
    let (server, target) = (facts.server, facts.target);
    Err(Violation::new(
        Rule::DefinitionChanged,
        format!(
            "`{target}` of server `{server}` is quarantined: {why}; `portcullis servers review {server}` shows it and `portcullis servers approve {server} {target}` would allow it"
        ),
    ))
}
