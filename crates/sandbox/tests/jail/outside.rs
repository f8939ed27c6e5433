//! The tests: start a role, watch it.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sandbox::inspect;
use sandbox::jail::{STEPS, SpawnedWorker, Worker};

pub(crate) const TESTS: &[(&str, fn())] = &[
    // First, while this process has no keeper yet: it would sweep up the orphans these look for.
    (
        "the_jailed_worker_dies_with_its_parent",
        the_jailed_worker_dies_with_its_parent,
    ),
    (
        "a_server_dies_with_its_parent",
        a_server_dies_with_its_parent,
    ),
    ("every_escape_is_refused", every_escape_is_refused),
    (
        "every_escape_is_refused_to_an_ordinary_user",
        every_escape_is_refused_to_an_ordinary_user,
    ),
    (
        "the_probe_can_tell_a_jail_from_no_jail",
        the_probe_can_tell_a_jail_from_no_jail,
    ),
    (
        "what_the_worker_needs_still_works",
        what_the_worker_needs_still_works,
    ),
    ("a_runtime_works_inside", a_runtime_works_inside),
    (
        "landlock_alone_keeps_files_closed",
        landlock_alone_keeps_files_closed,
    ),
    (
        "seccomp_alone_refuses_every_escape",
        seccomp_alone_refuses_every_escape,
    ),
    ("a_gate_can_hide_its_memory", a_gate_can_hide_its_memory),
    ("aborting_works", aborting_works),
    (
        "a_thread_started_too_early_is_reported",
        a_thread_started_too_early_is_reported,
    ),
    ("the_kernel_shows_the_jail", the_kernel_shows_the_jail),
    (
        "the_worker_has_four_descriptors_and_no_environment",
        the_worker_has_four_descriptors_and_no_environment,
    ),
    (
        "a_missing_worker_is_a_clear_error",
        a_missing_worker_is_a_clear_error,
    ),
];

const LONG: Duration = Duration::from_secs(20);

fn this_binary() -> std::path::PathBuf {
    std::env::current_exe().unwrap()
}

pub(crate) fn start(role: &str) -> Worker {
    Worker::new(this_binary())
        .arg(role)
        .env("RUST_BACKTRACE", "1")
}

fn text_of(fd: OwnedFd) -> String {
    let mut text = String::new();
    File::from(fd).read_to_string(&mut text).unwrap();
    text
}

/// Runs a role to its end; returns what it wrote and how it ended.
fn run(worker: SpawnedWorker) -> (String, String, std::process::ExitStatus) {
    let SpawnedWorker {
        mut child,
        stdin,
        stdout,
        stderr,
        handover,
    } = worker;
    drop((stdin, handover));
    let complaints = std::thread::spawn(move || text_of(stderr));
    let output = text_of(stdout);
    let status = child
        .wait_timeout(LONG)
        .unwrap()
        .expect("the role ends in time");
    (output, complaints.join().unwrap(), status)
}

/// A ledger, a directory and a listening unix socket that exist and that anybody may use: only the jail is in the way.
struct Temptations {
    directory: tempfile::TempDir,
    _listener: UnixListener,
}

impl Temptations {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let open_to_all = |path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap()
        };
        let (ledger, socket) = (
            directory.path().join("ledger"),
            directory.path().join("socket"),
        );
        std::fs::write(&ledger, "record 1\n").unwrap();
        let listener = UnixListener::bind(&socket).unwrap();
        open_to_all(directory.path(), 0o777);
        open_to_all(&ledger, 0o666);
        open_to_all(&socket, 0o777);
        Self {
            directory,
            _listener: listener,
        }
    }

    fn paths(&self) -> Vec<String> {
        let at = self.directory.path();
        [at.join("ledger"), at.to_owned(), at.join("socket")]
            .iter()
            .map(|path| path.display().to_string())
            .collect()
    }
}

pub(crate) fn every_escape_is_refused() {
    let temptations = Temptations::new();
    let (output, complaints, status) = run(start("role:escape")
        .args(temptations.paths())
        .spawn()
        .unwrap());
    let held = output
        .lines()
        .filter(|line| line.starts_with("held "))
        .count();
    assert!(status.success(), "{status} {output} {complaints}");
    assert!(
        !output.contains("BROKEN") && !output.contains("REFUSED"),
        "{output}"
    );
    assert!(held >= 80, "only {held} attempts were made:\n{output}");
    assert_eq!(
        std::fs::read(temptations.directory.path().join("ledger")).unwrap(),
        b"record 1\n"
    );
    assert!(!temptations.directory.path().join("new").exists());
}

/// The same with the gate itself run by a user without privileges. Where the tests already are, nothing is left to do.
fn every_escape_is_refused_to_an_ordinary_user() {
    if !rustix::process::getuid().is_root() {
        return every_escape_is_refused();
    }
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("probe");
    std::fs::copy(this_binary(), &copy).unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new(&copy)
        .arg("role:user")
        .uid(12_345)
        .gid(12_345)
        .current_dir("/")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Without the jail the same attempts must come out differently, or they would prove nothing.
fn the_probe_can_tell_a_jail_from_no_jail() {
    let temptations = Temptations::new();
    let (output, _, status) = run(start("role:unconfined")
        .args(temptations.paths())
        .spawn()
        .unwrap());
    let broken: Vec<&str> = output
        .lines()
        .filter(|line| line.starts_with("BROKEN "))
        .collect();
    assert!(status.success(), "{status} {output}");
    let must_work_outside = [
        "read a file:",
        "read the ledger:",
        "append to the ledger:",
        "list a directory:",
        "fork:",
        "execute a program:",
        "connect a unix socket:",
        "name an abstract socket:",
        "map executable memory:",
        "offer a service:",
        "std: write a file:",
        "std: run a program:",
        "std: listen:",
        "signal the parent:",
        "become dumpable again:",
    ];
    for name in must_work_outside {
        assert!(
            broken.iter().any(|line| line.contains(name)),
            "`{name}` is refused even without a jail:\n{output}"
        );
    }
    assert!(
        broken.len() >= 50,
        "only {} attempts differ:\n{output}",
        broken.len()
    );
}

/// Two walls stand around files, so that one is enough.
fn landlock_alone_keeps_files_closed() {
    let output = escape_without("seccomp");
    let names = [
        "read a file:",
        "read a file with openat2:",
        "read the ledger:",
        "append to the ledger:",
        "list a directory:",
        "create a file without a name:",
        "execute a program:",
        "signal the parent:",
        "trace the parent:",
        "read the parent's memory through /proc:",
        "read the parent's memory:",
        "write the parent's memory:",
        "std: read the ledger:",
        "std: write a file:",
        "std: list a directory:",
        "std: listen:",
    ];
    for name in names {
        let held = output
            .lines()
            .any(|line| line.starts_with("held ") && line.contains(name));
        assert!(held, "`{name}` is open without seccomp:\n{output}");
    }
    assert!(
        output.contains("BROKEN"),
        "seccomp was in force after all:\n{output}"
    );
}

fn seccomp_alone_refuses_every_escape() {
    let output = escape_without("landlock");
    let open: Vec<&str> = output
        .lines()
        .filter(|line| line.starts_with("BROKEN "))
        .collect();
    // Binding a TCP port is Landlock's to refuse; without it the port is taken but nobody can listen on it.
    assert!(open.is_empty(), "{open:?}");
}

fn escape_without(step: &str) -> String {
    let temptations = Temptations::new();
    let worker = start("role:without").arg(step).args(temptations.paths());
    let (output, complaints, status) = run(worker.spawn().unwrap());
    assert!(status.success(), "{status} {output} {complaints}");
    output
}

fn echo_once(listener: TcpListener) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = [0; 5];
        stream.read_exact(&mut bytes).unwrap();
        stream.write_all(&bytes).unwrap();
    })
}

fn hand_over_a_pipe(worker: &SpawnedWorker) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    worker.handover.send(77, b"", &[reader.as_fd()]).unwrap();
    writer.write_all(b"upstream bytes").unwrap();
}

fn a_runtime_works_inside() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap().to_string();
    let echo = echo_once(tcp);
    let worker = start("role:runtime").arg(address).spawn().unwrap();
    hand_over_a_pipe(&worker);
    let (output, complaints, status) = run(worker);
    assert!(status.success(), "{status}\n{output}\n{complaints}");
    assert_eq!(
        output,
        "tcp hello\nhanded over 77 upstream bytes\nsignals true\nblocking 7\n"
    );
    echo.join().unwrap();
}

fn what_the_worker_needs_still_works() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_read_timeout(Some(LONG)).unwrap();
    let addresses = [
        tcp.local_addr().unwrap().to_string(),
        udp.local_addr().unwrap().to_string(),
    ];
    let echo = echo_once(tcp);
    let worker = start("role:works").args(addresses).spawn().unwrap();
    hand_over_a_pipe(&worker);
    let (output, complaints, status) = run(worker);
    assert!(status.success(), "{status}\n{output}\n{complaints}");
    assert!(
        complaints.contains("a panic inside the jail") && complaints.contains("stack backtrace"),
        "{complaints}"
    );
    let expected = "tcp hello\nudp sent from a port of its own: true\nthreads 8388608\ntimer true\n\
                    parallelism known true\nrandom 1\npanic caught true\nhanded over 77 upstream bytes\nstdin ended true\n";
    assert_eq!(output, expected);
    let mut question = [0; 16];
    assert_eq!(udp.recv(&mut question).unwrap(), 8);
    echo.join().unwrap();
}

pub(crate) fn a_gate_can_hide_its_memory() {
    let (output, complaints, status) = run(start("role:hide").spawn().unwrap());
    assert!(status.success(), "{status} {output} {complaints}");
    // Also where root runs the gate: a server keeps none of root's powers.
    assert_eq!(
        output,
        "environment read by a server: exit code 1\nleft behind: []\n"
    );
}

fn aborting_works() {
    let (_, _, status) = run(start("role:abort").spawn().unwrap());
    assert_eq!(status.signal(), Some(libc::SIGABRT));
    assert!(!status.core_dumped());
}

fn a_thread_started_too_early_is_reported() {
    let (output, _, _) = run(start("role:threads").spawn().unwrap());
    assert!(
        output.contains("single thread: REFUSED (2 threads were running already"),
        "{output}"
    );
    assert_eq!(output.lines().count(), STEPS.len(), "{output}");
}

/// Starts a role and waits for its first line.
fn start_and_await_line(worker: Worker) -> (SpawnedWorker, String) {
    let worker = worker.spawn().unwrap();
    let mut reader = File::from(worker.stdout.try_clone().unwrap());
    let line = first_line(&mut reader);
    (worker, line)
}

pub(crate) fn first_line(reader: &mut impl Read) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while reader.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

fn the_kernel_shows_the_jail() {
    let (worker, line) = start_and_await_line(start("role:wait"));
    assert_eq!(line, "ready");
    let pid = worker.child.pid();
    let status = |field| inspect::status_of(pid, field).unwrap();
    assert_eq!(status("Name"), "probe-worker");
    assert_eq!(status("NoNewPrivs"), "1");
    assert_eq!(status("Seccomp"), "2");
    assert_eq!(status("CapEff"), "0000000000000000");
    assert_eq!(status("CapPrm"), "0000000000000000");
    assert!(
        !status("Uid").split_whitespace().any(|uid| uid == "0"),
        "still root: {}",
        status("Uid")
    );
    worker.child.kill().unwrap();
    assert!(!inspect::exists(pid));
}

fn the_worker_has_four_descriptors_and_no_environment() {
    // A descriptor that would be inherited if it were not closed.
    let leak = File::open("/etc/passwd").unwrap();
    rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty()).unwrap();
    let worker = Worker::new("/bin/sleep")
        .arg("60")
        .env("RUST_LOG", "info")
        .spawn()
        .unwrap();
    let pid = worker.child.pid();
    let descriptors = inspect::descriptors_of(pid).unwrap();
    let numbers: Vec<u32> = descriptors.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [0, 1, 2, 3], "{descriptors:?}");
    assert!(
        descriptors[3].1.to_string_lossy().starts_with("socket:"),
        "{descriptors:?}"
    );
    assert_eq!(
        std::fs::read(format!("/proc/{pid}/environ")).unwrap(),
        b"RUST_LOG=info\0"
    );
    assert_eq!(
        std::fs::read_link(format!("/proc/{pid}/cwd"))
            .unwrap()
            .to_str(),
        Some("/")
    );
}

/// A gate in a process of its own, killed the hard way; returns the number of the child it had.
fn kill_a_gate(role: &[&str]) -> u32 {
    assert_eq!(
        rustix::process::child_subreaper().unwrap(),
        None,
        "orphans would be swept up"
    );
    let mut gate = Command::new(this_binary())
        .args(role)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let child: u32 = first_line(gate.stdout.as_mut().unwrap()).parse().unwrap();
    assert!(inspect::exists(child));
    gate.kill().unwrap();
    gate.wait().unwrap();
    child
}

/// It is an orphan, so its new parent reaps it, or not yet: a zombie has ended too.
fn assert_ends(pid: u32) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while inspect::exists(pid) && !inspect::is_zombie(pid) {
        assert!(
            Instant::now() < deadline,
            "process {pid} outlived its parent"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The server ignores the end of its input, SIGHUP and SIGTERM: only the parent-death signal can end it.
fn a_server_dies_with_its_parent() {
    assert_ends(kill_a_gate(&[
        "role:gate",
        "sh",
        "-c",
        "trap '' HUP TERM; while :; do sleep 1; done",
    ]));
}

/// The user change on the way into the jail makes the kernel forget the signal; the jail must ask for it again.
fn the_jailed_worker_dies_with_its_parent() {
    assert_ends(kill_a_gate(&["role:gate-of-worker"]));
}

fn a_missing_worker_is_a_clear_error() {
    let error = Worker::new("/nonexistent/portcullis-worker")
        .spawn()
        .unwrap_err();
    let expected = "command `/nonexistent/portcullis-worker` does not exist; correct the path or install the program";
    assert_eq!(error.to_string(), expected);
}
