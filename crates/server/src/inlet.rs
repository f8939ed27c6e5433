//! Long bodies, read straight to where they belong.
//!
//! The HTTP library reads everything into a buffer of its own, from which a long body would have to be copied once more. So the stream
//! under it can be told that the next so many bytes are a body: it reads them into a place of ours and hands the library as many
//! bytes of nothing, which keep its count right and are thrown away. Exactly the bytes of that body are diverted, never one of the
//! request after it.

use std::{
    io,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::BufMut;
use doors::Stream;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use crate::patience::Patience;

/// A connection whose next bytes can be diverted.
#[derive(Debug)]
pub(crate) struct Inlet {
    stream: Stream,
    diversion: Diversion,
    patience: Patience,
}

/// Says where bytes go; shared by a connection and whoever reads a body from it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Diversion(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    target: Option<Target>,
    /// Diverted bytes that the library has not been given nothing for.
    owed: usize,
}

#[derive(Debug)]
struct Target {
    buffer: Vec<u8>,
    missing: usize,
}

impl Inlet {
    /// `most` is how long a client that does not read is waited for.
    pub(crate) fn new(stream: Stream, most: Duration) -> (Self, Diversion) {
        let diversion = Diversion::default();
        (
            Self {
                stream,
                diversion: diversion.clone(),
                patience: Patience::new(most),
            },
            diversion,
        )
    }

    fn watch(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let watched = self.patience.watch(cx, written);
        if matches!(&watched, Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::TimedOut) {
            // What the system still holds for this client is thrown away with the connection.
            let _ = self.stream.tcp().set_zero_linger();
        }
        watched
    }
}

impl Diversion {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next `missing` bytes go to the end of `buffer`. Must be called when the library has handed out everything it had read.
    pub(crate) fn begin(&self, buffer: Vec<u8>, missing: usize) -> Diverting<'_> {
        self.state().target = Some(Target { buffer, missing });
        Diverting(self)
    }
}

/// Ends a diversion when dropped; what was diverted meanwhile is lost, and the library does not miss it.
#[derive(Debug)]
pub(crate) struct Diverting<'a>(&'a Diversion);

impl Diverting<'_> {
    /// The buffer, if all that was expected is in it.
    pub(crate) fn finish(self) -> Option<Vec<u8>> {
        let target = self.0.state().target.take()?;
        (target.missing == 0).then_some(target.buffer)
    }
}

impl Drop for Diverting<'_> {
    fn drop(&mut self) {
        self.0.state().target = None;
    }
}

impl AsyncRead for Inlet {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let mut state = this.diversion.state();
        if state.owed == 0 {
            let Some(target) = state.target.as_mut().filter(|target| target.missing > 0) else {
                return Pin::new(&mut this.stream).poll_read(cx, out);
            };
            let mut room = (&mut target.buffer).limit(target.missing);
            let read = ready!(pin!(this.stream.read_buf(&mut room)).poll(cx))?;
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
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.watch(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, pieces);
        this.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.patience.rest();
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
