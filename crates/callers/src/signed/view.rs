//! Sessions of signed calls as operators and the ledger see them.

use std::sync::atomic::Ordering;

use audit::rfc3339;
use state::SignedStatus;
use wire::write::Object;

use super::{End, Signed, SignedSession};
use crate::Caller;

/// What ending a session came to. One that was over before ended as it did then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    pub execution: String,
    pub status: SignedStatus,
    /// When, in RFC 3339.
    pub at: String,
}

/// The part of a record that says which session it is about.
pub fn about(session: &SignedSession) -> audit::Change<'_> {
    audit::Change {
        session: &session.id,
        agent: &session.agent,
        tenant: &session.tenant,
        execution: &session.execution,
        context: &session.context,
        target: &session.workload,
        ..audit::Change::default()
    }
}

/// One session, as an operator sees it. Never its token.
fn object(session: &SignedSession, now_ms: u64) -> Vec<u8> {
    let mut out = Object::new();
    out.str("execution_id", &session.execution)
        .str("session_id", &session.id)
        .str("sub", &session.agent);
    out.str("security_context_name", &session.context)
        .str("workload_id", &session.workload);
    if !session.tenant.is_empty() {
        out.str("tenant_id", &session.tenant);
    }
    out.str("session_status", session.status_at(now_ms).as_str())
        .str("attested_by", &session.attested_by);
    out.str("created_at", &rfc3339(session.created_ms))
        .str("expires_at", &rfc3339(session.expires_ms));
    let patterns: Vec<String> = session.patterns.iter().map(ToString::to_string).collect();
    out.raw(
        "allowed_tool_patterns",
        serde_json::to_string(&patterns)
            .unwrap_or_default()
            .as_bytes(),
    );
    out.u64("calls", session.so_far("").calls);
    out.finish()
}

impl Signed {
    /// The sessions that exist for this operator, newest first: those in force, or all that are remembered.
    pub fn json(&self, operator: &Caller, all: bool, now_ms: u64) -> Vec<u8> {
        let mut callers = self.all();
        callers.retain(|caller| is_seen(operator, caller));
        callers.retain(|caller| {
            all || caller
                .signed()
                .is_some_and(|session| session.status_at(now_ms) == SignedStatus::Active)
        });
        callers.sort_by_key(|caller| {
            std::cmp::Reverse(caller.signed().map(|session| session.created_ms))
        });
        let sessions: Vec<Vec<u8>> = callers
            .iter()
            .filter_map(Caller::signed)
            .map(|session| object(session, now_ms))
            .collect();
        [b"[", sessions.join(&b","[..]).as_slice(), b"]"].concat()
    }

    /// The latest session of an execution, if it exists for this operator.
    fn of_execution(&self, operator: &Caller, execution: &str) -> Option<Caller> {
        self.latest(execution)
            .filter(|caller| is_seen(operator, caller))
    }

    /// The latest session of an execution.
    pub fn latest(&self, execution: &str) -> Option<Caller> {
        self.all()
            .into_iter()
            .filter(|caller| {
                caller
                    .signed()
                    .is_some_and(|session| session.execution == execution)
            })
            .max_by_key(|caller| {
                caller
                    .signed()
                    .map(|session| (session.status() == SignedStatus::Active, session.created_ms))
            })
    }

    pub fn one_json(&self, operator: &Caller, execution: &str, now_ms: u64) -> Option<Vec<u8>> {
        self.of_execution(operator, execution)?
            .signed()
            .map(|session| object(session, now_ms))
    }

    /// Ends the session of an execution, for good. `None`: there is none that this operator may see.
    pub async fn revoke(
        &self,
        operator: &Caller,
        execution: &str,
        reason: &str,
        now_ms: u64,
    ) -> Result<Option<Ended>, String> {
        let Some(caller) = self.of_execution(operator, execution) else {
            return Ok(None);
        };
        let Some(session) = caller.signed() else {
            return Ok(None);
        };
        self.finish(
            session,
            End {
                status: SignedStatus::Revoked,
                who: operator.id(),
                reason,
            },
            now_ms,
        )
        .await?;
        let at = rfc3339(session.ended_ms.load(Ordering::Acquire));
        Ok(Some(Ended {
            execution: execution.to_owned(),
            status: session.status(),
            at,
        }))
    }
}

/// An operator of a tenant sees that tenant's sessions; one of none sees all.
fn is_seen(operator: &Caller, caller: &Caller) -> bool {
    operator.tenant().is_none() || operator.tenant() == caller.tenant()
}
