//! Why a login does not go on: for people, with the step, the place and what the other side called it.

use std::fmt;

use thiserror::Error;

use crate::{Address, AddressError, ScopeError};

/// What a request was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    ResourceMetadata,
    ServerMetadata,
    Registration,
    Authorization,
    Assertion,
    Token,
    Renewal,
    Revocation,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ResourceMetadata => "reading what the server says of its authorization server",
            Self::ServerMetadata => "reading the authorization server's metadata",
            Self::Registration => "registering as a client",
            Self::Authorization => "asking for authorization",
            Self::Assertion => "exchanging the identity token",
            Self::Token => "getting a token",
            Self::Renewal => "renewing the login",
            Self::Revocation => "revoking the login",
        })
    }
}

/// Why a login failed. Printing one shows no code, token or state, and no query of an address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    #[error("{step}: {place} answered with HTTP {status}")]
    Status {
        step: Step,
        place: String,
        status: u16,
    },
    #[error("{step}: {place} cannot be reached: {why}")]
    Unreachable {
        step: Step,
        place: String,
        why: String,
    },
    #[error("{step}: the answer of {place} cannot be used: {why}")]
    Unusable {
        step: Step,
        place: String,
        why: &'static str,
    },
    #[error("{step}: {place} refused with `{}`{}", theirs(.error), described(.description))]
    Refused {
        step: Step,
        place: String,
        error: String,
        description: Option<String>,
    },
    #[error("{field}: {why}")]
    Address {
        field: &'static str,
        why: AddressError,
    },
    #[error("the server's metadata is for `{}`, and not for `{configured}`; nothing was sent there", theirs(.named))]
    OtherResource { named: String, configured: String },
    #[error(
        "the server says nothing of an authorization server; older servers keep it at their own origin, which `--older-discovery` accepts"
    )]
    NoResourceMetadata,
    #[error("no metadata of the authorization server `{}` was found, or none that says it is of that issuer", theirs(.issuer))]
    NoServerMetadata { issuer: String },
    #[error("the server no longer names the issuer `{}`; it names {}", theirs(.wanted), listed(.named))]
    IssuerNotListed { wanted: String, named: Vec<String> },
    #[error(
        "the authorization server does not offer PKCE with S256; `pkce: assumed` sends it all the same"
    )]
    NoPkce,
    #[error("the authorization server registers no clients by itself: register one there with the redirect addresses {} and set `client_id`", .redirects.join(" and "))]
    ClientNeeded { redirects: Vec<String> },
    #[error("`client_id` is bound to the issuer `{}`, and the server now names `{}`", theirs(.bound), theirs(.named))]
    ClientOfOtherIssuer { bound: String, named: String },
    #[error(
        "the answer names another issuer than the one that was asked, or none; nothing of it was used"
    )]
    OtherIssuer,
    #[error("the answer is not for this login, or was used before")]
    OtherState,
    #[error(
        "paste the whole address you ended at, or everything after its `?`; a code alone cannot be checked"
    )]
    CodeAlone,
    #[error(transparent)]
    Scopes(#[from] ScopeError),
    #[error("the key cannot sign")]
    Unsigned,
    #[error("the login is not at this step")]
    OutOfTurn,
}

impl Problem {
    pub(crate) fn unusable(step: Step, place: &Address, why: &'static str) -> Self {
        Self::Unusable {
            step,
            place: place.shown(),
            why,
        }
    }

    pub(crate) fn address(field: &'static str) -> impl FnOnce(AddressError) -> Self {
        move |why| Self::Address { field, why }
    }
}

fn described(description: &Option<String>) -> String {
    description
        .as_ref()
        .map(|text| format!(" (its words: {})", theirs(text)))
        .unwrap_or_default()
}

fn listed(names: &[String]) -> String {
    let names: Vec<String> = names
        .iter()
        .map(|name| format!("`{}`", theirs(name)))
        .collect();
    names.join(", ")
}

/// Text that somebody else wrote, as it may be shown: printable, and at most 500 characters.
#[must_use]
pub fn theirs(text: &str) -> String {
    const LONGEST: usize = 500;
    // Right-to-left marks and the like turn a line round without being control characters.
    let is_plain = |c: char| {
        !c.is_control()
            && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let mut out: String = text
        .chars()
        .take(LONGEST)
        .map(|c| if is_plain(c) { c } else { '\u{fffd}' })
        .collect();
    if text.chars().nth(LONGEST).is_some() {
        out.push('…');
    }
    out
}
