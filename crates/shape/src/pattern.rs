//! A pattern that ships with the program, compiled when a text first needs it.
//!
//! Most texts need none, so a gate that waits for calls holds none of them either. A test compiles each one; should one still fail to
//! compile, whoever asks gets `None` and must take that for a match, never for nothing.

use std::{borrow::Cow, sync::OnceLock};

use regex::Regex;

#[derive(Debug)]
pub(crate) struct Pattern {
    text: Cow<'static, str>,
    compiled: OnceLock<Option<Regex>>,
}

impl Pattern {
    pub(crate) fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            text: text.into(),
            compiled: OnceLock::new(),
        }
    }

    pub(crate) fn get(&self) -> Option<&Regex> {
        self.compiled
            .get_or_init(|| Regex::new(&self.text).ok())
            .as_ref()
    }
}
