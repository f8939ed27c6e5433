//! Starting the worker: three pipes, one socket, nothing else.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use crate::child::Child;
use crate::handover::{self, Sender};
use crate::spawn::{Command, SpawnError, Spawned};

/// What we would like a pipe to hold: one line of the worker's protocol at its longest.
const PIPE_BYTES: usize = 1 << 20;

/// A worker to be started. Its environment is empty but for what [`Worker::env`] adds.
#[derive(Debug, Clone)]
pub struct Worker {
    command: Command,
}

/// A worker just started. It is not confined until it has called [`enter`](super::enter) itself.
#[derive(Debug)]
#[must_use = "dropping it kills the worker"]
pub struct SpawnedWorker {
    pub child: Child,
    pub stdin: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    /// Where to hand it the pipes of stdio servers; the worker takes its end with `Receiver::inherited`.
    pub handover: Sender,
}

impl Worker {
    /// `program` is the full path of the worker's executable.
    pub fn new(program: impl AsRef<Path>) -> Self {
        Self {
            command: Command::new(program.as_ref()).directory("/"),
        }
    }

    #[must_use]
    pub fn arg(self, arg: impl AsRef<OsStr>) -> Self {
        Self {
            command: self.command.arg(arg),
        }
    }

    #[must_use]
    pub fn args(self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        Self {
            command: self.command.args(args),
        }
    }

    /// Adds one variable, for example the log filter. Never a secret: the worker must not hold any.
    #[must_use]
    pub fn env(self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        Self {
            command: self.command.env(name, value),
        }
    }

    /// Starts it. Blocks until the program runs or cannot: about a millisecond.
    ///
    /// # Errors
    /// As [`Command::spawn`], or if the handover socket cannot be made.
    pub fn spawn(self) -> Result<SpawnedWorker, SpawnError> {
        let (ours, theirs) = handover::pair().map_err(SpawnError::Handover)?;
        let Spawned {
            child,
            stdin,
            stdout,
            stderr,
        } = self.command.spawn_with(Some(theirs.into_fd()))?;
        for pipe in [&stdin, &stdout] {
            enlarge(pipe);
        }
        Ok(SpawnedWorker {
            child,
            stdin,
            stdout,
            stderr,
            handover: ours,
        })
    }
}

/// A larger pipe means fewer wake-ups per line. An ordinary user has a budget for it; beyond, the default size serves.
fn enlarge(pipe: &OwnedFd) {
    let _: io::Result<usize> =
        rustix::pipe::fcntl_setpipe_size(pipe, PIPE_BYTES).map_err(Into::into);
}
