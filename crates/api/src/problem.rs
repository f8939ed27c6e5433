//! The one error of the operator interface: what kind it is, a stable code, a sentence, and what to do about it.
//!
//! The HTTP door serves it as `application/problem+json` (RFC 9457), the line door as the data of a JSON-RPC error. The kind decides the
//! status; the code is for programs and never changes its meaning; the sentence is for the operator.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Serialize};

use crate::Role;

/// What sort of trouble it is. Each sort has one HTTP status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The request cannot be read.
    Malformed,
    /// The gate does not know who asks.
    Unauthenticated,
    /// Whoever asks may not do this.
    NotAllowed,
    /// There is nothing of that name.
    NotFound,
    /// The path takes another method.
    WrongMethod,
    /// It cannot be done in the state that things are in.
    Conflict,
    /// The request is longer than the gate takes.
    TooLarge,
    /// The request can be read and does not fit.
    InvalidInput,
    /// Too much of this is under way.
    Busy,
    /// Something that the gate needs does not answer.
    Unavailable,
    /// A disk is full.
    StorageFull,
    /// Something broke, and nobody outside can mend it.
    #[default]
    #[serde(other)]
    Broken,
}

impl Kind {
    pub const ALL: [Self; 12] = [
        Self::Malformed,
        Self::Unauthenticated,
        Self::NotAllowed,
        Self::NotFound,
        Self::WrongMethod,
        Self::Conflict,
        Self::TooLarge,
        Self::InvalidInput,
        Self::Busy,
        Self::Unavailable,
        Self::StorageFull,
        Self::Broken,
    ];

    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::Malformed => 400,
            Self::Unauthenticated => 401,
            Self::NotAllowed => 403,
            Self::NotFound => 404,
            Self::WrongMethod => 405,
            Self::Conflict => 409,
            Self::TooLarge => 413,
            Self::InvalidInput => 422,
            Self::Busy => 429,
            Self::Broken => 500,
            Self::Unavailable => 503,
            Self::StorageFull => 507,
        }
    }

    /// The kind that a status stands for; a status of no kind is the nearest general one.
    #[must_use]
    pub fn of_status(status: u16) -> Self {
        let exact = Self::ALL.into_iter().find(|kind| kind.status() == status);
        exact.unwrap_or(if status < 500 {
            Self::Malformed
        } else {
            Self::Broken
        })
    }

    /// The kind in a few words, the same for every problem of the kind.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Malformed => "The request cannot be read",
            Self::Unauthenticated => "A credential is needed",
            Self::NotAllowed => "This credential may not do that",
            Self::NotFound => "There is nothing of that name",
            Self::WrongMethod => "This path takes another method",
            Self::Conflict => "This cannot be done as things are",
            Self::TooLarge => "The request is too long",
            Self::InvalidInput => "The request does not fit",
            Self::Busy => "Too much is under way",
            Self::Unavailable => "Something that is needed does not answer",
            Self::StorageFull => "A disk is full",
            Self::Broken => "Something broke",
        }
    }

    /// The code of a problem that has no code of its own.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Unauthenticated => "unauthenticated",
            Self::NotAllowed => "not_allowed",
            Self::NotFound => "not_found",
            Self::WrongMethod => "wrong_method",
            Self::Conflict => "conflict",
            Self::TooLarge => "too_large",
            Self::InvalidInput => "invalid_input",
            Self::Busy => "busy",
            Self::Unavailable => "unavailable",
            Self::StorageFull => "storage_full",
            Self::Broken => "broken",
        }
    }
}

/// Why an operation was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub kind: Kind,
    pub code: Cow<'static, str>,
    pub sentence: String,
    /// What to do about it; empty where nothing can be said.
    pub fix: String,
}

impl Problem {
    /// What stands behind the last semicolon of a text is what to do about it.
    #[must_use]
    pub fn new(kind: Kind, code: &'static str, text: impl Into<String>) -> Self {
        let text = text.into();
        let (sentence, fix) = match text.rsplit_once("; ") {
            Some((sentence, fix)) => (sentence.to_owned(), fix.to_owned()),
            None => (text, String::new()),
        };
        Self {
            kind,
            code: Cow::Borrowed(code),
            sentence,
            fix,
        }
    }

    #[must_use]
    pub fn invalid(text: impl Into<String>) -> Self {
        Self::new(Kind::InvalidInput, Kind::InvalidInput.code(), text)
    }

    #[must_use]
    pub fn no_server(id: &str) -> Self {
        let text = format!("there is no server `{id}`");
        Self::new(Kind::NotFound, "no_such_server", text)
    }

    #[must_use]
    pub fn needs_role(role: Role) -> Self {
        let text = format!(
            "this needs the credential of {}; an operator makes one with `portcullis token new NAME --role {role}`",
            role.with_article()
        );
        Self::new(Kind::NotAllowed, "needs_role", text)
    }

    /// Something that is written or read failed, in words. A full disk says so itself.
    #[must_use]
    pub fn storage(code: &'static str, text: impl Into<String>) -> Self {
        let text = text.into();
        if is_full(&text) {
            return Self::full(&text);
        }
        Self::new(Kind::Unavailable, code, text)
    }

    /// The disk is full, in the words of whoever noticed.
    #[must_use]
    pub fn full(text: &str) -> Self {
        Self {
            kind: Kind::StorageFull,
            code: Cow::Borrowed(Kind::StorageFull.code()),
            sentence: text.to_owned(),
            fix: "free some space; the gate goes on by itself".to_owned(),
        }
    }

    /// What a panic or a bug of ours left behind.
    #[must_use]
    pub fn broken(error: impl fmt::Display) -> Self {
        Self::new(Kind::Broken, Kind::Broken.code(), error.to_string())
    }

    /// As it is served.
    #[must_use]
    pub fn document(&self) -> ProblemDocument {
        ProblemDocument {
            r#type: format!("urn:portcullis:problem:{}", self.code),
            title: self.kind.title().to_owned(),
            status: self.kind.status(),
            detail: self.sentence.clone(),
            kind: self.kind,
            code: self.code.to_string(),
            fix: self.fix.clone(),
        }
    }
}

/// Whether a text tells of a disk or a quota that is full. Errors become text on their way, and the system's own number stays in it.
#[must_use]
pub fn is_full(text: &str) -> bool {
    FULL.iter().any(|words| text.contains(words))
}

/// No space on the device, and a quota used up, as Linux numbers them.
const FULL: [&str; 2] = ["(os error 28)", "(os error 122)"];

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)?;
        if !self.fix.is_empty() {
            write!(f, "; {}", self.fix)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}

/// A problem as RFC 9457 writes it, with our members beside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ProblemDocument {
    /// `urn:portcullis:problem:` and the code.
    pub r#type: String,
    pub title: String,
    pub status: u16,
    pub detail: String,
    pub kind: Kind,
    /// Stable, for programs.
    pub code: String,
    /// What to do about it, where something can be said.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fix: String,
}
