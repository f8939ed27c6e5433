//! Requests that are built once and stamped with a fresh id per call.

use std::io::Write as _;

use anyhow::{Context, Result};

use super::texts::Text;

/// Ids have a fixed number of digits, so that a request's length never changes.
pub const FIRST_ID: u64 = 1_000_000_000;
const DIGITS: usize = 10;
/// The tool that runs a command; what it is asked to run does nothing.
const COMMAND: &str = "cmd.run";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    Legacy,
    Modern,
}

/// What a call is addressed to.
#[derive(Debug, Clone)]
pub struct Address {
    /// `HOST:PORT`
    pub authority: String,
    pub path: String,
    pub bearer: Option<String>,
    pub tool: String,
    pub era: Era,
    /// What its calls are about.
    pub text: Text,
    /// How long an answer is asked for; as long as the call where this is `None`.
    pub fill: Option<usize>,
}

impl Address {
    /// Reads `http://HOST:PORT/PATH`.
    pub fn new(url: &str, bearer: Option<&str>, tool: &str, era: Era) -> Result<Self> {
        let rest = url
            .strip_prefix("http://")
            .with_context(|| format!("`{url}` is not an http:// address"))?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let owned = |text: &str| text.to_owned();
        Ok(Self {
            authority: owned(authority),
            path: format!("/{path}"),
            bearer: bearer.map(owned),
            tool: owned(tool),
            era,
            text: Text::Prose,
            fill: None,
        })
    }

    /// An HTTP request with this body.
    #[must_use]
    pub fn request(&self, method: &str, session: Option<&str>, body: &[u8]) -> Vec<u8> {
        let Self {
            authority, path, ..
        } = self;
        let mut head = format!(
            "POST {path} HTTP/1.1\r\nHost: {authority}\r\nContent-Type: application/json\r\n"
        );
        head.push_str("Accept: application/json, text/event-stream\r\n");
        if let Some(bearer) = &self.bearer {
            head.push_str(&format!("Authorization: Bearer {bearer}\r\n"));
        }
        if let Some(session) = session {
            head.push_str(&format!("Mcp-Session-Id: {session}\r\n"));
        }
        match self.era {
            Era::Legacy => head.push_str("MCP-Protocol-Version: 2025-11-25\r\n"),
            Era::Modern => {
                head.push_str(&format!(
                    "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n"
                ));
                if method == "tools/call" {
                    head.push_str(&format!("Mcp-Name: {}\r\n", self.tool));
                }
            }
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        [head.as_bytes(), body].concat()
    }

    /// A call of the echo tool with `size` bytes of text, or of the tool that fills, over HTTP.
    #[must_use]
    pub fn call(&self, session: Option<&str>, size: usize) -> Template {
        let body = match self.fill {
            _ if self.tool == COMMAND => body_with(
                &self.tool,
                self.era,
                &format!(r#""command":"true","stdin":"{FIRST_ID}""#),
            ),
            None => call_body(&self.tool, self.era, self.text, size),
            Some(bytes) => body(
                &self.tool,
                self.era,
                &format!(r#","bytes":{bytes},"of":"{}""#, self.text.name()),
                "",
            ),
        };
        Template::new(self.request("tools/call", session, &body))
    }
}

/// A JSON-RPC call of `tool` with `size` bytes of text; the id and the first digits of the text are to be stamped.
#[must_use]
pub fn call_body(tool: &str, era: Era, text: Text, size: usize) -> Vec<u8> {
    body(tool, era, "", &text.escaped(size.saturating_sub(DIGITS)))
}

fn body(tool: &str, era: Era, more: &str, text: &str) -> Vec<u8> {
    body_with(tool, era, &format!(r#""text":"{FIRST_ID}{text}"{more}"#))
}

fn body_with(tool: &str, era: Era, arguments: &str) -> Vec<u8> {
    let meta = match era {
        Era::Legacy => "",
        Era::Modern => concat!(
            r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"#,
            r#""io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}"#
        ),
    };
    format!(
        r#"{{"jsonrpc":"2.0","id":{FIRST_ID},"method":"tools/call","params":{{"name":"{tool}","arguments":{{{arguments}}}{meta}}}}}"#
    )
    .into_bytes()
}

/// A request and where its stamps are.
#[derive(Debug, Clone)]
pub struct Template {
    bytes: Vec<u8>,
    stamps: Vec<usize>,
}

impl Template {
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        let stamp = FIRST_ID.to_string();
        let text = String::from_utf8_lossy(&bytes);
        let stamps = text.match_indices(&stamp).map(|(at, _)| at).collect();
        Self { bytes, stamps }
    }

    /// The request with this id, also at the start of its text.
    pub fn stamped(&mut self, id: u64) -> &[u8] {
        for at in &self.stamps {
            if let Some(mut place) = self.bytes.get_mut(*at..at + DIGITS) {
                // Ten digits into ten bytes.
                let _always_fits = write!(place, "{id:010}");
            }
        }
        &self.bytes
    }
}
