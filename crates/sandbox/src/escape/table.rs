//! Everything a captured worker would try, as a table.

use std::path::{Path, PathBuf};

use super::attempt::{
    Answer, NOWHERE, bind_abstract, call, call_at, call_for_fd, connect_a_pair_to, connect_unix,
    execute, fork, listen, open, open_the_new_way, reach_memory, trace,
};
use super::{Aims, Attempt};

const NOT_OPEN: usize = usize::MAX;

const fn attempt(name: &'static str, run: fn(&Aims) -> Answer) -> Attempt {
    Attempt {
        name,
        run,
        also_refused: &[],
    }
}

/// An attempt that consists of one call with fixed arguments.
macro_rules! raw {
    ($name:literal, $number:expr, $($argument:expr),*) => {
        attempt($name, |_| call($number, six(&[$($argument as usize),*])))
    };
}

/// The same, for a call that returns a descriptor.
macro_rules! raw_fd {
    ($name:literal, $number:expr, $($argument:expr),*) => {
        attempt($name, |_| call_for_fd($number, six(&[$($argument as usize),*])))
    };
}

/// Every attempt. Those that would change this process outside of a jail come last.
#[rustfmt::skip]
pub const ATTEMPTS: &[Attempt] = &[
    // Files.
    attempt("read a file", |_| open(Path::new("/etc/passwd"), libc::O_RDONLY)),
    attempt("read a file with openat2", |_| open_the_new_way(Path::new("/etc/passwd"))),
    attempt("read the ledger", |aims| open(&aims.ledger, libc::O_RDONLY)),
    attempt("append to the ledger", |aims| open(&aims.ledger, libc::O_WRONLY | libc::O_APPEND)),
    attempt("refer to a file without opening it", |_| open(Path::new("/etc/passwd"), libc::O_PATH)),
    attempt("list a directory", |_| open(Path::new("/"), libc::O_RDONLY | libc::O_DIRECTORY)),
    attempt("create a file without a name", |aims| open(&aims.directory, libc::O_TMPFILE | libc::O_WRONLY)),
    attempt("create a directory", |aims| call_at(libc::SYS_mkdirat, &missing(aims).join("below"), 0o700, 0)),
    attempt("delete a file", |aims| call_at(libc::SYS_unlinkat, &missing(aims), 0, 0)),
    attempt("change a file's mode", |aims| call_at(libc::SYS_fchmodat, &missing(aims), 0o777, 0)),
    attempt("look at a file's metadata", |_| call_at(libc::SYS_newfstatat, Path::new("/etc/passwd"), NOWHERE, 0)),
    attempt("learn whether a file exists", |_| call_at(libc::SYS_faccessat, Path::new("/etc/passwd"), 0, 0)),
    attempt("read a link", |_| call_at(libc::SYS_readlinkat, Path::new("/proc/self/exe"), NOWHERE, 1)),
    raw!("change directory", libc::SYS_chdir, NOWHERE),
    raw!("change root", libc::SYS_chroot, NOWHERE),
    raw_fd!("make a file in memory", libc::SYS_memfd_create, NOWHERE, 0),
    raw!("open a file by handle", libc::SYS_open_by_handle_at, NOT_OPEN, NOWHERE, 0),
    raw_fd!("watch files", libc::SYS_inotify_init1, libc::O_CLOEXEC),

    // The parent.
    attempt("read the parent's memory through /proc", |aims| open(&proc_file(aims, "mem"), libc::O_RDONLY)),
    attempt("read the parent's environment", |aims| open(&proc_file(aims, "environ"), libc::O_RDONLY)),
    attempt("trace the parent", |aims| trace(aims.parent)),
    attempt("read the parent's memory", |aims| reach_memory(libc::SYS_process_vm_readv, aims.parent)),
    attempt("write the parent's memory", |aims| reach_memory(libc::SYS_process_vm_writev, aims.parent)),
    attempt("signal the parent", |aims| call(libc::SYS_kill, six(&[aims.parent as usize, 0]))),
    attempt("signal the parent's thread", |aims| call(libc::SYS_tkill, six(&[aims.parent as usize, 0]))),
    attempt("signal the parent's thread by group", |aims| {
        call(libc::SYS_tgkill, six(&[aims.parent as usize, aims.parent as usize, 0]))
    }),
    attempt("hold the parent by descriptor", |aims| call_for_fd(libc::SYS_pidfd_open, six(&[aims.parent as usize, 0]))),
    raw_fd!("take the parent's descriptor", libc::SYS_pidfd_getfd, NOT_OPEN, 0, 0),
    raw!("signal by descriptor", libc::SYS_pidfd_send_signal, NOT_OPEN, 0, 0, 0),
    attempt("read the parent's limits", |aims| call(libc::SYS_prlimit64, six(&[aims.parent as usize, 0, 0, 0]))),
    attempt("compare the parent's descriptors", |aims| {
        call(libc::SYS_kcmp, six(&[aims.parent as usize, aims.parent as usize, 0, 0, 0]))
    }),

    // New processes and programs.
    attempt("execute a program", |_| execute(Path::new("/bin/true"))),
    raw!("execute a descriptor", libc::SYS_execveat, NOT_OPEN, NOWHERE, NOWHERE, 0, libc::AT_EMPTY_PATH),
    attempt("fork", |_| fork()),
    raw!("fork with clone3", libc::SYS_clone3, NOWHERE, 64),

    // Sockets of other kinds, and services.
    attempt("connect a unix socket", |aims| connect_unix(&aims.socket)),
    Attempt {
        name: "connect a socket pair elsewhere",
        run: |aims| connect_a_pair_to(&aims.socket),
        also_refused: &[libc::EISCONN, libc::EINVAL],
    },
    attempt("name an abstract socket", |_| bind_abstract()),
    raw_fd!("make a pair of unix datagram sockets", libc::SYS_socketpair, libc::AF_UNIX, libc::SOCK_DGRAM, 0, NOWHERE),
    raw_fd!("talk to the kernel over netlink", libc::SYS_socket, libc::AF_NETLINK, libc::SOCK_RAW, 0),
    raw_fd!("send raw packets", libc::SYS_socket, libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP),
    raw_fd!("capture packets", libc::SYS_socket, libc::AF_PACKET, libc::SOCK_RAW, 0),
    raw_fd!("talk to the hypervisor", libc::SYS_socket, libc::AF_VSOCK, libc::SOCK_STREAM, 0),
    raw_fd!("use the kernel's cryptography sockets", libc::SYS_socket, libc::AF_ALG, libc::SOCK_SEQPACKET, 0),
    attempt("offer a service", |_| listen()),
    raw!("accept a connection", libc::SYS_accept4, NOT_OPEN, 0, 0, 0),
    raw!("attach a filter to a socket", libc::SYS_setsockopt, NOT_OPEN, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, 0, 0),
    raw!("ask who is at the other end", libc::SYS_getsockopt, 0, libc::SOL_SOCKET, libc::SO_PEERCRED, NOWHERE, NOWHERE),
    raw!("have signals sent on our behalf", libc::SYS_fcntl, 0, libc::F_SETOWN, 0),
    raw!("type into a terminal", libc::SYS_ioctl, 0, libc::TIOCSTI, NOWHERE),

    // Into the kernel.
    raw_fd!("set up io_uring", libc::SYS_io_uring_setup, 1, NOWHERE),
    raw_fd!("load a BPF program", libc::SYS_bpf, 5, NOWHERE, 1),
    raw_fd!("open performance counters", libc::SYS_perf_event_open, NOWHERE, 0, 0, NOT_OPEN, 0),
    raw_fd!("handle page faults", libc::SYS_userfaultfd, libc::O_CLOEXEC | 1),
    raw!("read keys", libc::SYS_keyctl, 0, NOT_OPEN, 0),
    raw!("add a key", libc::SYS_add_key, NOWHERE, NOWHERE, 0, 0, 0),
    raw!("mount a file system", libc::SYS_mount, NOWHERE, NOWHERE, NOWHERE, 0, 0),
    raw!("unmount a file system", libc::SYS_umount2, NOWHERE, 0),
    raw_fd!("open a file system", libc::SYS_fsopen, NOWHERE, 0),
    raw!("swap the root", libc::SYS_pivot_root, NOWHERE, NOWHERE),
    raw!("load a kernel module", libc::SYS_finit_module, NOT_OPEN, NOWHERE, 0),
    raw!("load another kernel", libc::SYS_kexec_load, 0, 0, 0, NOT_OPEN),
    raw!("reboot", libc::SYS_reboot, 0, 0, 0, 0),
    raw!("set the clock", libc::SYS_clock_settime, 0, NOWHERE),
    raw!("read the kernel's log", libc::SYS_syslog, 10, 0, 0),
    raw!("create shared memory", libc::SYS_shmget, 0, 0, 0o1000),
    #[cfg(target_arch = "x86_64")]
    raw!("raise the I/O privilege level", libc::SYS_iopl, 0),
    #[cfg(target_arch = "x86_64")]
    raw!("change segment descriptors", libc::SYS_modify_ldt, 0, NOWHERE, 8),

    // Undoing the jail.
    raw!("become root", libc::SYS_setresuid, 0, 0, 0),
    raw!("take capabilities", libc::SYS_capset, NOWHERE, NOWHERE),
    raw!("become dumpable again", libc::SYS_prctl, libc::PR_SET_DUMPABLE, 1, 0, 0, 0),
    raw!("let anybody trace us", libc::SYS_prctl, libc::PR_SET_PTRACER, NOT_OPEN, 0, 0, 0),
    raw!("raise a limit", libc::SYS_prlimit64, 0, libc::RLIMIT_CORE, NOWHERE, 0),
    raw!("install another filter", libc::SYS_seccomp, 1, 0, NOWHERE),
    raw!("change personality", libc::SYS_personality, 0xffff_ffff_u32),
    raw!("map executable memory", libc::SYS_mmap, 0, 4096, libc::PROT_READ | libc::PROT_EXEC,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, NOT_OPEN, 0),
    raw!("make memory executable", libc::SYS_mprotect, 0, 0, libc::PROT_READ | libc::PROT_EXEC),
    raw!("make memory executable with a key", libc::SYS_pkey_mprotect, 0, 0, libc::PROT_READ | libc::PROT_EXEC, NOT_OPEN),
    raw!("join another namespace", libc::SYS_setns, NOT_OPEN, 0),
    raw!("make a namespace by clone", libc::SYS_clone, libc::CLONE_NEWUSER | libc::CLONE_THREAD, 0, 0, 0, 0),
    raw!("make a namespace", libc::SYS_unshare, libc::CLONE_NEWUSER),
];

fn six(arguments: &[usize]) -> [usize; 6] {
    let mut all = [0; 6];
    for (slot, argument) in all.iter_mut().zip(arguments) {
        *slot = *argument;
    }
    all
}

/// A name in the aimed-at directory that does not exist.
fn missing(aims: &Aims) -> PathBuf {
    aims.directory.join("portcullis-probe-missing")
}

fn proc_file(aims: &Aims, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{}/{name}", aims.parent))
}
