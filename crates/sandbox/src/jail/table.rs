//! The system calls the worker may make, each with the reason why.
//!
//! A row without a reason does not compile, and a call without a row is refused. What needs a path, another process, a
//! new privilege or executable memory has no row: that is the point of the jail.
//!
//! `when` lists alternatives; each alternative is a list of conditions on the arguments that must all hold. An empty
//! `when` allows the call with any arguments. Rows the worker makes all the time have none, because the kernel
//! remembers those and does not run the filter for them.

use libc::c_long;

/// One allowed call.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    pub name: &'static str,
    pub number: c_long,
    pub when: &'static [&'static [Condition]],
    pub why: &'static str,
}

/// A condition on one argument.
#[derive(Debug, Clone, Copy)]
pub struct Condition {
    pub arg: u8,
    pub test: Test,
}

/// `Int` looks at the 32 bits of an `int` (the kernel ignores the rest), `Long` at all 64.
#[derive(Debug, Clone, Copy)]
pub enum Test {
    Int(u32),
    IntBits {
        mask: u32,
        value: u32,
    },
    Long(u64),
    LongBits {
        mask: u64,
        value: u64,
    },
    /// The number of the process the filter is installed in.
    OwnPid,
}

const fn int(arg: u8, value: libc::c_int) -> Condition {
    Condition {
        arg,
        test: Test::Int(value as u32),
    }
}

const fn long(arg: u8, value: u64) -> Condition {
    Condition {
        arg,
        test: Test::Long(value),
    }
}

const fn own_pid(arg: u8) -> Condition {
    Condition {
        arg,
        test: Test::OwnPid,
    }
}

/// A socket type, with or without the flags that may be or-ed to it.
const fn socket_type(arg: u8, kind: libc::c_int) -> Condition {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    Condition {
        arg,
        test: Test::IntBits {
            mask: !(flags as u32),
            value: kind as u32,
        },
    }
}

/// Memory protection without the right to execute.
const fn not_executable(arg: u8) -> Condition {
    Condition {
        arg,
        test: Test::LongBits {
            mask: libc::PROT_EXEC as u64,
            value: 0,
        },
    }
}

/// Exactly a new thread of this process: everything shared, no namespace, no tracing, no other process.
const fn new_thread(arg: u8) -> Condition {
    const CLONE_DETACHED: u64 = 0x0040_0000;
    let shared = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD;
    let bookkeeping = libc::CLONE_SYSVSEM
        | libc::CLONE_SETTLS
        | libc::CLONE_PARENT_SETTID
        | libc::CLONE_CHILD_SETTID
        | libc::CLONE_CHILD_CLEARTID;
    Condition {
        arg,
        test: Test::LongBits {
            mask: !(bookkeeping as u64 | CLONE_DETACHED),
            value: shared as u64,
        },
    }
}

const fn any(name: &'static str, number: c_long, why: &'static str) -> Row {
    Row {
        name,
        number,
        when: &[],
        why,
    }
}

const fn only(
    name: &'static str,
    number: c_long,
    when: &'static [&'static [Condition]],
    why: &'static str,
) -> Row {
    Row {
        name,
        number,
        when,
        why,
    }
}

/// The calls that a process without network does without.
pub(super) const NETWORK: &[c_long] = &[
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
];

/// Every call the worker may make.
#[rustfmt::skip]
pub const ALLOWED: &[Row] = &[
    // Bytes in and out of descriptors it already has.
    any("read", libc::SYS_read, "pipes, sockets, the event loop's wake-up counter"),
    any("write", libc::SYS_write, "pipes, sockets, the log on standard error"),
    any("readv", libc::SYS_readv, "vectored reads from sockets and pipes"),
    any("writev", libc::SYS_writev, "vectored writes: header and body in one call"),
    any("recvfrom", libc::SYS_recvfrom, "reads from sockets; answers of name servers"),
    any("recvmsg", libc::SYS_recvmsg, "descriptors from the handover socket; datagrams"),
    any("sendto", libc::SYS_sendto, "writes to sockets; questions to name servers"),
    any("sendmsg", libc::SYS_sendmsg, "vectored writes to sockets"),
    any("close", libc::SYS_close, "giving descriptors back"),
    any("shutdown", libc::SYS_shutdown, "half-closing a connection"),
    any("fstat", libc::SYS_fstat, "looking at a descriptor; newfstatat would do it too, but also takes any path, and is refused"),

    // Waiting.
    any("epoll_create1", libc::SYS_epoll_create1, "the event loop"),
    any("epoll_ctl", libc::SYS_epoll_ctl, "the event loop"),
    any("epoll_pwait", libc::SYS_epoll_pwait, "the event loop"),
    any("epoll_pwait2", libc::SYS_epoll_pwait2, "the event loop, with precise timeouts"),
    any("eventfd2", libc::SYS_eventfd2, "waking the event loop from another thread"),
    any("ppoll", libc::SYS_ppoll, "waiting for one descriptor"),
    any("futex", libc::SYS_futex, "locks and parked threads"),
    any("nanosleep", libc::SYS_nanosleep, "sleeping for a while"),
    any("clock_nanosleep", libc::SYS_clock_nanosleep, "sleeping until a moment"),
    any("sched_yield", libc::SYS_sched_yield, "spinning locks give way"),
    any("restart_syscall", libc::SYS_restart_syscall, "the kernel resumes a sleep with it after a signal"),
    #[cfg(target_arch = "x86_64")]
    any("epoll_wait", libc::SYS_epoll_wait, "the event loop, older form"),
    #[cfg(target_arch = "x86_64")]
    any("poll", libc::SYS_poll, "waiting for one descriptor, older form"),

    // Time, chance, and who am I.
    any("clock_gettime", libc::SYS_clock_gettime, "the clock, where it cannot be read without a call"),
    any("clock_getres", libc::SYS_clock_getres, "the clock's precision"),
    any("gettimeofday", libc::SYS_gettimeofday, "the clock, older form"),
    any("getrandom", libc::SYS_getrandom, "keys of TLS, ids, hash seeds"),
    any("getpid", libc::SYS_getpid, "log lines; aborting"),
    any("gettid", libc::SYS_gettid, "names of threads; aborting"),
    any("uname", libc::SYS_uname, "the C library asks for the kernel's version"),
    any("sysinfo", libc::SYS_sysinfo, "the C library asks for the size of memory"),
    any("sched_getaffinity", libc::SYS_sched_getaffinity, "how many threads to start"),

    // Memory, never executable.
    any("brk", libc::SYS_brk, "the allocator"),
    any("munmap", libc::SYS_munmap, "the allocator gives memory back"),
    any("mremap", libc::SYS_mremap, "the allocator grows a block; keeps its protection"),
    any("madvise", libc::SYS_madvise, "the allocator gives memory back"),
    only("mmap", libc::SYS_mmap, &[&[not_executable(2)]], "memory and stacks of threads; no code"),
    only("mprotect", libc::SYS_mprotect, &[&[not_executable(2)]], "guard pages; no code"),

    // Connections to the world: internet sockets, outgoing only (there is no listen, no accept).
    only("socket", libc::SYS_socket, &[
        &[int(0, libc::AF_INET), socket_type(1, libc::SOCK_STREAM), int(2, 0)],
        &[int(0, libc::AF_INET), socket_type(1, libc::SOCK_STREAM), int(2, libc::IPPROTO_TCP)],
        &[int(0, libc::AF_INET), socket_type(1, libc::SOCK_DGRAM), int(2, 0)],
        &[int(0, libc::AF_INET), socket_type(1, libc::SOCK_DGRAM), int(2, libc::IPPROTO_UDP)],
        &[int(0, libc::AF_INET6), socket_type(1, libc::SOCK_STREAM), int(2, 0)],
        &[int(0, libc::AF_INET6), socket_type(1, libc::SOCK_STREAM), int(2, libc::IPPROTO_TCP)],
        &[int(0, libc::AF_INET6), socket_type(1, libc::SOCK_DGRAM), int(2, 0)],
        &[int(0, libc::AF_INET6), socket_type(1, libc::SOCK_DGRAM), int(2, libc::IPPROTO_UDP)],
    ], "TCP to upstreams, UDP and TCP to name servers; no unix, netlink, raw or packet sockets"),
    only("socketpair", libc::SYS_socketpair, &[&[int(0, libc::AF_UNIX), socket_type(1, libc::SOCK_STREAM)]],
        "the runtime's signal driver talks to itself through one; a connected stream reaches nobody else"),
    any("connect", libc::SYS_connect, "reaching upstreams"),
    any("bind", libc::SYS_bind, "a random source port for each question to a name server"),
    any("getsockname", libc::SYS_getsockname, "the source port of a connection"),
    any("getpeername", libc::SYS_getpeername, "whether a connection is established"),
    only("getsockopt", libc::SYS_getsockopt, &[
        &[int(1, libc::SOL_SOCKET), int(2, libc::SO_ERROR)],
        &[int(1, libc::SOL_SOCKET), int(2, libc::SO_TYPE)],
        &[int(1, libc::SOL_SOCKET), int(2, libc::SO_DOMAIN)],
        &[int(1, libc::SOL_SOCKET), int(2, libc::SO_PROTOCOL)],
        &[int(1, libc::SOL_SOCKET), int(2, libc::SO_RCVBUF)],
        &[int(1, libc::SOL_SOCKET), int(2, libc::SO_SNDBUF)],
        &[int(1, libc::SOL_SOCKET), int(2, libc::SO_LINGER)],
        &[int(1, libc::SOL_SOCKET), int(2, libc::SO_KEEPALIVE)],
        &[int(1, libc::IPPROTO_TCP), int(2, libc::TCP_NODELAY)],
    ], "how a connection attempt ended; never a credential or a descriptor of the peer"),
    only("setsockopt", libc::SYS_setsockopt, &[
        &[int(1, libc::SOL_SOCKET), int(2, libc::SO_REUSEADDR)],
        &[int(1, libc::SOL_SOCKET), int(2, libc::SO_KEEPALIVE)],
        &[int(1, libc::SOL_SOCKET), int(2, libc::SO_LINGER)],
        &[int(1, libc::SOL_SOCKET), int(2, libc::SO_RCVBUF)],
        &[int(1, libc::SOL_SOCKET), int(2, libc::SO_SNDBUF)],
        &[int(1, libc::SOL_SOCKET), int(2, libc::SO_RCVTIMEO)],
        &[int(1, libc::SOL_SOCKET), int(2, libc::SO_SNDTIMEO)],
        &[int(1, libc::IPPROTO_TCP), int(2, libc::TCP_NODELAY)],
        &[int(1, libc::IPPROTO_TCP), int(2, libc::TCP_KEEPIDLE)],
        &[int(1, libc::IPPROTO_TCP), int(2, libc::TCP_KEEPINTVL)],
        &[int(1, libc::IPPROTO_TCP), int(2, libc::TCP_KEEPCNT)],
        &[int(1, libc::IPPROTO_TCP), int(2, libc::TCP_USER_TIMEOUT)],
        &[int(1, libc::IPPROTO_TCP), int(2, libc::TCP_QUICKACK)],
        &[int(1, libc::IPPROTO_IPV6), int(2, libc::IPV6_V6ONLY)],
    ], "latency and liveness of connections; no socket filters, no packet tables"),
    only("fcntl", libc::SYS_fcntl, &[
        &[int(1, libc::F_GETFD)], &[int(1, libc::F_SETFD)], &[int(1, libc::F_GETFL)], &[int(1, libc::F_SETFL)],
        &[int(1, libc::F_DUPFD_CLOEXEC)], &[int(1, libc::F_GETPIPE_SZ)],
    ], "flags and copies of descriptors; no signals to an owner, no locks, no leases"),
    only("ioctl", libc::SYS_ioctl, &[&[int(1, libc::FIONBIO as libc::c_int)]],
        "sockets to non-blocking; no terminal, no device"),

    // Threads of this process, and its own end.
    only("clone", libc::SYS_clone, &[&[new_thread(0)]], "threads; never a process"),
    any("clone3", libc::SYS_clone3, "answered ENOSYS by the filter before this one, so that clone is used instead"),
    any("set_robust_list", libc::SYS_set_robust_list, "every new thread registers its locks"),
    any("rseq", libc::SYS_rseq, "every new thread registers with the scheduler"),
    only("prctl", libc::SYS_prctl, &[&[int(0, libc::PR_SET_NAME)], &[int(0, libc::PR_GET_NAME)]],
        "names of threads; no other property of the process"),
    only("prlimit64", libc::SYS_prlimit64, &[&[int(0, 0), long(2, 0)], &[own_pid(0), long(2, 0)]],
        "reading its own limits; setting none"),
    any("rt_sigaction", libc::SYS_rt_sigaction, "stack overflow is reported, a broken pipe ignored"),
    any("rt_sigprocmask", libc::SYS_rt_sigprocmask, "new threads start with signals blocked"),
    any("rt_sigreturn", libc::SYS_rt_sigreturn, "leaving a signal handler"),
    any("sigaltstack", libc::SYS_sigaltstack, "every thread's stack-overflow handler"),
    only("tgkill", libc::SYS_tgkill, &[&[own_pid(0)]], "aborting; no signal to any other process"),
    any("exit", libc::SYS_exit, "the end of a thread"),
    any("exit_group", libc::SYS_exit_group, "the end of the process"),
];
