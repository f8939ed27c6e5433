//! Names of servers and tools, and how they are shown.
//!
//! Routing is a lookup in the catalog's table of exposed names; nothing here decides where a call goes. These rules only keep two
//! different pairs (server, tool) from ever being shown under one name, or under names a person would confuse.

use std::{fmt, sync::Arc};

use crate::is_hidden;

const MAX_SERVER: usize = 64;
const MAX_TOOL: usize = 128;

/// `[a-z0-9]` words joined by single `-` or `_`, at most 64 characters, not reserved.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(Arc<str>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameError {
    Empty,
    TooLong {
        limit: usize,
    },
    BadCharacter {
        character: char,
    },
    /// Starts or ends with a joiner, or has two in a row.
    Joiner,
    Reserved,
}

impl ServerId {
    /// Under this name the ledger and events have what the gate itself offers.
    pub const BUILT_IN: &'static str = "built-in";

    /// Words that name something of ours, so no server may take them.
    pub const RESERVED: [&'static str; 7] = [
        Self::BUILT_IN,
        "builtin",
        "portcullis",
        "mcp",
        "fs",
        "web",
        "cmd",
    ];

    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if text.len() > MAX_SERVER {
            return Err(NameError::TooLong { limit: MAX_SERVER });
        }
        if let Some(character) = text
            .chars()
            .find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '-' | '_'))
        {
            return Err(NameError::BadCharacter { character });
        }
        if text.split(['-', '_']).any(str::is_empty) {
            return Err(NameError::Joiner);
        }
        if Self::RESERVED.contains(&text) {
            return Err(NameError::Reserved);
        }
        Ok(Self(text.into()))
    }

    /// What has the gate's own tools; no server can be called so.
    #[must_use]
    pub fn built_in() -> Self {
        Self(Self::BUILT_IN.into())
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What two ids must not share: `a-b` and `a_b` would be one name to a person.
    #[must_use]
    pub fn folded(&self) -> String {
        self.0.replace('-', "_")
    }
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// A name an upstream gave to a tool or prompt: `[A-Za-z0-9_.-]{1,128}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolName(Arc<str>);

impl ToolName {
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if let Some(character) = text
            .chars()
            .find(|c| !matches!(c, 'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '.' | '-'))
        {
            return Err(NameError::BadCharacter { character });
        }
        if text.len() > MAX_TOOL {
            return Err(NameError::TooLong { limit: MAX_TOOL });
        }
        Ok(Self(text.into()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a name cannot be empty"),
            Self::TooLong { limit } => write!(f, "a name has at most {limit} characters"),
            Self::BadCharacter { character } => write!(
                f,
                "`{}` cannot be part of a name",
                character.escape_default()
            ),
            Self::Joiner => {
                f.write_str("`-` and `_` join words: not first, not last, not two in a row")
            }
            Self::Reserved => f.write_str("this name is reserved for Portcullis itself"),
        }
    }
}

impl std::error::Error for NameError {}

/// How a caller sees tool and prompt names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum View {
    /// `server__tool`
    #[default]
    Double,
    /// `mcp_server_tool`
    Flat,
    /// The upstream's own name; for doors that show one server.
    Raw,
}

impl View {
    #[must_use]
    pub fn expose(self, server: &ServerId, name: &str) -> String {
        match self {
            Self::Double => format!("{server}__{name}"),
            Self::Flat => format!("mcp_{server}_{name}"),
            Self::Raw => name.to_owned(),
        }
    }
}

/// Whether a credential, a user, a department or an agent can be called this: one line of at most 64 characters, words parted by single
/// spaces. Names that only look alike are kept apart by refusing what cannot be seen.
#[must_use]
pub fn is_caller_name(name: &str) -> bool {
    let is_seen = |c: char| !c.is_control() && !is_hidden(c) && (c == ' ' || !c.is_whitespace());
    (1..=64).contains(&name.chars().count())
        && name.chars().all(is_seen)
        && name.split(' ').all(|word| !word.is_empty())
}

/// Splits `server__tool` at the first `__`, for names that are in no table.
#[must_use]
pub fn split_double(name: &str) -> Option<(&str, &str)> {
    name.split_once("__")
        .filter(|(server, tool)| !server.is_empty() && !tool.is_empty())
}

/// A form that names which look alike share. Tool names are ASCII by grammar, so this is the part of Unicode's confusables that is left,
/// and what people do to words without leaving ASCII: digits that pass for letters, and pairs of letters that pass for one. Pairs are
/// written out (`m` as `rn`), so that the form of a form is itself. No two digits fold together: numbered names stay apart.
#[must_use]
pub fn skeleton(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 8);
    for c in name.chars() {
        match c.to_ascii_lowercase() {
            '1' | 'i' | '|' => out.push('l'),
            '0' => out.push('o'),
            '2' => out.push('z'),
            '5' => out.push('s'),
            '8' => out.push('b'),
            'm' => out.push_str("rn"),
            'w' => out.push_str("vv"),
            'd' => out.push_str("cl"),
            // A run of them looks like one.
            '-' | '.' | '_' if out.ends_with('_') => {}
            '-' | '.' | '_' => out.push('_'),
            other => out.push(other),
        }
    }
    out
}
