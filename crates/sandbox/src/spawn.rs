//! Starting a stdio server: nothing inherited but what is declared.
//!
//! The child has `PATH` and the declared variables and no others, three pipes and no other descriptor, its own session
//! and process group, default signal dispositions, no capability and no way to gain privileges, no core dumps, and dies with
//! this process. The server's bytes are not read here: the pipe ends go to whoever may parse them.
//!
//! **Invariant: a stdio server inherits nothing.** Tests `a_stdio_servers_environment_is_the_golden_list`,
//! `the_environment_is_path_and_what_is_declared`.
//!
//! **Invariant: processes are started in this crate only.** Tidy rule `spawn`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use rustix::process::Pid;

use crate::child::{Child, Process};
use crate::sys::{HANDOVER_FD, Prelude};
use crate::{keeper, registry};

/// What to start, and the little it is to know of its surroundings.
#[derive(Debug, Clone)]
pub struct Command {
    program: OsString,
    args: Vec<OsString>,
    path: Option<OsString>,
    env: Vec<(OsString, OsString)>,
    directory: Option<PathBuf>,
    keeps_capabilities: bool,
}

/// A child just started (dropping it kills it), and our ends of its three pipes, all closing at exec.
#[derive(Debug)]
#[must_use = "dropping it kills the child"]
pub struct Spawned {
    pub child: Child,
    pub stdin: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error(
        "command `{command}` was not found on the PATH `{path}`; install it or give its full path"
    )]
    NotOnPath { command: String, path: String },
    #[error("command `{command}` does not exist; correct the path or install the program")]
    NoSuchFile { command: String },
    #[error(
        "command `{command}` exists, but the interpreter its first line (or the loader its header) names does not"
    )]
    NoInterpreter { command: String },
    #[error("command `{command}` is not executable by this user; check its permissions (chmod +x)")]
    NotExecutable { command: String },
    #[error("command `{command}` is nothing that the kernel executes: {source}")]
    NotExecuted { command: String, source: io::Error },
    #[error("working directory `{directory}` cannot be entered: {source}")]
    Directory {
        directory: String,
        source: io::Error,
    },
    #[error("the socket that carries descriptors to the worker could not be made: {0}")]
    Handover(io::Error),
    #[error("no jail can be built for command `{command}`: {why}")]
    NoJail { command: String, why: String },
    #[error("command `{command}` could not be started: {source}")]
    Other { command: String, source: io::Error },
}

impl Command {
    /// `program` is a path, or a name to look up on the PATH given with [`Command::path`].
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            path: None,
            env: Vec::new(),
            directory: None,
            keeps_capabilities: false,
        }
    }

    /// For another gate: it keeps this process's capabilities, because root without them can build no jail.
    #[must_use]
    pub const fn keeping_capabilities(mut self) -> Self {
        self.keeps_capabilities = true;
        self
    }

    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// The child's `PATH`. It is never taken from this process's environment behind the caller's back.
    #[must_use]
    pub fn path(mut self, path: impl AsRef<OsStr>) -> Self {
        self.path = Some(path.as_ref().to_owned());
        self
    }

    /// Declares one variable. A declared `PATH` wins over [`Command::path`].
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    #[must_use]
    pub fn directory(mut self, directory: impl AsRef<Path>) -> Self {
        self.directory = Some(directory.as_ref().to_owned());
        self
    }

    /// Starts it, on the keeper's thread. Blocks until the program runs or cannot: about a millisecond.
    ///
    /// # Errors
    /// [`SpawnError`] says what is wrong with the command, in words for whoever configured it.
    pub fn spawn(self) -> Result<Spawned, SpawnError> {
        self.spawn_with(None)
    }

    /// The same, with one more descriptor for the child, which finds it as number 3.
    pub(crate) fn spawn_with(self, handover: Option<OwnedFd>) -> Result<Spawned, SpawnError> {
        let command = self.program.to_string_lossy().into_owned();
        keeper::run(move || self.fork_and_exec(handover))
            .map_err(|source| SpawnError::Other { command, source })?
    }

    fn fork_and_exec(self, handover: Option<OwnedFd>) -> Result<Spawned, SpawnError> {
        self.check_directory()?;
        let mark = registry::reserve();
        let mut command = self.to_std();
        let handover_fd = handover.as_ref().map(AsRawFd::as_raw_fd);
        let descriptors = crate::descriptors::inherited();
        Prelude {
            parent: rustix::process::getpid(),
            mark,
            handover: handover_fd,
            descriptors,
            // A worker needs them to build its jail too, and drops them itself.
            keeps_capabilities: self.keeps_capabilities || handover_fd.is_some(),
        }
        .attach(&mut command);
        let _number_three = handover.as_ref().map(occupy_number_three);

        let spawned = command.spawn().map_err(|source| self.explain(source));
        let taken = spawned.and_then(|child| {
            let missing = || self.explain(io::Error::other("a pipe is missing"));
            let raw = i32::try_from(child.id())
                .ok()
                .and_then(Pid::from_raw)
                .ok_or_else(missing)?;
            let process = Arc::new(Process::new(raw, mark));
            registry::enter(&process);
            Ok(Spawned {
                child: Child::new(process),
                stdin: child.stdin.ok_or_else(missing)?.into(),
                stdout: child.stdout.ok_or_else(missing)?.into(),
                stderr: child.stderr.ok_or_else(missing)?.into(),
            })
        });
        if taken.is_err() {
            registry::leave(mark);
        }
        taken
    }

    fn to_std(&self) -> std::process::Command {
        let mut command = std::process::Command::new(&self.program);
        command.args(&self.args).env_clear();
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(path) = &self.path {
            command.env("PATH", path);
        }
        for (name, value) in &self.env {
            command.env(name, value);
        }
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command
    }

    /// Beforehand, because afterwards a missing directory and a missing program give the same error number.
    fn check_directory(&self) -> Result<(), SpawnError> {
        let Some(directory) = &self.directory else {
            return Ok(());
        };
        let complain = |source| SpawnError::Directory {
            directory: directory.display().to_string(),
            source,
        };
        let metadata = std::fs::metadata(directory).map_err(complain)?;
        if metadata.is_dir() {
            Ok(())
        } else {
            Err(complain(io::Error::from(io::ErrorKind::NotADirectory)))
        }
    }

    pub(crate) fn explain(&self, source: io::Error) -> SpawnError {
        let command = self.program.to_string_lossy().into_owned();
        let is_path = command.contains('/');
        match source.kind() {
            io::ErrorKind::NotFound if !is_path => SpawnError::NotOnPath {
                command,
                path: self.search_path(),
            },
            io::ErrorKind::NotFound if self.program_file().exists() => {
                SpawnError::NoInterpreter { command }
            }
            io::ErrorKind::NotFound => SpawnError::NoSuchFile { command },
            io::ErrorKind::PermissionDenied => SpawnError::NotExecutable { command },
            _ => SpawnError::Other { command, source },
        }
    }

    fn search_path(&self) -> String {
        let declared = self
            .env
            .iter()
            .rev()
            .find(|(name, _)| name == "PATH")
            .map(|(_, value)| value);
        declared
            .or(self.path.as_ref())
            .map_or_else(String::new, |path| path.to_string_lossy().into_owned())
    }

    /// Where a program given as a path is looked for: a relative one counts from the child's directory.
    fn program_file(&self) -> PathBuf {
        self.directory
            .clone()
            .unwrap_or_default()
            .join(&self.program)
    }
}

/// Sees to it that number 3 is in use here while we fork. Else the pipe on which the standard library reports a failed
/// exec could get that number, and the child would put the handover socket over it.
fn occupy_number_three(handover: &OwnedFd) -> Option<OwnedFd> {
    rustix::io::fcntl_dupfd_cloexec(handover, HANDOVER_FD).ok()
}
