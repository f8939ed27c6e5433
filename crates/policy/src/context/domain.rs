//! Hosts of addresses, compared on label boundaries and only after both sides were normalised the way a browser does it.
//!
//! An address that two programs could take to two places (a user name before the host, a backslash, an encoded host, a letter whose
//! encoding changed between revisions of IDNA) has no host here, so it is refused wherever hosts are looked at.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::fmt;

use url::Url;

use super::BadPattern;

/// A host in its one spelling, and the port the address names or implies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    name: Name,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    /// Lower-case ASCII without a final dot.
    Domain(String),
    Ip(IpAddr),
}

impl Host {
    /// The host of a web address; otherwise, why it has none.
    pub(crate) fn of_url(text: &str) -> Result<Self, &'static str> {
        let lower = text.get(..8).unwrap_or(text).to_ascii_lowercase();
        let Some(rest) = ["http://", "https://"]
            .iter()
            .find(|scheme| lower.starts_with(**scheme))
            .and_then(|scheme| text.get(scheme.len()..))
        else {
            return Err("it does not begin with `http://` or `https://`");
        };
        if text
            .chars()
            .any(|c| c.is_control() || c.is_whitespace() || c == '\\')
        {
            return Err("it holds a space, a backslash or a control character");
        }
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.is_empty() || authority.contains(['@', '%']) {
            return Err("its host is missing, encoded, or stands behind a user name");
        }
        if is_ambiguous(authority) {
            return Err("its host has a letter that programs encode differently");
        }
        let url = Url::parse(text).map_err(|_| "it is not a web address")?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("it carries a user name");
        }
        let name = name_of(url.host()).ok_or("its host is not a proper name")?;
        Ok(Self {
            name,
            port: url.port_or_known_default(),
        })
    }

    /// A bare host name, as in a mail address or in the configuration.
    pub(crate) fn of_name(text: &str) -> Option<Self> {
        let is_plain = |c: char| {
            !(c.is_control()
                || c.is_whitespace()
                || matches!(c, '@' | '%' | '\\' | '/' | '?' | '#' | '*'))
        };
        if text.is_empty() || !text.chars().all(is_plain) || is_ambiguous(text) {
            return None;
        }
        let host = url::Host::parse(text).ok()?;
        let host = match &host {
            url::Host::Domain(domain) => url::Host::Domain(domain.as_str()),
            url::Host::Ipv4(ip) => url::Host::Ipv4(*ip),
            url::Host::Ipv6(ip) => url::Host::Ipv6(*ip),
        };
        Some(Self {
            name: name_of(Some(host))?,
            port: None,
        })
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Name::Domain(domain) => f.write_str(domain),
            Name::Ip(ip) => write!(f, "{ip}"),
        }
    }
}

/// Encoded one way by the older IDNA and another way by the newer: sharp s, final sigma, the joiners.
fn is_ambiguous(host: &str) -> bool {
    host.contains(['\u{df}', '\u{1e9e}', '\u{3c2}', '\u{200c}', '\u{200d}'])
}

fn name_of(host: Option<url::Host<&str>>) -> Option<Name> {
    Some(match host? {
        url::Host::Domain(domain) => {
            let domain = domain.strip_suffix('.').unwrap_or(domain);
            let is_proper = domain.len() <= 253
                && domain
                    .split('.')
                    .all(|label| (1..=63).contains(&label.len()));
            is_proper.then(|| Name::Domain(domain.to_ascii_lowercase()))?
        }
        url::Host::Ipv4(ip) => Name::Ip(ip.into()),
        url::Host::Ipv6(ip) => Name::Ip(plain(ip)),
    })
}

/// An IPv4 address in IPv6 clothes is that IPv4 address.
fn plain(ip: Ipv6Addr) -> IpAddr {
    ip.to_ipv4_mapped()
        .map_or(IpAddr::V6(ip), |ip: Ipv4Addr| IpAddr::V4(ip))
}

/// `example.com` and what is under it; `*.example.com`, only what is under it; `.example.com`, like the first; an IP address; `*`.
/// With `:443` at its end, on that port only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainPattern {
    text: String,
    kind: Kind,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Any,
    Ip(IpAddr),
    Domain { name: String, is_below_only: bool },
}

impl DomainPattern {
    pub fn parse(text: &str) -> Result<Self, BadPattern> {
        const BAD: BadPattern = BadPattern(
            "a domain is written `example.com`, `*.example.com`, `192.0.2.1` or `*`, without scheme or path",
        );
        let is_bare_v6 = text.parse::<Ipv6Addr>().is_ok();
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !is_bare_v6 && !port.ends_with(']') => {
                (host, Some(port.parse().map_err(|_| BAD)?))
            }
            _ => (text, None),
        };
        if host == "*" {
            return Ok(Self {
                text: text.to_owned(),
                kind: Kind::Any,
                port,
            });
        }
        let below = host.strip_prefix("*.");
        let bare = below.or_else(|| host.strip_prefix('.')).unwrap_or(host);
        let bare = if is_bare_v6 {
            format!("[{bare}]")
        } else {
            bare.to_owned()
        };
        let kind = match Host::of_name(&bare).ok_or(BAD)?.name {
            Name::Ip(_) if bare.len() != host.len() && !is_bare_v6 => return Err(BAD),
            Name::Ip(ip) => Kind::Ip(ip),
            Name::Domain(name) => Kind::Domain {
                name,
                is_below_only: below.is_some(),
            },
        };
        Ok(Self {
            text: text.to_owned(),
            kind,
            port,
        })
    }

    pub(crate) fn matches(&self, host: &Host) -> bool {
        if self.port.is_some() && self.port != host.port {
            return false;
        }
        match (&self.kind, &host.name) {
            (Kind::Any, _) => true,
            (Kind::Ip(own), Name::Ip(ip)) => own == ip,
            (
                Kind::Domain {
                    name,
                    is_below_only,
                },
                Name::Domain(domain),
            ) => match domain.strip_suffix(name.as_str()) {
                Some("") => !is_below_only,
                Some(rest) => rest.ends_with('.'),
                None => false,
            },
            _ => false,
        }
    }
}

impl fmt::Display for DomainPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
