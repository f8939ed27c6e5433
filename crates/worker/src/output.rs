//! Lines towards the gate.
//!
//! Everything produced in one turn of the runtime leaves in one write. When the gate does not read, the buffer fills up to a mark and
//! whoever reads upstreams waits in [`Out::room`]: memory stays bounded and the pressure reaches the upstream's socket.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    fs::File,
    io::{self, IoSlice, Write},
    os::fd::AsFd,
    rc::Rc,
};

use bytes::{Buf, Bytes};
use tokio::{
    io::AsyncWriteExt,
    net::{UnixStream, unix::pipe},
    sync::Notify,
};
use wire::{
    worker::{self, LINE_LIMIT},
    write::{self, Object},
};

use crate::{
    descriptor::{Kind, nonblocking},
    failure::Failure,
    memory::Memory,
};

/// Above this, upstreams are not read any further.
const HIGH_WATER: usize = 4 << 20;
/// Values from this size on are not copied into the buffer but written from where they are.
const LARGE: usize = 32 << 10;
/// Pieces handed to the kernel at once.
const MAX_PIECES: usize = 64;
/// Buffers that grew beyond this are given back to the allocator once written.
const KEEP: usize = 256 << 10;

#[derive(Debug, Clone)]
pub(crate) struct Out(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    text: RefCell<Text>,
    fresh: Notify,
    drained: Notify,
    /// The largest answer that may travel in parts.
    total_limit: usize,
    /// Where long results are put, if the gate shares memory with us.
    memory: Rc<Memory>,
    /// Bytes taken by the writer and not yet written.
    writing: Cell<usize>,
}

/// What is to be written: whole pieces first, then the buffer that small lines are appended to.
#[derive(Debug, Default)]
struct Text {
    pieces: VecDeque<Bytes>,
    piece_bytes: usize,
    buffer: Vec<u8>,
}

impl Text {
    fn len(&self) -> usize {
        self.piece_bytes + self.buffer.len()
    }

    /// Appends a piece as it is.
    fn splice(&mut self, piece: Bytes) {
        if !self.buffer.is_empty() {
            let before = Bytes::from(std::mem::take(&mut self.buffer));
            self.piece_bytes += before.len();
            self.pieces.push_back(before);
        }
        self.piece_bytes += piece.len();
        self.pieces.push_back(piece);
    }

    /// Forgets pieces, or the beginning of one, that have been written.
    fn advance(&mut self, mut written: usize) {
        self.piece_bytes = self.piece_bytes.saturating_sub(written);
        while let Some(first) = self.pieces.front_mut() {
            if first.len() > written {
                first.advance(written);
                return;
            }
            written -= first.len();
            self.pieces.pop_front();
        }
    }
}

/// Lines that hold a long result, of which nothing is copied but what is around it.
struct Spliced<'a> {
    text: &'a mut Text,
    result: &'a Bytes,
}

impl<'a> worker::LineSink<'a> for Spliced<'_> {
    fn frame(&mut self, bytes: &[u8]) {
        self.text.buffer.extend_from_slice(bytes);
    }

    fn piece(&mut self, bytes: &'a [u8]) {
        if bytes.len() < LARGE {
            self.frame(bytes);
        } else {
            self.text.splice(self.result.slice_ref(bytes));
        }
    }
}

impl Out {
    pub(crate) fn new(total_limit: usize, memory: Rc<Memory>) -> Self {
        Self(Rc::new(Inner {
            text: RefCell::default(),
            fresh: Notify::new(),
            drained: Notify::new(),
            total_limit,
            memory,
            writing: Cell::new(0),
        }))
    }

    /// `{"id":N,"result":…}`
    pub(crate) fn result(&self, id: u64, result: &Bytes) {
        let long = (worker::LONG..=self.0.total_limit).contains(&result.len());
        if let Some(offset) = long.then(|| self.0.memory.lend(result)).flatten() {
            let mut line = Object::with_capacity(64);
            line.u64("id", id).raw("result", b"null");
            worker::push_attached(
                &mut self.0.text.borrow_mut().buffer,
                offset,
                result.len(),
                &line.finish(),
            );
            self.0.fresh.notify_one();
            return;
        }
        if result.len() < LARGE || result.len() > self.0.total_limit.saturating_sub(64) {
            return self.field(id, "result", result);
        }
        // Written from where it is: copying thirty megabytes would keep every other server's answers waiting.
        let mut head = b"{\"id\":".to_vec();
        write::number(&mut head, id);
        head.extend_from_slice(b",\"result\":");
        let mut lines = Spliced {
            text: &mut self.0.text.borrow_mut(),
            result,
        };
        worker::write_joined(&mut lines, id, &[&head, result, b"}"]);
        self.0.fresh.notify_one();
    }

    /// Says which parameters in shared memory are no longer needed.
    fn return_parameters(&self) {
        let buffer = &mut self.0.text.borrow_mut().buffer;
        self.0
            .memory
            .done()
            .into_iter()
            .for_each(|offset| worker::push_returned(buffer, offset));
    }

    pub(crate) fn ok(&self, id: u64) {
        self.field(id, "ok", b"true");
    }

    /// `{"id":N,"error":"…"}`
    pub(crate) fn error(&self, id: u64, text: &str) {
        self.field(id, "error", &write::quoted(text));
    }

    /// An answer with one field, written straight into the buffer when it fits a line.
    pub(crate) fn field(&self, id: u64, key: &str, value: &[u8]) {
        if value.len() + key.len() + 40 < LINE_LIMIT {
            let mut text = self.0.text.borrow_mut();
            let buffer = &mut text.buffer;
            buffer.reserve(value.len() + key.len() + 40);
            buffer.extend_from_slice(b"{\"id\":");
            write::number(buffer, id);
            buffer.extend_from_slice(b",\"");
            buffer.extend_from_slice(key.as_bytes());
            buffer.extend_from_slice(b"\":");
            buffer.extend_from_slice(value);
            buffer.extend_from_slice(b"}\n");
            drop(text);
            self.0.fresh.notify_one();
            return;
        }
        let mut line = Object::with_capacity(value.len() + 64);
        line.u64("id", id).raw(key, value);
        self.push(id, &line.finish());
    }

    /// An error with its kind and, where the upstream sent one, its JSON-RPC error.
    pub(crate) fn failure(&self, id: u64, failure: &Failure) {
        let mut line = Object::new();
        line.u64("id", id)
            .str("error", &failure.text)
            .str("kind", failure.kind.as_str());
        if let Some(rpc) = &failure.rpc {
            line.raw("rpc", rpc);
        }
        self.push(id, &line.finish());
    }

    /// `{"id":N,"event":"…",…}`
    pub(crate) fn event(&self, id: u64, event: &str, fill: impl FnOnce(&mut Object)) {
        let mut line = Object::new();
        line.u64("id", id).str("event", event);
        fill(&mut line);
        self.push(id, &line.finish());
    }

    fn push(&self, id: u64, text: &[u8]) {
        if text.len() > self.0.total_limit {
            let limit = self.0.total_limit;
            let short = Failure::too_large(format!(
                "the answer has {} bytes; at most {limit} are passed on",
                text.len()
            ));
            self.failure(id, &short);
            return;
        }
        worker::push(&mut self.0.text.borrow_mut().buffer, id, text);
        self.0.fresh.notify_one();
    }

    fn is_full(&self) -> bool {
        self.0.text.borrow().len() + self.0.writing.get() > HIGH_WATER
    }

    /// Waits until the gate has read enough for more to be produced.
    pub(crate) async fn room(&self) {
        while self.is_full() {
            self.0.drained.notified().await;
        }
    }

    /// Writes until the gate hangs up.
    pub(crate) async fn write_to(self, mut sink: Sink) -> io::Result<()> {
        let mut taken = Text {
            buffer: Vec::with_capacity(KEEP),
            ..Text::default()
        };
        loop {
            // Along with an answer, so that the gate is not woken twice.
            self.return_parameters();
            std::mem::swap(&mut taken, &mut *self.0.text.borrow_mut());
            if taken.len() == 0 {
                tokio::select! {
                    () = self.0.fresh.notified() => {}
                    () = self.0.memory.some_done() => {}
                }
                continue;
            }
            self.0.writing.set(taken.len());
            while let Some(piece) = taken.pieces.front() {
                let written = if taken.pieces.len() == 1 && taken.buffer.is_empty() {
                    sink.write(&[IoSlice::new(piece)]).await?
                } else {
                    let pieces = taken
                        .pieces
                        .iter()
                        .map(|piece| IoSlice::new(piece))
                        .take(MAX_PIECES);
                    sink.write(&pieces.collect::<Vec<_>>()).await?
                };
                taken.advance(written);
                self.0.writing.set(taken.len());
                self.0.drained.notify_waiters();
            }
            sink.write_all(&taken.buffer).await?;
            taken.buffer.clear();
            if taken.buffer.capacity() > KEEP {
                taken.buffer = Vec::with_capacity(KEEP);
            }
            self.0.writing.set(0);
            self.0.drained.notify_waiters();
        }
    }

    /// Waits until everything said so far has been written.
    pub(crate) async fn flushed(&self) {
        while self.0.text.borrow().len() > 0 || self.0.writing.get() > 0 {
            self.0.drained.notified().await;
        }
    }
}

/// Standard output, whatever it is connected to.
#[derive(Debug)]
pub(crate) enum Sink {
    Pipe(pipe::Sender),
    Socket(UnixStream),
    /// A file or a terminal; writing to it does not block for long.
    File(File),
}

impl Sink {
    pub(crate) fn stdout(kind: Kind) -> io::Result<Self> {
        let fd = io::stdout().as_fd().try_clone_to_owned()?;
        Ok(match kind {
            Kind::Pipe => Self::Pipe(pipe::Sender::from_owned_fd_unchecked(nonblocking(fd)?)?),
            Kind::Socket => Self::Socket(UnixStream::from_std(nonblocking(fd)?.into())?),
            Kind::File => Self::File(fd.into()),
        })
    }

    async fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Pipe(pipe) => pipe.write_vectored(pieces).await,
            Self::Socket(socket) => socket.write_vectored(pieces).await,
            Self::File(file) => file.write_vectored(pieces),
        }
    }

    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Pipe(pipe) => pipe.write_all(bytes).await,
            Self::Socket(socket) => socket.write_all(bytes).await,
            Self::File(file) => file.write_all(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandbox::shared::Region;
    use tokio::{io::AsyncReadExt, time::timeout};

    use super::*;

    fn out() -> (Out, Sink, pipe::Receiver) {
        let (reader, writer) = io::pipe().unwrap();
        let memory = Rc::new(Memory::default());
        let (requests, results) = (Region::new(1 << 20).unwrap(), Region::new(1 << 20).unwrap());
        let owned = |region: &Region| region.as_fd().try_clone_to_owned().unwrap();
        memory.share(owned(&requests), owned(&results)).unwrap();
        let sink = Sink::Pipe(pipe::Sender::from_owned_fd(writer.into()).unwrap());
        (
            Out::new(1 << 20, memory),
            sink,
            pipe::Receiver::from_owned_fd(reader.into()).unwrap(),
        )
    }

    /// What one read brings.
    async fn heard(pipe: &mut pipe::Receiver) -> String {
        let mut heard = Vec::with_capacity(1024);
        pipe.read_buf(&mut heard).await.unwrap();
        String::from_utf8(heard).unwrap()
    }

    #[tokio::test]
    async fn parameters_are_given_back_with_an_answer_or_without() {
        let (out, sink, mut pipe) = out();
        let said = async {
            let memory = Rc::clone(&out.0.memory);
            let (first, second) = (
                memory.parameters(0, 5).unwrap(),
                memory.parameters(4096, 5).unwrap(),
            );
            out.ok(7);
            drop(first);
            assert_eq!(
                heard(&mut pipe).await,
                "{\"id\":7,\"ok\":true}\n-0\n",
                "at once"
            );
            let slice = second.slice(1..2);
            drop(second);
            out.ok(8);
            assert_eq!(
                heard(&mut pipe).await,
                "{\"id\":8,\"ok\":true}\n",
                "a part of it is still in use"
            );
            drop(slice);
            assert_eq!(heard(&mut pipe).await, "-4096\n");
        };
        tokio::select! {
            _ = out.clone().write_to(sink) => unreachable!("the gate has not hung up"),
            said = timeout(Duration::from_secs(10), said) => said.unwrap(),
        }
    }
}
