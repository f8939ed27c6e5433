//! What a credential may do besides calling tools.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Each role may do everything that the one before it may, but for `runtime`: it brings what people say, and sees nothing.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Calls tools, and sees nothing of the gate.
    #[default]
    Client,
    /// Also brings what people say to the agents it runs: it begins their conversations.
    Runtime,
    /// Sees what the gate does, and changes nothing.
    Viewer,
    /// Also answers calls that wait for a person.
    Approver,
    /// Also steers the gate.
    Operator,
}

impl Role {
    pub const ALL: [Self; 5] = [
        Self::Client,
        Self::Runtime,
        Self::Viewer,
        Self::Approver,
        Self::Operator,
    ];

    /// Whether who has this role may do what needs that one.
    #[must_use]
    pub fn may(self, needed: Self) -> bool {
        match needed {
            Self::Client => true,
            Self::Runtime => matches!(self, Self::Runtime | Self::Operator),
            Self::Viewer | Self::Approver | Self::Operator => self >= needed,
        }
    }

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Runtime => "runtime",
            Self::Viewer => "viewer",
            Self::Approver => "approver",
            Self::Operator => "operator",
        }
    }

    /// The role with its article, for a sentence.
    #[must_use]
    pub const fn with_article(self) -> &'static str {
        match self {
            Self::Client => "a client",
            Self::Runtime => "a runtime",
            Self::Viewer => "a viewer",
            Self::Approver => "an approver",
            Self::Operator => "an operator",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownRole;

impl fmt::Display for UnknownRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a role is client, runtime, viewer, approver or operator")
    }
}

impl std::error::Error for UnknownRole {}

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        Self::ALL
            .into_iter()
            .find(|role| role.as_str() == text)
            .ok_or(UnknownRole)
    }
}
