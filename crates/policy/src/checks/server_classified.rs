//! No call reaches a server that nobody has classified, or that somebody blocked or switched off. This is a gate in code; no text an agent sends
//! can open it.

use vocab::{Rule, Violation};

use crate::{Facts, ServerState};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    let server = facts.server;
    let detail = match facts.state {
        ServerState::Classified(_) => return Ok(()),
        ServerState::Untrusted => {
            format!(
                "server `{server}` is UNTRUSTED; `portcullis servers classify {server} LEVEL` would allow it"
            )
        }
        ServerState::Blocked(reason) => {
            format!(
                "server `{server}` is BLOCKED ({reason}); `portcullis servers unblock {server}` would lift that"
            )
        }
        ServerState::Disabled => {
            let detail = format!(
                "server `{server}` is switched off; `portcullis servers enable {server}` would switch it on"
            );
            return Err(Violation::new(Rule::ServerNotApproved, detail)
                .with_hint("the operator switched this server off"));
        }
    };
    Err(Violation::new(Rule::ServerNotApproved, detail))
}
