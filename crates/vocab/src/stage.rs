//! The fourteen stages of a call, in order. `docs/understand/life-of-a-call.md` and `gateway/src/call.rs` follow this list.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Stage {
    Receive,
    Verify,
    Resolve,
    Admit,
    Bound,
    Weigh,
    Shape,
    Judge,
    Consent,
    Intend,
    Dispatch,
    Inspect,
    Absorb,
    Conclude,
}

impl Stage {
    pub const ALL: [Self; 14] = [
        Self::Receive,
        Self::Verify,
        Self::Resolve,
        Self::Admit,
        Self::Bound,
        Self::Weigh,
        Self::Shape,
        Self::Judge,
        Self::Consent,
        Self::Intend,
        Self::Dispatch,
        Self::Inspect,
        Self::Absorb,
        Self::Conclude,
    ];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Receive => "Receive",
            Self::Verify => "Verify",
            Self::Resolve => "Resolve",
            Self::Admit => "Admit",
            Self::Bound => "Bound",
            Self::Weigh => "Weigh",
            Self::Shape => "Shape",
            Self::Judge => "Judge",
            Self::Consent => "Consent",
            Self::Intend => "Intend",
            Self::Dispatch => "Dispatch",
            Self::Inspect => "Inspect",
            Self::Absorb => "Absorb",
            Self::Conclude => "Conclude",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
