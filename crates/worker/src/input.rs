//! Lines from the gate.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::AsFd,
};

use tokio::{
    io::AsyncReadExt,
    net::{UnixStream, unix::pipe},
};
use wire::line::{Line, Lines};

use crate::descriptor::{Kind, nonblocking};

/// How much is read at once.
const CHUNK: usize = 64 << 10;

/// Standard input, cut into lines.
#[derive(Debug)]
pub(crate) struct Input {
    source: Source,
    lines: Lines,
    ended: bool,
}

#[derive(Debug)]
enum Source {
    Pipe(pipe::Receiver),
    Socket(UnixStream),
    /// A file; reading it does not block for long.
    File(File),
}

impl Input {
    pub(crate) fn stdin(kind: Kind) -> io::Result<Self> {
        let fd = io::stdin().as_fd().try_clone_to_owned()?;
        let source = match kind {
            Kind::Pipe => Source::Pipe(pipe::Receiver::from_owned_fd_unchecked(nonblocking(fd)?)?),
            Kind::Socket => Source::Socket(UnixStream::from_std(nonblocking(fd)?.into())?),
            Kind::File => Source::File(fd.into()),
        };
        Ok(Self {
            source,
            lines: Lines::new(wire::worker::LINE_LIMIT),
            ended: false,
        })
    }

    /// The next line; `None` at the end of the input. Nothing is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.lines.next_line() {
                return Ok(Some(line));
            }
            if self.ended {
                return Ok(None);
            }
            if self.fill().await? == 0 {
                self.ended = true;
                // A last line without a line break still counts.
                self.lines.feed(b"\n");
            }
        }
    }

    async fn fill(&mut self) -> io::Result<usize> {
        let buffer = self.lines.buffer();
        buffer.reserve(CHUNK);
        match &mut self.source {
            Source::Pipe(pipe) => pipe.read_buf(buffer).await,
            Source::Socket(socket) => socket.read_buf(buffer).await,
            Source::File(file) => {
                let mut chunk = vec![0; CHUNK];
                let read = file.read(&mut chunk)?;
                buffer.extend_from_slice(chunk.get(..read).unwrap_or_default());
                Ok(read)
            }
        }
    }
}
