//! JSON-RPC messages out of a reply's body, whether it is one JSON document or an event stream.

use std::collections::VecDeque;

use anyhow::{Context, Result};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;

/// The messages of one reply, in order. Events without data are skipped, as the protocol's priming events are.
#[derive(Debug)]
pub struct Messages {
    body: Incoming,
    streamed: bool,
    unread: Vec<u8>,
    data: Vec<u8>,
    ready: VecDeque<Value>,
    ended: bool,
}

impl Messages {
    pub(super) fn new(body: Incoming, streamed: bool) -> Self {
        Self {
            body,
            streamed,
            unread: Vec::new(),
            data: Vec::new(),
            ready: VecDeque::new(),
            ended: false,
        }
    }

    /// The next message, or nothing at the end of the body.
    ///
    /// # Errors
    /// When the body breaks off or holds something that is not JSON.
    pub async fn next(&mut self) -> Result<Option<Value>> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Ok(Some(message));
            }
            if self.ended {
                return Ok(None);
            }
            match self.body.frame().await {
                Some(frame) => {
                    if let Ok(bytes) = frame.context("the reply broke off")?.into_data() {
                        self.unread.extend_from_slice(&bytes);
                    }
                }
                None => self.ended = true,
            }
            self.advance()?;
        }
    }

    fn advance(&mut self) -> Result<()> {
        if self.streamed {
            return self.advance_events();
        }
        if self.ended && !self.unread.iter().all(u8::is_ascii_whitespace) {
            self.ready.push_back(parse(&self.unread)?);
        }
        Ok(())
    }

    fn advance_events(&mut self) -> Result<()> {
        while let Some(at) = self.unread.iter().position(|byte| *byte == b'\n') {
            let rest = self.unread.split_off(at + 1);
            let mut line = std::mem::replace(&mut self.unread, rest);
            line.truncate(at);
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            if line.is_empty() {
                let data = std::mem::take(&mut self.data);
                if !data.is_empty() {
                    self.ready.push_back(parse(&data)?);
                }
            } else if let Some(data) = line.strip_prefix(b"data:") {
                if !self.data.is_empty() {
                    self.data.push(b'\n');
                }
                self.data
                    .extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
            }
        }
        Ok(())
    }
}

fn parse(bytes: &[u8]) -> Result<Value> {
    serde_json::from_slice(bytes)
        .with_context(|| format!("not JSON: {}", String::from_utf8_lossy(bytes)))
}
