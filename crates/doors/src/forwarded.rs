//! `Forwarded` (RFC 7239) and `X-Forwarded-For`, of proxies that the operator trusts.
//!
//! The list is read from the right, where our own proxy wrote, to the first address that is no trusted proxy's. What stands to the left of it
//! is whatever the client liked to write, and is not looked at. Where an entry cannot be read, the reading stops at the proxy that
//! wrote it.
//!
//! **Invariant: nobody but a trusted proxy says whom it speaks for.** Test `what_is_written_left_of_a_stranger_counts_for_nothing`.

use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;

use crate::{Forwarding, Network};

/// Headers that say whom a proxy speaks for, whichever of them is believed.
pub(crate) const NAMES: [&str; 3] = ["forwarded", "x-forwarded-for", "x-real-ip"];
/// Entries that are looked at; nobody has more proxies.
const MOST: usize = 32;

pub(crate) fn client(
    header: Forwarding,
    headers: &HeaderMap,
    trusted: &[Network],
    peer: IpAddr,
) -> IpAddr {
    let name = match header {
        Forwarding::Off => return peer,
        Forwarding::Forwarded => "forwarded",
        Forwarding::XForwardedFor => "x-forwarded-for",
    };
    let Some(lines) = headers
        .get_all(name)
        .iter()
        .map(|value| value.to_str().ok())
        .collect::<Option<Vec<_>>>()
    else {
        return peer;
    };
    let joined = lines.join(",");
    let mut client = peer;
    for entry in joined.rsplit(',').take(MOST) {
        let address = match header {
            Forwarding::Forwarded => node(entry),
            _ => address(entry.trim()),
        };
        let Some(address) = address else {
            return client;
        };
        client = address.to_canonical();
        if !Network::any_contains(trusted, client) {
            return client;
        }
    }
    client
}

/// The `for` of one element. A quoted text holds no comma that matters here: addresses have none.
fn node(element: &str) -> Option<IpAddr> {
    let mut found = None;
    for pair in element.split(';') {
        let (name, value) = pair.trim().split_once('=')?;
        if name.eq_ignore_ascii_case("for") {
            // Twice is once too often.
            if found.is_some() {
                return None;
            }
            let value = match value.strip_prefix('"') {
                Some(quoted) => quoted.strip_suffix('"')?,
                None => value,
            };
            found = Some(address(value)?);
        }
    }
    found
}

/// An address, with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address);
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(address.ip());
    }
    text.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: Forwarding, lines: &[&str]) -> String {
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        let name = match kind {
            Forwarding::Forwarded => "forwarded",
            _ => "x-forwarded-for",
        };
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(name, line.parse().unwrap());
        }
        client(kind, &headers, &trusted, "10.0.0.1".parse().unwrap()).to_string()
    }

    #[test]
    fn what_is_written_left_of_a_stranger_counts_for_nothing() {
        let list = Forwarding::XForwardedFor;
        assert_eq!(read(list, &["192.0.2.1"]), "192.0.2.1");
        assert_eq!(read(list, &["6.6.6.6, 192.0.2.1"]), "192.0.2.1");
        assert_eq!(read(list, &["6.6.6.6, 192.0.2.1, 10.2.3.4"]), "192.0.2.1");
        assert_eq!(read(list, &["6.6.6.6", "192.0.2.1"]), "192.0.2.1");
        assert_eq!(read(list, &["192.0.2.1:4711"]), "192.0.2.1");
        assert_eq!(read(list, &["[2001:db8::1]:80"]), "2001:db8::1");
        assert_eq!(read(list, &["192.0.2.1, nonsense"]), "10.0.0.1");
        assert_eq!(read(list, &["192.0.2.1, nonsense, 10.9.9.9"]), "10.9.9.9");
        assert_eq!(read(list, &[""]), "10.0.0.1");
        assert_eq!(read(list, &[]), "10.0.0.1");
        let standard = Forwarding::Forwarded;
        assert_eq!(read(standard, &["for=192.0.2.1;proto=https"]), "192.0.2.1");
        assert_eq!(
            read(
                standard,
                &["for=6.6.6.6, For=\"[2001:db8::7]:99\";by=10.0.0.1"]
            ),
            "2001:db8::7"
        );
        assert_eq!(read(standard, &["for=unknown"]), "10.0.0.1");
        assert_eq!(read(standard, &["for=192.0.2.1;for=6.6.6.6"]), "10.0.0.1");
        assert_eq!(read(standard, &["proto=https"]), "10.0.0.1");
    }
}
