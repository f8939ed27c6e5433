//! Everything a captured stdio server or command would try, as a table.
//!
//! Unlike the worker's, these attempts are aimed at things that exist and that the user who runs the gate could reach: keys, the gate's home,
//! its processes and sockets. An attempt that goes through has reached something outside of the jail. Run it in a process you can throw away,
//! with [`Prey`] you can throw away.

use std::ffi::CString;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::attempt::{Answer, NOWHERE, call, call_for_fd, connect_abstract, reach_memory, trace};

/// How long an attempt waits for an answer from outside.
const PATIENCE: Duration = Duration::from_millis(700);

/// What the attempts are aimed at, all of it outside of the jail.
#[derive(Debug, Clone)]
pub struct Prey {
    /// A user's home with keys and histories, and beside it a gate's home and another jail; see [`Prey::PLACES`].
    pub root: PathBuf,
    /// A process outside: the gate.
    pub gate: u32,
    /// A port on the host's loopback device: TCP is accepted there, and what comes by UDP is sent back.
    pub port: u16,
    /// A port on the host that somebody outside connects to again and again.
    pub watched: u16,
    /// The name of an abstract unix socket on which somebody listens.
    pub socket_name: String,
    /// A System V memory segment.
    pub segment: i32,
    /// A directory that the program may write to.
    pub own: PathBuf,
}

impl Prey {
    /// The files that are there to be stolen or changed, below [`Prey::root`].
    pub const PLACES: &'static [&'static str] = &[
        "home/.ssh/id_ed25519",
        "home/.ssh/authorized_keys",
        "home/.aws/credentials",
        "home/.mozilla/firefox/logins.json",
        "home/.config/chromium/Cookies",
        "home/.docker/config.json",
        "home/.kube/config",
        "home/.netrc",
        "home/.bash_history",
        "home/.bashrc",
        "home/.local/bin/tool",
        "home/.config/autostart/app.desktop",
        "home/Documents/letter.txt",
        "gate/portcullis.yaml",
        "gate/state/vault",
        "gate/ledger/0001.jsonl",
        "gate/jails/other/home/server.js",
    ];
    /// The socket of the gate's operators, below [`Prey::root`].
    pub const SOCKET: &'static str = "gate/run/operator.sock";

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

/// One thing a captured program would try.
#[derive(Debug, Clone, Copy)]
pub struct Try {
    pub name: &'static str,
    run: fn(&Prey) -> Answer,
}

/// Makes every attempt and returns the names of those that went through, and how many were made.
#[must_use]
pub fn try_everything(prey: &Prey) -> (Vec<&'static str>, usize) {
    let through = TRIES
        .iter()
        .filter(|attempt| (attempt.run)(prey).is_ok())
        .map(|attempt| attempt.name)
        .collect();
    (through, TRIES.len())
}

macro_rules! tries {
    ($($name:literal: $run:expr;)*) => { &[$(Try { name: $name, run: $run }),*] };
}

/// Every attempt. Those that change this process come last.
#[rustfmt::skip]
pub const TRIES: &[Try] = tries![
    // Files.
    "read an ssh key": |p| read(&p.at("home/.ssh/id_ed25519"));
    "read cloud credentials": |p| read(&p.at("home/.aws/credentials"));
    "read a browser's logins": |p| read(&p.at("home/.mozilla/firefox/logins.json"));
    "read another browser's cookies": |p| read(&p.at("home/.config/chromium/Cookies"));
    "read the gate's configuration": |p| read(&p.at("gate/portcullis.yaml"));
    "read the vault": |p| read(&p.at("gate/state/vault"));
    "read the ledger": |p| read(&p.at("gate/ledger/0001.jsonl"));
    "read docker's credentials": |p| read(&p.at("home/.docker/config.json"));
    "read kubernetes' credentials": |p| read(&p.at("home/.kube/config"));
    "read netrc": |p| read(&p.at("home/.netrc"));
    "read a shell's history": |p| read(&p.at("home/.bash_history"));
    "read a document": |p| read(&p.at("home/Documents/letter.txt"));
    "read another jail's code": |p| read(&p.at("gate/jails/other/home/server.js"));
    "read the password file": |_| read(Path::new("/etc/shadow"));
    "list the home": |p| list(&p.at("home"));
    "list the gate's home": |p| list(&p.at("gate"));
    "write a shell's start file": |p| append(&p.at("home/.bashrc"));
    "write authorized keys": |p| append(&p.at("home/.ssh/authorized_keys"));
    "write a program on the path": |p| append(&p.at("home/.local/bin/tool"));
    "write an autostart file": |p| append(&p.at("home/.config/autostart/app.desktop"));
    "write the ledger": |p| append(&p.at("gate/ledger/0001.jsonl"));
    "write the gate's configuration": |p| append(&p.at("gate/portcullis.yaml"));
    "write another jail's code": |p| append(&p.at("gate/jails/other/home/server.js"));
    "write a program for everybody": |_| create(Path::new("/usr/local/bin/portcullis-probe"));
    "write a job for cron": |_| create(Path::new("/etc/cron.d/portcullis-probe"));
    "write into the gate's home": |p| create(&p.at("gate/portcullis-probe"));
    "write into the home": |p| create(&p.at("home/portcullis-probe"));

    // Metadata and links.
    "learn that a key exists": |p| said(fs::symlink_metadata(p.at("home/.ssh/id_ed25519")));
    "watch the gate's home": |p| watch(&p.at("gate"));
    "change the mode of a key": |p| said(fs::set_permissions(p.at("home/.ssh/id_ed25519"), PermissionsExt::from_mode(0o644)));
    "change the mode of the ledger": |p| said(fs::set_permissions(p.at("gate/ledger/0001.jsonl"), PermissionsExt::from_mode(0o600)));
    "change the time of the ledger": |p| at(libc::SYS_utimensat, &p.at("gate/ledger/0001.jsonl"), 0, 0);
    "set an attribute of the ledger": |p| attribute(&p.at("gate/ledger/0001.jsonl"));
    "truncate the ledger": |p| said(fs::OpenOptions::new().write(true).open(p.at("gate/ledger/0001.jsonl")).and_then(|file| file.set_len(9)));
    "rename the ledger": |p| rename_and_back(&p.at("gate/ledger/0001.jsonl"));
    "link a key into its own directory": |p| said(fs::hard_link(p.at("home/.ssh/id_ed25519"), p.own.join("key-link")));
    "follow a link to a key": |p| { let link = p.own.join("key-symlink"); let _ = symlink(p.at("home/.ssh/id_ed25519"), &link); read(&link) };
    "move a document into its own directory": |p| move_and_back(&p.at("home/Documents/letter.txt"), &p.own.join("letter"));

    // Programs that run as their owner, for others on the machine to start.
    "raise a file by its name": |p| raise(p, |file| said(fs::write(file, "").and_then(|()| fs::set_permissions(file, PermissionsExt::from_mode(0o4755)))));
    "raise a file for its group": |p| raise(p, |file| said(fs::write(file, "").and_then(|()| fs::set_permissions(file, PermissionsExt::from_mode(0o2755)))));
    "raise an open file": |p| raise(p, |file| fs::File::create(file).map_err(errno).and_then(|open| raw(libc::SYS_fchmod, &[open.as_raw_fd() as usize, RAISED])));
    "raise a file by its directory": |p| raise(p, |file| said(fs::write(file, "")).and_then(|()| at(libc::SYS_fchmodat, file, RAISED, 0)));
    "raise a file with the newer call": |p| raise(p, |file| said(fs::write(file, "")).and_then(|()| at(FCHMODAT2, file, RAISED, 0)));
    "create a raised file": |p| raise(p, |file| at(libc::SYS_openat, file, (libc::O_CREAT | libc::O_WRONLY) as usize, RAISED));
    "create a raised file with openat2": |p| raise(p, |file| { let how = [(libc::O_CREAT | libc::O_WRONLY) as u64, RAISED as u64, 0]; at(libc::SYS_openat2, file, how.as_ptr() as usize, size_of_val(&how)) });
    "make a raised node": |p| raise(p, |file| at(libc::SYS_mknodat, file, libc::S_IFREG as usize | RAISED, 0));

    // Processes.
    "enter the gate's root": |p| list(&proc(p, "root/etc"));
    "enter the gate's directory": |p| list(&proc(p, "cwd"));
    "read the gate's environment": |p| read_some(&proc(p, "environ"));
    "read the gate's command line": |p| read_some(&proc(p, "cmdline"));
    "read the gate's memory through /proc": |p| said(fs::File::open(proc(p, "mem")));
    "read the gate's map of memory": |p| read_some(&proc(p, "maps"));
    "list the gate's descriptors": |p| list(&proc(p, "fd"));
    "enter the root of process 1": |p| read(Path::new(&format!("/proc/1/root{}", p.at("home/.netrc").display())));
    "see other processes": |p| said(fs::symlink_metadata(proc(p, "status")));
    "trace the gate": |p| trace(p.gate);
    "read the gate's memory": |p| reached(reach_memory(libc::SYS_process_vm_readv, p.gate));
    "write the gate's memory": |p| reached(reach_memory(libc::SYS_process_vm_writev, p.gate));
    "signal the gate": |p| raw(libc::SYS_kill, &[p.gate as usize, 0]);
    "read the gate's limits": |p| raw(libc::SYS_prlimit64, &[p.gate as usize, 7, 0, 0]);
    "bind the gate to a processor": |p| { let mask = [u64::MAX; 16]; raw(libc::SYS_sched_setaffinity, &[p.gate as usize, 128, mask.as_ptr() as usize]) };
    "change the gate's priority": |p| raw(libc::SYS_setpriority, &[0, p.gate as usize, 0]);
    "signal the gate by descriptor": |p| hold(p.gate).and_then(|held| raw(libc::SYS_pidfd_send_signal, &[held.as_raw_fd() as usize, 0, 0, 0]));
    "take the gate's descriptor": |p| take_descriptor(p.gate);
    "compare the gate's descriptors": |p| raw(libc::SYS_kcmp, &[p.gate as usize, p.gate as usize, 1, 0, 0]);

    // Sockets, shared memory, keys.
    "connect to the operators' socket": |p| said(UnixStream::connect(p.at(Prey::SOCKET)));
    "connect to a container runtime": |_| said(UnixStream::connect("/run/docker.sock").or_else(|_| UnixStream::connect("/run/podman/podman.sock")));
    "connect to an abstract socket": |p| connect_abstract(p.socket_name.as_bytes());
    "attach shared memory": |p| attach_segment(p.segment);
    "read foreign shared memory files": |_| read(Path::new("/dev/shm/portcullis-probe-prey"));
    "search the user's keys": |_| { let kind = c"user"; let name = c"portcullis-probe"; raw(libc::SYS_request_key, &[kind.as_ptr() as usize, name.as_ptr() as usize, 0, 0]) };
    "join a session of keys": |_| raw(libc::SYS_keyctl, &[0, usize::MAX - 3, 1]);

    // Network.
    "connect to the host's loopback": |p| tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, p.port)));
    "send to the host's loopback": |p| udp(SocketAddr::from((Ipv4Addr::LOCALHOST, p.port)));
    "find a way to link-local addresses": |_| UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.connect("169.254.169.254:80")).map_err(errno);
    "offer a service": |p| serve(p.watched);
    "capture packets": |_| call_for_fd(libc::SYS_socket, six(&[libc::AF_PACKET as usize, libc::SOCK_RAW as usize, 0]));
    "talk to the hypervisor": |_| call_for_fd(libc::SYS_socket, six(&[libc::AF_VSOCK as usize, libc::SOCK_STREAM as usize, 0]));
    "use the kernel's cryptography sockets": |_| call_for_fd(libc::SYS_socket, six(&[libc::AF_ALG as usize, libc::SOCK_SEQPACKET as usize, 0]));
    "send raw packets": |_| call_for_fd(libc::SYS_socket, six(&[libc::AF_INET as usize, libc::SOCK_RAW as usize, libc::IPPROTO_ICMP as usize]));
    "read the host's connections": |p| connections(p.port);
    "ask for the host's addresses": |_| interfaces();

    // Privilege and kernel.
    "mount a file system": |p| mount(&p.own);
    "change root": |p| path(libc::SYS_chroot, &p.own, &[]);
    "become root": |_| raw(libc::SYS_setresuid, &[0, 0, 0]).and_then(|()| read(Path::new("/etc/shadow")));
    "run a program that raises itself": |_| raised();
    "have a capability": |_| capable();
    "set up io_uring": |_| { let mut parameters = [0u64; 32]; call_for_fd(libc::SYS_io_uring_setup, six(&[1, parameters.as_mut_ptr() as usize])) };
    "load a BPF program": |_| reached(raw(libc::SYS_bpf, &[5, NOWHERE, 1]));
    "open performance counters": |_| reached(raw(libc::SYS_perf_event_open, &[NOWHERE, 0, 0, usize::MAX, 0]));
    "handle page faults": |_| call_for_fd(libc::SYS_userfaultfd, six(&[(libc::O_CLOEXEC | 1) as usize]));
    "name a file by handle": |p| reached(path(libc::SYS_name_to_handle_at, &p.own, &[NOWHERE, NOWHERE, 0]));
    "open a file by handle": |_| reached(raw(libc::SYS_open_by_handle_at, &[usize::MAX, NOWHERE, 0]));
    "read the kernel's log": |_| raw(libc::SYS_syslog, &[10, 0, 0]);
    "change personality": |_| raw(libc::SYS_personality, &[0xffff_ffff]);
    "load a kernel module": |_| reached(raw(libc::SYS_finit_module, &[usize::MAX, NOWHERE, 0]));
    "set the clock": |_| reached(raw(libc::SYS_clock_settime, &[0, NOWHERE]));
    "watch whole file systems": |_| call_for_fd(libc::SYS_fanotify_init, six(&[0, 0]));
    "move another's pages": |p| reached(raw(libc::SYS_migrate_pages, &[p.gate as usize, 0, 0, 0]));
    "switch a swap file on": |_| reached(raw(libc::SYS_swapon, &[NOWHERE, 0]));
    "load another kernel": |_| reached(raw(libc::SYS_kexec_load, &[0, 0, 0, usize::MAX]));

    // Devices and switches of the kernel.
    "open the kernel's messages": |_| said(fs::File::open("/dev/kmsg"));
    "open a terminal": |_| said(fs::File::open("/dev/ptmx").or_else(|_| fs::File::open("/dev/tty")));
    "open the file system device": |_| said(fs::File::open("/dev/fuse"));
    "open the hypervisor device": |_| said(fs::File::open("/dev/kvm"));
    "open the disk": |_| said(fs::File::open("/dev/vda").or_else(|_| fs::File::open("/dev/sda")));
    "write to a switch of the kernel": |_| said(fs::OpenOptions::new().write(true).open("/proc/sys/vm/overcommit_memory"));
    "write below /sys": |_| said(fs::OpenOptions::new().write(true).open("/sys/kernel/profiling").or_else(|_| fs::OpenOptions::new().write(true).open("/sys/fs/cgroup/cgroup.procs")));
    "read the machine's identity": |_| read(Path::new("/etc/machine-id"));
    "read other users": |_| fs::read_to_string("/etc/passwd").map_err(errno).and_then(|text| enough(text.lines().count() > 1));

    // Last, because they change this process.
    "set the host's name": |_| set_own_host_name();
    "make a user namespace by clone": |_| reached_namespace(raw(libc::SYS_clone, &[(libc::CLONE_NEWUSER | libc::CLONE_THREAD) as usize, 0, 0, 0, 0]));
    "join another namespace": |p| fs::File::open(proc(p, "ns/net")).map_err(errno).and_then(|file| raw(libc::SYS_setns, &[file.as_raw_fd() as usize, 0]));
    "make a user namespace": |_| raw(libc::SYS_unshare, &[libc::CLONE_NEWUSER as usize]);
];

/// A mode by which a program runs as its owner.
const RAISED: usize = 0o4755;
/// The same number on every architecture.
const FCHMODAT2: libc::c_long = 452;

/// Whether a file that runs as its owner is left behind.
fn raise(prey: &Prey, make: impl FnOnce(&Path) -> Answer) -> Answer {
    let file = prey.own.join("raised");
    let made = make(&file);
    let left =
        fs::symlink_metadata(&file).is_ok_and(|found| found.permissions().mode() & 0o6000 != 0);
    let _ = fs::remove_file(&file);
    made?;
    enough(left)
}

fn errno(error: io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

fn said<T>(outcome: io::Result<T>) -> Answer {
    outcome.map(drop).map_err(errno)
}

fn enough(is_so: bool) -> Answer {
    if is_so { Ok(()) } else { Err(libc::ENODATA) }
}

/// A call that the kernel answers by looking at its arguments is open.
fn reached(answer: Answer) -> Answer {
    match answer {
        Err(errno @ (libc::EPERM | libc::EACCES | libc::ENOSYS | libc::ESRCH)) => Err(errno),
        _ => Ok(()),
    }
}

/// `EINVAL` says that the flags do not go together: they were looked at.
fn reached_namespace(answer: Answer) -> Answer {
    match answer {
        Err(libc::EINVAL) => Ok(()),
        answer => answer,
    }
}

fn six(arguments: &[usize]) -> [usize; 6] {
    let mut all = [0; 6];
    for (slot, argument) in all.iter_mut().zip(arguments) {
        *slot = *argument;
    }
    all
}

fn raw(number: libc::c_long, arguments: &[usize]) -> Answer {
    call(number, six(arguments))
}

fn path(number: libc::c_long, path: &Path, more: &[usize]) -> Answer {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| libc::EINVAL)?;
    let mut all = vec![path.as_ptr() as usize];
    all.extend(more);
    raw(number, &all)
}

fn at(number: libc::c_long, path: &Path, third: usize, fourth: usize) -> Answer {
    super::attempt::call_at(number, path, third, fourth)
}

fn proc(prey: &Prey, file: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{}/{file}", prey.gate))
}

fn read(path: &Path) -> Answer {
    read_some(path)
}

/// An empty file would prove nothing.
fn read_some(path: &Path) -> Answer {
    let mut byte = [0];
    let mut file = fs::File::open(path).map_err(errno)?;
    let read = file.read(&mut byte).map_err(errno)?;
    enough(read > 0)
}

fn list(path: &Path) -> Answer {
    enough(fs::read_dir(path).map_err(errno)?.next().is_some())
}

fn append(path: &Path) -> Answer {
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(path)
        .map_err(errno)?;
    said(file.write_all(b"changed from inside\n"))
}

fn create(path: &Path) -> Answer {
    said(fs::write(path, "made from inside"))?;
    said(fs::remove_file(path))
}

fn watch(path: &Path) -> Answer {
    let fd = rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::CLOEXEC)
        .map_err(|errno| errno.raw_os_error())?;
    rustix::fs::inotify::add_watch(&fd, path, rustix::fs::inotify::WatchFlags::CREATE)
        .map(drop)
        .map_err(|errno| errno.raw_os_error())
}

fn attribute(path: &Path) -> Answer {
    rustix::fs::setxattr(
        path,
        "user.portcullis",
        b"x",
        rustix::fs::XattrFlags::empty(),
    )
    .map_err(|errno| errno.raw_os_error())
}

fn rename_and_back(path: &Path) -> Answer {
    move_and_back(path, &path.with_extension("moved"))
}

fn move_and_back(path: &Path, to: &Path) -> Answer {
    said(fs::rename(path, to))?;
    said(fs::rename(to, path))
}

fn hold(pid: u32) -> Result<OwnedFd, i32> {
    let pid = rustix::process::Pid::from_raw(pid.try_into().map_err(|_| libc::EINVAL)?)
        .ok_or(libc::EINVAL)?;
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
        .map_err(|errno| errno.raw_os_error())
}

fn take_descriptor(pid: u32) -> Answer {
    let held = hold(pid)?;
    call_for_fd(
        libc::SYS_pidfd_getfd,
        six(&[held.as_raw_fd() as usize, 1, 0]),
    )
}

fn attach_segment(segment: i32) -> Answer {
    raw(
        libc::SYS_shmat,
        &[segment as usize, 0, libc::SHM_RDONLY as usize],
    )
}

fn tcp(address: SocketAddr) -> Answer {
    said(TcpStream::connect_timeout(&address, Duration::from_secs(2)))
}

fn udp(address: SocketAddr) -> Answer {
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(errno)?;
    said(socket.set_read_timeout(Some(PATIENCE)))?;
    said(socket.send_to(b"out", address))?;
    said(socket.recv(&mut [0; 8]))
}

/// Whether anybody outside finds what is offered inside.
fn serve(port: u16) -> Answer {
    let listener = TcpListener::bind(("0.0.0.0", port)).map_err(errno)?;
    said(listener.set_nonblocking(true))?;
    let deadline = std::time::Instant::now() + PATIENCE;
    while std::time::Instant::now() < deadline {
        if listener.accept().is_ok() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(libc::ETIMEDOUT)
}

/// The host's table of connections shows the port on which the host listens.
fn connections(port: u16) -> Answer {
    let table = fs::read_to_string("/proc/net/tcp").map_err(errno)?;
    enough(table.contains(&format!(":{port:04X}")))
}

/// More interfaces than the loopback device means the host's network.
fn interfaces() -> Answer {
    let names = fs::read_to_string("/proc/net/dev").map_err(errno)?;
    let others = names
        .lines()
        .skip(2)
        .filter(|line| !line.trim_start().starts_with("lo:"));
    enough(others.count() > 0)
}

fn mount(own: &Path) -> Answer {
    let target = CString::new(own.as_os_str().as_bytes()).map_err(|_| libc::EINVAL)?;
    let kind = c"tmpfs".as_ptr() as usize;
    raw(
        libc::SYS_mount,
        &[kind, target.as_ptr() as usize, kind, 0, 0],
    )?;
    let _ = raw(
        libc::SYS_umount2,
        &[target.as_ptr() as usize, libc::MNT_DETACH as usize],
    );
    Ok(())
}

/// Whether a set-user-ID program would still become its owner.
fn raised() -> Answer {
    enough(matches!(rustix::thread::no_new_privs(), Ok(false)))
}

fn capable() -> Answer {
    let status = fs::read_to_string("/proc/self/status").map_err(errno)?;
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapPrm:"))
        .ok_or(libc::ENODATA)?;
    enough(effective.trim().chars().any(|digit| digit != '0'))
}

fn set_own_host_name() -> Answer {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").map_err(errno)?;
    let name = name.trim();
    raw(libc::SYS_sethostname, &[name.as_ptr() as usize, name.len()])
}
