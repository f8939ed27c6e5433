//! Reading HTTP/1.1 replies cheaply: a length or chunks, one JSON value or server-sent events.

use anyhow::{Context, Result, bail, ensure};
use bytes::{Buf, BytesMut};

/// How much of a body is searched first for the stamps of its call.
const HEAD: usize = 2048;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
}

#[derive(Debug)]
struct Head {
    status: u16,
    framing: Framing,
    session: Option<String>,
}

/// Collects one reply after the other from the bytes of a connection.
#[derive(Debug, Default)]
pub struct Replies {
    head: Option<Head>,
    body: Vec<u8>,
}

/// A whole reply; events are left as they came.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub session: Option<String>,
    pub body: Vec<u8>,
}

impl Replies {
    /// Takes what it can from `buffer`; a reply when it is whole.
    pub fn take(&mut self, buffer: &mut BytesMut) -> Result<Option<Reply>> {
        if self.head.is_none() {
            let Some(end) = find(buffer, b"\r\n\r\n") else {
                return Ok(None);
            };
            let text = buffer.split_to(end + 4);
            self.head = Some(parse_head(&text)?);
        }
        let Some(head) = &self.head else {
            return Ok(None);
        };
        let whole = match head.framing {
            Framing::Length(length) => {
                let missing = length - self.body.len();
                let piece = buffer.split_to(missing.min(buffer.len()));
                self.body.extend_from_slice(&piece);
                self.body.len() == length
            }
            Framing::Chunked => take_chunks(buffer, &mut self.body)?,
        };
        if !whole {
            return Ok(None);
        }
        let head = self.head.take().context("a reply without a head")?;
        Ok(Some(Reply {
            status: head.status,
            session: head.session,
            body: std::mem::take(&mut self.body),
        }))
    }

    /// Gives a body back, so that its memory is used again.
    pub fn recycle(&mut self, mut body: Vec<u8>) {
        body.clear();
        self.body = body;
    }
}

fn parse_head(text: &[u8]) -> Result<Head> {
    let text = std::str::from_utf8(text).context("the head of a reply is not text")?;
    let mut lines = text.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .and_then(|code| code.parse().ok());
    let mut head = Head {
        status: status.context("a reply without a status")?,
        framing: Framing::Length(0),
        session: None,
    };
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            head.framing = Framing::Length(
                value
                    .parse()
                    .context("a content-length that is no number")?,
            );
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            ensure!(
                value.eq_ignore_ascii_case("chunked"),
                "transfer-encoding `{value}`"
            );
            head.framing = Framing::Chunked;
        } else if name.eq_ignore_ascii_case("mcp-session-id") {
            head.session = Some(value.to_owned());
        }
    }
    Ok(head)
}

/// Moves whole chunks into `body`; true after the last one. A chunk that has not arrived whole stays in `buffer`.
fn take_chunks(buffer: &mut BytesMut, body: &mut Vec<u8>) -> Result<bool> {
    loop {
        let Some(line) = find(
            buffer.get(..buffer.len().min(32)).unwrap_or_default(),
            b"\r\n",
        ) else {
            return Ok(false);
        };
        let digits = buffer
            .get(..line)
            .and_then(|line| std::str::from_utf8(line).ok())
            .unwrap_or_default();
        let size = usize::from_str_radix(digits.split(';').next().unwrap_or_default().trim(), 16);
        let size = size.with_context(|| format!("`{digits}` is not the size of a chunk"))?;
        let (start, end) = (line + 2, line + 2 + size);
        if buffer.len() < end + 2 {
            buffer.reserve(end + 2 - buffer.len());
            return Ok(false);
        }
        body.extend_from_slice(buffer.get(start..end).unwrap_or_default());
        buffer.advance(end + 2);
        if size == 0 {
            return Ok(true);
        }
    }
}

impl Reply {
    /// Whether this is the answer to the call with this id: its id, its text, no error.
    pub fn answers(&self, id: u64) -> Result<()> {
        answers(&self.body, id).with_context(|| format!("HTTP status {}", self.status))
    }
}

/// Whether a body, plain or as events, holds the answer to the call with this id.
pub fn answers(body: &[u8], id: u64) -> Result<()> {
    let head = body.get(..HEAD.min(body.len())).unwrap_or_default();
    let stamps = count(head, format!("{id:010}").as_bytes());
    let (said, failed) = (
        String::from_utf8_lossy(head),
        find(body, b"\"isError\":true").is_some(),
    );
    if stamps < 2 || failed {
        bail!(
            "the call {id} was not echoed; the reply begins: {}",
            said.chars().take(400).collect::<String>()
        );
    }
    Ok(())
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(haystack, needle)
}

fn count(haystack: &[u8], needle: &[u8]) -> usize {
    memchr::memmem::find_iter(haystack, needle).count()
}
