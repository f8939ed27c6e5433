//! Long answers, read straight into the memory we share with the gate.
//!
//! The HTTP library reads everything into a buffer of its own, from which a long body would have to be copied once more. So the stream
//! under it can be told that the next so many bytes are a body: it reads them into a block and hands the library as many bytes of
//! nothing, which keep its count right and are thrown away.

use std::{
    cell::RefCell,
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use sandbox::shared::Block;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::dial::Stream;

/// A connection whose next bytes can be diverted.
#[derive(Debug)]
pub(super) struct Inlet {
    stream: Stream,
    diversion: Diversion,
}

/// Says where bytes go; shared by a connection and whoever reads a body from it.
#[derive(Debug, Clone, Default)]
pub(super) struct Diversion(Rc<RefCell<State>>);

#[derive(Debug, Default)]
struct State {
    target: Option<Target>,
    /// Diverted bytes that the library has not been given nothing for.
    owed: usize,
}

#[derive(Debug)]
struct Target {
    block: Block,
    missing: usize,
}

impl Inlet {
    pub(super) fn new(stream: Stream) -> (Self, Diversion) {
        let diversion = Diversion::default();
        (
            Self {
                stream,
                diversion: diversion.clone(),
            },
            diversion,
        )
    }
}

impl Diversion {
    /// The next `missing` bytes go to the end of `block`. Must be called when the library has handed out everything it had read.
    pub(super) fn begin(&self, block: Block, missing: usize) {
        self.0.borrow_mut().target = Some(Target { block, missing });
    }

    /// The block, if all that was expected is in it.
    pub(super) fn finish(&self) -> Option<Block> {
        let target = self.0.borrow_mut().target.take()?;
        (target.missing == 0).then_some(target.block)
    }
}

impl AsyncRead for Inlet {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let mut state = this.diversion.0.borrow_mut();
        if state.owed == 0 {
            let Some(target) = state.target.as_mut().filter(|target| target.missing > 0) else {
                return Pin::new(&mut this.stream).poll_read(cx, out);
            };
            let room = target.block.spare();
            let wanted = target.missing.min(room.len());
            let mut room = ReadBuf::new(room.get_mut(..wanted).unwrap_or_default());
            ready!(Pin::new(&mut this.stream).poll_read(cx, &mut room))?;
            let read = room.filled().len();
            target.block.advance(read);
            target.missing -= read;
            state.owed = read;
        }
        let given = state.owed.min(out.remaining());
        out.initialize_unfilled_to(given);
        out.advance(given);
        state.owed -= given;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Inlet {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
