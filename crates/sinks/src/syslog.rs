//! Syslog, RFC 5424, over UDP, TCP (with the octet counts of RFC 6587) or a Unix socket.
//!
//! A syslog daemon acknowledges nothing. So what was written counts only after its connection has lived on for a second, and is written
//! again if it did not; over UDP a daemon that is not there is noticed where the network says so, and a datagram that gets lost on the
//! way is lost. Use TCP or a Unix socket where that matters.

use std::{io, path::Path, time::Duration};

use audit::Event;
use tokio::{
    io::AsyncWriteExt,
    net::{TcpStream, UdpSocket, UnixDatagram, UnixStream},
    time::timeout,
};

use crate::{
    driver::Broken,
    settings::{Address, Facility},
};

const SETTLE: Duration = Duration::from_secs(1);
const APPLICATION: &str = "portcullis";
/// The longest `MSGID`.
const MESSAGE_ID: usize = 32;

#[derive(Debug)]
pub(crate) struct Syslog {
    address: Address,
    facility: Facility,
    timeout: Duration,
    line: Option<Line>,
    host: String,
    process: u32,
}

#[derive(Debug)]
enum Line {
    Udp(UdpSocket),
    Tcp(TcpStream),
    Unix(UnixStream),
    Datagram(UnixDatagram),
}

impl Syslog {
    pub(crate) fn new(address: Address, facility: Facility, timeout: Duration) -> Self {
        let host = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        let host = if host.is_empty() || !host.bytes().all(|byte| byte.is_ascii_graphic()) {
            "-".to_owned()
        } else {
            host
        };
        Self {
            address,
            facility,
            timeout,
            line: None,
            host,
            process: std::process::id(),
        }
    }

    pub(crate) fn settle(&self) -> Duration {
        SETTLE
    }

    /// A daemon that closed the connection, or whose machine says that nobody listens.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        let Some(line) = &self.line else {
            return Err("the connection was lost".to_owned());
        };
        let mut byte = [0; 512];
        let read = match line {
            Line::Udp(socket) => socket
                .take_error()
                .and_then(|error| error.map_or(Ok(1), Err)),
            Line::Datagram(socket) => socket
                .take_error()
                .and_then(|error| error.map_or(Ok(1), Err)),
            Line::Tcp(stream) => stream.try_read(&mut byte),
            Line::Unix(stream) => stream.try_read(&mut byte),
        };
        match read {
            Ok(1..) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Ok(0) => self.lost("the daemon closed the connection"),
            Err(error) => self.lost(&error.to_string()),
        }
    }

    fn lost(&mut self, why: &str) -> Result<(), String> {
        self.line = None;
        Err(why.to_owned())
    }

    pub(crate) async fn deliver(&mut self, events: &[Event]) -> Result<(), Broken> {
        let written = timeout(self.timeout, self.write(events)).await;
        let why = match written {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("it took more than {:?}", self.timeout),
        };
        self.line = None;
        Err(Broken::before_all(format!("{}: {why}", self.place())))
    }

    async fn write(&mut self, events: &[Event]) -> io::Result<()> {
        if self.line.is_none() {
            self.line = Some(connect(&self.address).await?);
        }
        let messages: Vec<String> = events.iter().map(|event| self.message(event)).collect();
        let counted = || {
            messages
                .iter()
                .map(|message| format!("{} {message}", message.len()))
                .collect::<String>()
        };
        match &mut self.line {
            Some(Line::Tcp(stream)) => stream.write_all(counted().as_bytes()).await,
            Some(Line::Unix(stream)) => stream.write_all(counted().as_bytes()).await,
            Some(Line::Udp(socket)) => {
                for message in &messages {
                    socket.send(message.as_bytes()).await?;
                }
                Ok(())
            }
            Some(Line::Datagram(socket)) => {
                for message in &messages {
                    socket.send(message.as_bytes()).await?;
                }
                Ok(())
            }
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// One message. The event is one line of printable text, so nothing in it begins another message.
    fn message(&self, event: &Event) -> String {
        let priority = u16::from(self.facility.number()) * 8 + u16::from(event.severity.syslog());
        let name = event
            .event
            .split_once("::")
            .map_or(event.event.as_str(), |(_, name)| name);
        let id: String = name
            .chars()
            .filter(char::is_ascii_graphic)
            .take(MESSAGE_ID)
            .collect();
        let id = if id.is_empty() { "-" } else { &id };
        let Self { host, process, .. } = self;
        format!(
            "<{priority}>1 {} {host} {APPLICATION} {process} {id} - {}",
            event.time,
            event.line()
        )
    }

    fn place(&self) -> String {
        match &self.address {
            Address::Udp(address) => format!("udp://{address}"),
            Address::Tcp(address) => format!("tcp://{address}"),
            Address::Unix(path) => path.display().to_string(),
        }
    }
}

async fn connect(address: &Address) -> io::Result<Line> {
    Ok(match address {
        Address::Tcp(address) => {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Line::Tcp(stream)
        }
        Address::Udp(address) => {
            let target = tokio::net::lookup_host(address).await?.next();
            let target = target.ok_or_else(|| io::Error::other("the name has no address"))?;
            let any = if target.is_ipv4() {
                "0.0.0.0:0"
            } else {
                "[::]:0"
            };
            let socket = UdpSocket::bind(any).await?;
            // Only a connected socket hears that nobody listens.
            socket.connect(target).await?;
            Line::Udp(socket)
        }
        Address::Unix(path) => unix(path).await?,
    })
}

/// Most daemons take datagrams on their socket; some take a stream.
async fn unix(path: &Path) -> io::Result<Line> {
    let socket = UnixDatagram::unbound()?;
    if socket.connect(path).is_ok() {
        return Ok(Line::Datagram(socket));
    }
    UnixStream::connect(path).await.map(Line::Unix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_the_parts_of_the_standard() {
        let record = audit::Record {
            seq: 7,
            time: "2026-11-15T10:47:05.123Z".into(),
            kind: "refusal".into(),
            verdict: "refused".into(),
            tool: "a\nb".into(),
            ..audit::Record::default()
        };
        let syslog = Syslog::new(
            Address::Udp(String::new()),
            Facility::parse("local0").unwrap(),
            SETTLE,
        );
        let message = syslog.message(&audit::project(&record)[0]);
        let mut parts = message.splitn(8, ' ');
        assert_eq!(parts.next(), Some("<132>1"), "local0, warning");
        assert_eq!(parts.next(), Some("2026-11-15T10:47:05.123Z"));
        assert_eq!(parts.nth(1), Some("portcullis"));
        assert_eq!(parts.nth(1), Some("ToolPolicyViolation"));
        assert_eq!(parts.next(), Some("-"));
        let event: serde_json::Value = serde_json::from_str(parts.next().unwrap()).unwrap();
        assert_eq!(event["tool"], "a\nb");
        assert!(!message.contains('\n'), "one event is one line");
    }
}
