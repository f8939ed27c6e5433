//! The calls that have no safe wrapper: what runs between fork and exec, and a handful of raw system calls.
//!
//! Nothing here decides anything. Every `unsafe` block states why it is sound.
#![expect(
    unsafe_code,
    reason = "pre_exec, close_range and adopting an inherited descriptor have no safe form"
)]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Resource, Rlimit, Signal};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::mark::Mark;

/// The descriptor number on which a worker finds its end of the handover socket.
pub(crate) const HANDOVER_FD: RawFd = 3;

/// What a child does to itself between fork and exec.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prelude {
    /// The process that forks; a child that finds another parent was orphaned before it could ask to die with it.
    pub(crate) parent: Pid,
    pub(crate) mark: Mark,
    /// A descriptor of the parent that the child keeps, as [`HANDOVER_FD`].
    pub(crate) handover: Option<RawFd>,
    /// The limits of open descriptors that the child gets, where the parent has others.
    pub(crate) descriptors: Option<(Option<u64>, Option<u64>)>,
    pub(crate) keeps_capabilities: bool,
}

impl Prelude {
    /// Arranges for the prelude to run in the child of `command`.
    pub(crate) fn attach(self, command: &mut Command) {
        // SAFETY: the closure runs in a forked copy of a threaded process, where only async-signal-safe work is
        // allowed. It makes system calls on values captured by copy; it neither allocates nor takes a lock.
        unsafe { command.pre_exec(move || self.run()) };
    }

    fn run(self) -> io::Result<()> {
        rustix::process::setsid()?;
        reset_signal_dispositions();
        if !self.keeps_capabilities {
            give_up_capabilities()?;
        }
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        if rustix::process::getppid() != Some(self.parent) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        rustix::thread::set_no_new_privs(true)?;
        set_limit(Resource::Core, 0)?;
        set_limit(Resource::Locks, self.mark.value())?;
        close_on_exec_from(HANDOVER_FD)?;
        // Not before: the descriptors above this limit are closed too.
        if let Some((current, maximum)) = self.descriptors {
            rustix::process::setrlimit(Resource::Nofile, Rlimit { current, maximum })?;
        }
        match self.handover {
            Some(fd) => place_handover(fd),
            None => Ok(()),
        }
    }
}

/// More than Linux has, and as many as its interface has room for.
const MOST_CAPABILITIES: libc::c_ulong = 64;

/// Root's powers are not a server's: without them it cannot read this process through `/proc`, whoever runs it. Out of the bounding set,
/// so that no program it starts gets one back.
pub(crate) fn give_up_capabilities() -> io::Result<()> {
    for capability in 0..MOST_CAPABILITIES {
        // SAFETY: takes two numbers and touches no memory of ours. It fails for numbers that stand for nothing, and for whoever has no
        // capability to give up; both leave nothing to do.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
    }
    // Gone with the permitted set below in any case; the call itself is absent before Linux 4.3.
    let _ = rustix::thread::clear_ambient_capability_set();
    let none = CapabilitySet::empty();
    let sets = CapabilitySets {
        effective: none,
        permitted: none,
        inheritable: none,
    };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

fn set_limit(resource: Resource, value: u64) -> io::Result<()> {
    let limit = Rlimit {
        current: Some(value),
        maximum: Some(value),
    };
    Ok(rustix::process::setrlimit(resource, limit)?)
}

/// Puts every signal back to its default. Handlers vanish at exec by themselves; *ignored* signals would not.
///
/// Past the C library, which will not touch the two signals it keeps for itself, though a parent may ignore them too.
fn reset_signal_dispositions() {
    const LAST_SIGNAL: libc::c_int = 64;
    const SIGNAL_SET_BYTES: usize = 8;
    // The kernel's own structure, all zero: default disposition, no flags, no restorer, empty mask.
    let default = [0_u64; 4];
    for signal in 1..=LAST_SIGNAL {
        let old = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: the kernel reads `default`, which is as large as its structure and outlives the call, and writes
        // nothing. For the signals that cannot be changed the call fails without effect.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                old,
                SIGNAL_SET_BYTES,
            )
        };
    }
}

/// Marks every descriptor from `first` on as closing at exec. Not closed at once: the pipe on which the standard
/// library reports a failed exec is among them.
fn close_on_exec_from(first: RawFd) -> io::Result<()> {
    const CLOSE_RANGE_CLOEXEC: libc::c_uint = 4;
    match close_range(first, CLOSE_RANGE_CLOEXEC) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL)) => {
            for fd in first..descriptor_ceiling() {
                // SAFETY: F_SETFD touches only the descriptor's own flag; on a number that is not open it fails.
                unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
            }
            Ok(())
        }
        outcome => outcome,
    }
}

/// Makes `fd` available as [`HANDOVER_FD`] across exec.
fn place_handover(fd: RawFd) -> io::Result<()> {
    // SAFETY: `fd` is open in this process (the parent holds it until the spawn returns). The number it is copied to
    // belongs to nobody after the exec that follows.
    let outcome = unsafe {
        if fd == HANDOVER_FD {
            libc::fcntl(fd, libc::F_SETFD, 0)
        } else {
            libc::dup2(fd, HANDOVER_FD)
        }
    };
    if outcome < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Closes every descriptor from `first` on, for good.
///
/// For a process that is still alone with its descriptors: anything that owns one of them would be left holding a
/// number that no longer means what it did.
pub(crate) fn close_from(first: RawFd) -> io::Result<()> {
    match close_range(first, 0) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL)) => {
            for fd in first..descriptor_ceiling() {
                // SAFETY: closing a number that is not open fails without effect; the caller owns the others.
                unsafe { libc::close(fd) };
            }
            Ok(())
        }
        outcome => outcome,
    }
}

fn close_range(first: RawFd, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: three integers in, nothing borrowed. What it does to the descriptors is the caller's contract.
    let outcome = unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, flags) };
    if outcome < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

fn descriptor_ceiling() -> RawFd {
    const WITHOUT_LIMIT: RawFd = 1 << 20;
    let limit = rustix::process::getrlimit(Resource::Nofile).current;
    limit
        .and_then(|limit| RawFd::try_from(limit).ok())
        .unwrap_or(WITHOUT_LIMIT)
}

/// Takes ownership of the inherited [`HANDOVER_FD`]. `None` if it was taken before or is not what the gate passes.
pub(crate) fn take_handover() -> Option<OwnedFd> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if !handover_is_a_packet_socket() || TAKEN.swap(true, Ordering::SeqCst) {
        return None;
    }
    // SAFETY: the number is open, and `TAKEN` lets exactly one caller own it. Nothing else in the worker makes packet
    // sockets of the unix family, so this is the one inherited from the parent.
    Some(unsafe { OwnedFd::from_raw_fd(HANDOVER_FD) })
}

/// Takes ownership of the stream that a jailer finds as [`HANDOVER_FD`], and lets it close at exec. `None` if there is none.
pub(crate) fn take_stream() -> Option<OwnedFd> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let is_stream = socket_option(libc::SO_DOMAIN) == Some(libc::AF_UNIX)
        && socket_option(libc::SO_TYPE) == Some(libc::SOCK_STREAM);
    if !is_stream || TAKEN.swap(true, Ordering::SeqCst) {
        return None;
    }
    // SAFETY: the number is open, and `TAKEN` lets exactly one caller own it. A jailer has opened nothing before it asks.
    let stream = unsafe { OwnedFd::from_raw_fd(HANDOVER_FD) };
    rustix::io::fcntl_setfd(&stream, rustix::io::FdFlags::CLOEXEC).ok()?;
    Some(stream)
}

/// Closes a descriptor that nothing of ours owns: one of the standard three.
pub(crate) fn close_number(fd: RawFd) {
    // SAFETY: the callers name 0, 1 and 2, which no value of this program owns.
    unsafe { libc::close(fd) };
}

/// Whether the inherited [`HANDOVER_FD`] is what the gate passes: a unix socket that keeps packets apart.
pub(crate) fn handover_is_a_packet_socket() -> bool {
    socket_option(libc::SO_DOMAIN) == Some(libc::AF_UNIX)
        && socket_option(libc::SO_TYPE) == Some(libc::SOCK_SEQPACKET)
}

fn socket_option(option: libc::c_int) -> Option<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut length = libc::socklen_t::try_from(size_of::<libc::c_int>()).ok()?;
    // SAFETY: `value` and `length` outlive the call, and `length` is the true size of `value`.
    let outcome = unsafe {
        libc::getsockopt(
            HANDOVER_FD,
            libc::SOL_SOCKET,
            option,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    (outcome == 0).then_some(value)
}

/// The version of Landlock this kernel speaks; `None` where it has none.
pub(crate) fn landlock_abi() -> Option<u32> {
    const LANDLOCK_CREATE_RULESET_VERSION: libc::c_uint = 1;
    let nothing = std::ptr::null::<libc::c_void>();
    // SAFETY: with this flag the kernel takes a null pointer and a zero size, and only answers a number.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            nothing,
            0_usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(answer).ok().filter(|&version| version > 0)
}

/// Whether a seccomp filter may answer a call with an error number here.
pub(crate) fn seccomp_can_refuse() -> bool {
    let action: u32 = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the kernel reads four bytes at `action`, which outlives the call.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_GET_ACTION_AVAIL,
            0,
            &raw const action,
        )
    };
    answer == 0
}
