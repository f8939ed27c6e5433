//! A stdio server: one JSON-RPC message per line over the two pipe ends the gate handed over.
//!
//! The process itself belongs to the gate; here are only its pipes. A line that is not a message is skipped and counted, however
//! long it is: the stream stays in step.

use std::{
    cell::{Cell, RefCell},
    io,
    os::fd::OwnedFd,
    rc::{Rc, Weak},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::unix::pipe,
    sync::Notify,
    time::sleep,
};
use wire::{
    Skim,
    line::{Line, Lines},
};

use super::{connection::Connection, incoming::Incoming};
use crate::{descriptor::nonblocking, failure::Failure, fair::Turn, net::Payload};

/// Bytes waiting for a server that does not read its input.
const MAX_UNSENT: usize = 8 << 20;
const CHUNK: usize = 64 << 10;
/// How long a closed server has to take what was written to it.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Garbage lines of one server that are logged.
const LOGGED_GARBAGE: u64 = 5;

#[derive(Debug)]
pub(crate) struct StdioLink {
    unsent: RefCell<Vec<u8>>,
    fresh: Notify,
    room: Notify,
    closed: Cell<bool>,
}

/// The pipe ends, until [`start`] gives them to their tasks.
#[derive(Debug)]
pub(crate) struct Pipes {
    stdin: pipe::Sender,
    stdout: pipe::Receiver,
}

impl Pipes {
    /// `stdin` is the end we write to, `stdout` the end we read from.
    pub(crate) fn new(stdin: OwnedFd, stdout: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            stdin: pipe::Sender::from_owned_fd_unchecked(nonblocking(stdin)?)?,
            stdout: pipe::Receiver::from_owned_fd_unchecked(nonblocking(stdout)?)?,
        })
    }
}

impl StdioLink {
    pub(crate) fn new() -> Rc<Self> {
        Rc::new(Self {
            unsent: RefCell::default(),
            fresh: Notify::new(),
            room: Notify::new(),
            closed: Cell::new(false),
        })
    }

    /// Queues a line. Lines queued in one turn leave in one write.
    pub(crate) async fn send(&self, body: &Payload) -> Result<(), Failure> {
        while !self.closed.get() && self.unsent.borrow().len() > MAX_UNSENT {
            self.room.notified().await;
        }
        if self.closed.get() {
            return Err(Failure::upstream("the server's input is closed"));
        }
        let mut unsent = self.unsent.borrow_mut();
        body.pieces()
            .iter()
            .for_each(|piece| unsent.extend_from_slice(piece));
        unsent.push(b'\n');
        drop(unsent);
        self.fresh.notify_one();
        Ok(())
    }

    pub(crate) fn close(&self) {
        self.closed.set(true);
        self.fresh.notify_one();
        self.room.notify_waiters();
    }

    /// The link was closed and the server had time to take what was left.
    async fn abandoned(&self) {
        while !self.closed.get() {
            self.room.notified().await;
        }
        sleep(LAST_WORDS).await;
    }

    async fn write_to(&self, mut stdin: pipe::Sender) -> io::Result<()> {
        let mut sending = Vec::new();
        loop {
            std::mem::swap(&mut sending, &mut *self.unsent.borrow_mut());
            if sending.is_empty() {
                if self.closed.get() {
                    return Ok(());
                }
                self.fresh.notified().await;
                continue;
            }
            self.room.notify_waiters();
            tokio::select! {
                written = stdin.write_all(&sending) => written?,
                // A server that does not read its input cannot hold on to it.
                () = self.abandoned() => return Ok(()),
            }
            sending.clear();
            sending.shrink_to(CHUNK);
        }
    }
}

/// Starts reading and writing. Both tasks end with the connection.
pub(crate) fn start(conn: &Rc<Connection>, link: &Rc<StdioLink>, pipes: Pipes) {
    let writer = {
        let (conn, link) = (Rc::downgrade(conn), Rc::clone(link));
        tokio::task::spawn_local(async move {
            if let Err(error) = link.write_to(pipes.stdin).await
                && let Some(conn) = conn.upgrade()
            {
                conn.close(
                    Failure::upstream(format!("the server stopped reading its input: {error}")),
                    true,
                );
            }
        })
    };
    // The writer ends by itself once the link is closed and what was queued is out; the reader has nothing to finish.
    drop(writer);
    let reader = tokio::task::spawn_local(read(Rc::downgrade(conn), pipes.stdout));
    conn.own(reader.abort_handle());
}

async fn read(conn: Weak<Connection>, mut stdout: pipe::Receiver) {
    let Some(limit) = conn
        .upgrade()
        .map(|conn| conn.options.max_result.saturating_add(4096))
    else {
        return;
    };
    let mut lines = Lines::new(limit);
    let mut garbage = 0_u64;
    let mut turn = Turn::default();
    let why = loop {
        while let Some(line) = lines.next_line() {
            let Some(conn) = conn.upgrade() else { return };
            turn.spend(match &line {
                Line::Whole(text) => text.len(),
                Line::TooLong { bytes, .. } => *bytes,
            });
            take(&conn, line, limit, &mut garbage, &mut turn).await;
            drop(conn);
            turn.pass().await;
        }
        while let Some(skim) = lines.lagging() {
            turn.spend(skim.step());
            turn.pass().await;
        }
        lines.buffer().reserve(CHUNK);
        turn.pass().await;
        match stdout.read_buf(lines.buffer()).await {
            Ok(0) => {
                break "the server closed its output; its process has probably ended".to_owned();
            }
            Ok(read) => turn.spend(read),
            Err(error) => break format!("the server's output cannot be read: {error}"),
        }
    };
    if let Some(conn) = conn.upgrade() {
        conn.close(Failure::upstream(why), true);
    }
}

async fn take(conn: &Rc<Connection>, line: Line, limit: usize, garbage: &mut u64, turn: &mut Turn) {
    let problem = match line {
        Line::Whole(text) if text.iter().all(u8::is_ascii_whitespace) => return,
        Line::Whole(text) => match Incoming::read(text.clone(), limit).await {
            Ok(message) => return conn.route(message).await,
            Err(failure) => {
                let mut skim = Skim::default();
                skim.feed(&text);
                (skim, failure)
            }
        },
        Line::TooLong { skim, bytes, .. } => {
            let failure = Failure::too_large(format!(
                "the server sent a line of {bytes} bytes; at most {limit} are read"
            ));
            (*skim, failure)
        }
    };
    let (mut skim, failure) = problem;
    while skim.lags() {
        turn.spend(skim.step());
        turn.pass().await;
    }
    if conn.unread(&skim, &failure) {
        return;
    }
    *garbage += 1;
    if *garbage <= LOGGED_GARBAGE || garbage.is_power_of_two() {
        tracing::warn!(
            server = &*conn.server,
            lines = *garbage,
            "skipped a line of the server's output: {failure}"
        );
    }
}
