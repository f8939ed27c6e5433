//! Whose session a token names, and whether a call is that session's own.
//!
//! **Invariant: what was signed is what is called.** One parser reads the envelope, and the call is a slice of it.
//! Tests `every_flipped_byte_is_refused`, `the_ledger_has_who_signed_what`.

use std::time::Duration;

use identity::{Envelope, Expect, Freshness, Spent, TokenError};
use state::SignedStatus;
use vocab::{Rule, Violation};
use wire::Limits;

use super::{Signed, SignedSession};
use crate::{Caller, settings::Seal};

/// Deeper than any limit a door can be given.
const DEEPEST: usize = 512;
/// After which there is room for more envelopes.
const WINDOW: Duration = Duration::from_secs(60);

impl Signed {
    /// The session that an envelope's token names. Says nothing yet about the envelope's signature.
    pub fn recognise(&self, seal: &Seal, token: &str, now_ms: u64) -> Result<Caller, Violation> {
        let terms = &seal.terms;
        let expect = Expect {
            issuer: &terms.issuer,
            audience: terms.audiences.first().map_or("", String::as_str),
        };
        let claims = seal
            .keys
            .verify_cached(&self.cache, token, &expect, now_ms)
            .map_err(|error| match error {
                TokenError::Expired => Violation::new(Rule::TokenExpired, "the token has expired")
                    .with_hint("attest again"),
                error => Violation::new(
                    Rule::SignatureVerificationFailed,
                    format!("the token is not one of ours: {error}"),
                )
                .with_hint("the security token is not valid"),
            })?;
        let sessions = self.sessions.load();
        let caller = sessions.get(&claims.jti).filter(|caller| {
            caller
                .signed()
                .is_some_and(|session| session.is_named_by(&claims))
        });
        caller.cloned().ok_or_else(|| {
            Violation::new(
                Rule::Unauthenticated,
                format!(
                    "the token names session `{}`, which is not known",
                    claims.jti
                ),
            )
            .with_hint("the session is not known; attest again")
        })
    }

    /// Whether this envelope is its session's own, in time, and the first of its kind. Says yes once.
    pub fn verify(
        &self,
        session: &SignedSession,
        envelope: &[u8],
        now_ms: u64,
    ) -> Result<(), Violation> {
        // The door has held it to the gate's limits.
        let limits = Limits::new(envelope.len(), DEEPEST);
        let envelope = Envelope::parse_within(envelope, limits)
            .map_err(|error| Violation::new(Rule::Malformed, error.to_string()))?;
        in_force(session, now_ms)?;
        let seconds = envelope.seconds();
        Freshness::STANDARD
            .check(seconds, now_ms)
            .map_err(|stale| {
                Violation::new(Rule::EnvelopeExpired, stale.to_string())
                    .with_hint("at most 30 seconds off")
            })?;
        if !session.key.verifies(&envelope) {
            let detail = format!(
                "the signature is not one of the key that attested execution `{}`",
                session.execution
            );
            return Err(Violation::new(Rule::SignatureVerificationFailed, detail));
        }
        let spent = self
            .replay
            .spend(&session.id, envelope.signature(), seconds, now_ms);
        spent.map_err(|spent| match spent {
            Spent::Replayed | Spent::BeforeHorizon => {
                Violation::new(Rule::EnvelopeReplayed, spent.to_string())
                    .with_hint("sign each call anew, with an id of its own")
            }
            // What cannot be remembered cannot be told from its repetition.
            Spent::Full => {
                Violation::new(Rule::RateLimitExceeded, spent.to_string()).with_retry_after(WINDOW)
            }
            Spent::Journal(_) => Violation::new(Rule::LedgerUnavailable, spent.to_string()),
        })?;
        // A session that ended meanwhile has forgotten what it accepted.
        in_force(session, now_ms)
    }
}

/// Whether a session is in force now.
pub(crate) fn in_force(session: &SignedSession, now_ms: u64) -> Result<(), Violation> {
    let expired = || {
        Violation::new(
            Rule::TokenExpired,
            format!(
                "the session of execution `{}` has expired",
                session.execution
            ),
        )
    };
    match session.status() {
        SignedStatus::Active if now_ms < session.expires_ms => Ok(()),
        SignedStatus::Active | SignedStatus::Expired => Err(expired().with_hint("attest again")),
        SignedStatus::Revoked => Err(Violation::new(
            Rule::SessionInactive,
            format!(
                "the session of execution `{}` was revoked",
                session.execution
            ),
        )),
    }
}
