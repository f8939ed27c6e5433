//! Receivers that a test can stop, start and make refuse.

use std::net::TcpListener as PortFinder;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ring::hmac;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use super::position;

/// A port that nobody listens on.
pub(super) fn free_port() -> u16 {
    PortFinder::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// Listens on a port that was used a moment ago.
fn listen(port: u16) -> TcpListener {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(([127, 0, 0, 1], port).into()).unwrap();
    socket.listen(64).unwrap()
}

type Heard = Arc<Mutex<Vec<String>>>;

/// Takes RFC 5424 messages with octet counts.
pub(super) struct SyslogDaemon {
    heard: Heard,
    task: AbortHandle,
}

impl SyslogDaemon {
    pub(super) async fn start(port: u16) -> Self {
        Self::with(port, Vec::new()).await
    }

    /// One that goes on where another was stopped.
    pub(super) async fn with(port: u16, heard: Vec<String>) -> Self {
        let heard: Heard = Arc::new(Mutex::new(heard));
        let listener = listen(port);
        let shared = Arc::clone(&heard);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(hear(stream, Arc::clone(&shared)));
            }
        });
        Self {
            heard,
            task: task.abort_handle(),
        }
    }

    pub(super) fn positions(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    /// Every connection breaks, as when the daemon is killed.
    pub(super) fn stop(self) -> Vec<String> {
        self.task.abort();
        self.positions()
    }
}

async fn hear(stream: TcpStream, heard: Heard) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut count = Vec::new();
        if reader.read_until(b' ', &mut count).await.unwrap_or(0) == 0 {
            return;
        }
        let length: usize = String::from_utf8_lossy(&count)
            .trim()
            .parse()
            .expect("a message begins with its length");
        let mut message = vec![0; length];
        if reader.read_exact(&mut message).await.is_err() {
            return;
        }
        let message = String::from_utf8(message).expect("messages are text");
        let parts: Vec<&str> = message.splitn(8, ' ').collect();
        assert!(
            parts[0].ends_with(">1") && parts[3] == "portcullis" && parts[6] == "-",
            "{message}"
        );
        heard
            .lock()
            .unwrap()
            .push(position(parts[7]).expect("the message is an event"));
    }
}

/// Takes signed POSTs.
#[derive(Clone)]
pub(super) struct WebhookReceiver(Arc<Seen>);

struct Seen {
    secret: String,
    heard: Mutex<Vec<String>>,
    to_refuse: AtomicUsize,
    refused: AtomicUsize,
    forged: AtomicUsize,
}

impl WebhookReceiver {
    pub(super) async fn start(port: u16, secret: &str) -> Self {
        let seen = Self(Arc::new(Seen {
            secret: secret.to_owned(),
            heard: Mutex::default(),
            to_refuse: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            forged: AtomicUsize::new(0),
        }));
        let listener = listen(port);
        let shared = seen.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let seen = shared.clone();
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    while seen.take_one(&mut stream).await.is_some() {}
                });
            }
        });
        seen
    }

    /// The next so many requests are answered with a failure.
    pub(super) fn refuse(&self, requests: usize) {
        self.0.to_refuse.store(requests, Ordering::SeqCst);
    }

    pub(super) fn positions(&self) -> Vec<String> {
        self.0.heard.lock().unwrap().clone()
    }

    pub(super) fn refused(&self) -> usize {
        self.0.refused.load(Ordering::SeqCst)
    }

    pub(super) fn forged(&self) -> usize {
        self.0.forged.load(Ordering::SeqCst)
    }

    /// One request on a connection that is kept.
    async fn take_one(&self, stream: &mut BufReader<TcpStream>) -> Option<()> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await.ok()? == 0 {
                return None;
            }
        }
        let header = |name: &str| {
            let lines = head.lines().filter_map(|line| line.split_once(':'));
            lines
                .into_iter()
                .find(|(key, _)| key.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.trim().to_owned())
        };
        let mut body = vec![0; header("content-length")?.parse().ok()?];
        stream.read_exact(&mut body).await.ok()?;
        let seen = &self.0;
        let signed = self.is_signed(
            header("portcullis-timestamp"),
            header("portcullis-signature"),
            &body,
        );
        let to_refuse = seen.to_refuse.load(Ordering::SeqCst);
        let status = if !signed {
            seen.forged.fetch_add(1, Ordering::SeqCst);
            "401 Unauthorized"
        } else if to_refuse > 0 {
            seen.to_refuse.store(to_refuse - 1, Ordering::SeqCst);
            seen.refused.fetch_add(1, Ordering::SeqCst);
            "503 Service Unavailable"
        } else {
            let body: Value = serde_json::from_slice(&body).expect("the body is JSON");
            let events = body["events"].as_array().expect("a batch of events").iter();
            seen.heard
                .lock()
                .unwrap()
                .extend(events.map(|event| event["position"].as_str().unwrap().to_owned()));
            "200 OK"
        };
        stream
            .write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").as_bytes())
            .await
            .ok()
    }

    fn is_signed(&self, timestamp: Option<String>, signature: Option<String>, body: &[u8]) -> bool {
        let (Some(timestamp), Some(signature)) = (timestamp, signature) else {
            return false;
        };
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_secs();
        let is_fresh = timestamp
            .parse::<u64>()
            .is_ok_and(|then| now.abs_diff(then) < 60);
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.0.secret.as_bytes());
        let digest = hmac::sign(&key, &[timestamp.as_bytes(), b".", body].concat());
        let digits: String = digest
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        is_fresh && signature == format!("v1={digits}")
    }
}
