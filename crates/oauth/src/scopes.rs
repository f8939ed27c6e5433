//! Scopes: which to ask for, and how often to ask for more.

use std::collections::BTreeMap;

use thiserror::Error;

/// A document with more, or with longer ones, is not read.
const MAX_SCOPES: usize = 256;
const MAX_BYTES: usize = 256;
/// A server that is never content must not send a person to the browser again and again.
const MAX_ASKED: u8 = 3;
/// Places whose step-ups are counted.
const MAX_COUNTED: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ScopeError {
    #[error("there are more than {MAX_SCOPES} scopes, or one is longer than {MAX_BYTES} bytes")]
    TooMany,
    #[error("a scope holds a character that scopes cannot have")]
    Characters,
    #[error("the scopes {0} are beyond `scopes_max`")]
    BeyondMax(String),
}

/// Scopes in the order they were named, each once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scopes(Vec<String>);

impl Scopes {
    /// A list with spaces between, as requests and answers have it.
    pub fn parse(text: &str) -> Result<Self, ScopeError> {
        Self::of(text.split(' ').filter(|scope| !scope.is_empty()))
    }

    pub fn of<'a>(scopes: impl IntoIterator<Item = &'a str>) -> Result<Self, ScopeError> {
        let mut list: Vec<String> = Vec::new();
        for scope in scopes {
            let is_token = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
            if scope.is_empty() || !scope.bytes().all(is_token) {
                return Err(ScopeError::Characters);
            }
            if list.iter().any(|known| known == scope) {
                continue;
            }
            if list.len() >= MAX_SCOPES || scope.len() > MAX_BYTES {
                return Err(ScopeError::TooMany);
            }
            list.push(scope.to_owned());
        }
        Ok(Self(list))
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    #[must_use]
    pub fn contains(&self, scope: &str) -> bool {
        self.0.iter().any(|known| known == scope)
    }

    /// These and those.
    pub fn union(&self, more: &Self) -> Result<Self, ScopeError> {
        Self::of(self.iter().chain(more.iter()))
    }

    /// These, if all of them are among `max`.
    pub fn within(self, max: Option<&Self>) -> Result<Self, ScopeError> {
        let beyond: Vec<&str> = max.map_or_else(Vec::new, |max| {
            self.iter().filter(|scope| !max.contains(scope)).collect()
        });
        match beyond.is_empty() {
            true => Ok(self),
            false => Err(ScopeError::BeyondMax(beyond.join(", "))),
        }
    }
}

impl std::fmt::Display for Scopes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

/// Counts how often more was asked for one tool with the same scopes.
#[derive(Debug, Default)]
pub struct StepUp(BTreeMap<(String, String), u8>);

impl StepUp {
    /// The scopes to ask for next: those there are and those the server wants. `None`: it was asked often enough.
    pub fn ask(
        &mut self,
        tool: &str,
        had: &Scopes,
        wanted: &Scopes,
        max: Option<&Scopes>,
    ) -> Result<Option<Scopes>, ScopeError> {
        let all = had.union(wanted)?.within(max)?;
        let mut sorted: Vec<&str> = all.iter().collect();
        sorted.sort_unstable();
        let key = (tool.to_owned(), sorted.join(" "));
        if !self.0.contains_key(&key) && self.0.len() >= MAX_COUNTED {
            return Ok(None);
        }
        let asked = self.0.entry(key).or_insert(0);
        if *asked >= MAX_ASKED {
            return Ok(None);
        }
        *asked += 1;
        Ok(Some(all))
    }

    /// A person said to try again.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}
