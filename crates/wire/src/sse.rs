//! Server-sent events: an incremental decoder with a cap per event, and an encoder.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    pub event: Option<String>,
    pub data: Vec<u8>,
    pub id: Option<String>,
    pub retry: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventTooLarge {
    pub limit: usize,
}

impl fmt::Display for EventTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a server-sent event is larger than {} bytes", self.limit)
    }
}

impl std::error::Error for EventTooLarge {}

/// Feeds on chunks cut anywhere, even inside a character or between `\r` and `\n`.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    line: Vec<u8>,
    /// The last byte was `\r`, so a `\n` right after it belongs to it.
    after_cr: bool,
    started: bool,
    event: Event,
    has_data: bool,
}

impl Decoder {
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, line: Vec::new(), after_cr: false, started: false, event: Event::default(), has_data: false }
    }

    /// Appends every event that `chunk` completes to `out`.
    pub fn feed(&mut self, chunk: &[u8], out: &mut Vec<Event>) -> Result<(), EventTooLarge> {
        let mut rest = chunk;
        while !rest.is_empty() {
            if std::mem::take(&mut self.after_cr) && rest.first() == Some(&b'\n') {
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            let Some(stop) = memchr::memchr2(b'\n', b'\r', rest) else {
                self.grow(rest)?;
                break;
            };
            self.grow(rest.get(..stop).unwrap_or_default())?;
            self.after_cr = rest.get(stop) == Some(&b'\r');
            rest = rest.get(stop + 1..).unwrap_or_default();
            self.end_line(out);
        }
        Ok(())
    }

    fn grow(&mut self, bytes: &[u8]) -> Result<(), EventTooLarge> {
        if self.line.len() + self.event.data.len() + bytes.len() > self.limit {
            return Err(EventTooLarge { limit: self.limit });
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, out: &mut Vec<Event>) {
        let mut line = std::mem::take(&mut self.line);
        if !std::mem::replace(&mut self.started, true) && line.starts_with(b"\xEF\xBB\xBF") {
            line.drain(..3);
        }
        if line.is_empty() {
            self.end_event(out);
        } else {
            self.field(&line);
        }
        line.clear();
        self.line = line;
    }

    fn end_event(&mut self, out: &mut Vec<Event>) {
        let event = std::mem::take(&mut self.event);
        // An event with only an id or a retry still matters to us: it primes resumption.
        if std::mem::take(&mut self.has_data) || event.id.is_some() || event.retry.is_some() {
            out.push(event);
        }
    }

    fn field(&mut self, line: &[u8]) {
        let (name, value) = match memchr::memchr(b':', line) {
            Some(colon) => (line.get(..colon).unwrap_or_default(), line.get(colon + 1..).unwrap_or_default()),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let text = || String::from_utf8_lossy(value).into_owned();
        match name {
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push(b'\n');
                }
                self.event.data.extend_from_slice(value);
            }
            b"event" => self.event.event = Some(text()),
            b"id" if !value.contains(&0) => self.event.id = Some(text()),
            b"retry" => self.event.retry = text().parse().ok(),
            _ => {}
        }
    }
}

/// Appends one event. `data` must not hold a line break; JSON text that we wrote or received as one line does not.
pub fn encode(out: &mut Vec<u8>, id: Option<&str>, retry: Option<u64>, data: &[u8]) {
    if let Some(id) = id {
        out.extend_from_slice(b"id: ");
        out.extend_from_slice(id.as_bytes());
        out.push(b'\n');
    }
    if let Some(retry) = retry {
        out.extend_from_slice(b"retry: ");
        crate::write::number(out, retry);
        out.push(b'\n');
    }
    for line in data.split(|byte| *byte == b'\n') {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.push(b'\n');
}
