//! What a client answers in the middle of a call: judged as the call would be that brought the answer along, and on record.
//!
//! In the newer protocol a client makes its call again with `inputResponses`, and that call passes every stage. In the older one the
//! answer comes while the call is under way; this is where it passes them.
//!
//! **Invariant: whatever a client causes to be sent is weighed.** Answers and cancels are weighed as calls are, and
//! task methods as their tools. Tests `an_answer_is_judged_and_on_record_before_it_leaves`,
//! `a_cancel_is_weighed_like_a_call`, `a_task_is_judged_as_its_tool`.

use std::sync::Arc;

use callers::ForGate;
use calls::receive::receive;
use policy::Judged;
use upstreams::catalog::Target;
use vocab::{Rule, Violation};

use super::{
    Case, Count,
    consent::{Decide, settle_rewrite, without_secrets},
};
use crate::Answer;

/// Admit to Judge. A person who approved the call approved that its server may ask. Where nobody was asked, and only the answer makes it
/// a call that somebody would be asked about, it is refused.
pub(crate) fn judge(
    case: Case<'_>,
    target: &Arc<Target>,
    decide: Decide,
    key: &str,
    answer: &Answer,
) -> Result<(), Violation> {
    let received = receive(case.request)?;
    let judged = |text: &[u8]| {
        let case = Case {
            answer: Some((key, text)),
            ..case
        };
        let decided = decide(case, &received, target, Count::Look)?;
        Ok::<_, Violation>(settle_rewrite(case, target, decided, decide)?.judged)
    };
    match judged(answer.text())? {
        Judged::Permitted(_) => Ok(()),
        Judged::Asked(_) if case.is_approved || matches!(judged(b"")?, Judged::Asked(_)) => Ok(()),
        Judged::Asked(asked) => {
            let detail = format!(
                "an answer in the middle of the call would need a person's word: {}",
                without_secrets(case, asked.why).join("; ")
            );
            Err(Violation::new(Rule::ApprovalDenied, detail)
                .with_hint("an answer to the server needs approval; make the call again"))
        }
        Judged::Rewritten(_) => Err(Violation::new(
            Rule::PolicyDenied,
            "a rewritten call would be rewritten again",
        )),
    }
}

/// No record, no action.
pub(crate) fn record(
    case: Case<'_>,
    target: &Target,
    key: &str,
    answer: &Answer,
) -> Result<(), Violation> {
    let text = answer.text();
    let digest = blake3::hash(text).to_hex();
    let key: String = audit::printable(key).chars().take(64).collect();
    let detail = format!("answer `{key}`: {} bytes, blake3 {digest}", text.len());
    let label = case.request.caller.session().mark().to_string();
    let change = audit::Change {
        action: "call.answered",
        door: case.request.door.as_str(),
        caller: case.request.caller.id(),
        session: &case.request.lane,
        server: target.spec.id.as_str(),
        tool: &target.name,
        call: case.step.call(),
        label: &label,
        detail: &detail,
        ..audit::Change::default()
    };
    let recorded = case.gate.ledger.change(&change);
    recorded
        .map(drop)
        .map_err(|error| Violation::new(Rule::LedgerUnavailable, error.to_string()))
}
