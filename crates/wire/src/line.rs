//! Lines out of a byte stream, with a cap. An over-long line costs that line only: the stream stays in step.

use bytes::{Bytes, BytesMut};

use crate::Skim;

/// How much of an over-long line is kept.
const PREFIX: usize = 256;

/// Room for reading.
const CHUNK: usize = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A line without its line break; may be empty.
    Whole(Bytes),
    /// A line longer than the cap, discarded up to its line break: how it begins, whom it is for, how long it is.
    TooLong {
        prefix: Bytes,
        skim: Box<Skim>,
        bytes: usize,
    },
}

#[derive(Debug)]
pub struct Lines {
    limit: usize,
    buffer: BytesMut,
    /// Bytes at the front of `buffer` already known to hold no line break.
    searched: usize,
    /// Set while an over-long line is being discarded.
    discarding: Option<Discarded>,
}

#[derive(Debug)]
struct Discarded {
    prefix: Bytes,
    skim: Box<Skim>,
    bytes: usize,
}

impl Discarded {
    fn begin(line: &[u8]) -> Self {
        let prefix = Bytes::copy_from_slice(line.get(..PREFIX.min(line.len())).unwrap_or_default());
        Self {
            prefix,
            skim: Box::default(),
            bytes: 0,
        }
    }

    fn add(&mut self, piece: &[u8]) {
        // Whoever did not read it in steps reads it now: it must not pile up.
        self.skim.finish();
        self.skim.feed(piece);
        self.bytes += piece.len();
    }

    fn end(self) -> Line {
        Line::TooLong {
            prefix: self.prefix,
            skim: self.skim,
            bytes: self.bytes,
        }
    }
}

impl Lines {
    /// `limit` counts the line break.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            buffer: BytesMut::with_capacity(CHUNK),
            searched: 0,
            discarding: None,
        }
    }

    /// Another limit, for lines that are not complete yet.
    pub fn limit_to(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Where the caller may read more bytes into; always has room. A line that turns out long gets all the room it may need at once,
    /// instead of growing and being copied many times.
    pub fn buffer(&mut self) -> &mut BytesMut {
        if self.buffer.len() == self.buffer.capacity() {
            let room = if self.buffer.len() < CHUNK {
                CHUNK
            } else {
                self.limit.saturating_sub(self.buffer.len()).max(CHUNK)
            };
            self.buffer.reserve(room);
        }
        &mut self.buffer
    }

    /// Whether the line that is not complete yet needs more than the first room.
    #[must_use]
    pub fn is_long(&self) -> bool {
        self.buffer.len() >= CHUNK
    }

    /// What of an over-long line is to be read before more of it comes.
    pub fn lagging(&mut self) -> Option<&mut Skim> {
        self.discarding
            .as_mut()
            .map(|discarded| &mut *discarded.skim)
            .filter(|skim| skim.lags())
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
        let discarding = self.discarding.take();
        if discarding.is_some() || line.len() > self.limit {
            let mut discarded =
                discarding.unwrap_or_else(|| Discarded::begin(line.get(..end).unwrap_or_default()));
            discarded.add(&line);
            return Some(discarded.end());
        }
        let body = line.slice(..end);
        Some(Line::Whole(if body.ends_with(b"\r") {
            body.slice(..end - 1)
        } else {
            body
        }))
    }

    /// Forgets what is buffered of a line that is already too long.
    fn discard(&mut self) {
        self.discarding
            .get_or_insert_with(|| Discarded::begin(&self.buffer))
            .add(&self.buffer);
        self.buffer.clear();
        self.searched = 0;
    }
}
