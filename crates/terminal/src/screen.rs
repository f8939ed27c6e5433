//! Where a verb's answer goes, and what is said when it has none.

use std::io::{self, Write as _};

use serde::Serialize;

use crate::{
    Exit, Style,
    sheet::{Sheet, harmless},
    style::Paint,
};

/// Where answers go.
pub struct Screen<'a> {
    pub out: &'a mut dyn Sheet,
    pub style: Style,
    pub json: bool,
}

impl std::fmt::Debug for Screen<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen")
            .field("style", &self.style)
            .field("json", &self.json)
            .finish_non_exhaustive()
    }
}

/// Why a verb did not do what it was asked: for standard error, and the exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    pub exit: Exit,
    pub message: String,
    /// The error as the gate wrote it, where it was the gate's.
    pub origin: Option<serde_json::Map<String, serde_json::Value>>,
}

impl Trouble {
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            origin: None,
        }
    }

    pub fn failed(error: impl std::fmt::Display) -> Self {
        Self::new(Exit::Failed, error.to_string())
    }

    /// With the error that the gate answered.
    #[must_use]
    pub fn about(mut self, error: serde_json::Value) -> Self {
        self.origin = if let serde_json::Value::Object(fields) = error {
            Some(fields)
        } else {
            None
        };
        self
    }

    /// With what lies behind the error: what it was about is of little use without why.
    pub fn because(error: &dyn std::error::Error) -> Self {
        let causes = std::iter::successors(error.source(), |cause| cause.source());
        Self::failed(causes.fold(error.to_string(), |message, cause| {
            format!("{message}: {cause}")
        }))
    }

    pub fn usage(error: impl std::fmt::Display) -> Self {
        Self::new(Exit::Usage, error.to_string())
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::failed(error)
    }
}

impl From<api::Problem> for Trouble {
    fn from(problem: api::Problem) -> Self {
        match problem.kind {
            api::Kind::InvalidInput | api::Kind::NotFound => Self::usage(problem),
            _ => Self::failed(problem),
        }
    }
}

impl Screen<'_> {
    /// The document with `--json`, the text without.
    pub fn show(&mut self, document: &impl Serialize, text: &str) -> Result<(), Trouble> {
        if self.json {
            let document = serde_json::to_string_pretty(document).map_err(Trouble::failed)?;
            writeln!(self.out, "{document}")?;
        } else {
            self.out.write_all(text.as_bytes())?;
        }
        Ok(self.out.flush()?)
    }
}

impl Screen<'_> {
    /// Something that the person should know and that is no part of the answer.
    pub fn warn(&mut self, text: &str) {
        // Where nobody listens there is nobody to tell.
        let _ = writeln!(
            io::stderr(),
            "{} {}",
            self.style.paint("note:", Paint::Yellow),
            harmless(text, false)
        );
    }

    /// What a person needs to go on, apart from the answer.
    pub fn say(&self, text: &str) {
        // Where nobody listens there is nobody to tell.
        let _ = io::stderr().write_all(harmless(text, false).as_bytes());
    }

    /// A document that has a format of its own: the same bytes as in a file.
    pub fn machine(&mut self, document: &[u8]) -> Result<(), Trouble> {
        self.out.data(document)?;
        Ok(self.out.flush()?)
    }
}
