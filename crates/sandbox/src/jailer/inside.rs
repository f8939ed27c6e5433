//! The jailer: a process with one thread that builds a jail around itself and runs a program in it.
//!
//! Three processes stand in a row. The *outer* one is the gate's child; it waits and ends as the program ended. The *first* is process 1 of
//! the jail: it builds the walls, reaps, watches memory and passes SIGTERM on. When it ends, the kernel ends everything in the jail. The
//! *program* is what was asked for. Walls stand before the program is forked, so the first process lives behind them too.
//!
//! **Invariant: nothing in a jail outlives it.** Tests `a_jail_that_is_killed_leaves_nothing`, `daemons_end_with_their_jail`.

use std::ffi::{CString, OsStr};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal};

use super::calls::{self, Forked};
use super::processor::{self, Next, Share};
use super::report::Line;
use super::spec::{Jail, Limits, MAX_BYTES, Network, Rung};
use super::{filter, locks, memory, owners, view};
use crate::sys;

/// Who a program becomes where the gate runs as root: owns nothing on any Linux.
pub(super) const NOBODY: u32 = 65_534;
const NOT_FOR_ROOT: &str = "without namespaces there are no walls around programs of root; run the gate as an ordinary user";
/// How often the memory of a jail is added up.
const WATCH: Duration = Duration::from_millis(200);
/// Everybody in the jail but its first process, as `kill` names them.
const EVERYBODY: libc::c_int = -1;

/// Runs the jailer: reads a jail from the socket it was started with, builds it, runs the program.
#[must_use]
pub fn run() -> ExitCode {
    let Some(socket) = calls::inherited() else {
        return ExitCode::from(2);
    };
    let mut gate = Gate(socket.into());
    match gate.read() {
        Ok(jail) => {
            let failed = start(&jail, &mut gate);
            gate.say(&Line::Failed(failed));
        }
        Err(why) => gate.say(&Line::Failed(why)),
    }
    ExitCode::from(2)
}

/// The gate's end of the line. It closes when the program starts, and everything said before has arrived then.
struct Gate(UnixStream);

impl Gate {
    fn read(&mut self) -> Result<Jail, String> {
        let mut bytes = Vec::new();
        (&self.0)
            .take(MAX_BYTES as u64)
            .read_to_end(&mut bytes)
            .map_err(|error| error.to_string())?;
        Jail::decode(&bytes).ok_or_else(|| "the description of the jail is damaged".to_owned())
    }

    fn say(&mut self, line: &Line) {
        // If the gate is gone, this process is about to be.
        let _ = self.0.write_all(line.to_string().as_bytes());
    }

    /// Takes one step; a refusal is reported, and returned where the jail cannot be without it.
    fn step(
        &mut self,
        name: &'static str,
        needed: bool,
        outcome: Result<String, String>,
    ) -> Result<(), String> {
        match outcome {
            Ok(how) => self.say(&Line::Applied(name, how)),
            Err(why) if needed => return Err(format!("{name}: {why}")),
            Err(why) => self.say(&Line::Refused(name, why)),
        }
        Ok(())
    }
}

/// Returns only if the program could not be started.
fn start(jail: &Jail, gate: &mut Gate) -> String {
    let begun = match jail.rung {
        Rung::Namespaces => behind_namespaces(jail, gate),
        Rung::Reduced => reduced(jail, gate),
    };
    let Err(why) = begun;
    why
}

enum Never {}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Without namespaces the jailer itself becomes the program. As root it would stay root: whoever it became instead could not open the
/// home that the gate made for it, so there is no such jail.
fn reduced(jail: &Jail, gate: &mut Gate) -> Result<Never, String> {
    if rustix::process::geteuid().is_root() {
        return Err(NOT_FOR_ROOT.to_owned());
    }
    sys::close_from(sys::HANDOVER_FD + 1).map_err(said)?;
    gate.step("limits", true, lower_limits(&jail.limits))?;
    if jail.limits.millicores.is_some() {
        let why = "nobody can stop what uses too much, without namespaces";
        gate.step("processor", jail.insist, Err(why.to_owned()))?;
    }
    gate.step("capabilities", true, drop_capabilities())?;
    gate.step("landlock", true, locks::lock(jail))?;
    gate.step("system calls", true, filter::lock_calls(jail))?;
    become_program(jail, gate)
}

fn behind_namespaces(jail: &Jail, gate: &mut Gate) -> Result<Never, String> {
    let root = rustix::process::geteuid().is_root();
    // A short name of our own in `ps`, where the program's would mislead.
    let _ = rustix::thread::set_name(c"portcullis-jail");
    sys::close_from(sys::HANDOVER_FD + 1).map_err(said)?;
    let owners = if root {
        // Without it the files of root that were granted stay closed to the jail; the mount shows them as they are.
        owners::translate_root().ok()
    } else {
        None
    };
    gate.step("namespaces", true, leave_namespaces(jail, root))?;
    let (ours, theirs) = UnixStream::pair().map_err(said)?;
    calls::block_signals(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGCHLD])
        .map_err(said)?;
    match calls::fork().map_err(said)? {
        Forked::Parent(first) => outer(gate, first, (ours, theirs)),
        Forked::Child => {
            drop(ours);
            let Err(why) = first_process(jail, gate, theirs, owners, root);
            gate.say(&Line::Failed(why));
            calls::leave(2)
        }
    }
}

fn leave_namespaces(jail: &Jail, root: bool) -> Result<String, String> {
    let mut flags = libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP;
    let mut names = "mounts, processes, shared memory, host name, control groups".to_owned();
    if jail.network == Network::Own {
        flags |= libc::CLONE_NEWNET;
        names.push_str(", network");
    }
    if root {
        // As root the walls are built first, and the user namespace comes when root is given up.
        calls::unshare(flags).map_err(said)?;
        return Ok(names);
    }
    let (user, group) = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    calls::unshare(flags | libc::CLONE_NEWUSER).map_err(said)?;
    map_user(jail, user, group)?;
    Ok(format!("user, {names}"))
}

/// The one user and group of a new user namespace.
fn map_user(jail: &Jail, user: u32, group: u32) -> Result<(), String> {
    let write = |file: &str, text: String| {
        std::fs::write(format!("/proc/self/{file}"), text)
            .map_err(|error| format!("{file}: {error}"))
    };
    write("setgroups", "deny".to_owned())?;
    let shown = |own: u32| jail.shown_user.unwrap_or(own);
    write("uid_map", format!("{} {user} 1", shown(user)))?;
    write("gid_map", format!("{} {group} 1", shown(group)))
}

/// Waits for the jail, and ends as the program ended.
fn outer(
    gate: &mut Gate,
    first: libc::c_int,
    (status, theirs): (UnixStream, UnixStream),
) -> Result<Never, String> {
    drop(theirs);
    let _ = hide_memory();
    // The gate must hear of the start from those who start.
    gate.0 = status.try_clone().map_err(said)?;
    close_pipes();
    let ended = calls::reap(first).unwrap_or(libc::SIGKILL);
    let mut program = [0; 4];
    match (&status).read_exact(&mut program) {
        Ok(()) => calls::end_like(libc::c_int::from_le_bytes(program)),
        Err(_) => calls::end_like(ended),
    }
}

fn hide_memory() -> rustix::io::Result<()> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
}

/// Process 1 of the jail. Returns only if something failed.
fn first_process(
    jail: &Jail,
    gate: &mut Gate,
    outer: UnixStream,
    owners: Option<OwnedFd>,
    root: bool,
) -> Result<Never, String> {
    die_with(&outer)?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    if jail.network == Network::Own {
        let up = calls::raise_loopback().map(|()| "loopback only".to_owned());
        gate.step("network", true, up.map_err(said))?;
    }
    let _ = calls::set_host_name("jail");
    let seen = view::enter(jail, owners.as_ref().map(AsFd::as_fd));
    gate.step("view", true, seen)?;
    drop(owners);
    if root {
        gate.step("root", true, give_up_root())?;
        die_with(&outer)?;
        gate.step("user", jail.insist, leave_user_namespace(jail))?;
    }
    hide_memory().map_err(said)?;
    gate.step("limits", true, lower_limits(&jail.limits))?;
    if let Some(millicores) = jail.limits.millicores {
        let how = format!("{millicores} thousandths of a core for all");
        gate.step("processor", true, Ok(how))?;
    }
    gate.step("capabilities", true, drop_capabilities())?;
    gate.step("landlock", jail.insist, locks::lock(jail))?;
    gate.step("system calls", true, filter::lock_calls(jail))?;
    match calls::fork().map_err(said)? {
        Forked::Child => {
            drop(outer);
            calls::unblock_signals().map_err(said)?;
            rustix::process::setsid().map_err(said)?;
            become_program(jail, gate)
        }
        Forked::Parent(program) => {
            gate.0 = outer.try_clone().map_err(said)?;
            let status = keep(program, &jail.limits);
            let _ = (&outer).write_all(&status.to_le_bytes());
            calls::leave(0)
        }
    }
}

/// Asks to be killed when the outer process ends, and makes sure that it has not ended before.
fn die_with(outer: &UnixStream) -> Result<(), String> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(said)?;
    outer.set_nonblocking(true).map_err(said)?;
    let mut byte = [0];
    match (&*outer).read(&mut byte) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
        _ => return Err("the gate has ended".to_owned()),
    }
    outer.set_nonblocking(false).map_err(said)
}

fn give_up_root() -> Result<String, String> {
    let (user, group) = (
        rustix::process::Uid::from_raw(NOBODY),
        rustix::process::Gid::from_raw(NOBODY),
    );
    rustix::thread::set_thread_groups(&[]).map_err(said)?;
    rustix::thread::set_thread_res_gid(group, group, group).map_err(said)?;
    rustix::thread::set_thread_res_uid(user, user, user).map_err(said)?;
    Ok(format!("became user and group {NOBODY}"))
}

/// Limits of processes count in the user namespace; without one of its own, all jails of root would share theirs.
fn leave_user_namespace(jail: &Jail) -> Result<String, String> {
    // Whoever changed the user is not dumpable, and its files in `/proc` are then root's.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable).map_err(said)?;
    calls::unshare(libc::CLONE_NEWUSER).map_err(said)?;
    map_user(jail, NOBODY, NOBODY)?;
    Ok("a user namespace of its own".to_owned())
}

fn lower_limits(limits: &Limits) -> Result<String, String> {
    let mut said_so = Vec::new();
    let mut lower = |resource, value: u64, what: &str| {
        let hard = rustix::process::getrlimit(resource).maximum;
        let value = hard.map_or(value, |hard| hard.min(value));
        said_so.push(format!("{value} {what}"));
        let limit = Rlimit {
            current: Some(value),
            maximum: Some(value),
        };
        rustix::process::setrlimit(resource, limit).map_err(said)
    };
    if limits.processes > 0 {
        lower(Resource::Nproc, limits.processes, "processes")?;
    }
    if limits.descriptors > 0 {
        lower(Resource::Nofile, limits.descriptors, "descriptors")?;
    }
    if let Some(bytes) = limits.memory {
        lower(Resource::Data, bytes, "bytes of memory")?;
    }
    if let Some(bytes) = limits.file_bytes {
        lower(Resource::Fsize, bytes, "bytes in a file")?;
    }
    if let Some(seconds) = limits.processor_seconds {
        lower(Resource::Cpu, seconds, "seconds on the processor")?;
    }
    Ok(said_so.join(", "))
}

fn drop_capabilities() -> Result<String, String> {
    // Refused without the capability it takes; the empty sets and `no_new_privs` hold by themselves.
    let _ = calls::lock_secure_bits();
    sys::give_up_capabilities().map_err(said)?;
    Ok("none left".to_owned())
}

/// Replaces this process. Returns only if the program cannot be executed.
fn become_program(jail: &Jail, gate: &mut Gate) -> Result<Never, String> {
    if let Err(errno) = rustix::process::chdir(&*jail.directory) {
        gate.say(&Line::NoDirectory(errno.raw_os_error()));
        calls::leave(127);
    }
    let arguments: Vec<CString> = std::iter::once(&jail.program)
        .chain(&jail.args)
        .map(|text| calls::c_text(text))
        .collect::<Result<_, _>>()
        .map_err(said)?;
    let environment: Vec<CString> = jail
        .env
        .iter()
        .map(|(name, value)| {
            calls::c_text(OsStr::from_bytes(
                &[name.as_bytes(), b"=", value.as_bytes()].concat(),
            ))
        })
        .collect::<Result<_, _>>()
        .map_err(said)?;
    let path = jail.env.iter().find(|(name, _)| name == "PATH");
    let mut failed: Option<(std::io::Error, bool)> = None;
    for candidate in candidates(&jail.program, path.map(|(_, path)| path.as_os_str())) {
        let name = calls::c_text(candidate.as_os_str()).map_err(said)?;
        let error = calls::execute(&name, &arguments, &environment);
        let is_there = candidate.symlink_metadata().is_ok();
        // As a shell does: one that may not be executed is worth telling, one that is missing is not.
        if failed.is_none() || is_there || error.raw_os_error() != Some(libc::ENOENT) {
            failed = Some((error, is_there));
        }
    }
    let (error, is_there) = failed.unzip();
    let number = error.and_then(|error| error.raw_os_error());
    gate.say(&Line::NotExecuted(
        number.unwrap_or(libc::ENOENT),
        is_there.unwrap_or_default(),
    ));
    calls::leave(127)
}

/// The files that a program's name may mean.
fn candidates(program: &OsStr, path: Option<&OsStr>) -> Vec<std::path::PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return vec![program.into()];
    }
    std::env::split_paths(path.unwrap_or_default())
        .map(|directory| directory.join(Path::new(program)))
        .collect()
}

/// Reaps, passes SIGTERM on, watches memory and processor until the program ends; returns its raw status.
fn keep(program: libc::c_int, limits: &Limits) -> libc::c_int {
    close_pipes();
    let awaited = [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP];
    let mut watch = Watch::new(limits);
    loop {
        while let Some((pid, status)) = calls::reap_any() {
            if pid == program {
                return status;
            }
        }
        // As if the kernel had found no memory: the end of this process is the end of all.
        let Some(patience) = watch.look() else {
            return libc::SIGKILL;
        };
        match calls::next_signal(&awaited, patience) {
            Ok(Some(signal)) if signal != libc::SIGCHLD => {
                calls::signal(-program, signal);
                // Whoever is to end must be able to hear of it.
                watch.wake();
            }
            Ok(_) => {}
            Err(_) => return libc::SIGKILL,
        }
    }
}

/// What a jail uses up, looked at by the clock: children that end all the time must not keep anybody from looking.
struct Watch {
    memory: Option<u64>,
    memory_due: Instant,
    share: Option<Share>,
    share_due: Instant,
    is_paused: bool,
}

impl Watch {
    fn new(limits: &Limits) -> Self {
        let now = Instant::now();
        Self {
            memory: limits.memory,
            memory_due: now + WATCH,
            share: limits.millicores.map(|share| Share::new(share, now)),
            share_due: now,
            is_paused: false,
        }
    }

    /// Looks at what is due. `None`: the jail has more memory than it may. Otherwise how long to wait for the next look, if there is one.
    fn look(&mut self) -> Option<Option<Duration>> {
        let now = Instant::now();
        if let Some(most) = self.memory
            && now >= self.memory_due
        {
            if memory::is_above(most) {
                return None;
            }
            self.memory_due = now + WATCH;
        }
        if let Some(share) = &mut self.share
            && now >= self.share_due
        {
            let next = share.look(now, processor::used());
            let is_paused = matches!(next, Next::Pause(_));
            let (Next::Run(time) | Next::Pause(time)) = next;
            self.share_due = now + time;
            // Also what was started just before the others stood still.
            if is_paused {
                calls::signal(EVERYBODY, libc::SIGSTOP);
                self.is_paused = true;
            } else {
                self.wake();
            }
        }
        let due = [
            self.memory.map(|_| self.memory_due),
            self.share.as_ref().map(|_| self.share_due),
        ];
        let next = due.into_iter().flatten().min();
        Some(next.map(|due| due.saturating_duration_since(now)))
    }

    fn wake(&mut self) {
        if std::mem::take(&mut self.is_paused) {
            calls::signal(EVERYBODY, libc::SIGCONT);
        }
    }
}

/// The pipes are the program's alone: their other ends must notice when it closes them.
fn close_pipes() {
    for fd in [0, 1, 2] {
        sys::close_number(fd);
    }
}
