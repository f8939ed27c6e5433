//! Lines out of a byte stream, with a cap. An over-long line costs that line only: the stream stays in step.

use bytes::{Bytes, BytesMut};

/// How much of an over-long line is kept, so that its id may still be read.
const PREFIX: usize = 256;

/// Room for reading.
const CHUNK: usize = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A line without its line break; may be empty.
    Whole(Bytes),
    /// A line longer than the cap, discarded up to its line break.
    TooLong { prefix: Bytes, bytes: usize },
}

#[derive(Debug)]
pub struct Lines {
    limit: usize,
    buffer: BytesMut,
    /// Bytes at the front of `buffer` already known to hold no line break.
    searched: usize,
    /// Set while an over-long line is being discarded.
    discarding: Option<(Bytes, usize)>,
}

impl Lines {
    /// `limit` counts the line break.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, buffer: BytesMut::with_capacity(CHUNK), searched: 0, discarding: None }
    }

    /// Another limit, for lines that are not complete yet.
    pub fn limit_to(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Where the caller may read more bytes into; always has room. A line that turns out long gets all the room it may need at once,
    /// instead of growing and being copied many times.
    pub fn buffer(&mut self) -> &mut BytesMut {
        if self.buffer.len() == self.buffer.capacity() {
            let room = if self.buffer.len() < CHUNK { CHUNK } else { self.limit.saturating_sub(self.buffer.len()).max(CHUNK) };
            self.buffer.reserve(room);
        }
        &mut self.buffer
    }

    pub fn feed(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    pub fn next_line(&mut self) -> Option<Line> {
        let fresh = self.buffer.get(self.searched..).unwrap_or_default();
        let Some(found) = memchr::memchr(b'\n', fresh) else {
            self.searched = self.buffer.len();
            if self.searched >= self.limit {
                self.discard();
            }
            return None;
        };
        let end = self.searched + found;
        let line = self.buffer.split_to(end + 1).freeze();
        self.searched = 0;
        if let Some((prefix, bytes)) = self.discarding.take() {
            return Some(Line::TooLong { prefix, bytes: bytes + end + 1 });
        }
        if line.len() > self.limit {
            return Some(Line::TooLong { prefix: line.slice(..PREFIX.min(end)), bytes: line.len() });
        }
        let body = line.slice(..end);
        Some(Line::Whole(if body.ends_with(b"\r") { body.slice(..end - 1) } else { body }))
    }

    /// Forgets what is buffered of a line that is already too long.
    fn discard(&mut self) {
        let dropped = self.buffer.len();
        let prefix = Bytes::copy_from_slice(self.buffer.get(..PREFIX.min(dropped)).unwrap_or_default());
        let (prefix, before) = self.discarding.take().unwrap_or((prefix, 0));
        self.discarding = Some((prefix, before + dropped));
        self.buffer.clear();
        self.searched = 0;
    }
}
