//! The system calls a jail is built with, as safe functions: mounts, namespaces, fork, exec.
//!
//! Nothing here decides anything. Every `unsafe` block says why it is sound. The process that calls these has one thread.
#![expect(
    unsafe_code,
    reason = "mounts, fork, exec and namespaces have no safe form in the libraries we link"
)]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libc::{c_int, c_long, c_uint};

/// The kernel's `struct mount_attr`.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

const EMPTY: &CStr = c"";
const NO_SET_USER_ID: u64 = libc::MOUNT_ATTR_NOSUID;
const NO_DEVICES: u64 = libc::MOUNT_ATTR_NODEV;
const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY;
const ID_MAP: u64 = libc::MOUNT_ATTR_IDMAP;

fn check(answer: c_long) -> io::Result<c_long> {
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(answer)
    }
}

fn descriptor(answer: c_long) -> io::Result<OwnedFd> {
    let number = RawFd::try_from(check(answer)?).map_err(io::Error::other)?;
    // SAFETY: the kernel has just given us this descriptor; nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

pub(super) fn c_text(text: &std::ffi::OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// Leaves the namespaces of `flags` for new ones.
pub(super) fn unshare(flags: c_int) -> io::Result<()> {
    // SAFETY: takes a number. The process has one thread, so nothing else relied on what it shared.
    check(unsafe { libc::unshare(flags) }.into()).map(drop)
}

/// What [`fork`] returned in.
pub(super) enum Forked {
    Parent(c_int),
    Child,
}

/// Copies this process, which has one thread: the copy may allocate and take locks like any other.
pub(super) fn fork() -> io::Result<Forked> {
    // SAFETY: with one thread there is no lock that a vanished thread could hold in the copy.
    match check(unsafe { libc::fork() }.into())? {
        0 => Ok(Forked::Child),
        pid => Ok(Forked::Parent(
            c_int::try_from(pid).map_err(io::Error::other)?,
        )),
    }
}

/// Ends this process without running what the program registered for its end.
pub(super) fn leave(code: c_int) -> ! {
    // SAFETY: ends the process; nothing of ours runs after it.
    unsafe { libc::_exit(code) }
}

/// A copy of a mount and everything mounted below it, attached to nothing yet.
pub(super) fn clone_tree(source: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = libc::OPEN_TREE_CLONE
        | libc::OPEN_TREE_CLOEXEC
        | c_uint::try_from(libc::AT_EMPTY_PATH | libc::AT_RECURSIVE).unwrap_or(0);
    // SAFETY: the empty path outlives the call; `source` is open.
    descriptor(unsafe {
        libc::syscall(
            libc::SYS_open_tree,
            source.as_raw_fd(),
            EMPTY.as_ptr(),
            flags,
        )
    })
}

/// What a mount may be used for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Use<'a> {
    pub(super) writable: bool,
    pub(super) devices: bool,
    /// The user namespace whose map translates the owners of its files.
    pub(super) owners: Option<BorrowedFd<'a>>,
}

/// Restricts a mount, and those below it unless only `top` is meant.
pub(super) fn restrict_mount(mount: BorrowedFd<'_>, allowed: Use<'_>, top: bool) -> io::Result<()> {
    let mut attributes = Attributes {
        set: NO_SET_USER_ID,
        ..Attributes::default()
    };
    if !allowed.writable {
        attributes.set |= READ_ONLY;
    }
    if !allowed.devices {
        attributes.set |= NO_DEVICES;
    }
    if let Some(owners) = allowed.owners {
        attributes.set |= ID_MAP;
        attributes.user_namespace = u64::try_from(owners.as_raw_fd()).unwrap_or(u64::MAX);
    }
    let depth = if top { 0 } else { libc::AT_RECURSIVE };
    // SAFETY: `attributes` has the kernel's layout, its true size is passed, and it outlives the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            EMPTY.as_ptr(),
            libc::AT_EMPTY_PATH | depth,
            &raw const attributes,
            size_of::<Attributes>(),
        )
    })
    .map(drop)
}

/// Puts a detached mount onto `target`.
pub(super) fn attach(mount: BorrowedFd<'_>, target: BorrowedFd<'_>) -> io::Result<()> {
    let flags = libc::MOVE_MOUNT_F_EMPTY_PATH | libc::MOVE_MOUNT_T_EMPTY_PATH;
    // SAFETY: both descriptors are open and the empty paths outlive the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            mount.as_raw_fd(),
            EMPTY.as_ptr(),
            target.as_raw_fd(),
            EMPTY.as_ptr(),
            flags,
        )
    })
    .map(drop)
}

/// A new file system of this kind, attached to nothing yet.
pub(super) fn new_filesystem(
    kind: &CStr,
    options: &[(&CStr, CString)],
    allowed: Use<'_>,
) -> io::Result<OwnedFd> {
    // SAFETY: the name outlives the call.
    let context = descriptor(unsafe {
        libc::syscall(libc::SYS_fsopen, kind.as_ptr(), 1 /* close on exec */)
    })?;
    let configure = |command: c_uint, key: *const libc::c_char, value: *const libc::c_char| {
        // SAFETY: key and value are null or texts that outlive the call, as `command` wants them.
        check(unsafe {
            libc::syscall(
                libc::SYS_fsconfig,
                context.as_raw_fd(),
                command,
                key,
                value,
                0,
            )
        })
    };
    for (key, value) in options {
        if value.is_empty() {
            configure(libc::FSCONFIG_SET_FLAG, key.as_ptr(), std::ptr::null())?;
        } else {
            configure(libc::FSCONFIG_SET_STRING, key.as_ptr(), value.as_ptr())?;
        }
    }
    configure(
        libc::FSCONFIG_CMD_CREATE,
        std::ptr::null(),
        std::ptr::null(),
    )?;
    let mut attributes = NO_SET_USER_ID;
    if !allowed.devices {
        attributes |= NO_DEVICES;
    }
    if !allowed.writable {
        attributes |= READ_ONLY;
    }
    // SAFETY: takes a descriptor and numbers.
    descriptor(unsafe {
        libc::syscall(
            libc::SYS_fsmount,
            context.as_raw_fd(),
            libc::FSMOUNT_CLOEXEC,
            attributes,
        )
    })
}

/// Keeps what is mounted here from showing outside, and the other way round.
pub(super) fn make_mounts_private() -> io::Result<()> {
    let nothing = std::ptr::null();
    // SAFETY: the path outlives the call; the other pointers may be null for this operation.
    check(
        unsafe {
            libc::mount(
                nothing,
                c"/".as_ptr(),
                nothing,
                libc::MS_REC | libc::MS_PRIVATE,
                nothing.cast(),
            )
        }
        .into(),
    )
    .map(drop)
}

/// Makes the working directory the root, and lets go of the old one.
pub(super) fn make_directory_the_root() -> io::Result<()> {
    let here = c".".as_ptr();
    // SAFETY: the paths outlive the calls.
    check(unsafe { libc::syscall(libc::SYS_pivot_root, here, here) })?;
    // SAFETY: as above. The old root lies over the new one now, and is what `.` names.
    check(unsafe { libc::umount2(here, libc::MNT_DETACH) }.into())?;
    rustix::process::chdir("/")?;
    Ok(())
}

/// Takes a mount away again; who has it open keeps it.
pub(super) fn detach(path: &Path) -> io::Result<()> {
    let path = c_text(path.as_os_str())?;
    // SAFETY: the path outlives the call.
    check(unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) }.into()).map(drop)
}

/// Switches the loopback device of a new network on.
pub(super) fn raise_loopback() -> io::Result<()> {
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    )?;
    let mut request = [0_u8; 40];
    for (slot, byte) in request.iter_mut().zip(b"lo") {
        *slot = *byte;
    }
    let up = u16::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or(0);
    for (slot, byte) in request.iter_mut().skip(16).zip(up.to_ne_bytes()) {
        *slot = byte;
    }
    const SET_FLAGS: libc::c_ulong = 0x8914;
    // SAFETY: `request` is as large as the kernel's `struct ifreq` (a name of 16 bytes, then the flags) and outlives the call.
    check(
        unsafe {
            libc::ioctl(
                socket.as_fd().as_raw_fd(),
                SET_FLAGS as _,
                request.as_mut_ptr(),
            )
        }
        .into(),
    )
    .map(drop)
}

pub(super) fn set_host_name(name: &str) -> io::Result<()> {
    // SAFETY: pointer and length are those of a text that outlives the call.
    check(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) }.into()).map(drop)
}

/// Nothing that this process or a program of its could execute brings a capability back, and no secure bit undoes that.
pub(super) fn lock_secure_bits() -> io::Result<()> {
    // SECBIT_NOROOT, SECBIT_NO_SETUID_FIXUP and SECBIT_NO_CAP_AMBIENT_RAISE, each with its lock.
    const BITS: libc::c_ulong = 0b1 | 0b10 | 0b100 | 0b1000 | 0b100_0000 | 0b1000_0000;
    // SAFETY: takes numbers.
    check(unsafe { libc::prctl(libc::PR_SET_SECUREBITS, BITS, 0, 0, 0) }.into()).map(drop)
}

/// Waits for signals of `set` and returns the next, or `None` after `patience`.
pub(super) fn next_signal(
    set: &[c_int],
    patience: Option<std::time::Duration>,
) -> io::Result<Option<c_int>> {
    let set = signal_set(set);
    let answer = match patience {
        Some(patience) => {
            let limit = libc::timespec {
                tv_sec: libc::time_t::try_from(patience.as_secs()).unwrap_or(libc::time_t::MAX),
                tv_nsec: patience.subsec_nanos().into(),
            };
            // SAFETY: set and limit outlive the call; no information about the sender is asked for.
            unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const limit) }
        }
        // SAFETY: as above.
        None => unsafe { libc::sigwaitinfo(&raw const set, std::ptr::null_mut()) },
    };
    match check(answer.into()) {
        Ok(_) => Ok(Some(answer)),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Holds these signals back until they are waited for.
pub(super) fn block_signals(set: &[c_int]) -> io::Result<()> {
    change_mask(libc::SIG_BLOCK, set)
}

/// Lets every signal through again.
pub(super) fn unblock_signals() -> io::Result<()> {
    change_mask(libc::SIG_SETMASK, &[])
}

fn change_mask(how: c_int, set: &[c_int]) -> io::Result<()> {
    let set = signal_set(set);
    // SAFETY: the set outlives the call; the old mask is not asked for.
    check(unsafe { libc::sigprocmask(how, &raw const set, std::ptr::null_mut()) }.into()).map(drop)
}

fn signal_set(signals: &[c_int]) -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: `sigemptyset` makes it valid, `sigaddset` changes a valid set and refuses numbers that are none.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for &signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

/// How the next child that ended did: its number and its raw status.
pub(super) fn reap_any() -> Option<(c_int, c_int)> {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    (pid > 0).then_some((pid, status))
}

/// Waits for this child.
pub(super) fn reap(pid: c_int) -> Option<c_int> {
    let mut status = 0;
    loop {
        // SAFETY: `status` outlives the call.
        let answer = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        if answer == pid {
            return Some(status);
        }
        if io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            return None;
        }
    }
}

/// Signals a process, or with a negative number its group.
pub(super) fn signal(pid: c_int, signal: c_int) {
    // SAFETY: takes numbers. A process that is gone is fine: it needs no signal any more.
    unsafe { libc::kill(pid, signal) };
}

/// Ends this process the way a raw wait status says another one ended.
pub(super) fn end_like(status: c_int) -> ! {
    if libc::WIFSIGNALED(status) {
        let number = libc::WTERMSIG(status);
        // SAFETY: takes numbers; with the default disposition and unblocked, the signal ends this process.
        unsafe { libc::signal(number, libc::SIG_DFL) };
        let _ = unblock_signals();
        signal(std::process::id().try_into().unwrap_or(0), number);
        leave(128_i32.saturating_add(number));
    }
    leave(libc::WEXITSTATUS(status))
}

/// Becomes another program. Returns only if the kernel refuses.
pub(super) fn execute(program: &CStr, arguments: &[CString], environment: &[CString]) -> io::Error {
    let list = |texts: &[CString]| {
        let mut list: Vec<*const libc::c_char> = texts.iter().map(|text| text.as_ptr()).collect();
        list.push(std::ptr::null());
        list
    };
    let (arguments, environment) = (list(arguments), list(environment));
    // SAFETY: both lists end with null and point at texts that outlive the call.
    unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    io::Error::last_os_error()
}

/// Takes ownership of the descriptor the jailer was started with.
pub(super) fn inherited() -> Option<OwnedFd> {
    crate::sys::take_stream()
}
