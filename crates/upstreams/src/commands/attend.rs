//! A command while it runs: started, fed, drained, waited for, and ended by whoever stops waiting.
//!
//! **Invariant: a program lives no longer than somebody waits for it.** [`Kept`] kills when it is dropped, at whatever moment. Test
//! `whoever_ends_a_command_ends_its_program_too`.

use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
    process::ExitStatus,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sandbox::{
    Child, SpawnError, Spawned,
    jailer::{CommandLine, Rung},
    output::{Stream, Tail},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::unix::pipe,
    runtime::Handle,
    sync::OwnedSemaphorePermit,
    task::spawn_blocking,
};

use super::NotRan;
use crate::upstream::Hub;

/// A command that prints this many times what is kept of it is ended.
const FLOOD: u64 = 64;
/// And one that prints this much in any case.
const MOST_PRINTED: u64 = 256 << 20;
/// How often a kernel that cannot say when a process ends is asked.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Why a command does not run.
pub(super) enum NotStarted {
    /// There is no such program in the jail; whoever asked is told.
    NotExecuted(String),
    /// Whoever asked named a directory that is not there.
    Asked(String),
    /// Something of ours.
    Broken(String),
}

/// Our ends of a command's pipes.
pub(super) struct Pipes {
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

/// A command's program and its place. Killing waits for the kernel, so it happens on a thread where that is allowed; the place is free when
/// the program is gone.
pub(super) struct Kept {
    child: Option<Child>,
    place: Option<OwnedSemaphorePermit>,
    pid: u32,
}

impl Kept {
    fn new(child: Child, place: OwnedSemaphorePermit) -> Self {
        Self {
            pid: child.pid(),
            child: Some(child),
            place: Some(place),
        }
    }

    pub(super) const fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits until the program has ended by itself.
    async fn ended(&mut self) -> io::Result<ExitStatus> {
        let gone = || io::Error::other("the command was ended");
        let end = self.child.as_ref().and_then(Child::end_fd);
        let end = end.and_then(|end| end.as_fd().try_clone_to_owned().ok());
        // It is no pipe, and becomes readable like one.
        let mut end = end.and_then(|end| pipe::Receiver::from_owned_fd_unchecked(end).ok());
        loop {
            match end.take() {
                Some(end) => end.readable().await?,
                None => tokio::time::sleep(LOOK_AGAIN).await,
            }
            // Reaping looks for what the program left behind. Should nobody wait any more, the child is dropped over there.
            let mut child = self.child.take().ok_or_else(gone)?;
            let (child, status) = spawn_blocking(move || {
                let status = child.try_wait();
                (child, status)
            })
            .await
            .map_err(io::Error::other)?;
            self.child = Some(child);
            if let Some(status) = status? {
                return Ok(status);
            }
        }
    }

    /// Ends the program, and returns when it is gone.
    pub(super) async fn end(mut self, grace: Duration) {
        if let (Some(child), place) = (self.child.take(), self.place.take()) {
            // Nobody is left to tell of a failure; what the kernel holds on to is reaped later.
            let ended = spawn_blocking(move || {
                let _ = child.terminate(grace);
                drop(place);
            });
            let _ = ended.await;
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let left = (self.child.take(), self.place.take());
        if left.0.is_some()
            && let Ok(runtime) = Handle::try_current()
        {
            drop(runtime.spawn_blocking(move || drop(left)));
        }
    }
}

/// Builds the jail and starts the program. Should nobody wait any more, what was started is dropped over there.
pub(super) async fn start(
    hub: &Arc<Hub>,
    line: CommandLine,
    place: OwnedSemaphorePermit,
) -> Result<(Kept, Pipes), NotStarted> {
    let hub = Arc::clone(hub);
    let started = spawn_blocking(move || {
        let jailing = hub.jailing();
        if jailing.probe().rung() != Some(Rung::Namespaces) {
            let why = jailing.probe().repair().unwrap_or_default();
            return Err(NotStarted::Broken(format!(
                "commands need namespaces: {why}"
            )));
        }
        match line.jail().start(&jailing.jailer()) {
            Ok(jailed) => {
                let Spawned {
                    child,
                    stdin,
                    stdout,
                    stderr,
                } = jailed.spawned;
                let pipes = Pipes {
                    stdin,
                    stdout,
                    stderr,
                };
                Ok((Kept::new(child, place), pipes))
            }
            Err(
                error @ (SpawnError::NotOnPath { .. }
                | SpawnError::NoSuchFile { .. }
                | SpawnError::NoInterpreter { .. }
                | SpawnError::NotExecutable { .. }
                | SpawnError::NotExecuted { .. }),
            ) => Err(NotStarted::NotExecuted(error.to_string())),
            Err(error @ SpawnError::Directory { .. }) => Err(NotStarted::Asked(error.to_string())),
            Err(error) => Err(NotStarted::Broken(error.to_string())),
        }
    })
    .await;
    started.unwrap_or_else(|error| Err(NotStarted::Broken(error.to_string())))
}

/// Feeds and drains a command until it has ended. A program that closed its outputs is still waited for.
pub(super) async fn attend(
    kept: &mut Kept,
    pipes: Pipes,
    input: Vec<u8>,
    output_bytes: usize,
) -> Result<(Tail, ExitStatus), NotRan> {
    let tail = Mutex::new(Tail::new(output_bytes));
    let most = MOST_PRINTED.min(FLOOD.saturating_mul(output_bytes as u64));
    let flooded = |printed| NotRan::Flooded { printed };
    let (_, _, _, status) = tokio::try_join!(
        async {
            feed(pipes.stdin, input).await;
            Ok(())
        },
        async {
            drain(pipes.stdout, Stream::Out, &tail, most)
                .await
                .map_err(flooded)
        },
        async {
            drain(pipes.stderr, Stream::Err, &tail, most)
                .await
                .map_err(flooded)
        },
        async {
            let ended = kept.ended().await;
            ended.map_err(|error| NotRan::NotStarted(error.to_string()))
        },
    )?;
    Ok((
        tail.into_inner().unwrap_or_else(PoisonError::into_inner),
        status,
    ))
}

async fn feed(stdin: OwnedFd, input: Vec<u8>) {
    if let Ok(mut pipe) = pipe::Sender::from_owned_fd(stdin) {
        // A command need not read what it is given.
        let _ = pipe.write_all(&input).await;
    }
}

/// Reads a stream to its end; `Err` with how much was printed once that is too much.
async fn drain(stream: OwnedFd, which: Stream, tail: &Mutex<Tail>, most: u64) -> Result<(), u64> {
    let Ok(mut pipe) = pipe::Receiver::from_owned_fd(stream) else {
        return Ok(());
    };
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
        let printed = {
            let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
            tail.push(which, buffer.get(..read).unwrap_or_default());
            tail.printed(Stream::Out) + tail.printed(Stream::Err)
        };
        if printed > most {
            return Err(printed);
        }
    }
    Ok(())
}
