//! The line door: MCP as lines over a local socket, for clients that spawn a command and for the operator's own program.
//!
//! The first line says who calls (`{"portcullis":"hello","token":"…"}`); after `{"ok":true}` every line is one MCP message, of either
//! era. The socket's file mode keeps other users out; the token says which caller it is.

mod hello;
mod operator;
mod seal;
mod talk;

use std::{io, sync::Arc, time::Duration};

use bytes::Buf as _;
use gateway::{Caller, Gate, RequestRoom};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf},
    net::{UnixListener, UnixStream},
    sync::{mpsc, watch},
    task::JoinSet,
};
use wire::line::{Line, Lines};

use crate::{
    crowd::{Crowd, Guest},
    door::Door,
    parcel::Parcel,
    patience::Patient,
};

/// Connections that have not said hello, and those that have. Only one user of the system can open any.
const MAX_STRANGERS: usize = 64;
const MAX_CALLERS: usize = 1024;
/// Lines that may wait for a slow reader; then whoever writes them waits.
const QUEUE: usize = 256;
/// Lines waiting at the same time go out in one write, up to about this many bytes.
const WRITE_BUFFER: usize = 64 << 10;
const READ_CHUNK: usize = 16 << 10;

/// Serves the line door until `shutdown` resolves.
pub async fn serve_lines(
    gate: Gate,
    listener: UnixListener,
    shutdown: impl Future<Output = Duration>,
) -> io::Result<()> {
    let (close, closing) = watch::channel(false);
    let door = Door::new(gate, Arc::default(), closing);
    let crowd = Crowd::new(MAX_STRANGERS, MAX_CALLERS);
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    let patience = loop {
        tokio::select! {
            patience = &mut shutdown => break patience,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(converse(Arc::clone(&door), stream, crowd.enter()));
                }
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection on the line door");
                    tokio::time::sleep(crate::listen::ACCEPT_PAUSE).await;
                }
            },
        }
    };
    // Nobody listening any more is fine: then there is nothing to end.
    let _ = close.send(true);
    let drained = tokio::time::timeout(patience, async {
        while connections.join_next().await.is_some() {}
    })
    .await;
    if drained.is_err() {
        tracing::warn!(
            connections = connections.len(),
            "closing line connections that did not finish in time"
        );
    }
    connections.shutdown().await;
    Ok(())
}

async fn converse(door: Arc<Door>, stream: UnixStream, guest: Arc<Guest>) {
    let (read, write) = tokio::io::split(stream);
    let mut write = Patient::new(write, door.gate.settings().write_timeout);
    let mut reader = Reader {
        read,
        lines: Lines::new(door.gate.settings().max_body_bytes),
        gate: door.gate.clone(),
        ended: false,
        caller: None,
        room: None,
    };
    let greeted = tokio::select! {
        greeted = hello::greet(&door, &mut reader) => greeted,
        () = guest.dismissed() => return,
    };
    let (caller, mount) = match greeted {
        Ok((caller, _)) if !guest.recognise(caller.id()) => {
            let _ = write
                .write_all(&hello::refusal(
                    "this caller has too many connections open: close one first",
                ))
                .await;
            return;
        }
        Ok(greeted) => greeted,
        Err(refusal) => {
            // The other side may be gone already; there is nobody else to tell.
            let _ = write.write_all(&refusal).await;
            return;
        }
    };
    reader.caller = Some(caller.clone());
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
    /// Who says it, once that is known, and the room for a line that does not come at once.
    caller: Option<Caller>,
    room: Option<RequestRoom>,
}

impl Reader {
    /// The next line; `None` at the end. Losing the future loses nothing.
    pub(super) async fn next(&mut self) -> Option<Line> {
        loop {
            if let Some(line) = self.lines.next_line() {
                return Some(match (line, self.room.take()) {
                    (Line::Whole(text), Some(room)) => Line::Whole(room.hold(text)),
                    (line, _) => line,
                });
            }
            if let (Some(caller), None, true) = (&self.caller, &self.room, self.lines.is_long()) {
                self.room = Some(
                    caller
                        .room_for_request(self.gate.settings().max_body_bytes)
                        .await,
                );
            }
            let buffer = self.lines.buffer();
            buffer.reserve(READ_CHUNK);
            // A long line that is not finished holds room that others of its caller may need.
            let patience = if self.room.is_some() {
                crate::body::DEADLINE
            } else {
                Duration::MAX
            };
            let Ok(read) = tokio::time::timeout(patience, self.read.read_buf(buffer)).await else {
                return None;
            };
            match read {
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

async fn write_lines(mut write: Patient<WriteHalf<UnixStream>>, mut queue: mpsc::Receiver<Parcel>) {
    let mut buffer = Vec::with_capacity(WRITE_BUFFER);
    while let Some(message) = queue.recv().await {
        if write_batch(&mut write, &mut buffer, message, &mut queue)
            .await
            .is_err()
        {
            return;
        }
    }
    let _ = write.shutdown().await;
}

/// Writes a line and those that wait behind it. What they hold is let go when all of them are written.
async fn write_batch(
    write: &mut Patient<WriteHalf<UnixStream>>,
    buffer: &mut Vec<u8>,
    first: Parcel,
    queue: &mut mpsc::Receiver<Parcel>,
) -> io::Result<()> {
    buffer.clear();
    let mut passes = Vec::new();
    let mut next = Some(first);
    while let Some(mut message) = next.take() {
        if message.remaining() >= WRITE_BUFFER {
            // It is not copied.
            write.write_all(buffer).await?;
            buffer.clear();
            write.write_all_buf(&mut message).await?;
        } else {
            message
                .pieces()
                .iter()
                .for_each(|piece| buffer.extend_from_slice(piece));
            passes.extend(message.into_passes());
        }
        buffer.push(b'\n');
        if buffer.len() < WRITE_BUFFER {
            next = queue.try_recv().ok();
        }
    }
    write.write_all(buffer).await?;
    write.flush().await
}
