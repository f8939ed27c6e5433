//! What a tool does to the world, as its operator says.

use std::{fmt, str::FromStr};

/// Whether calling a tool changes something outside the session. Never read from a server's own hints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Effect {
    /// Only looks.
    Read,
    /// Changes, sends or spends something; also everything nobody has said anything about.
    #[default]
    Consequential,
}

impl Effect {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Consequential => "consequential",
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Effect {
    type Err = UnknownEffect;

    fn from_str(text: &str) -> Result<Self, UnknownEffect> {
        [Self::Read, Self::Consequential]
            .into_iter()
            .find(|effect| effect.as_str() == text)
            .ok_or(UnknownEffect)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownEffect;

impl fmt::Display for UnknownEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an effect is `read` or `consequential`")
    }
}

impl std::error::Error for UnknownEffect {}
