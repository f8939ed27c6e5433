//! What the tests share: a worker driven over its pipes, and scripted servers for it to talk to.

pub(crate) mod http;
pub(crate) mod pipes;

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread,
    time::{Duration, Instant},
};

use sandbox::{Child, handover::Sender, jail};
use serde_json::{Value, json};

pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// A running worker. Started the way the gate starts it: empty environment, three pipes and a handover socket.
pub(crate) struct Worker {
    stdin: Option<File>,
    lines: Receiver<String>,
    held: Vec<Value>,
    pub(crate) handover: Sender,
    pub(crate) child: Child,
    next_id: u64,
    paused: Arc<AtomicBool>,
    log: Arc<Mutex<String>>,
}

impl Worker {
    pub(crate) fn start(first_line: &Value) -> Self {
        Self::start_with(&first_line.to_string(), &[])
    }

    /// A worker with no servers of its own, as the gate starts it.
    pub(crate) fn empty() -> Self {
        Self::start(&json!([]))
    }

    pub(crate) fn start_with(first_line: &str, args: &[&str]) -> Self {
        let filter = std::env::var("PORTCULLIS_LOG").unwrap_or_else(|_| "error".to_owned());
        Self::start_logging(first_line, args, &filter)
    }

    /// A worker that logs what the filter lets through.
    pub(crate) fn start_logging(first_line: &str, args: &[&str], filter: &str) -> Self {
        Self::start_role("aggregator", first_line, args, filter)
    }

    /// The worker that posts for sinks.
    pub(crate) fn courier() -> Self {
        Self::start_role("courier", "[]", &[], "error")
    }

    /// The worker that makes the requests of a login.
    pub(crate) fn clerk() -> Self {
        Self::start_role("clerk", "[]", &[], "error")
    }

    fn start_role(role: &str, first_line: &str, args: &[&str], filter: &str) -> Self {
        let spawned = jail::Worker::new(env!("CARGO_BIN_EXE_portcullis-worker"))
            .args(["--role", role])
            .args(args)
            .env("PORTCULLIS_LOG", filter)
            .spawn()
            .expect("the worker starts");
        let (send, lines) = channel();
        let paused = Arc::new(AtomicBool::new(false));
        let pausing = Arc::clone(&paused);
        thread::spawn(move || {
            for line in BufReader::new(File::from(spawned.stdout)).lines() {
                let Ok(line) = line else { return };
                while pausing.load(Ordering::SeqCst) {
                    thread::sleep(Duration::from_millis(5));
                }
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let log = Arc::new(Mutex::new(String::new()));
        let logging = Arc::clone(&log);
        thread::spawn(move || {
            for line in BufReader::new(File::from(spawned.stderr))
                .lines()
                .map_while(Result::ok)
            {
                eprintln!("worker: {line}");
                logging.lock().expect("log").push_str(&line);
            }
        });
        let stdin = Some(File::from(spawned.stdin));
        let mut worker = Self {
            stdin,
            lines,
            held: Vec::new(),
            handover: spawned.handover,
            child: spawned.child,
            next_id: 1,
            paused,
            log,
        };
        worker.raw(first_line.as_bytes());
        worker
    }

    pub(crate) fn raw(&mut self, line: &[u8]) {
        let stdin = self.stdin.as_mut().expect("input is open");
        let mut text = line.to_vec();
        text.push(b'\n');
        stdin.write_all(&text).expect("the worker reads");
    }

    /// Sends a request and returns its id.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.raw(
            json!({"id": id, "method": method, "params": params})
                .to_string()
                .as_bytes(),
        );
        id
    }

    /// The next message that satisfies `wanted`; others are kept for later.
    pub(crate) fn wait(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.held.iter().position(&wanted) {
            return self.held.remove(at);
        }
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    let value = read(&line);
                    if wanted(&value) {
                        return value;
                    }
                    self.held.push(value);
                }
                Err(RecvTimeoutError::Timeout) => {
                    panic!("no {what} in time; held: {:?}", self.held)
                }
                Err(RecvTimeoutError::Disconnected) => panic!(
                    "the worker ended while waiting for {what}; held: {:?}",
                    self.held
                ),
            }
        }
    }

    /// The last line of the answer to `id`.
    pub(crate) fn end(&mut self, id: u64) -> Value {
        self.wait(&format!("end of {id}"), |line| {
            line["id"] == id && line.get("event").is_none() && line.get("part").is_none()
        })
    }

    pub(crate) fn event(&mut self, id: u64, event: &str) -> Value {
        self.wait(&format!("{event} of {id}"), |line| {
            line["id"] == id && line["event"] == event
        })
    }

    /// Asks and waits.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.end(id)
    }

    /// Puts an answer together that came in parts; also returns how many.
    pub(crate) fn assembled(&mut self, id: u64) -> (Value, usize) {
        let mut text = String::new();
        let mut parts = 0;
        loop {
            let piece = self.wait("part", |line| {
                line["id"] == id && line.get("event").is_none()
            });
            let Some(part) = piece["part"].as_str() else {
                return (piece, 0);
            };
            text.push_str(part);
            parts += 1;
            if piece["more"] == false {
                return (serde_json::from_str(&text).expect("parts make JSON"), parts);
            }
        }
    }

    /// How many of the messages kept so far satisfy `wanted`.
    pub(crate) fn count(&self, wanted: impl Fn(&Value) -> bool) -> usize {
        self.held.iter().filter(|line| wanted(line)).count()
    }

    /// Is anything for this id still to come? Looks for a short while only.
    pub(crate) fn silent(&mut self, id: u64, during: Duration) -> bool {
        let until = Instant::now() + during;
        while let Ok(line) = self
            .lines
            .recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            self.held.push(read(&line));
        }
        !self.held.iter().any(|line| line["id"] == id)
    }

    /// Stops reading the worker's output; its pipe fills up.
    pub(crate) fn pause(&mut self) {
        self.paused.store(true, Ordering::SeqCst);
    }

    pub(crate) fn resume(&mut self) {
        self.paused.store(false, Ordering::SeqCst);
    }

    /// What the worker has logged, once it holds this text.
    pub(crate) fn log_with(&self, text: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let log = self.log.lock().expect("log").clone();
            if log.contains(text) {
                return log;
            }
            assert!(Instant::now() < until, "`{text}` was not logged: {log}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// What the worker holds in memory now.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let statm =
            std::fs::read_to_string(format!("/proc/{}/statm", self.child.pid())).expect("statm");
        statm
            .split(' ')
            .nth(1)
            .and_then(|pages| pages.parse::<u64>().ok())
            .expect("pages")
            * 4096
    }

    pub(crate) fn close_input(&mut self) {
        self.stdin = None;
    }

    /// The exit code, once the process has ended.
    pub(crate) fn exit(&mut self) -> Option<i32> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                return status.code();
            }
            assert!(Instant::now() < until, "the worker did not end");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Connects to an HTTP server and returns what it turned out to be.
    pub(crate) fn connect_http(&mut self, server: &str, url: &str, more: Value) -> Value {
        let mut params = json!({"server": server, "generation": 1, "transport": {"http": {"url": url}}, "timeout_ms": 5000});
        merge(&mut params, more);
        self.call("connect", params)
    }

    pub(crate) fn forward(
        &mut self,
        server: &str,
        method: &str,
        params: Value,
        more: Value,
    ) -> u64 {
        let mut body = json!({"server": server, "method": method, "era": "modern", "lane": "l", "caps": {}, "log": null,
            "progress": false, "timeout_ms": 5000, "mrtr": false, "params": params});
        merge(&mut body, more);
        self.ask("forward", body)
    }
}

/// Adds the fields of `more` to `into`, one level of nesting deep.
pub(crate) fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        for (key, value) in more {
            match (into.get_mut(&key), value) {
                (Some(old @ Value::Object(_)), new @ Value::Object(_)) => merge(old, new),
                (_, value) => {
                    into.insert(key, value);
                }
            }
        }
    }
}

/// A line as a value; a part of a longer one as `{"id", "part", "more"}`.
fn read(line: &str) -> Value {
    if let Some(rest) = line.strip_prefix(['+', '=']) {
        let (id, piece) = rest.split_once(' ').expect("a part has an id and a piece");
        return serde_json::json!({ "id": id.parse::<u64>().expect("an id"), "part": piece, "more": line.starts_with('+') });
    }
    serde_json::from_str(line).expect("a line is JSON")
}
