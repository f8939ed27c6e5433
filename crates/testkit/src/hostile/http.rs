//! The hostile upstream on HTTP, written on the socket by hand so that it can break what a library would not.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use super::perform::{After, Player};
use super::script::Script;
use super::wire::Wire;
use super::{Account, Ledger, lock};

/// Where the books can be read from outside; not part of the performance.
pub(super) const LEDGER_PATH: &str = "/ledger";

const MOST_HEAD_BYTES: usize = 64 * 1024;

/// A hostile upstream served from inside a test process; it stops when dropped.
#[derive(Debug)]
pub struct Hostile {
    address: SocketAddr,
    ledger: Arc<Ledger>,
    serving: [AbortHandle; 2],
}

impl Hostile {
    /// Starts one on a loopback port the system picks.
    ///
    /// # Errors
    /// When no loopback port can be bound.
    pub async fn start(script: Script, seed: u64) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let canary = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let ledger = Arc::new(Ledger::default());
        let target = format!("http://localhost:{}/stolen", canary.local_addr()?.port());
        let player = Arc::new(Player {
            script,
            seed,
            ledger: ledger.clone(),
            canary: target,
        });
        let serving = [
            tokio::spawn(serve_http(listener, player)).abort_handle(),
            tokio::spawn(count_visits(canary, ledger.clone())).abort_handle(),
        ];
        Ok(Self {
            address,
            ledger,
            serving,
        })
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// What it was made to do so far.
    pub fn account(&self) -> Account {
        self.ledger.account()
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.serving.iter().for_each(AbortHandle::abort);
    }
}

async fn serve_http(listener: TcpListener, player: Arc<Player>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _peer)) = listener.accept().await {
        let player = player.clone();
        connections.spawn(async move { serve_connection(stream, &player).await });
        while connections.try_join_next().is_some() {}
    }
}

async fn count_visits(canary: TcpListener, ledger: Arc<Ledger>) {
    while canary.accept().await.is_ok() {
        ledger.count(|ledger| &ledger.canary_visits);
    }
}

async fn serve_connection(mut stream: TcpStream, player: &Player) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut unread = Vec::new();
    loop {
        let Some(request) = read_request(&mut stream, &mut unread).await? else {
            return Ok(());
        };
        lock(&player.ledger.authorizations).extend(request.authorization);
        let mut wire = Wire::Http {
            stream,
            streaming: false,
        };
        let after = match (request.method.as_str(), std::str::from_utf8(&request.body)) {
            ("GET", _) if request.path == LEDGER_PATH => {
                let account = serde_json::to_vec(&player.ledger.account())?;
                wire.respond("200 OK", "application/json", "", &account)
                    .await
                    .map(|()| After::Go)?
            }
            ("POST", Ok(text)) => player.play(text, &mut wire).await?,
            ("DELETE", _) => wire
                .respond("200 OK", "text/plain", "", b"")
                .await
                .map(|()| After::Go)?,
            _ => wire
                .respond("405 Method Not Allowed", "text/plain", "", b"")
                .await
                .map(|()| After::Go)?,
        };
        let Wire::Http { stream: back, .. } = wire else {
            return Ok(());
        };
        stream = back;
        if after == After::Close {
            return Ok(());
        }
    }
}

struct Request {
    method: String,
    path: String,
    authorization: Option<String>,
    body: Vec<u8>,
}

/// Reads one request with a length; the gate sends no other kind.
async fn read_request(stream: &mut TcpStream, unread: &mut Vec<u8>) -> io::Result<Option<Request>> {
    let end = loop {
        if let Some(at) = unread.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if unread.len() > MOST_HEAD_BYTES || stream.read_buf(unread).await? == 0 {
            return Ok(None);
        }
    };
    let body_and_more = unread.split_off(end);
    let head = String::from_utf8_lossy(&std::mem::replace(unread, body_and_more)).into_owned();
    let header = |name: &str| {
        head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name)
                .then(|| value.trim().to_owned())
        })
    };
    let length = header("content-length")
        .and_then(|length| length.parse().ok())
        .unwrap_or(0);
    while unread.len() < length {
        if stream.read_buf(unread).await? == 0 {
            return Ok(None);
        }
    }
    let more = unread.split_off(length);
    let body = std::mem::replace(unread, more);
    let mut words = head.split(' ').map(str::to_owned);
    let (method, path) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    Ok(Some(Request {
        method,
        path,
        authorization: header("authorization"),
        body,
    }))
}
