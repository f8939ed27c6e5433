//! A scripted HTTP server: every request goes to a function that writes whatever it likes.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// One request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) verb: String,
    pub(crate) path: String,
    pub(crate) headers: HashMap<String, String>,
    /// Every header line, so that one sent twice shows.
    pub(crate) lines: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) at: Instant,
}

impl Request {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    pub(crate) fn method(&self) -> String {
        self.json()["method"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Every value of a header.
    pub(crate) fn every(&self, name: &str) -> Vec<&str> {
        self.lines
            .iter()
            .filter(|(line, _)| line == name)
            .map(|(_, value)| value.as_str())
            .collect()
    }
}

/// The way back. Dropping it closes the connection unless a whole response was written.
pub(crate) struct Reply {
    pub(crate) stream: TcpStream,
    keep: bool,
}

impl Reply {
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> bool {
        self.stream
            .write_all(bytes)
            .and_then(|()| self.stream.flush())
            .is_ok()
    }

    pub(crate) fn respond(&mut self, status: u16, headers: &[(&str, &str)], body: &[u8]) {
        let mut head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let mut all = head.into_bytes();
        all.extend_from_slice(body);
        self.keep = self.raw(&all);
    }

    pub(crate) fn json(&mut self, body: &Value) {
        self.respond(
            200,
            &[("content-type", "application/json")],
            body.to_string().as_bytes(),
        );
    }

    /// A JSON-RPC result for this request.
    pub(crate) fn result(&mut self, request: &Request, result: Value) {
        self.json(&json!({"jsonrpc": "2.0", "id": request.json()["id"], "result": result}));
    }

    pub(crate) fn error(
        &mut self,
        status: u16,
        request: &Request,
        code: i64,
        message: &str,
        data: Value,
    ) {
        let body = json!({"jsonrpc": "2.0", "id": request.json()["id"], "error": {"code": code, "message": message, "data": data}});
        self.respond(
            status,
            &[("content-type", "application/json")],
            body.to_string().as_bytes(),
        );
    }

    pub(crate) fn accepted(&mut self) {
        self.respond(202, &[], b"");
    }

    /// Starts an event stream.
    pub(crate) fn stream(&mut self) {
        self.raw(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n");
    }

    pub(crate) fn chunk(&mut self, text: &str) -> bool {
        self.raw(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())
    }

    pub(crate) fn event(&mut self, data: &Value) -> bool {
        self.chunk(&format!("data: {data}\n\n"))
    }

    pub(crate) fn end_stream(&mut self) {
        self.keep = self.raw(b"0\r\n\r\n");
    }

    /// Waits until the other side closes the connection.
    pub(crate) fn wait_for_close(&mut self) {
        let mut byte = [0];
        let _ = self.stream.set_read_timeout(Some(Duration::from_secs(20)));
        let _ = self.stream.read(&mut byte);
    }
}

pub(crate) type Handler = dyn Fn(&Request, &mut Reply) + Send + Sync;

pub(crate) struct Server {
    pub(crate) port: u16,
    log: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    pub(crate) fn start(handler: impl Fn(&Request, &mut Reply) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let port = listener.local_addr().expect("address").port();
        let log = Arc::new(Mutex::new(Vec::new()));
        let handler: Arc<Handler> = Arc::new(handler);
        let seen = Arc::clone(&log);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (handler, seen) = (Arc::clone(&handler), Arc::clone(&seen));
                thread::spawn(move || serve(stream, &*handler, &seen));
            }
        });
        Self { port, log }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// Every request so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.log.lock().expect("log").clone()
    }

    /// Waits until a request satisfies `wanted`.
    pub(crate) fn wait(&self, what: &str, wanted: impl Fn(&Request) -> bool) -> Request {
        let until = Instant::now() + super::PATIENCE;
        loop {
            if let Some(found) = self.requests().into_iter().find(&wanted) {
                return found;
            }
            assert!(Instant::now() < until, "the server never saw {what}");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn serve(stream: TcpStream, handler: &Handler, seen: &Mutex<Vec<Request>>) {
    let _ = stream.set_nodelay(true);
    let Ok(reading) = stream.try_clone() else {
        return;
    };
    let mut reader = BufReader::new(reading);
    loop {
        let Some(request) = read_request(&mut reader) else {
            return;
        };
        seen.lock().expect("log").push(request.clone());
        let Ok(stream) = stream.try_clone() else {
            return;
        };
        let mut reply = Reply {
            stream,
            keep: false,
        };
        handler(&request, &mut reply);
        if !reply.keep {
            let _ = reply.stream.shutdown(std::net::Shutdown::Both);
            return;
        }
    }
}

fn read_request(reader: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split_whitespace();
    let (verb, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = HashMap::new();
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim_end_matches(['\r', '\n']);
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':')?;
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        lines.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers
        .get("content-length")
        .and_then(|length| length.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request {
        verb,
        path,
        headers,
        lines,
        body,
        at: Instant::now(),
    })
}

/// Answers the legacy handshake and refuses discovery; true if it did.
pub(crate) fn legacy(request: &Request, reply: &mut Reply, capabilities: &Value) -> bool {
    match (&*request.verb, &*request.method()) {
        ("GET", _) => reply.respond(405, &[], b""),
        ("DELETE", _) => reply.respond(200, &[], b""),
        ("POST", "server/discover") => {
            reply.error(400, request, -32000, "unsupported", Value::Null)
        }
        ("POST", "initialize") => {
            let body = json!({"jsonrpc": "2.0", "id": request.json()["id"], "result": {"protocolVersion": "2025-11-25",
                "capabilities": capabilities, "serverInfo": {"name": "scripted", "version": "1"}, "instructions": "be kind"}});
            let headers = [
                ("content-type", "application/json"),
                ("mcp-session-id", "s-1"),
            ];
            reply.respond(200, &headers, body.to_string().as_bytes());
        }
        ("POST", "notifications/initialized") => reply.accepted(),
        _ => return false,
    }
    true
}

/// Answers discovery; true if it did.
pub(crate) fn modern(request: &Request, reply: &mut Reply, capabilities: &Value) -> bool {
    match (&*request.verb, &*request.method()) {
        ("POST", "server/discover") => reply.result(
            request,
            json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": capabilities, "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "2"}}}),
        ),
        ("POST", _) => return false,
        _ => reply.respond(405, &[], b""),
    }
    true
}
