//! One approval: what a person is asked, and what became of it.

use std::{fmt, str::FromStr};

use crate::StateError;

/// Where an approval stands. `Denied`, `Expired` and `Used` are final.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ApprovalState {
    Pending,
    /// Somebody said yes; the call has not been made yet.
    Approved,
    Denied,
    /// Nobody answered in time, or nobody made the call in time.
    Expired,
    /// The call was made.
    Used,
}

impl ApprovalState {
    pub const ALL: [Self; 5] = [
        Self::Pending,
        Self::Approved,
        Self::Denied,
        Self::Expired,
        Self::Used,
    ];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Used => "used",
        }
    }

    /// Can something still become of it?
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::Approved)
    }
}

impl fmt::Display for ApprovalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no state of an approval: pending, approved, denied, expired or used")]
pub struct ApprovalStateError(String);

impl FromStr for ApprovalState {
    type Err = ApprovalStateError;

    fn from_str(text: &str) -> Result<Self, ApprovalStateError> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| ApprovalStateError(text.to_owned()))
    }
}

/// What to put before a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApproval {
    /// Names everything the yes is bound to. Two calls with the same digest are the same call.
    pub digest: [u8; 32],
    /// The credential id of who calls, and its name.
    pub caller: String,
    pub caller_name: String,
    pub action: String,
    pub server: String,
    pub target: String,
    /// The digest of the pinned definition.
    pub definition: String,
    /// Canonical and in full; see [`crate::ARGUMENTS_LIMIT`].
    pub arguments: String,
    pub label: String,
    /// The calls whose results may have influenced this one.
    pub lineage: Vec<String>,
    pub why: Vec<String>,
    /// The version of the policy bundle that asked.
    pub bundle: String,
    pub asked_ms: u64,
    pub expires_ms: u64,
    /// From the system's source of randomness. The id is made of it.
    pub entropy: [u8; 32],
}

/// What a person was asked. `answered_by` and `reason` are empty and `answered_ms` is 0 until somebody answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    pub id: String,
    pub digest: [u8; 32],
    pub state: ApprovalState,
    pub caller: String,
    pub caller_name: String,
    pub action: String,
    pub server: String,
    pub target: String,
    pub definition: String,
    pub arguments: String,
    pub label: String,
    pub lineage: Vec<String>,
    pub why: Vec<String>,
    pub bundle: String,
    pub asked_ms: u64,
    pub expires_ms: u64,
    pub answered_by: String,
    pub answered_ms: u64,
    pub reason: String,
}

impl Approval {
    pub(crate) fn asked(new: NewApproval, id: String) -> Self {
        Self {
            id,
            digest: new.digest,
            state: ApprovalState::Pending,
            caller: new.caller,
            caller_name: new.caller_name,
            action: new.action,
            server: new.server,
            target: new.target,
            definition: new.definition,
            arguments: new.arguments,
            label: new.label,
            lineage: new.lineage,
            why: new.why,
            bundle: new.bundle,
            asked_ms: new.asked_ms,
            expires_ms: new.expires_ms,
            answered_by: String::new(),
            answered_ms: 0,
            reason: String::new(),
        }
    }

    /// As it is to be shown at `now_ms`: an open one whose time is over has expired, written down or not.
    #[must_use]
    pub fn at(mut self, now_ms: u64) -> Self {
        if self.state.is_open() && self.expires_ms <= now_ms {
            self.state = ApprovalState::Expired;
        }
        self
    }
}

/// The open approval for a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub approval: Approval,
    /// It was not asked before.
    pub is_new: bool,
}

/// The answer was not recorded.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    #[error("there is no approval with this id")]
    Unknown,
    #[error("approval {} has already been answered: it is {}", .0.id, .0.state)]
    AlreadyAnswered(Box<Approval>),
    #[error("approval {} has expired; the call must be made again", .0.id)]
    Expired(Box<Approval>),
    #[error(transparent)]
    State(#[from] StateError),
}

/// The call may not be made on the strength of an approval.
#[derive(Debug, thiserror::Error)]
pub enum SpendError {
    #[error("nobody was asked")]
    NotAsked,
    #[error("approval {} has not been answered yet", .0.id)]
    NotApproved(Box<Approval>),
    #[error("approval {} was denied", .0.id)]
    Denied(Box<Approval>),
    #[error("approval {} has expired", .0.id)]
    Expired(Box<Approval>),
    #[error("approval {} has been used; it was for one call", .0.id)]
    AlreadyUsed(Box<Approval>),
    #[error(transparent)]
    State(#[from] StateError),
}
