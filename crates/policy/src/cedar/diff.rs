//! What a candidate bundle would have decided about calls that were recorded.

use super::{bundle::Bundle, decision::Decision, recorded::Recorded, rewrite::rewrite};

/// A recorded call about which two bundles disagree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// The call's id.
    pub id: String,
    pub before: Decision,
    pub after: Decision,
}

/// Every call whose verdict changes from `old` to `new`, in the order given. Two rewrites are the same verdict if they leave the
/// same arguments; which policy decided is not part of a verdict.
#[must_use]
pub fn diff(calls: &[Recorded], old: &Bundle, new: &Bundle) -> Vec<Changed> {
    let mut changed = Vec::new();
    for call in calls {
        let question = call.question();
        let (before, after) = (old.decide(&question), new.decide(&question));
        if before.as_str() != after.as_str() || sent(call, &before) != sent(call, &after) {
            changed.push(Changed {
                id: call.id.clone(),
                before,
                after,
            });
        }
    }
    changed
}

/// The arguments that would be sent.
fn sent(call: &Recorded, decision: &Decision) -> Result<Vec<u8>, String> {
    rewrite(&call.arguments, decision.rewrites())
}
