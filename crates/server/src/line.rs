//! The line door: MCP as lines over a local socket, for clients that spawn a command and for the operator's own program.
//!
//! The first line says who calls (`{"portcullis":"hello","token":"…"}`); after `{"ok":true}` every line is one MCP message, of either
//! era. The socket's file mode keeps other users out; the token says which caller it is.

mod hello;
mod operator;
mod salvage;
mod seal;
mod talk;

use std::{io, sync::Arc};

use gateway::Gate;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf},
    net::{UnixListener, UnixStream},
    sync::{mpsc, watch},
    task::JoinSet,
};
use wire::line::{Line, Lines};

use crate::door::Door;

const MAX_CONNECTIONS: usize = 256;
/// Lines that may wait for a slow reader; then whoever writes them waits.
const QUEUE: usize = 256;
/// Lines waiting at the same time go out in one write, up to about this many bytes.
const WRITE_BUFFER: usize = 64 << 10;
const READ_CHUNK: usize = 16 << 10;

/// Serves the line door until `shutdown` resolves.
pub async fn serve_lines(gate: Gate, listener: UnixListener, shutdown: impl Future<Output = ()>) -> io::Result<()> {
    let (close, closing) = watch::channel(false);
    let door = Door::new(gate, None, closing);
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(converse(Arc::clone(&door), stream));
                }
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection on the line door");
                    tokio::time::sleep(crate::listen::ACCEPT_PAUSE).await;
                }
            },
        }
    }
    // Nobody listening any more is fine: then there is nothing to end.
    let _ = close.send(true);
    let drained = tokio::time::timeout(crate::listen::DRAIN, async { while connections.join_next().await.is_some() {} }).await;
    if drained.is_err() {
        tracing::warn!(connections = connections.len(), "closing line connections that did not finish in time");
    }
    connections.shutdown().await;
    Ok(())
}

async fn converse(door: Arc<Door>, stream: UnixStream) {
    let (read, mut write) = tokio::io::split(stream);
    let mut reader =
        Reader { read, lines: Lines::new(door.gate.settings().max_body_bytes), gate: door.gate.clone(), ended: false };
    let (caller, mount) = match hello::greet(&door, &mut reader).await {
        Ok(greeted) => greeted,
        Err(refusal) => {
            // The other side may be gone already; there is nobody else to tell.
            let _ = write.write_all(&refusal).await;
            return;
        }
    };
    let (out, queue) = mpsc::channel(QUEUE);
    let writer = tokio::spawn(write_lines(write, queue));
    talk::Talk::new(door, caller, mount, out).run(reader).await;
    // The writer ends when the last call's sender is gone.
    if let Err(error) = writer.await {
        tracing::debug!(%error, "a line writer ended early");
    }
}

/// Lines from the client.
pub(super) struct Reader {
    read: ReadHalf<UnixStream>,
    lines: Lines,
    gate: Gate,
    ended: bool,
}

impl Reader {
    /// The next line; `None` at the end. Losing the future loses nothing.
    pub(super) async fn next(&mut self) -> Option<Line> {
        loop {
            if let Some(line) = self.lines.next_line() {
                return Some(line);
            }
            let buffer = self.lines.buffer();
            buffer.reserve(READ_CHUNK);
            match self.read.read_buf(buffer).await {
                Ok(0) if !self.ended => {
                    self.ended = true;
                    // A last line without a line break still counts.
                    self.lines.feed(b"\n");
                }
                Ok(0) | Err(_) => return None,
                Ok(_) => self.lines.limit_to(self.gate.settings().max_body_bytes),
            }
        }
    }
}

async fn write_lines(mut write: WriteHalf<UnixStream>, mut queue: mpsc::Receiver<bytes::Bytes>) {
    let mut buffer = Vec::with_capacity(WRITE_BUFFER);
    while let Some(message) = queue.recv().await {
        buffer.extend_from_slice(&message);
        buffer.push(b'\n');
        while buffer.len() < WRITE_BUFFER {
            let Ok(message) = queue.try_recv() else { break };
            buffer.extend_from_slice(&message);
            buffer.push(b'\n');
        }
        if write.write_all(&buffer).await.is_err() {
            return;
        }
        buffer.clear();
        buffer.shrink_to(WRITE_BUFFER);
    }
    let _ = write.shutdown().await;
}
