//! A web site of the test's own: answers as a script says, and counts who connected and what was asked.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// What was asked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) line: String,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Asked {
    pub(crate) fn path(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }
}

/// What is answered.
pub(crate) enum Answer {
    Bytes(Vec<u8>),
    /// A letter now and then, for ever.
    Drip,
    /// Nothing.
    Silence,
}

type Script = dyn Fn(&Asked) -> Answer + Send + Sync;

#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Site {
    pub(crate) async fn start(script: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, script)
    }

    pub(crate) fn on(
        listener: TcpListener,
        script: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let script: Arc<Script> = Arc::new(script);
        let site = Self {
            port: listener.local_addr().unwrap().port(),
            asked: Arc::default(),
        };
        let asked = Arc::clone(&site.asked);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (asked, script) = (Arc::clone(&asked), Arc::clone(&script));
                tokio::spawn(serve(stream, asked, script));
            }
        });
        site
    }

    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn at(&self, path: &str) -> String {
        format!("http://{}{path}", self.host())
    }

    /// Everything that was asked, in order.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, path: &str) -> usize {
        let asked = self.asked();
        asked.iter().filter(|asked| asked.path() == path).count()
    }
}

async fn serve(mut stream: TcpStream, all: Arc<Mutex<Vec<Asked>>>, script: Arc<Script>) {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            break bytes.len();
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let line = String::from_utf8_lossy(&bytes[..end])
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok())
        .unwrap_or(0);
    while bytes.len() < end + 4 + length && stream.read_buf(&mut bytes).await.unwrap_or(0) > 0 {}
    let asked = Asked {
        line,
        head,
        body: String::from_utf8_lossy(bytes.get(end + 4..).unwrap_or_default()).into_owned(),
    };
    let answer = script(&asked);
    all.lock().unwrap().push(asked);
    match answer {
        Answer::Bytes(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
        }
        Answer::Drip => {
            let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n";
            let _ = stream.write_all(head).await;
            while stream.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Answer::Silence => {
            let mut rest = [0; 64];
            while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
        }
    }
}

pub(crate) fn answer(status: &str, headers: &str, body: &[u8]) -> Answer {
    let mut out = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n",
        body.len()
    )
    .into_bytes();
    out.extend_from_slice(body);
    Answer::Bytes(out)
}

pub(crate) fn html(body: &str) -> Answer {
    answer(
        "200 OK",
        "content-type: text/html; charset=utf-8\r\n",
        body.as_bytes(),
    )
}

pub(crate) fn redirect(to: &str) -> Answer {
    answer("302 Found", &format!("location: {to}\r\n"), b"")
}
