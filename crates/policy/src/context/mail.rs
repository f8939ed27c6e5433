//! Mail addresses, read the narrow way: what a mail program might take for another address is not one.

use std::fmt;

use super::{BadPattern, domain::Host};

/// One address: what stands before the `@`, in lower case, and its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mailbox {
    local: String,
    pub(crate) host: Host,
}

impl Mailbox {
    /// `ann@example.com`, or `Ann <ann@example.com>`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.chars().any(char::is_control) {
            return None;
        }
        let address = match text.strip_suffix('>') {
            Some(inner) => {
                let (name, address) = inner.split_once('<')?;
                let is_name = !name.contains(['>', ':', ';', '(', ')'])
                    && name.matches('"').count().is_multiple_of(2);
                is_name.then_some(address)?
            }
            None => text,
        };
        let (local, host) = address.split_once('@')?;
        let is_plain = |c: char| {
            !c.is_whitespace()
                && !matches!(
                    c,
                    '"' | '%' | '!' | '<' | '>' | '(' | ')' | ',' | ';' | ':' | '\\' | '@'
                )
        };
        if local.is_empty() || !local.chars().all(is_plain) || host.contains('@') {
            return None;
        }
        Some(Self {
            local: local.to_lowercase(),
            host: Host::of_name(host)?,
        })
    }

    /// Every address of a list in one text; `None` if one of them is not an address.
    pub(crate) fn parse_list(text: &str) -> Option<Vec<Self>> {
        split(text)
            .into_iter()
            .filter(|part| !part.trim().is_empty())
            .map(Self::parse)
            .collect()
    }
}

impl fmt::Display for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.local, self.host)
    }
}

/// Splits at commas and semicolons that stand outside quotes.
fn split(text: &str) -> Vec<&str> {
    let mut is_quoted = false;
    text.split(|c: char| {
        is_quoted ^= c == '"';
        !is_quoted && matches!(c, ',' | ';')
    })
    .collect()
}

/// An account that may be used: an address, `*@example.com` for all of a domain, or a name that is no address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountPattern {
    Address(String),
    /// Everyone at exactly this host.
    At(String),
    Name(String),
}

impl AccountPattern {
    pub fn parse(text: &str) -> Result<Self, BadPattern> {
        const BAD: BadPattern =
            BadPattern("an account is written `ann@example.com`, `*@example.com`, or as its name");
        if let Some(host) = text.strip_prefix("*@") {
            return Host::of_name(host)
                .map(|host| Self::At(host.to_string()))
                .ok_or(BAD);
        }
        match Mailbox::parse(text) {
            Some(mailbox) => Ok(Self::Address(mailbox.to_string())),
            None if !text.is_empty() && !text.contains(['@', '*']) && text.trim() == text => {
                Ok(Self::Name(text.to_lowercase()))
            }
            None => Err(BAD),
        }
    }

    pub(crate) fn matches(&self, account: &str) -> bool {
        let mailbox = Mailbox::parse(account);
        match self {
            Self::Address(own) => mailbox.is_some_and(|mailbox| mailbox.to_string() == *own),
            Self::At(host) => mailbox.is_some_and(|mailbox| mailbox.host.to_string() == *host),
            Self::Name(name) => account.to_lowercase() == *name,
        }
    }
}

impl fmt::Display for AccountPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(text) | Self::Name(text) => f.write_str(text),
            Self::At(host) => write!(f, "*@{host}"),
        }
    }
}
