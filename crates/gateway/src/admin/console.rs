//! Codes for the console, and who is there.

use api::{Kind, Problem};

use super::Admin;
use crate::{Caller, Role, Visitor, problem};

/// How long a code is good, as people are told.
const CODE_MS: u64 = 60_000;

impl Admin {
    /// A code that lets the person who holds this credential in with a browser.
    pub fn console_code(
        &self,
        who: &Caller,
        role: Option<Role>,
    ) -> Result<api::ConsoleCode, Problem> {
        let inner = self.gate.inner();
        let role = role.unwrap_or(who.role()).min(who.role());
        if !role.may(Role::Viewer) {
            return Err(Problem::needs_role(Role::Viewer));
        }
        let code = inner.visits.code(who, role, inner.now_ms());
        let code = code.map_err(|error| Problem::broken(error.sentence()))?;
        // The door's own address ends with its port.
        let url = self.gate.url();
        let port = url
            .strip_suffix("/mcp")
            .and_then(|url| url.rsplit_once(':'))
            .map_or("7878", |(_, port)| port);
        Ok(api::ConsoleCode {
            url: format!("http://{}:{port}/", self.gate.console_host()),
            code: code.expose().clone(),
            role,
            expires_in_ms: CODE_MS,
        })
    }

    /// Who is at the console.
    #[must_use]
    pub fn visits(&self) -> Vec<api::Visit> {
        let inner = self.gate.inner();
        let visits = inner.visits.list(inner.now_ms()).into_iter();
        visits
            .map(|visitor| api::Visit {
                id: visitor.id.clone(),
                caller: visitor.caller.id().to_owned(),
                name: visitor.caller.name().to_owned(),
                role: visitor.role,
                since_ms: visitor.since_ms,
                seen_ms: visitor.seen_ms,
                signs: visitor.signs,
            })
            .collect()
    }

    /// Ends somebody's visit.
    pub fn end_visit(&self, who: &Caller, id: &str, reason: &str) -> Result<String, Problem> {
        let inner = self.gate.inner();
        let visits = inner.visits.list(inner.now_ms());
        let visit = visits.iter().find(|visit| visit.id == id);
        let visit = visit.ok_or_else(|| {
            Problem::new(
                Kind::NotFound,
                "no_such_visit",
                format!("there is no visit `{id}`; it may have ended already"),
            )
        })?;
        let ended = name_of(visit);
        self.record("console.ended", who, reason, |change| {
            change.detail = &ended
        })?;
        inner.visits.end(id);
        Ok(format!("{ended} has ended"))
    }

    /// An approval by its id, open or not.
    pub async fn show_approval(&self, id: &str) -> Result<api::Approval, Problem> {
        let found = self.approvals(true).await?;
        let found = found.into_iter().find(|approval| approval.id == id);
        found.ok_or_else(|| problem::no_approval(id))
    }
}

fn name_of(visitor: &Visitor) -> String {
    format!("visit {} of {}", visitor.id, visitor.caller.name())
}
