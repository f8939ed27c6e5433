//! As much of an HTTP server as two fixtures need: a thread for each connection, one request after the other.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::thread;

use anyhow::Result;
use serde_json::Value;

/// One request.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    pub(super) body: Vec<u8>,
}

impl Asked {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub(super) fn form(&self) -> BTreeMap<String, String> {
        pairs(&String::from_utf8_lossy(&self.body))
    }
}

/// One answer.
#[derive(Debug)]
pub(super) struct Given {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// More of the body, for as long as somebody may send some.
    more: Option<Receiver<String>>,
}

impl Given {
    /// An event stream that begins with `first`.
    pub(super) fn stream(first: String, more: Receiver<String>) -> Self {
        let mut given = Self::empty(200)
            .with("content-type", "text/event-stream")
            .body(first.into_bytes());
        given.more = Some(more);
        given
    }

    pub(super) fn json(status: u16, json: &Value) -> Self {
        Self::empty(status)
            .with("content-type", "application/json")
            .body(json.to_string().into_bytes())
    }

    pub(super) fn empty(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
            more: None,
        }
    }

    pub(super) fn redirect(to: &str) -> Self {
        Self::empty(302).with("location", to)
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn body(mut self, body: Vec<u8>) -> Self {
        self.body = body;
        self
    }

    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// A running server; it takes no more connections when this is dropped.
#[derive(Debug)]
pub(super) struct Serving {
    origin: String,
    is_over: Arc<AtomicBool>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.origin.trim_start_matches("http://"));
    }
}

impl Serving {
    pub(super) fn start(
        answer: impl Fn(&Asked, &str) -> Given + Send + Sync + 'static,
    ) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let origin = format!("http://{}", listener.local_addr()?);
        let is_over = Arc::new(AtomicBool::new(false));
        let (answer, over, own) = (Arc::new(answer), Arc::clone(&is_over), origin.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::Acquire) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let (answer, own) = (Arc::clone(&answer), own.clone());
                thread::spawn(move || talk(stream, |asked| answer(asked, &own)));
            }
        });
        Ok(Self { origin, is_over })
    }

    pub(super) fn origin(&self) -> &str {
        &self.origin
    }
}

fn talk(stream: TcpStream, answer: impl Fn(&Asked) -> Given) {
    let Ok(mut writer) = stream.try_clone() else {
        return;
    };
    let mut reader = BufReader::new(stream);
    while let Some(asked) = read(&mut reader) {
        let given = answer(&asked);
        let mut head = format!("HTTP/1.1 {} x\r\n", given.status);
        match &given.more {
            Some(_) => head.push_str("connection: close\r\n"),
            None => head.push_str(&format!("content-length: {}\r\n", given.body.len())),
        }
        for (name, value) in &given.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let bytes = [head.into_bytes(), given.body].concat();
        if writer.write_all(&bytes).is_err() {
            return;
        }
        if let Some(more) = given.more {
            while let Ok(event) = more.recv() {
                if writer.write_all(event.as_bytes()).is_err() {
                    return;
                }
            }
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers
        .get("content-length")
        .and_then(|length| length.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    Some(Asked {
        method,
        path: path.to_owned(),
        query: pairs(query),
        headers,
        body,
    })
}

fn pairs(text: &str) -> BTreeMap<String, String> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        Some((decode(name), decode(value)))
    };
    text.split('&').filter_map(pair).collect()
}

fn decode(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        out.push(match byte {
            b'+' => b' ',
            b'%' => match (digit(bytes.next()), digit(bytes.next())) {
                (Some(high), Some(low)) => u8::try_from(high * 16 + low).unwrap_or(b'?'),
                _ => b'?',
            },
            byte => byte,
        });
    }
    String::from_utf8_lossy(&out).into_owned()
}
