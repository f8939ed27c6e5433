//! What doors ask the gate about signed calls, besides making them.

use callers::{
    ForGate,
    signed::{
        AttestError, AttestProof, AttestRequest, Attested, Ended, Launchable, NewWorkload,
        SessionRequest,
    },
};
use vocab::{Rule, Violation};

use super::Gate;
use crate::Caller;

impl Gate {
    /// The session that a token names; says nothing about who sent it.
    pub fn recognise(&self, token: &str) -> Result<Caller, Violation> {
        let inner = self.inner();
        let seal = &inner.now().seal;
        inner.signed.recognise(seal, token, inner.now_ms())
    }

    /// Whether an envelope that asks for nothing but a list is its session's own; it passes once. That it is not is on record.
    pub fn verify(&self, caller: &Caller, envelope: &[u8]) -> Result<(), Violation> {
        let verified = self.in_force(caller).and_then(|()| match caller.signed() {
            Some(session) => self
                .inner()
                .signed
                .verify(session, envelope, self.inner().now_ms()),
            None => Err(Violation::new(
                Rule::Unauthenticated,
                "an envelope, without a session of signed calls",
            )),
        });
        if let Err(violation) = &verified {
            let change = audit::Change {
                action: "seal.list_refused",
                door: "seal",
                caller: caller.id(),
                violation: violation.rule.code(),
                detail: &violation.detail,
                ..caller
                    .signed()
                    .map(|session| callers::signed::about(session))
                    .unwrap_or_default()
            };
            self.note("seal", caller, &change);
        }
        verified
    }

    /// One by one while they are few, and counted where they are many.
    pub(super) fn note(&self, door: &'static str, caller: &Caller, change: &audit::Change<'_>) {
        let noted = if caller.refusals().may_record() {
            self.ledger().change(change).map(drop)
        } else {
            self.inner()
                .refusals
                .note(self.ledger(), caller.id().to_owned(), door, "other")
                .map(drop)
        };
        if let Err(error) = noted {
            tracing::error!(%error, action = change.action, "a refusal could not be recorded");
        }
    }

    /// Whether a session, and the credential behind it, are in force.
    pub fn in_force(&self, caller: &Caller) -> Result<(), Violation> {
        let inner = self.inner();
        inner.now().admits(caller, inner.now_ms())
    }

    /// Begins a session of signed calls for whoever proves themselves. That it failed is on record too.
    pub async fn attest(
        &self,
        proof: AttestProof<'_>,
        request: AttestRequest,
    ) -> Result<Attested, AttestError> {
        let (inner, now) = (self.inner(), self.inner().now());
        let attested = inner
            .signed
            .attest(&inner.callers, now.under(), proof, request, inner.now_ms())
            .await;
        if let Err(error) = &attested {
            match proof {
                AttestProof::Bearer(caller) => self.record_failure(caller, error),
                AttestProof::Workload => self.strangers("attestation failed"),
            }
        }
        attested
    }

    fn record_failure(&self, caller: &Caller, error: &AttestError) {
        let detail = error.to_string();
        let change = audit::Change {
            action: "seal.attestation_failed",
            door: "seal",
            caller: caller.id(),
            tenant: caller.tenant().unwrap_or_default(),
            detail: &detail,
            ..audit::Change::default()
        };
        self.note("seal", caller, &change);
    }

    /// Begins a session of signed calls for somebody an operator vouches for.
    pub async fn open_signed(
        &self,
        operator: &Caller,
        request: SessionRequest,
    ) -> Result<Attested, AttestError> {
        let (inner, now) = (self.inner(), self.inner().now());
        inner
            .signed
            .open(
                &inner.callers,
                now.under(),
                operator,
                request,
                inner.now_ms(),
            )
            .await
    }

    /// Lets something be launched that will prove itself by the id this returns.
    pub async fn add_workload(
        &self,
        operator: &Caller,
        new: NewWorkload,
    ) -> Result<Launchable, AttestError> {
        let inner = self.inner();
        inner
            .signed
            .add_workload(&inner.rules().contexts, operator, new, inner.now_ms())
            .await
    }

    /// The sessions that exist for this operator: a JSON array.
    #[must_use]
    pub fn signed_sessions_json(&self, operator: &Caller, all: bool) -> Vec<u8> {
        self.inner()
            .signed
            .json(operator, all, self.inner().now_ms())
    }

    #[must_use]
    pub fn signed_session_json(&self, operator: &Caller, execution: &str) -> Option<Vec<u8>> {
        self.inner()
            .signed
            .one_json(operator, execution, self.inner().now_ms())
    }

    /// Ends the session of an execution: its next call is refused, and so is everything after.
    pub async fn revoke_signed(
        &self,
        operator: &Caller,
        execution: &str,
        reason: &str,
    ) -> Result<Option<Ended>, String> {
        let inner = self.inner();
        inner
            .signed
            .revoke(operator, execution, reason, inner.now_ms())
            .await
    }
}
