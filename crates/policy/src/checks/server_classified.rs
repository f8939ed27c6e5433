//! No call reaches a server that nobody has classified, or that somebody blocked. This is a gate in code; no text an agent sends
//! can open it.

use vocab::{Rule, Violation};

use crate::{Facts, ServerState};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    let server = facts.server;
    let detail = match facts.state {
        ServerState::Classified(_) => return Ok(()),
        ServerState::Untrusted => {
            format!("server `{server}` is UNTRUSTED; `portcullis servers classify {server} LEVEL` would allow it")
        }
        ServerState::Blocked(reason) => {
            format!("server `{server}` is BLOCKED ({reason}); `portcullis servers unblock {server}` would lift that")
        }
    };
    Err(Violation::new(Rule::ServerNotApproved, detail))
}
