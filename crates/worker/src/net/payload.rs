//! The body of a request: a long text travels uncopied between the two ends of its envelope.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use wire::Enclosed;

/// What is left to send.
#[derive(Debug, Clone, Default)]
pub(crate) struct Payload(Enclosed);

impl Payload {
    pub(crate) fn new(head: Vec<u8>, text: Bytes, tail: &'static [u8]) -> Self {
        Self(Enclosed::new(head, text, tail))
    }

    pub(crate) const fn pieces(&self) -> &[Bytes; 3] {
        self.0.pieces()
    }
}

impl From<Bytes> for Payload {
    fn from(text: Bytes) -> Self {
        Self(text.into())
    }
}

impl From<Vec<u8>> for Payload {
    fn from(text: Vec<u8>) -> Self {
        Bytes::from(text).into()
    }
}

impl Body for Payload {
    type Data = Enclosed;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Enclosed>, Infallible>>> {
        let all = std::mem::take(&mut self.get_mut().0);
        Poll::Ready(all.has_remaining().then(|| Ok(Frame::data(all))))
    }

    fn is_end_stream(&self) -> bool {
        !self.0.has_remaining()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.remaining() as u64)
    }
}
