//! Reading what a program prints on a thread, to the very end.
//!
//! When a program has ended, the last it printed may still lie in its pipes. Who then waits by the clock loses it on a machine that is busy
//! or stood still meanwhile. So the clock decides only how long an *empty* pipe is waited for; what is in a pipe is read, however late.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    thread::{Builder, JoinHandle},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use super::{Stream, Tail};

/// Everything of a program is gone when it has ended, so its pipes close; a process that is stuck in the kernel may keep one open.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// More than a pipe holds. Who writes more after its end is not done.
const LEFT_OVER: usize = 4 << 20;
const CHUNK: usize = 64 << 10;

/// Both streams of a program on their way into a [`Tail`].
#[derive(Debug)]
#[must_use = "nobody else reads what the program prints"]
pub struct Reading {
    thread: JoinHandle<Tail>,
    /// Closed when the program has ended.
    running: OwnedFd,
}

impl Reading {
    /// Starts to read; the last `most` bytes are kept.
    ///
    /// # Errors
    /// If there is no descriptor or no thread left.
    pub fn begin(stdout: OwnedFd, stderr: OwnedFd, most: usize) -> io::Result<Self> {
        let (ended, running) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let mut streams = Vec::new();
        for (which, fd) in [(Stream::Out, stdout), (Stream::Err, stderr)] {
            crate::set_nonblocking(&fd)?;
            streams.push(Source {
                which,
                fd,
                late: 0,
                is_open: true,
            });
        }
        let thread = Builder::new()
            .name("output".to_owned())
            .spawn(move || read(streams, &ended, Tail::new(most)))?;
        Ok(Self { thread, running })
    }

    /// What was printed, when the program has ended.
    #[must_use]
    pub fn end(self) -> Tail {
        drop(self.running);
        self.thread.join().unwrap_or_else(|_| Tail::new(0))
    }
}

struct Source {
    which: Stream,
    fd: OwnedFd,
    /// Bytes that were read after the program's end.
    late: usize,
    is_open: bool,
}

fn read(mut streams: Vec<Source>, ended: &OwnedFd, mut tail: Tail) -> Tail {
    let mut buffer = vec![0; CHUNK];
    let mut deadline: Option<Instant> = None;
    loop {
        // Whether the time is over is looked at before the pipes are: nothing that was there at that moment is missed.
        let left = deadline.map(|until| until.saturating_duration_since(Instant::now()));
        let mut was_empty = true;
        for source in streams.iter_mut().filter(|source| source.is_open) {
            match rustix::io::read(&source.fd, &mut buffer) {
                Ok(0) => source.is_open = false,
                Ok(read) => {
                    was_empty = false;
                    tail.push(source.which, buffer.get(..read).unwrap_or_default());
                    source.late += deadline.map_or(0, |_| read);
                    source.is_open = source.late < LEFT_OVER;
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => source.is_open = false,
            }
        }
        streams.retain(|source| source.is_open);
        if streams.is_empty() || (was_empty && left.is_some_and(|left| left.is_zero())) {
            return tail;
        }
        if was_empty && wait(&streams, deadline.is_none().then_some(ended), left) {
            deadline = Some(Instant::now() + LAST_WORDS);
        }
    }
}

/// Waits until there is something to read; whether the program is known to have ended.
fn wait(streams: &[Source], ended: Option<&OwnedFd>, left: Option<Duration>) -> bool {
    let fds = streams.iter().map(|source| source.fd.as_fd());
    let mut fds: Vec<PollFd<'_>> = ended
        .map(AsFd::as_fd)
        .into_iter()
        .chain(fds)
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
        .collect();
    let left = left.and_then(|left| Timespec::try_from(left).ok());
    // Whatever it says, the pipes are looked at next.
    let _ = poll(&mut fds, left.as_ref());
    ended.is_some() && fds.first().is_some_and(|fd| !fd.revents().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::pipe;

    fn write(fd: &OwnedFd, bytes: &[u8]) {
        assert_eq!(rustix::io::write(fd, bytes).unwrap(), bytes.len());
    }

    /// What lies in the pipes when a program ends is read, also where nobody has read before and somebody holds a pipe open.
    #[test]
    fn what_is_in_the_pipes_at_the_end_is_kept() {
        let ((out, out_in), (err, err_in)) = (pipe().unwrap(), pipe().unwrap());
        write(&out_in, &vec![b'o'; 60_000]);
        write(&err_in, b"end");
        let begun = Instant::now();
        let tail = Reading::begin(out, err, 1 << 20).unwrap().end();
        assert_eq!(
            (tail.printed(Stream::Out), tail.printed(Stream::Err)),
            (60_000, 3)
        );
        assert_eq!(tail.texts().err, "end");
        assert!(begun.elapsed() >= LAST_WORDS, "both ends are still open");
    }

    #[test]
    fn pipes_that_close_are_not_waited_for() {
        let ((out, out_in), (err, err_in)) = (pipe().unwrap(), pipe().unwrap());
        let reading = Reading::begin(out, err, 1 << 20).unwrap();
        let writer = std::thread::spawn(move || {
            for _ in 0..100 {
                write(&out_in, &[b'x'; 4096]);
            }
            write(&err_in, b"last");
        });
        writer.join().unwrap();
        let tail = reading.end();
        assert_eq!(tail.printed(Stream::Out), 409_600);
        assert_eq!(tail.texts().err, "last");
    }

    /// A pipe that somebody goes on writing to keeps nobody for ever.
    #[test]
    fn who_writes_after_the_end_is_not_read_for_ever() {
        let ((out, out_in), (err, _err_in)) = (pipe().unwrap(), pipe().unwrap());
        let reading = Reading::begin(out, err, 1000).unwrap();
        let writer = std::thread::spawn(move || {
            let mut written = 0;
            // Ends when the reader lets go of the pipe.
            while let Ok(more) = rustix::io::write(&out_in, &[b'x'; 4096]) {
                written += more;
            }
            written
        });
        assert!(reading.end().printed(Stream::Out) >= LEFT_OVER as u64);
        assert!(writer.join().unwrap() >= LEFT_OVER);
    }
}
