//! What a client is told when it connects: how the gate behaves, and what the servers behind it say of themselves.
//!
//! Only instructions that a person approved are passed on, of servers that the caller may use, each under its server's name and
//! quoted, so that none passes for another's or for the gate's own.

use vocab::ServerId;

use super::Gate;
use crate::{Sight, settings::ServerSpec};

/// What an agent should know of any gate.
const OWN: &str = "Portcullis passes your calls on to the servers behind it. A call may wait until a person has approved it: wait for its \
                   result instead of repeating it. A refused call says why, and repeating it does not change the answer. What you \
                   read carries a label, and what is secret is not sent to a server below its level.";

/// Bytes of one server's instructions that are passed on, and of all together: clients put them before every conversation.
const MAX_EACH: usize = 4 << 10;
const MAX_ALL: usize = 16 << 10;

impl Gate {
    /// The instructions for a client of one server, or of the whole gate.
    #[must_use]
    pub fn instructions(&self, sight: &Sight, mount: Option<&ServerId>) -> Option<String> {
        let catalog = self.catalog();
        if let Some(mount) = mount {
            return catalog.instructions(mount, sight).map(str::to_owned);
        }
        let may_call = |spec: &ServerSpec| self.inner().lists_any_of(sight.caller(), spec);
        let mut out = OWN.to_owned();
        let mut left_out = 0;
        for (spec, text) in catalog
            .all_instructions(sight)
            .into_iter()
            .filter(|(spec, _)| may_call(spec))
        {
            let quoted = quoted(&spec.id, text);
            if out.len() + quoted.len() > MAX_ALL {
                left_out += 1;
            } else {
                out.push_str(&quoted);
            }
        }
        if left_out > 0 {
            out.push_str(&format!(
                "\n\nThe instructions of {left_out} more servers are not shown here."
            ));
        }
        Some(out)
    }
}

fn quoted(id: &ServerId, text: &str) -> String {
    let cut = text.floor_char_boundary(MAX_EACH);
    let mut out = format!("\n\nServer `{id}` says:");
    for line in text.get(..cut).unwrap_or_default().lines() {
        out.push_str("\n> ");
        out.push_str(line);
    }
    if cut < text.len() {
        out.push_str("\n> (cut here)");
    }
    out
}
