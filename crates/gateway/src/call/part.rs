//! A part of a call under way: another address that it leads to, another place that it asks, a file that it leaves. Each is judged as the
//! call would be that asked for it, before it happens, and what leads on is on record.
//!
//! **Invariant: where a call leads is judged like where it goes.** Tests `a_redirect_is_judged_like_an_address_that_was_asked_for`,
//! `what_is_fetched_is_kept_only_where_the_caller_may_write`.

use std::sync::Arc;

use callers::ForGate;
use calls::receive::receive;
use policy::{Judged, context::Ceilings};
use upstreams::catalog::Target;
use vocab::{Rule, Violation};

use super::{
    Case, Count,
    consent::{Decide, without_secrets},
};
use crate::CallRequest;

/// What a look at a part is about.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Part<'a> {
    /// The ceilings of the node, with the host of another search engine.
    pub(crate) ceilings: Option<&'a Ceilings>,
}

/// Admit to Judge. `params` are those of the call that would ask for the part. What a person approved is exactly what they saw; `is_seen`
/// says that this was in it.
pub(crate) fn judge(
    case: Case<'_>,
    (target, decide): (&Arc<Target>, Decide),
    (params, part): (Vec<u8>, Part<'_>),
    is_seen: bool,
) -> Result<(), Violation> {
    let request = CallRequest {
        params: params.into(),
        ..case.request.clone()
    };
    let received = receive(&request)?;
    let case = Case {
        request: &request,
        part: Some(part),
        ..case
    };
    match decide(case, &received, target, Count::Look)?.judged {
        Judged::Permitted(_) => Ok(()),
        Judged::Asked(_) if case.is_approved && is_seen => Ok(()),
        Judged::Asked(asked) => {
            let detail = format!(
                "where the call leads would need a person's word: {}",
                without_secrets(case, asked.why).join("; ")
            );
            Err(Violation::new(Rule::ApprovalDenied, detail)
                .with_hint("where this leads needs approval; ask for that itself"))
        }
        Judged::Rewritten(rewritten) => {
            let detail = format!(
                "where the call leads would be rewritten by {}",
                rewritten.policies.join(", ")
            );
            Err(Violation::new(Rule::PolicyDenied, detail))
        }
    }
}

/// No record, no action.
pub(crate) fn record(
    case: Case<'_>,
    target: &Target,
    action: &'static str,
    detail: &str,
) -> Result<(), Violation> {
    let kept = case.gate.text_without_secrets(detail);
    let label = case.request.caller.session().mark().to_string();
    let change = audit::Change {
        action,
        door: case.request.door.as_str(),
        caller: case.request.caller.id(),
        session: &case.request.lane,
        server: target.spec.id.as_str(),
        tool: &target.name,
        call: case.step.call(),
        label: &label,
        detail: kept.as_deref().unwrap_or(detail),
        ..audit::Change::default()
    };
    let recorded = case.gate.ledger.change(&change);
    recorded
        .map(drop)
        .map_err(|error| Violation::new(Rule::LedgerUnavailable, error.to_string()))
}
