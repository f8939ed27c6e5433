//! Why something asked of an upstream did not work.
//!
//! A failure's text names what failed (name lookup, TLS, refused, status, size) and never holds a credential: it is built from
//! hosts, statuses and byte counts, not from requests.

use std::fmt;

use bytes::Bytes;
use wire::{Json, Limits};

/// The word the gate sees in `kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Upstream,
    Timeout,
    Cancelled,
    NotFound,
    Refused,
    TooLarge,
    /// There is no memory left for the answer now.
    NoRoom,
    Invalid,
    /// The upstream does not accept a user's credential.
    Unauthorized,
    /// The upstream wants a login, or another than the one there is.
    Login,
}

impl Kind {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Upstream => "upstream",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::NotFound => "not_found",
            Self::Refused => "refused",
            Self::TooLarge => "too_large",
            Self::NoRoom => "no_room",
            Self::Invalid => "invalid",
            Self::Unauthorized => "unauthorized",
            Self::Login => "login",
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    /// The upstream's JSON-RPC error object, when it answered with one.
    pub(crate) rpc: Option<Bytes>,
    /// The HTTP status behind this failure, which era detection reads.
    pub(crate) status: Option<u16>,
    /// The upstream could not be reached at all.
    pub(crate) unreachable: bool,
}

impl Failure {
    pub(crate) fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
            rpc: None,
            status: None,
            unreachable: false,
        }
    }

    pub(crate) fn upstream(text: impl Into<String>) -> Self {
        Self::new(Kind::Upstream, text)
    }

    pub(crate) fn unreachable(text: impl Into<String>) -> Self {
        Self {
            unreachable: true,
            ..Self::upstream(text)
        }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, text)
    }

    pub(crate) fn too_large(text: impl Into<String>) -> Self {
        Self::new(Kind::TooLarge, text)
    }

    pub(crate) fn refused(text: impl Into<String>) -> Self {
        Self::new(Kind::Refused, text)
    }

    pub(crate) fn not_found(text: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, text)
    }

    pub(crate) fn timeout(text: impl Into<String>) -> Self {
        Self::new(Kind::Timeout, text)
    }

    pub(crate) fn status(self, status: u16) -> Self {
        Self {
            status: Some(status),
            ..self
        }
    }

    /// The same failure, of a call made for `user`: whether their credential was at fault is told apart.
    pub(crate) fn of_user(self, server: &str, user: &str) -> Self {
        let user = clip(user);
        let text = match self.status {
            Some(401) => format!("`{server}` did not accept the credential of `{user}` (HTTP 401)"),
            Some(403) => format!(
                "`{server}` does not let `{user}` do this with the credential they connected (HTTP 403)"
            ),
            _ => return self,
        };
        Self {
            kind: Kind::Unauthorized,
            text,
            rpc: None,
            ..self
        }
    }

    /// The upstream answered with a JSON-RPC error.
    pub(crate) fn rpc(error: Bytes) -> Self {
        let text = match Json::parse(&error, Limits::new(error.len(), 256)) {
            Ok(json) => json
                .get("message")
                .and_then(Json::as_str)
                .map_or_else(String::new, |message| clip(&message)),
            Err(_) => String::new(),
        };
        let text = if text.is_empty() {
            "the server answered with an error".to_owned()
        } else {
            text
        };
        Self {
            rpc: Some(error),
            ..Self::upstream(text)
        }
    }

    /// The code of the JSON-RPC error, if there is one.
    pub(crate) fn code(&self) -> Option<i64> {
        let error = self.rpc.as_ref()?;
        Json::parse(error, Limits::new(error.len(), 256))
            .ok()?
            .get("code")?
            .as_i64()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// At most 300 characters of a text somebody else wrote, on one line.
pub(crate) fn clip(text: &str) -> String {
    const LONGEST: usize = 300;
    let mut out: String = text
        .chars()
        .take(LONGEST)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().nth(LONGEST).is_some() {
        out.push('…');
    }
    out
}
