//! stdio servers: what they inherit, and that nothing of them is left.
#![cfg(test)]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sandbox::{Command, Spawned, inspect};

const HOST_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
const LONG: Duration = Duration::from_secs(20);

/// A server that puts a daemon out of reach: two forks, its own session, its own group. Says the daemon's number, then
/// echoes its input.
const DAEMONISING_SERVER: &str =
    "(setsid sh -c 'echo $$; exec sleep 300 >/dev/null 2>&1 </dev/null' &); exec cat";

fn shell(script: &str) -> Command {
    Command::new("sh").arg("-c").arg(script).path(HOST_PATH)
}

fn text_of(fd: OwnedFd) -> String {
    let mut text = String::new();
    File::from(fd).read_to_string(&mut text).unwrap();
    text
}

fn first_number(stdout: &OwnedFd) -> u32 {
    let mut line = String::new();
    BufReader::new(File::from(stdout.try_clone().unwrap()))
        .read_line(&mut line)
        .unwrap();
    line.trim().parse().unwrap()
}

fn assert_gone(pid: u32) {
    assert!(
        !inspect::exists(pid),
        "process {pid} is left ({:?})",
        inspect::status_of(pid, "State")
    );
}

fn await_end_of(pid: u32) {
    let deadline = Instant::now() + LONG;
    while inspect::exists(pid) {
        assert!(
            Instant::now() < deadline,
            "process {pid} is left ({:?})",
            inspect::status_of(pid, "State")
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_server_has_no_capability_and_cannot_read_us_even_as_root() {
    sandbox::jail::hide_memory().unwrap();
    let script = "grep Cap /proc/self/status; for file in environ mem maps; do \
        if head -c 1 /proc/$PPID/$file >/dev/null 2>&1; then echo read $file; else echo refused; fi; done; \
        if kill -0 $PPID; then echo same user; fi";
    let mut server = shell(script).spawn().unwrap();
    assert!(server.child.wait_timeout(LONG).unwrap().unwrap().success());
    let text = text_of(server.stdout);
    let held: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("Cap") && !line.ends_with("\t0000000000000000"))
        .collect();
    let is_root = rustix::process::geteuid().is_root();
    assert!(
        held.is_empty() || (!is_root && held.iter().all(|line| line.starts_with("CapBnd"))),
        "{text}"
    );
    assert_eq!(text.matches("refused").count(), 3, "{text}");
    assert!(
        text.contains("same user"),
        "it is not another user that keeps it out: {text}"
    );
}

#[test]
fn the_environment_is_path_and_what_is_declared() {
    let mut server = Command::new("/usr/bin/env")
        .path(HOST_PATH)
        .env("API_URL", "https://example.test")
        .env("LANG", "C.UTF-8")
        .spawn()
        .unwrap();
    assert!(server.child.wait_timeout(LONG).unwrap().unwrap().success());
    let text = text_of(server.stdout);
    let mut variables: Vec<&str> = text.lines().collect();
    variables.sort_unstable();
    assert_eq!(
        variables,
        [
            "API_URL=https://example.test",
            "LANG=C.UTF-8",
            "PATH=/usr/local/bin:/usr/bin:/bin"
        ]
    );
}

#[test]
fn without_a_path_the_environment_is_empty() {
    let server = Command::new("/usr/bin/env").spawn().unwrap();
    assert_eq!(text_of(server.stdout), "");
}

#[test]
fn the_descriptors_are_three_pipes() {
    let leak = File::open("/etc/passwd").unwrap();
    rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty()).unwrap();
    let server = Command::new("cat").path(HOST_PATH).spawn().unwrap();
    let descriptors = inspect::descriptors_of(server.child.pid()).unwrap();
    let numbers: Vec<u32> = descriptors.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [0, 1, 2], "{descriptors:?}");
    assert!(
        descriptors
            .iter()
            .all(|(_, target)| target.to_string_lossy().starts_with("pipe:")),
        "{descriptors:?}"
    );
}

#[test]
fn our_pipe_ends_close_at_exec() {
    let server = Command::new("cat").path(HOST_PATH).spawn().unwrap();
    for end in [&server.stdin, &server.stdout, &server.stderr] {
        assert!(
            rustix::io::fcntl_getfd(end)
                .unwrap()
                .contains(rustix::io::FdFlags::CLOEXEC)
        );
    }
}

#[test]
fn bytes_flow_through_the_pipes() {
    let Spawned {
        mut child,
        stdin,
        stdout,
        stderr,
    } = shell("cat; echo done >&2").spawn().unwrap();
    File::from(stdin).write_all(b"one line\n").unwrap();
    assert_eq!(text_of(stdout), "one line\n");
    assert_eq!(text_of(stderr), "done\n");
    assert!(child.wait_timeout(LONG).unwrap().unwrap().success());
}

#[test]
fn it_leads_its_own_session_without_privileges_or_ignored_signals() {
    let server = Command::new("sleep")
        .arg("300")
        .path(HOST_PATH)
        .spawn()
        .unwrap();
    let pid = server.child.pid();
    let raw = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap());
    assert_eq!(rustix::process::getsid(raw).ok(), raw);
    assert_eq!(rustix::process::getpgid(raw).ok(), raw);
    let status = |field| inspect::status_of(pid, field).unwrap();
    assert_eq!(status("NoNewPrivs"), "1");
    for signals in ["SigIgn", "SigBlk", "SigCgt"] {
        assert_eq!(status(signals), "0000000000000000", "{signals}");
    }
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"))
        .unwrap();
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
}

#[test]
fn it_runs_in_the_directory_it_was_given() {
    let directory = tempfile::tempdir().unwrap();
    let server = shell("pwd -P").directory(directory.path()).spawn().unwrap();
    assert_eq!(
        text_of(server.stdout).trim(),
        directory.path().canonicalize().unwrap().to_str().unwrap()
    );
}

#[test]
fn what_is_wrong_with_a_command_is_said_in_words() {
    let directory = tempfile::tempdir().unwrap();
    let (plain, orphaned) = (
        directory.path().join("plain"),
        directory.path().join("orphaned"),
    );
    std::fs::write(&plain, "just text").unwrap();
    std::fs::write(&orphaned, "#!/nonexistent/interpreter\n").unwrap();
    std::fs::set_permissions(
        &orphaned,
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let complaint = |command: Command| command.path(HOST_PATH).spawn().unwrap_err().to_string();

    assert_eq!(
        complaint(Command::new("no-such-server")),
        "command `no-such-server` was not found on the PATH `/usr/local/bin:/usr/bin:/bin`; \
         install it or give its full path"
    );
    assert!(complaint(Command::new("/no/such/server")).contains("does not exist"));
    assert!(complaint(Command::new(&plain)).contains("is not executable by this user"));
    assert!(complaint(Command::new(&orphaned)).contains("exists, but the interpreter"));
    assert!(
        complaint(Command::new("cat").directory("/no/such/place"))
            .contains("working directory `/no/such/place`")
    );
    assert!(complaint(Command::new("cat").directory(&plain)).contains("not a directory"));
    assert!(complaint(Command::new("cat").env("A", "b\0c")).contains("could not be started"));
}

#[test]
fn terminate_asks_first() {
    let server = shell("trap 'exit 7' TERM; echo $$; while :; do sleep 0.01; done")
        .spawn()
        .unwrap();
    first_number(&server.stdout);
    assert_eq!(server.child.terminate(LONG).unwrap().code(), Some(7));
}

#[test]
fn terminate_insists_after_the_grace() {
    let server = shell("trap '' TERM; echo $$; while :; do sleep 1; done")
        .spawn()
        .unwrap();
    let pid = first_number(&server.stdout);
    let started = Instant::now();
    let status = server.child.terminate(Duration::from_millis(100)).unwrap();
    assert_eq!(status.signal(), Some(libc::SIGKILL));
    assert!(started.elapsed() >= Duration::from_millis(100));
    assert_gone(pid);
}

#[test]
fn grandchildren_in_the_group_go_too() {
    let server = shell("sleep 300 & echo $!; wait").spawn().unwrap();
    let grandchild = first_number(&server.stdout);
    assert!(inspect::exists(grandchild));
    server.child.kill().unwrap();
    assert_gone(grandchild);
}

#[test]
fn a_daemon_that_left_the_group_goes_too() {
    let server = shell(DAEMONISING_SERVER).spawn().unwrap();
    let (pid, daemon) = (server.child.pid(), first_number(&server.stdout));
    assert!(inspect::exists(daemon));
    assert_eq!(
        inspect::status_of(daemon, "PPid"),
        Some(std::process::id().to_string()),
        "not adopted"
    );
    server.child.terminate(Duration::from_secs(1)).unwrap();
    assert_gone(pid);
    assert_gone(daemon);
}

#[test]
fn a_daemon_lives_as_long_as_its_own_server() {
    let one = shell(DAEMONISING_SERVER).spawn().unwrap();
    let two = shell(DAEMONISING_SERVER).spawn().unwrap();
    let (first, second) = (first_number(&one.stdout), first_number(&two.stdout));
    one.child.kill().unwrap();
    assert_gone(first);
    assert!(
        inspect::exists(second) && !inspect::is_zombie(second),
        "the wrong daemon was killed"
    );
    two.child.kill().unwrap();
    assert_gone(second);
}

/// A daemon can lower its mark, but then it belongs to nobody, and what belongs to nobody is swept up.
#[test]
fn a_daemon_that_tampers_with_its_mark_goes_too() {
    let script = "(setsid bash -c 'ulimit -x 5; echo $$; exec sleep 300 >/dev/null 2>&1 </dev/null' &); exec cat";
    let server = shell(script).spawn().unwrap();
    let daemon = first_number(&server.stdout);
    server.child.kill().unwrap();
    assert_gone(daemon);
}

#[test]
fn children_started_by_other_code_are_left_alone() {
    let mut foreign = std::process::Command::new("sleep")
        .arg("300")
        .spawn()
        .unwrap();
    shell(DAEMONISING_SERVER)
        .spawn()
        .unwrap()
        .child
        .kill()
        .unwrap();
    sandbox::reap_orphans();
    assert!(
        foreign.try_wait().unwrap().is_none(),
        "a foreign child was killed"
    );
    foreign.kill().unwrap();
    assert_eq!(foreign.wait().unwrap().signal(), Some(libc::SIGKILL));
}

#[test]
fn a_server_that_ends_by_itself_takes_its_daemon_along() {
    let mut server = shell("(setsid sh -c 'echo $$; exec sleep 300 >/dev/null 2>&1' &); exec cat")
        .spawn()
        .unwrap();
    let daemon = first_number(&server.stdout);
    drop(server.stdin);
    assert!(server.child.wait_timeout(LONG).unwrap().unwrap().success());
    assert_gone(daemon);
}

/// Nobody asks for the end of this one: the keeper sees it.
#[test]
fn an_unobserved_end_is_cleaned_up_by_the_keeper() {
    let server = shell("(setsid sh -c 'echo $$; exec sleep 300 >/dev/null 2>&1' &); exec cat")
        .spawn()
        .unwrap();
    let (pid, daemon) = (server.child.pid(), first_number(&server.stdout));
    drop(server.stdin);
    await_end_of(daemon);
    await_end_of(pid);
    drop(server.child);
}

#[test]
fn dropping_a_child_kills_and_reaps_at_once() {
    let server = shell("trap '' TERM; sleep 300 & echo $!; wait")
        .spawn()
        .unwrap();
    let (pid, grandchild) = (server.child.pid(), first_number(&server.stdout));
    let started = Instant::now();
    drop(server);
    assert!(started.elapsed() < Duration::from_secs(1));
    assert_gone(pid);
    assert_gone(grandchild);
}

#[test]
fn the_end_is_an_event() {
    let mut server = Command::new("cat").path(HOST_PATH).spawn().unwrap();
    assert!(server.child.try_wait().unwrap().is_none());
    drop(server.stdin);
    let mut ends = [PollFd::from_borrowed_fd(
        server.child.end_fd().unwrap(),
        PollFlags::IN,
    )];
    let patience = Timespec::try_from(LONG).unwrap();
    assert_eq!(poll(&mut ends, Some(&patience)).unwrap(), 1);
    assert!(server.child.try_wait().unwrap().unwrap().success());
}

/// The thread that asked for the child ends; the child must not, although its parent-death signal is armed.
#[test]
fn a_child_survives_the_thread_that_asked_for_it() {
    let mut server = std::thread::spawn(|| Command::new("cat").path(HOST_PATH).spawn().unwrap())
        .join()
        .unwrap();
    assert!(
        server
            .child
            .wait_timeout(Duration::from_millis(100))
            .unwrap()
            .is_none()
    );
}
