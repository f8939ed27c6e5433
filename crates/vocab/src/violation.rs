//! Refusals. A violation is not an error: the gate worked, and said no.
//!
//! The catalogue below is the single list of rules; ledger, docs and doors read it. It implements no `Error` on purpose, so a
//! refusal cannot disappear into a chain of causes.

use std::{fmt, time::Duration};

use crate::{ErrorCode, Stage};

/// What the caller can do about a refusal; doors choose statuses by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The request itself was wrong.
    Malformed,
    /// We do not know who is asking.
    Unauthenticated,
    /// We know who is asking, and they may not.
    Forbidden,
    /// There is no such thing, or the caller may not know that there is.
    Hidden,
    /// Not now.
    Busy,
}

macro_rules! catalogue {
    ($($variant:ident: $stage:ident, $kind:ident, $code:ident, $sentence:literal;)*) => {
        /// Every rule that can refuse a call.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule { $($variant),* }

        impl Rule {
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The stable code, as agents and the ledger see it.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant)),* }
            }

            #[must_use]
            pub const fn stage(self) -> Stage {
                match self { $(Self::$variant => Stage::$stage),* }
            }

            #[must_use]
            pub const fn kind(self) -> Kind {
                match self { $(Self::$variant => Kind::$kind),* }
            }

            #[must_use]
            pub const fn error_code(self) -> ErrorCode {
                match self { $(Self::$variant => ErrorCode::$code),* }
            }

            /// The sentence an agent reads.
            #[must_use]
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$variant => $sentence),* }
            }
        }
    };
}

catalogue! {
    Malformed: Receive, Malformed, InvalidInput, "Malformed request";
    Unauthenticated: Verify, Unauthenticated, PermissionDenied, "Unknown or revoked credential";
    SignatureVerificationFailed: Verify, Unauthenticated, PermissionDenied, "The signature does not verify";
    TokenExpired: Verify, Unauthenticated, PermissionDenied, "The token has expired";
    EnvelopeExpired: Verify, Unauthenticated, PermissionDenied, "The envelope's timestamp is outside the accepted window";
    EnvelopeReplayed: Verify, Unauthenticated, PermissionDenied, "This envelope was used before";
    SessionInactive: Verify, Forbidden, PermissionDenied, "Session is not active";
    ToolNotFound: Resolve, Hidden, NotFound, "Unknown tool";
    ServerNotApproved: Admit, Forbidden, PermissionDenied, "Server not approved";
    ToolNotAllowed: Admit, Forbidden, PermissionDenied, "Tool not permitted";
    ToolExplicitlyDenied: Admit, Forbidden, PermissionDenied, "Tool denied by the security context";
    DefinitionChanged: Admit, Forbidden, PermissionDenied, "Tool not permitted until its changed definition is reviewed";
    PermissionDenied: Admit, Forbidden, PermissionDenied, "Permission denied";
    RateLimitExceeded: Admit, Busy, PermissionDenied, "Too many calls";
    ConcurrentExecLimitExceeded: Admit, Busy, PermissionDenied, "Too many calls at once";
    PathTraversalAttempt: Bound, Forbidden, PermissionDenied, "Path traversal attempt";
    PathOutsideBoundary: Bound, Forbidden, PermissionDenied, "Path outside the allowed boundary";
    UnauthorizedVolumeAccess: Bound, Forbidden, PermissionDenied, "This volume is not for this caller";
    DomainNotAllowed: Bound, Forbidden, PermissionDenied, "Domain not allowed";
    CommandNotAllowed: Bound, Forbidden, PermissionDenied, "Command not allowed";
    SubcommandNotAllowed: Bound, Forbidden, PermissionDenied, "Subcommand not allowed";
    ExecTimeoutCeilingExceeded: Bound, Forbidden, PermissionDenied, "Requested time exceeds the ceiling";
    WouldViolateWriteDown: Weigh, Forbidden, PermissionDenied, "Would violate write-down";
    UntrustedInfluence: Weigh, Forbidden, PermissionDenied, "This session has read untrusted data and may not act on it";
    InvalidArguments: Shape, Malformed, InvalidInput, "Invalid tool arguments";
    InvalidParameters: Shape, Malformed, InvalidInput, "Invalid parameters";
    PotentialInjection: Shape, Malformed, InvalidInput, "Potential injection detected";
    PolicyDenied: Judge, Forbidden, PermissionDenied, "Refused by policy";
    ToolNotServed: Judge, Hidden, NotFound, "Nothing here executes this tool";
    ApprovalDenied: Consent, Forbidden, PermissionDenied, "Approval denied";
    ApprovalExpired: Consent, Forbidden, PermissionDenied, "Approval expired";
    LedgerUnavailable: Intend, Busy, Internal, "The ledger cannot record this call, so it was not made";
    QuotaExceeded: Dispatch, Forbidden, PermissionDenied, "The volume has no room for that";
    LoginRequired: Dispatch, Forbidden, PermissionDenied, "The server wants a login first";
    OutputSizeLimitExceeded: Inspect, Forbidden, PermissionDenied, "The result is larger than the security context allows";
    InvalidResult: Inspect, Malformed, UpstreamUnavailable, "The server answered with something that is not a valid result";
    ResultDropped: Inspect, Malformed, UpstreamUnavailable, "The call was carried out, but there was no room for its result: too many answers wait to be read";
    ResultTooLarge: Inspect, Malformed, UpstreamUnavailable, "The result is larger than this gate forwards";
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.code())
    }
}

/// One refusal: the rule, what the agent may read, and what only the operator reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub rule: Rule,
    /// Ends the sentence for the agent, when there is more to say. Never a cause, never a secret.
    pub hint: Option<String>,
    /// For the ledger and the operator: which check, on what values, and what would have allowed it.
    pub detail: String,
    /// What the rule looked at, as the text of a JSON object with the rule's own keys.
    pub payload: Option<String>,
    /// When it is worth trying again.
    pub retry_after: Option<Duration>,
}

impl Violation {
    #[must_use]
    pub fn new(rule: Rule, detail: impl Into<String>) -> Self {
        Self {
            rule,
            hint: None,
            detail: detail.into(),
            payload: None,
            retry_after: None,
        }
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub fn with_payload(mut self, object: impl Into<String>) -> Self {
        self.payload = Some(object.into());
        self
    }

    #[must_use]
    pub const fn with_retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// What the agent reads.
    #[must_use]
    pub fn public(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}: {hint}", self.rule.sentence()),
            None => self.rule.sentence().to_owned(),
        }
    }
}
