//! The PROXY protocol of trusted peers: before anything else, a connection says whom it speaks for.
//!
//! Exactly the preamble is read and no byte of what follows. A peer that is to send one and does not is nobody's proxy, and its connection
//! ends.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::Preamble;

const V2: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// The longest line of version 1, with its end.
const MAX_V1: usize = 107;
/// What follows the addresses of version 2 may be this long; it is not looked at.
const MAX_V2: usize = 4096;

fn bad(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Whom a connection speaks for; `None`: for the proxy itself, as its health checks do.
pub(crate) async fn read(
    kind: Preamble,
    stream: &mut (impl AsyncRead + Unpin),
) -> io::Result<Option<IpAddr>> {
    match kind {
        Preamble::Off => Ok(None),
        Preamble::V1 => v1(stream).await,
        Preamble::V2 => v2(stream).await,
    }
}

async fn v1(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<IpAddr>> {
    let mut line = Vec::with_capacity(MAX_V1);
    while !line.ends_with(b"\r\n") {
        if line.len() >= MAX_V1 || (line.len() >= 6 && !line.starts_with(b"PROXY ")) {
            return Err(bad("no PROXY line came"));
        }
        line.push(stream.read_u8().await?);
    }
    let text = std::str::from_utf8(&line).map_err(|_| bad("the PROXY line is no text"))?;
    let words: Vec<&str> = text.trim_end_matches("\r\n").split(' ').collect();
    let address = match words.as_slice() {
        ["PROXY", "UNKNOWN", ..] => return Ok(None),
        ["PROXY", "TCP4", from, to, ports @ ..] if ports.len() == 2 => to
            .parse::<Ipv4Addr>()
            .ok()
            .and(from.parse::<Ipv4Addr>().ok())
            .map(IpAddr::V4),
        ["PROXY", "TCP6", from, to, ports @ ..] if ports.len() == 2 => to
            .parse::<Ipv6Addr>()
            .ok()
            .and(from.parse::<Ipv6Addr>().ok())
            .map(IpAddr::V6),
        _ => None,
    };
    let ports_fit = words.iter().skip(4).all(|port| port.parse::<u16>().is_ok());
    match address.filter(|_| ports_fit) {
        Some(address) => Ok(Some(address.to_canonical())),
        None => Err(bad("the PROXY line cannot be read")),
    }
}

async fn v2(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<IpAddr>> {
    let mut head = [0; 16];
    stream.read_exact(&mut head).await?;
    let [signature @ .., command, family, high, low] = head;
    if &signature != V2 || command >> 4 != 2 {
        return Err(bad("no PROXY preamble came"));
    }
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > MAX_V2 {
        return Err(bad("the PROXY preamble is too long"));
    }
    let mut rest = vec![0; length];
    stream.read_exact(&mut rest).await?;
    let address = match (command & 0xf, family >> 4) {
        // The proxy itself, or a kind of address that is not on a network.
        (0, _) | (1, 0 | 3) => return Ok(None),
        (1, 1) => rest
            .get(..12)
            .and_then(|bytes| bytes.first_chunk::<4>())
            .map(|bytes| IpAddr::V4(Ipv4Addr::from(*bytes))),
        (1, 2) => rest
            .get(..36)
            .and_then(|bytes| bytes.first_chunk::<16>())
            .map(|bytes| IpAddr::V6(Ipv6Addr::from(*bytes))),
        _ => None,
    };
    match address {
        Some(address) => Ok(Some(address.to_canonical())),
        None => Err(bad("the PROXY preamble cannot be read")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn of(kind: Preamble, bytes: &[u8]) -> (Result<Option<String>, String>, Vec<u8>) {
        let mut left = bytes;
        let read = read(kind, &mut left).await;
        let read = read
            .map(|address| address.map(|address| address.to_string()))
            .map_err(|error| error.to_string());
        (read, left.to_vec())
    }

    fn second(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let mut out = V2.to_vec();
        out.extend([command, family]);
        out.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
        out.extend(body);
        out
    }

    #[tokio::test]
    async fn a_preamble_is_read_and_no_byte_after_it() {
        let line = b"PROXY TCP4 192.0.2.1 10.0.0.1 4000 443\r\nGET /";
        let (client, left) = of(Preamble::V1, line).await;
        assert_eq!(
            (client.unwrap().unwrap().as_str(), left.as_slice()),
            ("192.0.2.1", &b"GET /"[..])
        );
        let (client, _) = of(Preamble::V1, b"PROXY TCP6 2001:db8::1 ::1 1 2\r\n").await;
        assert_eq!(client.unwrap().unwrap(), "2001:db8::1");
        assert_eq!(of(Preamble::V1, b"PROXY UNKNOWN\r\n").await.0, Ok(None));

        let body = [192, 0, 2, 9, 10, 0, 0, 1, 0, 1, 0, 2, 3, 0, 0];
        let mut bytes = second(0x21, 0x11, &body);
        bytes.extend(b"GET /");
        let (client, left) = of(Preamble::V2, &bytes).await;
        assert_eq!(
            (client.unwrap().unwrap().as_str(), left.as_slice()),
            ("192.0.2.9", &b"GET /"[..])
        );
        assert_eq!(of(Preamble::V2, &second(0x20, 0, &[])).await.0, Ok(None));
    }

    #[tokio::test]
    async fn what_is_no_preamble_ends_the_connection() {
        for bad in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"PROXY TCP4 192.0.2.1 10.0.0.1 4000\r\n",
            b"PROXY TCP4 192.0.2.1 10.0.0.1 4000 443 7\r\n",
            b"PROXY TCP4 ::1 10.0.0.1 4000 443\r\n",
            b"PROXY TCP4 192.0.2.1 10.0.0.1 x 443\r\n",
            b"PROXY ",
        ] {
            assert!(of(Preamble::V1, bad).await.0.is_err(), "{bad:?}");
        }
        let long = second(0x21, 0x11, &[0; 5000]);
        let short = second(0x21, 0x11, &[1, 2, 3]);
        for bad in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            &long,
            &short,
            &second(0x11, 0x11, &[0; 12]),
        ] {
            assert!(of(Preamble::V2, bad).await.0.is_err());
        }
    }
}
