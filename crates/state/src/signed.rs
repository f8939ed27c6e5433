//! Sessions of signed calls, and the workloads that may begin one. **Invariant: what has ended stays ended**; the schema holds it
//! too. Tests `a_session_outlives_the_process_and_ends_once`, `revocation_bites_on_the_next_call_and_lasts`.

use crate::{State, StateError};

/// Ended sessions are kept this long for whoever asks what became of one; the ledger keeps them for ever.
const KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// Where a session of signed calls is in its life. Only `Active` can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SignedStatus {
    Active,
    Expired,
    Revoked,
}

impl SignedStatus {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "Active",
            Self::Expired => "Expired",
            Self::Revoked => "Revoked",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::Active, Self::Expired, Self::Revoked]
            .into_iter()
            .find(|status| status.as_str() == text)
    }
}

/// What outlives the process of one session of signed calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedSigned {
    /// The token's `jti`.
    pub id: String,
    pub execution: String,
    pub agent: String,
    pub context: String,
    pub workload: String,
    /// Empty where there are no tenants.
    pub tenant: String,
    /// Under whose id the label of what it has seen is kept.
    pub owner: String,
    /// The credential or workload that proved itself.
    pub attested_by: String,
    /// The agent it is by more than its own word; empty where there is none.
    pub vouched: String,
    pub public_key: [u8; 32],
    /// Tools it may call at most, as patterns; empty for no limit of its own.
    pub patterns: Vec<String>,
    pub created_ms: u64,
    pub expires_ms: u64,
    pub status: SignedStatus,
    pub ended_ms: u64,
    pub reason: String,
}

/// Something that may begin a session by showing its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    pub id: String,
    /// SHA-256 of the secret.
    pub digest: [u8; 32],
    pub context: String,
    pub agent: String,
    pub tenant: String,
    pub made_by: String,
    pub created_ms: u64,
    pub expires_ms: u64,
    pub uses_left: u32,
}

impl State {
    /// Saves a new session; durable when this returns. An earlier one of the same execution is ended in the same step.
    pub async fn begin_signed(&self, new: &SavedSigned) -> Result<(), StateError> {
        let forget_before_ms = new.created_ms.saturating_sub(KEPT_MS);
        self.0.store.begin_signed(new, forget_before_ms).await
    }

    /// Ends a session; durable when this returns. `false`: it had ended before, or never was.
    pub async fn end_signed(
        &self,
        id: &str,
        status: SignedStatus,
        reason: &str,
        now_ms: u64,
    ) -> Result<bool, StateError> {
        self.0.store.end_signed(id, status, reason, now_ms).await
    }

    /// Every session that is kept, ended ones too, oldest first.
    pub async fn signed_sessions(&self) -> Result<Vec<SavedSigned>, StateError> {
        self.0.store.signed_sessions().await
    }

    pub async fn add_workload(&self, new: &Workload) -> Result<(), StateError> {
        self.0.store.add_workload(new).await
    }

    /// Every workload that may still be used.
    pub async fn workloads(&self, now_ms: u64) -> Result<Vec<Workload>, StateError> {
        self.0.store.workloads(now_ms).await
    }

    /// The workload of this id, with one use fewer left, if `proves` says that its secret was shown and it may still be used. A
    /// proven use is gone even if what follows fails; an unproven one writes nothing.
    pub async fn use_workload(
        &self,
        id: &str,
        now_ms: u64,
        proves: impl FnOnce(&Workload) -> bool,
    ) -> Result<Option<Workload>, StateError> {
        let found = self.0.store.workload(id, now_ms).await?;
        let Some(found) = found.filter(proves) else {
            return Ok(None);
        };
        // Others may have used it since; the driver knows whether a use is left.
        let is_used = self.0.store.use_workload(id, now_ms).await?;
        Ok(is_used.then_some(found))
    }
}
