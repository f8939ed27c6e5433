//! Lines towards the gate.
//!
//! Everything produced in one turn of the runtime leaves in one write. When the gate does not read, the buffer fills up to a mark and
//! whoever reads upstreams waits in [`Out::room`]: memory stays bounded and the pressure reaches the upstream's socket.

use std::{
    cell::{Cell, RefCell},
    fs::File,
    io::{self, Write},
    os::fd::AsFd,
    rc::Rc,
};

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
};

/// Above this, upstreams are not read any further.
const HIGH_WATER: usize = 4 << 20;
/// Buffers that grew beyond this are given back to the allocator once written.
const KEEP: usize = 256 << 10;

#[derive(Debug, Clone)]
pub(crate) struct Out(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    buffer: RefCell<Vec<u8>>,
    fresh: Notify,
    drained: Notify,
    /// The largest answer that may travel in parts.
    total_limit: usize,
    writing: Cell<usize>,
}

impl Out {
    pub(crate) fn new(total_limit: usize) -> Self {
        Self(Rc::new(Inner {
            buffer: RefCell::default(),
            fresh: Notify::new(),
            drained: Notify::new(),
            total_limit,
            writing: Cell::new(0),
        }))
    }

    /// `{"id":N,"result":…}`
    pub(crate) fn result(&self, id: u64, result: &[u8]) {
        self.field(id, "result", result);
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
        let mut buffer = self.0.buffer.borrow_mut();
        if value.len() + key.len() + 40 < LINE_LIMIT {
            buffer.reserve(value.len() + key.len() + 40);
            buffer.extend_from_slice(b"{\"id\":");
            write::number(&mut buffer, id);
            buffer.extend_from_slice(b",\"");
            buffer.extend_from_slice(key.as_bytes());
            buffer.extend_from_slice(b"\":");
            buffer.extend_from_slice(value);
            buffer.extend_from_slice(b"}\n");
            drop(buffer);
            self.0.fresh.notify_one();
            return;
        }
        drop(buffer);
        let mut line = Object::with_capacity(value.len() + 64);
        line.u64("id", id).raw(key, value);
        self.push(id, &line.finish());
    }

    /// An error with its kind and, where the upstream sent one, its JSON-RPC error.
    pub(crate) fn failure(&self, id: u64, failure: &Failure) {
        let mut line = Object::new();
        line.u64("id", id).str("error", &failure.text).str("kind", failure.kind.as_str());
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
            let short = Failure::too_large(format!("the answer has {} bytes; at most {limit} are passed on", text.len()));
            self.failure(id, &short);
            return;
        }
        worker::push(&mut self.0.buffer.borrow_mut(), id, text);
        self.0.fresh.notify_one();
    }

    fn is_full(&self) -> bool {
        self.0.buffer.borrow().len() + self.0.writing.get() > HIGH_WATER
    }

    /// Waits until the gate has read enough for more to be produced.
    pub(crate) async fn room(&self) {
        while self.is_full() {
            self.0.drained.notified().await;
        }
    }

    /// Writes until the gate hangs up.
    pub(crate) async fn write_to(self, mut sink: Sink) -> io::Result<()> {
        let mut spare = Vec::with_capacity(KEEP);
        loop {
            std::mem::swap(&mut spare, &mut *self.0.buffer.borrow_mut());
            if spare.is_empty() {
                self.0.fresh.notified().await;
                continue;
            }
            self.0.writing.set(spare.len());
            sink.write_all(&spare).await?;
            self.0.writing.set(0);
            spare.clear();
            if spare.capacity() > KEEP {
                spare = Vec::with_capacity(KEEP);
            }
            self.0.drained.notify_waiters();
        }
    }

    /// Waits until everything said so far has been written.
    pub(crate) async fn flushed(&self) {
        while !self.0.buffer.borrow().is_empty() || self.0.writing.get() > 0 {
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

    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Pipe(pipe) => pipe.write_all(bytes).await,
            Self::Socket(socket) => socket.write_all(bytes).await,
            Self::File(file) => file.write_all(bytes),
        }
    }
}
