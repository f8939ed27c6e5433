//! Breakage, and the one way a call can stop.

use std::fmt;

use crate::Violation;

/// The six codes an agent sees in the error envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    InvalidInput,
    UpstreamUnavailable,
    Timeout,
    PermissionDenied,
    NotFound,
    Internal,
}

impl ErrorCode {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidInput => "invalid_input",
            Self::UpstreamUnavailable => "upstream_unavailable",
            Self::Timeout => "timeout",
            Self::PermissionDenied => "permission_denied",
            Self::NotFound => "not_found",
            Self::Internal => "internal",
        }
    }
}

/// What broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// The upstream is not connected, went away, or spoke nonsense.
    Upstream,
    /// The call's time budget ran out.
    Timeout,
    /// The caller cancelled.
    Cancelled,
    /// The worker died, hung, or answered nonsense.
    Worker,
    /// An executor has the command and did not say in time how it ended.
    DispatchTimeout,
    /// Something of ours.
    Gate,
}

/// Something broke. `detail` is for the operator's log, once; the agent reads only [`Fault::public`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    pub detail: String,
}

impl Fault {
    /// What the agent reads when a server answered with an error of its own.
    pub const SERVER_ERROR: &'static str =
        "The server answered with an error; the gate's operator can see the cause";

    #[must_use]
    pub fn new(kind: FaultKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
        }
    }

    #[must_use]
    pub const fn error_code(&self) -> ErrorCode {
        match self.kind {
            FaultKind::Upstream | FaultKind::Worker => ErrorCode::UpstreamUnavailable,
            FaultKind::Timeout | FaultKind::DispatchTimeout => ErrorCode::Timeout,
            FaultKind::Cancelled | FaultKind::Gate => ErrorCode::Internal,
        }
    }

    /// What the agent reads. Auditors classify by the word `timeout`, so it must appear literally.
    #[must_use]
    pub const fn public(&self) -> &'static str {
        match self.kind {
            FaultKind::Upstream => "The server behind this tool is not available right now",
            FaultKind::Timeout => {
                "timeout: the server did not answer within the call's time budget"
            }
            FaultKind::Cancelled => "The call was cancelled",
            FaultKind::Worker => {
                "The connection to the server was lost while the call was in flight; its outcome is unknown"
            }
            FaultKind::DispatchTimeout => {
                "timeout: the executor did not say in time how the command ended; its outcome is unknown"
            }
            FaultKind::Gate => "Portcullis could not complete the call",
        }
    }
}

/// Why a call did not deliver: we refused, or something failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    Refused(Violation),
    Failed(Fault),
}

impl From<Violation> for Stop {
    fn from(violation: Violation) -> Self {
        Self::Refused(violation)
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault)
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(violation) => write!(f, "refused: {}", violation.public()),
            Self::Failed(fault) => write!(f, "failed: {}", fault.public()),
        }
    }
}
