//! Names of tools as a context writes them: one tool, everything under a prefix, or everything.

use std::fmt;

use super::BadPattern;

/// `fs.read`, `fs.*`, `github__*` or `*`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ToolPattern {
    Exact(String),
    /// With its separator, so that `fs.*` never matches `fsx.read`, nor `fs.` alone.
    Prefix(String),
    Any,
}

impl Default for ToolPattern {
    /// Matches nothing: no tool has no name.
    fn default() -> Self {
        Self::Exact(String::new())
    }
}

impl ToolPattern {
    pub fn parse(text: &str) -> Result<Self, BadPattern> {
        let is_name = |name: &str| {
            !name.is_empty()
                && name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
        };
        match text.strip_suffix('*') {
            Some("") => Ok(Self::Any),
            Some(prefix) if !prefix.ends_with('.') && !prefix.ends_with("__") => Err(BadPattern(
                "`*` stands alone, or at the end after a `.` or `__`, as in `fs.*`",
            )),
            Some(prefix) if is_name(prefix.trim_end_matches(['.', '_'])) => {
                Ok(Self::Prefix(prefix.to_owned()))
            }
            None if is_name(text) => Ok(Self::Exact(text.to_owned())),
            _ => Err(BadPattern("a tool is written `fs.read`, `fs.*` or `*`")),
        }
    }

    #[must_use]
    pub fn matches(&self, tool: &str) -> bool {
        match self {
            Self::Exact(name) => !tool.is_empty() && name == tool,
            Self::Prefix(prefix) => tool.len() > prefix.len() && tool.starts_with(prefix.as_str()),
            Self::Any => true,
        }
    }

    /// How closely it describes what it matches; more is closer.
    #[must_use]
    pub fn closeness(&self) -> usize {
        match self {
            Self::Exact(_) => usize::MAX,
            Self::Prefix(prefix) => prefix.len(),
            Self::Any => 0,
        }
    }
}

impl fmt::Display for ToolPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => f.write_str(name),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
            Self::Any => f.write_str("*"),
        }
    }
}
