//! No call reaches a server that nobody has classified. This is a gate in code; no text an agent sends can open it.

use vocab::{Rule, Violation};

use crate::Facts;

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    if facts.classification.is_some() {
        return Ok(());
    }
    let server = facts.server;
    Err(Violation::new(
        Rule::ServerNotApproved,
        format!("server `{server}` has no classification; `portcullis servers classify {server} LEVEL` would allow it"),
    ))
}
