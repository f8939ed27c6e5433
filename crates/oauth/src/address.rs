//! Addresses that OAuth documents name, checked before anything is sent there or opened.

use thiserror::Error;
use url::{Host, Url};

/// No address we follow or show is longer.
const MAX_BYTES: usize = 8 << 10;

/// Whether addresses without TLS are followed. They are on loopback only, and only where the operator's own server is there too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plain {
    Never,
    OnLoopback,
}

/// Why an address is not used. It does not repeat the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum AddressError {
    #[error("the address is longer than {MAX_BYTES} bytes")]
    TooLong,
    #[error("the address has characters that no address has")]
    Characters,
    #[error("the address is not an absolute URL")]
    Unreadable,
    #[error("the address must begin with https://")]
    NotHttps,
    #[error("the address holds a user name or password")]
    UserInfo,
    #[error("the address has a fragment")]
    Fragment,
}

/// An absolute `https` address, or `http` on loopback. It keeps the text that was written, because issuers and resources are compared
/// and sent byte for byte, and the reading of it, because that is where requests go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    text: String,
    url: Url,
}

impl Address {
    pub fn parse(text: &str, plain: Plain) -> Result<Self, AddressError> {
        if text.len() > MAX_BYTES {
            return Err(AddressError::TooLong);
        }
        // A parser of URLs drops tabs and line ends and turns backslashes round; what is so written has two readings.
        let is_odd = |byte: u8| {
            !(0x21..0x7f).contains(&byte) || matches!(byte, b'\\' | b'"' | b'<' | b'>' | b'`')
        };
        if text.bytes().any(is_odd) {
            return Err(AddressError::Characters);
        }
        let url = Url::parse(text).map_err(|_| AddressError::Unreadable)?;
        let plain_is_fine = plain == Plain::OnLoopback && is_loopback(&url);
        match url.scheme() {
            "https" => {}
            "http" if plain_is_fine => {}
            _ => return Err(AddressError::NotHttps),
        }
        if !url.username().is_empty() || url.password().is_some() || authority(text).contains('@') {
            return Err(AddressError::UserInfo);
        }
        if url.fragment().is_some() {
            return Err(AddressError::Fragment);
        }
        Ok(Self {
            text: text.to_owned(),
            url,
        })
    }

    /// As it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// As it is requested and opened: written anew from its parts, so it begins with its scheme.
    #[must_use]
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// For people: without query.
    #[must_use]
    pub fn shown(&self) -> String {
        let mut url = self.url.clone();
        url.set_query(None);
        url.into()
    }

    #[must_use]
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.url)
    }

    #[must_use]
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    #[must_use]
    pub fn same_origin(&self, other: &Self) -> bool {
        self.url.origin() == other.url.origin()
    }

    /// Scheme, host and port, without a slash at the end.
    #[must_use]
    pub fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    pub(crate) fn path(&self) -> &str {
        self.url.path()
    }

    pub(crate) fn query(&self) -> Option<&str> {
        self.url.query()
    }

    /// Another path of the same origin.
    pub(crate) fn at_path(&self, path: &str) -> Self {
        let mut url = self.url.clone();
        url.set_path(path);
        url.set_query(None);
        Self {
            text: url.as_str().to_owned(),
            url,
        }
    }

    /// The same address with more in its query.
    pub(crate) fn with_query(&self, pairs: &[(&str, &str)]) -> Self {
        let mut url = self.url.clone();
        url.query_pairs_mut().extend_pairs(pairs);
        Self {
            text: url.as_str().to_owned(),
            url,
        }
    }
}

/// Which addresses a server may make us connect to: those it could reach from where it is, and those the operator wrote.
#[derive(Debug, Clone)]
pub struct Near {
    hosts: Vec<String>,
    widest: &'static str,
}

impl Near {
    /// Seen from a server, as the configuration has it. A server whose address is a name counts as outside.
    #[must_use]
    pub fn to(server: &Address) -> Self {
        let widest = match server.url.host() {
            _ if server.is_loopback() => "anywhere",
            Some(Host::Ipv4(ip)) if ip.is_private() => "private",
            Some(Host::Ipv6(ip)) if ip.is_unique_local() => "private",
            _ => "public",
        };
        Self {
            hosts: vec![server.host().to_owned()],
            widest,
        }
    }

    /// And a place that the operator wrote.
    #[must_use]
    pub fn and(mut self, place: &Address) -> Self {
        self.hosts.push(place.host().to_owned());
        self
    }

    /// How far inside a request may go: `public`, `private` or `anywhere`.
    #[must_use]
    pub fn reach(&self, to: &Address) -> &'static str {
        match self.hosts.iter().any(|host| host == to.host()) {
            true => "anywhere",
            false => self.widest,
        }
    }
}

fn authority(text: &str) -> &str {
    let rest = text.split_once("://").map_or("", |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    }
}
