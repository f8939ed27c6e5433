//! The raw calls behind the attempts.
//!
//! The standard library would hide which call was refused and why, so the attempts go to the kernel directly.
#![expect(
    unsafe_code,
    reason = "the attempts are system calls no library offers, made on purpose"
)]

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libc::{c_int, c_long};

/// `Ok` if the kernel did it, else the error number.
pub(super) type Answer = Result<(), i32>;

/// An address no process can map: what a call that gets as far as looking at its argument stumbles over.
pub(super) const NOWHERE: usize = 1;

/// Makes one call with integer arguments, and undoes what can be undone: a descriptor it returns is closed.
pub(super) fn call(number: c_long, arguments: [usize; 6]) -> Answer {
    number_from(number, arguments).map(|_| ())
}

/// The same for calls that return a descriptor.
pub(super) fn call_for_fd(number: c_long, arguments: [usize; 6]) -> Answer {
    number_from(number, arguments).map(|fd| {
        // SAFETY: the kernel has just given us this descriptor; nobody else knows of it.
        unsafe { libc::close(fd as c_int) };
    })
}

fn number_from(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> Result<c_long, i32> {
    // SAFETY: the callers in `table.rs` pass integers, null, `NOWHERE`, or pointers to values that outlive the call;
    // none lets the kernel write to memory of ours that is not theirs to give.
    let answer = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if answer < 0 {
        Err(last_error())
    } else {
        Ok(answer)
    }
}

/// A call whose first two arguments are "this directory" and a path.
pub(super) fn call_at(number: c_long, path: &Path, third: usize, fourth: usize) -> Answer {
    let path = c_path(path)?;
    let here = libc::AT_FDCWD as usize;
    call(number, [here, path.as_ptr() as usize, third, fourth, 0, 0])
}

/// Opens a path with these flags, as any program would.
pub(super) fn open(path: &Path, flags: c_int) -> Answer {
    let path = c_path(path)?;
    call_for_fd(
        libc::SYS_openat,
        [
            libc::AT_FDCWD as usize,
            path.as_ptr() as usize,
            flags as usize,
            0o600,
            0,
            0,
        ],
    )
}

/// The newer `openat2`, which takes its flags in memory.
pub(super) fn open_the_new_way(path: &Path) -> Answer {
    let path = c_path(path)?;
    let how: [u64; 3] = [0, 0, 0];
    let (path, how) = (path.as_ptr() as usize, how.as_ptr() as usize);
    call_for_fd(
        libc::SYS_openat2,
        [
            libc::AT_FDCWD as usize,
            path,
            how,
            size_of::<[u64; 3]>(),
            0,
            0,
        ],
    )
}

/// Runs a program, with arguments the kernel cannot read: outside the jail this process survives the attempt too.
pub(super) fn execute(path: &Path) -> Answer {
    let path = c_path(path)?;
    call(
        libc::SYS_execve,
        [path.as_ptr() as usize, NOWHERE, 0, 0, 0, 0],
    )
}

/// Makes a new process. Where that works, the new one ends at once and is reaped.
pub(super) fn fork() -> Answer {
    let child = number_from(libc::SYS_clone, [libc::SIGCHLD as usize, 0, 0, 0, 0, 0])?;
    if child == 0 {
        // SAFETY: we are the new process; this ends it without running anything else.
        unsafe { libc::_exit(0) };
    }
    // SAFETY: `child` is ours to wait for; a null status pointer is allowed.
    unsafe { libc::waitpid(child as c_int, std::ptr::null_mut(), 0) };
    Ok(())
}

/// Attaches to a process as a tracer. Where that works, lets go again at once.
pub(super) fn trace(pid: u32) -> Answer {
    let pid = pid as usize;
    call(
        libc::SYS_ptrace,
        [libc::PTRACE_SEIZE as usize, pid, 0, 0, 0, 0],
    )?;
    // The target runs on whether or not it can be detached while running; the trace ends with this process.
    let _ = call(
        libc::SYS_ptrace,
        [libc::PTRACE_DETACH as usize, pid, 0, 0, 0, 0],
    );
    Ok(())
}

/// Reads from or writes to another process's memory, at an address that holds nothing.
pub(super) fn reach_memory(number: c_long, pid: u32) -> Answer {
    let mut byte = 0_u8;
    let here = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    let there = libc::iovec {
        iov_base: NOWHERE as *mut libc::c_void,
        iov_len: 1,
    };
    let (here, there) = (&raw const here as usize, &raw const there as usize);
    call(number, [pid as usize, here, 1, there, 1, 0])
}

/// Connects a socket that is allowed (one end of a stream pair) to a unix socket that is not ours.
pub(super) fn connect_a_pair_to(path: &Path) -> Answer {
    let (one, _other) = std::os::unix::net::UnixStream::pair()
        .map_err(|error| error.raw_os_error().unwrap_or(0))?;
    let address = unix_address(path.as_os_str().as_bytes());
    call_with_address(
        libc::SYS_connect,
        std::os::fd::AsRawFd::as_raw_fd(&one),
        &address,
    )
}

/// Makes a unix socket and connects it, the way any client would.
pub(super) fn connect_unix(path: &Path) -> Answer {
    let kind = (libc::SOCK_STREAM | libc::SOCK_CLOEXEC) as usize;
    let fd = number_from(libc::SYS_socket, [libc::AF_UNIX as usize, kind, 0, 0, 0, 0])? as c_int;
    let answer = call_with_address(
        libc::SYS_connect,
        fd,
        &unix_address(path.as_os_str().as_bytes()),
    );
    // SAFETY: made above, known to nobody else.
    unsafe { libc::close(fd) };
    answer
}

/// Makes a unix socket with a name in the abstract space, which no file permission guards.
pub(super) fn bind_abstract() -> Answer {
    let kind = (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC) as usize;
    let fd = number_from(libc::SYS_socket, [libc::AF_UNIX as usize, kind, 0, 0, 0, 0])? as c_int;
    let answer = call_with_address(libc::SYS_bind, fd, &unix_address(b"\0portcullis-probe"));
    // SAFETY: made above, known to nobody else.
    unsafe { libc::close(fd) };
    answer
}

/// Connects to a name in the abstract space.
pub(super) fn connect_abstract(name: &[u8]) -> Answer {
    let kind = (libc::SOCK_STREAM | libc::SOCK_CLOEXEC) as usize;
    let fd = number_from(libc::SYS_socket, [libc::AF_UNIX as usize, kind, 0, 0, 0, 0])? as c_int;
    let address = unix_address(&[b"\0", name].concat());
    let length = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
    let answer = call(
        libc::SYS_connect,
        [fd as usize, &raw const address as usize, length, 0, 0, 0],
    );
    // SAFETY: made above, known to nobody else.
    unsafe { libc::close(fd) };
    answer
}

/// Offers a service: an internet socket (allowed) that listens (not allowed).
pub(super) fn listen() -> Answer {
    let kind = (libc::SOCK_STREAM | libc::SOCK_CLOEXEC) as usize;
    let fd = number_from(libc::SYS_socket, [libc::AF_INET as usize, kind, 0, 0, 0, 0])? as c_int;
    let answer = call(libc::SYS_listen, [fd as usize, 1, 0, 0, 0, 0]);
    // SAFETY: made above, known to nobody else.
    unsafe { libc::close(fd) };
    answer
}

fn call_with_address(number: c_long, fd: c_int, address: &libc::sockaddr_un) -> Answer {
    let address = std::ptr::from_ref(address) as usize;
    call(
        number,
        [
            fd as usize,
            address,
            size_of::<libc::sockaddr_un>(),
            0,
            0,
            0,
        ],
    )
}

fn unix_address(name: &[u8]) -> libc::sockaddr_un {
    let mut address = libc::sockaddr_un {
        sun_family: libc::AF_UNIX as libc::sa_family_t,
        sun_path: [0; 108],
    };
    for (slot, byte) in address.sun_path.iter_mut().zip(name) {
        *slot = *byte as libc::c_char;
    }
    address
}

fn c_path(path: &Path) -> Result<CString, i32> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| libc::EINVAL)
}

fn last_error() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
