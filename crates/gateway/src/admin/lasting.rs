//! Answers that last: listed and taken back. Each is in the conversation of its caller, and nowhere else.

use api::{Kind, Problem};
use callers::ForGate;

use super::Admin;
use crate::Caller;

impl Admin {
    /// The answers that last, of every caller.
    #[must_use]
    pub fn lasting(&self) -> Vec<api::LastingAnswer> {
        let callers = self.gate.callers();
        let shown = callers.iter().flat_map(|caller| {
            caller.conversation(|conversation| {
                let answers = conversation.lasting().map(|one| api::LastingAnswer {
                    id: one.approval.clone(),
                    caller: caller.id().to_owned(),
                    name: caller.name().to_owned(),
                    server: one.server.clone(),
                    tool: one.tool.clone(),
                    covers: one
                        .aims
                        .in_words()
                        .iter()
                        .map(|words| audit::printable(words))
                        .collect(),
                    by: one.by.clone(),
                    said_ms: one.said_ms,
                });
                answers.collect::<Vec<_>>()
            })
        });
        shown.collect()
    }

    /// Takes a lasting answer back: from now on the next such call is asked about again.
    pub fn revoke_lasting(&self, who: &Caller, id: &str, reason: &str) -> Result<String, Problem> {
        let callers = self.gate.callers();
        let has_it = |caller: &&Caller| {
            caller.conversation(|conversation| conversation.lasting().any(|one| one.approval == id))
        };
        let found = callers.iter().find(has_it).ok_or_else(|| {
            let text = format!(
                "no answer `{id}` lasts; `portcullis approvals lasting` shows those that do"
            );
            Problem::new(Kind::NotFound, "no_such_answer", text)
        })?;
        self.record("approval.revoked", who, reason, |change| {
            change.target = found.id();
            change.approval = id;
        })?;
        found.conversation(|conversation| conversation.revoke_lasting(id));
        Ok(format!("answer {id} lasts no longer"))
    }
}
