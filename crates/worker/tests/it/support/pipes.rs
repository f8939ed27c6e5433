//! A scripted stdio server: the test holds the other ends of the two pipes it hands to the worker.

use std::{
    io::{BufRead, BufReader, PipeReader, PipeWriter, Write, pipe},
    os::fd::AsFd,
    sync::mpsc::{Receiver, channel},
    thread,
};

use sandbox::handover::Sender;
use serde_json::{Value, json};

pub(crate) struct PipeServer {
    /// What the worker writes to the server's standard input.
    pub(crate) lines: Receiver<Value>,
    pub(crate) stdout: Option<PipeWriter>,
}

impl PipeServer {
    /// Makes the pipes and hands the worker its ends.
    pub(crate) fn hand_over(sender: &Sender, tag: u64) -> Self {
        let (stdin_read, stdin_write): (PipeReader, PipeWriter) = pipe().expect("pipe");
        let (stdout_read, stdout_write) = pipe().expect("pipe");
        sender
            .send(tag, b"", &[stdin_write.as_fd(), stdout_read.as_fd()])
            .expect("handed over");
        let (send, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdin_read).lines().map_while(Result::ok) {
                let value = serde_json::from_str(&line).expect("the worker writes JSON");
                if send.send(value).is_err() {
                    return;
                }
            }
        });
        Self {
            lines,
            stdout: Some(stdout_write),
        }
    }

    pub(crate) fn read(&self) -> Value {
        self.lines
            .recv_timeout(super::PATIENCE)
            .expect("a line from the worker")
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.stdout
            .as_mut()
            .expect("open")
            .write_all(bytes)
            .expect("the worker reads");
    }

    pub(crate) fn write(&mut self, message: &Value) {
        self.raw(format!("{message}\n").as_bytes());
    }

    pub(crate) fn result(&mut self, request: &Value, result: Value) {
        self.write(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    /// Plays a legacy server's side of the handshake.
    pub(crate) fn greet(&mut self, capabilities: &Value) {
        let probe = self.read();
        assert_eq!(probe["method"], "server/discover");
        self.write(&json!({"jsonrpc": "2.0", "id": probe["id"], "error": {"code": -32601, "message": "no"}}));
        let opening = self.read();
        assert_eq!(opening["method"], "initialize");
        self.result(
            &opening,
            json!({"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": {"name": "p", "version": "1"}}),
        );
        assert_eq!(self.read()["method"], "notifications/initialized");
    }
}
