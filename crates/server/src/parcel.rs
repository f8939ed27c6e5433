//! What is on its way to a client: a text in up to three pieces, and what it holds until its last byte was handed to the system.
//!
//! Every queue towards a client is one of parcels, and the HTTP library is given parcels too. So words that nobody has read yet are
//! never without the label they came with, wherever they wait.

use std::io::IoSlice;

use bytes::{Buf, Bytes};
use gateway::Pass;
use wire::{Enclosed, sse};

#[derive(Debug, Clone, Default)]
pub(crate) struct Parcel {
    text: Enclosed,
    /// Of every server that had a part in it.
    passes: Vec<Pass>,
}

impl Parcel {
    pub(crate) fn new(text: impl Into<Enclosed>, pass: Pass) -> Self {
        // The gate's own words hold nothing.
        let passes = if pass.source().is_some() {
            vec![pass]
        } else {
            Vec::new()
        };
        Self::holding(text, passes)
    }

    pub(crate) fn holding(text: impl Into<Enclosed>, passes: Vec<Pass>) -> Self {
        Self {
            text: text.into(),
            passes,
        }
    }

    pub(crate) fn passes(&self) -> &[Pass] {
        &self.passes
    }

    pub(crate) fn into_passes(self) -> Vec<Pass> {
        self.passes
    }

    /// The same message as a server-sent event. A long one is not copied.
    pub(crate) fn into_event(self, id: Option<&str>) -> Self {
        let Self { text, passes } = self;
        let has_break = |piece: &Bytes| memchr::memchr2(b'\n', b'\r', piece).is_some();
        if text.pieces().iter().any(has_break) {
            let mut frame = Vec::with_capacity(text.remaining() + 64);
            sse::encode(&mut frame, id, None, &text.pieces().concat());
            return Self::holding(frame, passes);
        }
        let mut head = Vec::with_capacity(64);
        if let Some(id) = id {
            head.extend_from_slice(b"id: ");
            head.extend_from_slice(id.as_bytes());
            head.push(b'\n');
        }
        head.extend_from_slice(b"data: ");
        Self::holding(text.between(head, b"\n\n"), passes)
    }

    /// The whole text in one piece.
    #[cfg(test)]
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        self.text.pieces().concat()
    }

    pub(crate) fn pieces(&self) -> &[Bytes; 3] {
        self.text.pieces()
    }
}

/// Words of the gate's own.
impl<T: Into<Bytes>> From<T> for Parcel {
    fn from(text: T) -> Self {
        Self::holding(text.into(), Vec::new())
    }
}

impl Buf for Parcel {
    fn remaining(&self) -> usize {
        self.text.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.text.chunk()
    }

    fn chunks_vectored<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        self.text.chunks_vectored(into)
    }

    fn advance(&mut self, count: usize) {
        self.text.advance(count);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use wire::{Enclosed, sse};

    use super::{Parcel, Pass};

    #[test]
    fn an_event_is_the_same_copied_or_not() {
        for id in [None, Some("1-2")] {
            for text in ["{\"a\":1}", "", "a\nb", "a\r\nb\n"] {
                let mut encoded = Vec::new();
                sse::encode(&mut encoded, id, None, text.as_bytes());
                assert_eq!(
                    Parcel::from(text).into_event(id).to_vec(),
                    encoded,
                    "{text:?}"
                );
                let (first, rest) = text.split_at(text.len() / 2);
                let pieces = Enclosed::new(
                    first.as_bytes().to_vec(),
                    Bytes::copy_from_slice(rest.as_bytes()),
                    b"}",
                );
                let mut encoded = Vec::new();
                sse::encode(&mut encoded, id, None, format!("{text}}}").as_bytes());
                assert_eq!(
                    Parcel::new(pieces, Pass::default()).into_event(id).to_vec(),
                    encoded,
                    "{text:?} in pieces"
                );
            }
        }
    }
}
