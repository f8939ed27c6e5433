//! A child process and everything that descends from it.
//!
//! Invariants:
//! - The group is signalled only while its leader is unreaped, so a signal can never reach a stranger that was given
//!   the same number later.
//! - Whoever sees a leader's end first kills the rest of its group, reaps it and sweeps up what left the group.
//! - Dropping a [`Child`] kills; no child outlives its owner.
//!
//! **Invariant: nothing we start outlives us.** Only what a server had forked off outlives a gate that is killed with
//! SIGKILL, until the end of its input. Tests `a_thousand_start_and_kill_cycles_leave_no_process`,
//! `stopping_leaves_no_process`, `a_killed_gate_takes_its_children_with_it`.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions};

use crate::mark::Mark;
use crate::{lock, orphans, registry};

/// How long dropping a [`Child`] may wait for the kernel; what is not gone by then, the keeper reaps.
const DROP_PATIENCE: Duration = Duration::from_millis(250);
/// How long [`Child::terminate`] waits after SIGKILL. Only a process stuck inside the kernel takes longer.
const KILL_PATIENCE: Duration = Duration::from_secs(2);
/// How often a kernel without pidfds is asked.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// A running (or just ended) child, leader of its own session and process group.
///
/// Dropping it kills it and waits for the kernel, a quarter of a second at most.
#[derive(Debug)]
pub struct Child {
    process: Arc<Process>,
}

impl Child {
    pub(crate) fn new(process: Arc<Process>) -> Self {
        Self { process }
    }

    /// The process id, which is also the id of its group and session.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// A descriptor that becomes readable when the child ends, for an event loop; `None` on kernels before 5.3.
    #[must_use]
    pub fn end_fd(&self) -> Option<BorrowedFd<'_>> {
        self.process.pidfd.as_ref().map(AsFd::as_fd)
    }

    /// How the child ended, or `None` while it runs. Never waits.
    ///
    /// # Errors
    /// If the kernel refuses to tell.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.process.finish()
    }

    /// Waits at most `patience` for the child to end by itself.
    ///
    /// # Errors
    /// If the kernel refuses to tell.
    pub fn wait_timeout(&mut self, patience: Duration) -> io::Result<Option<ExitStatus>> {
        self.process.finish_by(Instant::now() + patience)
    }

    /// Ends the child: SIGTERM to its group, `grace` to comply, then SIGKILL to all that is left, daemons included.
    ///
    /// Close the child's standard input first; most servers end at that. Blocks: call it where blocking is allowed.
    ///
    /// # Errors
    /// If the group cannot be signalled, or the kernel has not let go of the leader two seconds after SIGKILL.
    pub fn terminate(mut self, grace: Duration) -> io::Result<ExitStatus> {
        self.process.signal_group(Signal::TERM)?;
        if let Some(status) = self.wait_timeout(grace)? {
            return Ok(status);
        }
        self.kill()
    }

    /// Ends the child at once: SIGKILL to its group and to all that descends from it.
    ///
    /// # Errors
    /// As [`Child::terminate`].
    pub fn kill(mut self) -> io::Result<ExitStatus> {
        self.process.signal_group(Signal::KILL)?;
        let pid = self.pid();
        self.wait_timeout(KILL_PATIENCE)?.ok_or_else(|| {
            let reason =
                format!("process {pid} is stuck inside the kernel and did not end after SIGKILL");
            io::Error::new(io::ErrorKind::TimedOut, reason)
        })
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Nobody is left to tell; what fails here the keeper tries again.
        let _ = self.process.signal_group(Signal::KILL);
        let _ = self.process.finish_by(Instant::now() + DROP_PATIENCE);
    }
}

/// What the registry and the owner of a [`Child`] share.
pub(crate) struct Process {
    pid: Pid,
    mark: Mark,
    pidfd: Option<OwnedFd>,
    /// How it ended. Locked around every signal and every wait: see the module's first invariant.
    ended: Mutex<Option<ExitStatus>>,
}

impl Process {
    /// Takes charge of the child `pid`, which nobody has waited for.
    pub(crate) fn new(pid: Pid, mark: Mark) -> Self {
        let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok();
        Self {
            pid,
            mark,
            pidfd,
            ended: Mutex::new(None),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    pub(crate) fn mark(&self) -> Mark {
        self.mark
    }

    /// Signals the whole group, unless the leader was reaped.
    pub(crate) fn signal_group(&self, signal: Signal) -> io::Result<()> {
        let ended = lock(&self.ended);
        if ended.is_some() {
            return Ok(());
        }
        self.signal_unreaped_group(signal)
    }

    fn signal_unreaped_group(&self, signal: Signal) -> io::Result<()> {
        match rustix::process::kill_process_group(self.pid, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// If the leader has ended: kills the rest of its group, reaps it, sweeps up strays.
    pub(crate) fn finish(&self) -> io::Result<Option<ExitStatus>> {
        let mut ended = lock(&self.ended);
        if ended.is_some() {
            return Ok(*ended);
        }
        if !self.leader_has_ended()? {
            return Ok(None);
        }
        self.signal_unreaped_group(Signal::KILL)?;
        let status = self.reap()?;
        *ended = Some(status);
        drop(ended);
        registry::leave(self.mark);
        orphans::reap_orphans();
        Ok(Some(status))
    }

    /// [`Process::finish`], waiting for the leader's end until `deadline`.
    pub(crate) fn finish_by(&self, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        loop {
            if let Some(status) = self.finish()? {
                return Ok(Some(status));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.sleep_until_end(left)?;
        }
    }

    /// Asks without reaping, so that the group's number stays ours for one more signal.
    fn leader_has_ended(&self) -> io::Result<bool> {
        let peek = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match rustix::process::waitid(WaitId::Pid(self.pid), peek) {
            Ok(status) => Ok(status.is_some()),
            Err(rustix::io::Errno::CHILD) => Ok(true),
            Err(errno) => Err(errno.into()),
        }
    }

    fn reap(&self) -> io::Result<ExitStatus> {
        match rustix::process::waitpid(Some(self.pid), WaitOptions::NOHANG) {
            Ok(Some((_, status))) => Ok(ExitStatus::from_raw(status.as_raw())),
            // This process ignores SIGCHLD, so the kernel reaped for us and forgot how the child ended.
            Err(rustix::io::Errno::CHILD) => Ok(ExitStatus::from_raw(libc::SIGKILL)),
            Ok(None) => Err(io::Error::other("a dead child could not be reaped")),
            Err(errno) => Err(errno.into()),
        }
    }

    fn sleep_until_end(&self, patience: Duration) -> io::Result<()> {
        let Some(pidfd) = &self.pidfd else {
            std::thread::sleep(LOOK_AGAIN.min(patience));
            return Ok(());
        };
        let timeout = Timespec::try_from(patience).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("pid", &self.pid())
            .finish_non_exhaustive()
    }
}
