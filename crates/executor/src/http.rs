//! One POST, by hand: a connection for each, a bound on what comes back, and no more of HTTP than the gate's own door speaks.

use std::{
    io::{self, Read as _, Write as _},
    net::{TcpStream, ToSocketAddrs as _},
    time::Duration,
};

use wire::dispatch::ToExecutor;

/// Longer than the gate keeps anybody waiting.
const PATIENCE: Duration = Duration::from_secs(60);
/// A dispatch with the longest arguments and input there are.
const LARGEST: usize = 16 << 20;
const LONGEST_HEAD: usize = 64 << 10;
const DOOR: &str = "/v1/dispatch-gateway";

/// Where the gate is.
#[derive(Debug)]
pub(crate) struct Gate {
    authority: String,
    path: String,
    token: String,
}

/// What the gate said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: u16,
    pub(crate) answer: ToExecutor,
}

impl Gate {
    /// From `http://HOST[:PORT][/BASE]`.
    pub(crate) fn new(url: &str, token: String) -> Result<Self, String> {
        let Some(rest) = url.strip_prefix("http://") else {
            return Err(format!(
                "`{url}` is not `http://…`; this executor speaks to a gate on the same machine"
            ));
        };
        let (authority, base) = rest.split_once('/').unwrap_or((rest, ""));
        let has_port = authority
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let base = base.trim_matches('/');
        if authority.is_empty() || [authority, base, &token].iter().any(|text| is_odd(text)) {
            return Err("the gate's address or the token cannot be sent".to_owned());
        }
        Ok(Self {
            authority: if has_port {
                authority.to_owned()
            } else {
                format!("{authority}:80")
            },
            path: match base {
                "" => DOOR.to_owned(),
                base => format!("/{base}{DOOR}"),
            },
            token,
        })
    }

    pub(crate) fn post(&self, body: &[u8]) -> io::Result<Said> {
        let mut addresses = self.authority.to_socket_addrs()?;
        let address = addresses
            .next()
            .ok_or_else(|| io::Error::other("the gate has no address"))?;
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.path,
            self.authority,
            self.token,
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        // A gate that refuses a long body may answer before it has read it all.
        let sent = stream.write_all(body);
        let mut answer = Vec::new();
        let most = u64::try_from(LARGEST + LONGEST_HEAD).unwrap_or(u64::MAX);
        let read = stream.take(most).read_to_end(&mut answer);
        match parse(&answer) {
            Some(said) => Ok(said),
            None => Err(sent
                .err()
                .or(read.err())
                .unwrap_or_else(|| io::Error::other("the gate's answer cannot be read"))),
        }
    }
}

fn is_odd(text: &str) -> bool {
    text.bytes().any(|byte| !byte.is_ascii_graphic())
}

/// A whole answer; `None` if it broke off.
fn parse(answer: &[u8]) -> Option<Said> {
    const END: &[u8] = b"\r\n\r\n";
    let end = answer
        .windows(END.len())
        .take(LONGEST_HEAD)
        .position(|part| part == END)?;
    let head = std::str::from_utf8(answer.get(..end)?).ok()?;
    let body = answer.get(end + END.len()..)?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse::<usize>().ok())?;
    let body = body.get(..length)?;
    let answer = match ToExecutor::parse(body, LARGEST) {
        Ok(answer) => answer,
        // Somebody between us and the gate; the status says enough.
        Err(_) if status != 200 => ToExecutor::Error {
            error: "http".to_owned(),
            message: String::from_utf8_lossy(body).chars().take(200).collect(),
        },
        Err(_) => return None,
    };
    Some(Said { status, answer })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_plain_one() {
        let gate = |url: &str| Gate::new(url, "t".into()).map(|gate| (gate.authority, gate.path));
        let at = |authority: &str, path: &str| Ok((authority.to_owned(), path.to_owned()));
        assert_eq!(
            gate("http://127.0.0.1:7878"),
            at("127.0.0.1:7878", "/v1/dispatch-gateway")
        );
        assert_eq!(
            gate("http://gate/base/"),
            at("gate:80", "/base/v1/dispatch-gateway")
        );
        for wrong in [
            "https://gate",
            "gate",
            "http://",
            "http://a b",
            "http://a\r\nX: y",
        ] {
            assert!(gate(wrong).is_err(), "{wrong}");
        }
        assert!(Gate::new("http://a", "to ken".into()).is_err());
    }

    #[test]
    fn an_answer_that_broke_off_is_none() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 32\r\n\r\n{\"type\":\"idle\",\"retry_after_ms\":5}";
        assert!(parse(whole).is_none(), "the length is wrong");
        let whole = b"HTTP/1.1 200 OK\r\ncontent-length: 34\r\n\r\n{\"type\":\"idle\",\"retry_after_ms\":5}";
        let said = parse(whole).unwrap();
        assert_eq!(
            (said.status, said.answer),
            (200, ToExecutor::Idle { retry_after_ms: 5 })
        );
        for cut in 0..whole.len() {
            assert!(parse(&whole[..cut]).is_none(), "{cut}");
        }
        let proxy = b"HTTP/1.1 502 Bad\r\nContent-Length: 2\r\n\r\nno";
        assert_eq!(parse(proxy).unwrap().status, 502);
    }
}
