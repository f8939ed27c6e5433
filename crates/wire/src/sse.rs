//! Server-sent events: an incremental decoder with a cap per event, and an encoder. An event above the cap costs that event only.

use crate::Skim;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    pub event: Option<String>,
    pub data: Vec<u8>,
    pub id: Option<String>,
    pub retry: Option<u64>,
    /// The data were larger than the cap and are not here; whom they were for.
    pub too_large: Option<Box<Skim>>,
}

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
    /// Set while an event above the cap is being discarded.
    excess: Option<Excess>,
}

/// What is left of an event above the cap.
#[derive(Debug, Default)]
struct Excess {
    skim: Box<Skim>,
    /// How the current line begins, until it is known to be data or not.
    begins: Vec<u8>,
    is_data: bool,
}

const DATA: &[u8] = b"data:";

impl Excess {
    /// More of the current line.
    fn add(&mut self, mut bytes: &[u8]) {
        if self.begins.len() < DATA.len() {
            let (head, rest) = bytes.split_at(bytes.len().min(DATA.len() - self.begins.len()));
            self.begins.extend_from_slice(head);
            self.is_data = self.begins == DATA;
            bytes = rest;
        }
        if self.is_data {
            self.skim.feed(bytes);
        }
    }

    /// The line is over; `true` if it was empty, and with it the event.
    fn end_line(&mut self) -> bool {
        let is_empty = self.begins.is_empty();
        self.begins.clear();
        self.is_data = false;
        self.skim.feed(b"\n");
        is_empty
    }
}

impl Decoder {
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            after_cr: false,
            started: false,
            event: Event::default(),
            has_data: false,
            excess: None,
        }
    }

    /// Bytes of an event that is still arriving.
    #[must_use]
    pub fn held(&self) -> usize {
        self.line.len() + self.event.data.len()
    }

    /// What of an event above the cap is to be read before more of it comes.
    pub fn lagging(&mut self) -> Option<&mut Skim> {
        self.excess
            .as_mut()
            .map(|excess| &mut *excess.skim)
            .filter(|skim| skim.lags())
    }

    /// Appends every event that `chunk` completes to `out`.
    pub fn feed(&mut self, chunk: &[u8], out: &mut Vec<Event>) {
        let mut rest = chunk;
        while !rest.is_empty() {
            if std::mem::take(&mut self.after_cr) && rest.first() == Some(&b'\n') {
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            let Some(stop) = memchr::memchr2(b'\n', b'\r', rest) else {
                self.grow(rest);
                break;
            };
            self.grow(rest.get(..stop).unwrap_or_default());
            self.after_cr = rest.get(stop) == Some(&b'\r');
            rest = rest.get(stop + 1..).unwrap_or_default();
            self.end_line(out);
        }
    }

    fn grow(&mut self, bytes: &[u8]) {
        if self.excess.is_none() && self.held() + bytes.len() > self.limit {
            let mut excess = Excess::default();
            excess.skim.feed(&std::mem::take(&mut self.event.data));
            excess.add(&std::mem::take(&mut self.line));
            self.excess = Some(excess);
        }
        match &mut self.excess {
            Some(excess) => excess.add(bytes),
            None => self.line.extend_from_slice(bytes),
        }
    }

    fn end_line(&mut self, out: &mut Vec<Event>) {
        if let Some(mut excess) = self.excess.take() {
            self.started = true;
            if excess.end_line() {
                self.event.too_large = Some(excess.skim);
                self.end_event(out);
            } else {
                self.excess = Some(excess);
            }
            return;
        }
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
        if std::mem::take(&mut self.has_data)
            || event.too_large.is_some()
            || event.id.is_some()
            || event.retry.is_some()
        {
            out.push(event);
        }
    }

    fn field(&mut self, line: &[u8]) {
        let (name, value) = match memchr::memchr(b':', line) {
            Some(colon) => (
                line.get(..colon).unwrap_or_default(),
                line.get(colon + 1..).unwrap_or_default(),
            ),
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
