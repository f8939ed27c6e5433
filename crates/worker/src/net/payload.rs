//! The body of a request: a long text travels uncopied between the two ends of its envelope.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// Up to three pieces, sent one after the other.
#[derive(Debug, Clone, Default)]
pub(crate) struct Payload([Bytes; 3]);

impl Payload {
    pub(crate) fn new(head: Vec<u8>, text: Bytes, tail: &'static [u8]) -> Self {
        Self([head.into(), text, Bytes::from_static(tail)])
    }

    pub(crate) fn pieces(&self) -> &[Bytes; 3] {
        &self.0
    }

    fn left(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }
}

impl From<Bytes> for Payload {
    fn from(text: Bytes) -> Self {
        Self([text, Bytes::new(), Bytes::new()])
    }
}

impl From<Vec<u8>> for Payload {
    fn from(text: Vec<u8>) -> Self {
        Bytes::from(text).into()
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.get_mut().0.iter_mut().find(|piece| !piece.is_empty()).map(std::mem::take);
        Poll::Ready(next.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left() as u64)
    }
}
