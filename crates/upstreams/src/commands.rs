//! Running commands of agents: each in a jail of its own, in its caller's workspace, within time, output and number.
//!
//! **Invariant: a command leaves nothing running and reaches nothing but its workspace.** Tests
//! `commands_run_in_the_workspace_and_nowhere_else`, `a_command_ends_with_its_time`.

mod output;

use std::{
    collections::BTreeMap,
    os::{fd::OwnedFd, unix::process::ExitStatusExt as _},
    path::{Component, Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use sandbox::{
    Child, SpawnError, Spawned,
    jailer::{CommandLine, Rung, WORKSPACE},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::unix::pipe,
    sync::{Notify, Semaphore},
};

use crate::upstream::Hub;
use output::{Stream, Tail};

/// How long a command may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(2);
/// A command that prints this many times what is kept of it is ended.
const FLOOD: u64 = 64;
/// And one that prints this much in any case.
const MOST_PRINTED: u64 = 256 << 20;

/// Where commands find what they work on.
#[derive(Debug, Clone)]
pub struct CommandSettings {
    /// Where callers have their workspaces.
    pub workspaces: PathBuf,
    /// Directories of programs that commands see besides those of the system.
    pub tools: Vec<PathBuf>,
}

/// What is asked for, as it was judged.
#[derive(Debug, Clone)]
pub struct CommandAsk {
    pub caller: String,
    pub command: String,
    pub args: Vec<String>,
    /// As the command would name it; the workspace itself if not said.
    pub directory: Option<String>,
    pub input: Vec<u8>,
    pub time: Duration,
    /// How much of what it prints is kept.
    pub output_bytes: usize,
}

/// How a command ended.
#[derive(Debug)]
pub struct Ran {
    pub stdout: String,
    pub stderr: String,
    pub exit_code: i64,
    pub signal: Option<i32>,
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    pub is_truncated: bool,
    /// Whether it printed what is no text.
    pub is_lossy: bool,
    pub took: Duration,
}

/// Why there is no result.
#[derive(Debug)]
pub enum NotRan {
    /// Its own arguments are wrong.
    Asked(String),
    /// It could not be started, with the reason for the operator.
    NotStarted(String),
    TimedOut(Duration),
    /// It printed too much and was ended.
    Flooded {
        printed: u64,
    },
    /// An operator ended it.
    Ended,
}

/// A command that runs now, for operators.
#[derive(Debug, Clone)]
pub struct RunningCommand {
    pub id: u64,
    pub caller: String,
    pub command: String,
    pub pid: u32,
    pub since: Instant,
    stop: Arc<Notify>,
}

/// Everything that runs commands.
#[derive(Debug)]
pub struct Commands {
    settings: CommandSettings,
    places: Semaphore,
    running: Mutex<BTreeMap<u64, RunningCommand>>,
    next: AtomicU64,
    raising: Arc<Mutex<()>>,
}

impl Commands {
    /// As many at once as keep the machine's cores busy.
    #[must_use]
    pub fn new(settings: CommandSettings) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            settings,
            places: Semaphore::new(cores * 2),
            running: Mutex::default(),
            next: AtomicU64::new(1),
            raising: Arc::default(),
        }
    }

    /// The directory that belongs to a caller, made if it is missing.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn workspace(&self, caller: &str) -> std::io::Result<Workspace> {
        use std::os::unix::fs::DirBuilderExt as _;
        // Ids of callers may hold anything; a directory's name must not.
        let name = blake3::hash(caller.as_bytes()).to_hex();
        let place = self
            .settings
            .workspaces
            .join(name.get(..32).unwrap_or_default());
        let files = place.join("files");
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&files)?;
        Ok(Workspace {
            files: files.canonicalize()?,
            mark: place.join("mark"),
            raising: Arc::clone(&self.raising),
        })
    }

    /// Those that run now.
    #[must_use]
    pub fn running(&self) -> Vec<RunningCommand> {
        self.table().values().cloned().collect()
    }

    /// Ends one of them; whether it was there.
    pub fn stop(&self, id: u64) -> bool {
        self.table()
            .get(&id)
            .inspect(|running| running.stop.notify_one())
            .is_some()
    }

    fn table(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, RunningCommand>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a command to its end, in this directory. Waiting for a place counts against its time.
    ///
    /// # Errors
    /// If it was not started, or was ended before its end.
    pub async fn run(&self, hub: &Arc<Hub>, files: &Path, ask: CommandAsk) -> Result<Ran, NotRan> {
        let begun = Instant::now();
        let line = self.line(files, &ask)?;
        let place = tokio::time::timeout(ask.time, self.places.acquire()).await;
        let Ok(Ok(_place)) = place else {
            return Err(NotRan::TimedOut(ask.time));
        };
        let spawned = match start(hub, line).await {
            Ok(spawned) => spawned,
            Err(NotStarted::Broken(why)) => return Err(NotRan::NotStarted(why)),
            Err(NotStarted::NotExecuted(why)) => {
                return Ok(Ran {
                    stdout: String::new(),
                    stderr: format!("[portcullis] {why}"),
                    exit_code: NOT_EXECUTED,
                    signal: None,
                    stdout_bytes: 0,
                    stderr_bytes: 0,
                    is_truncated: false,
                    is_lossy: false,
                    took: begun.elapsed(),
                });
            }
        };
        let stop = Arc::new(Notify::new());
        let running = self.enter(&ask, &spawned.child, &stop);
        let left = ask.time.saturating_sub(begun.elapsed());
        let ended = tokio::select! {
            ended = attend(spawned, ask.input, ask.output_bytes, left) => ended,
            () = stop.notified() => Err(NotRan::Ended),
        };
        drop(running);
        let (tail, status) = ended?;
        let signal = status.signal();
        let (stdout, stderr) = (tail.text(Stream::Out), tail.text(Stream::Err));
        Ok(Ran {
            is_lossy: stdout.1 || stderr.1,
            stdout: stdout.0,
            stderr: stderr.0,
            exit_code: i64::from(
                status
                    .code()
                    .unwrap_or_else(|| 128 + signal.unwrap_or_default()),
            ),
            signal,
            stdout_bytes: tail.printed(Stream::Out),
            stderr_bytes: tail.printed(Stream::Err),
            is_truncated: tail.is_cut(),
            took: begun.elapsed(),
        })
    }

    fn line(&self, files: &Path, ask: &CommandAsk) -> Result<CommandLine, NotRan> {
        let is_path = ask.command.contains('/');
        let is_inside =
            Path::new(&ask.command).starts_with(WORKSPACE) || Path::new(&ask.command).is_relative();
        if is_path && !(is_inside && is_plain(&ask.command)) {
            return Err(NotRan::Asked(format!(
                "`command` must be a name, or a path inside {WORKSPACE}"
            )));
        }
        let directory = Path::new(WORKSPACE).join(ask.directory.as_deref().unwrap_or_default());
        if !directory.starts_with(WORKSPACE) || !is_plain(&directory) {
            return Err(NotRan::Asked(format!("`cwd` must be inside {WORKSPACE}")));
        }
        Ok(CommandLine {
            command: ask.command.clone().into(),
            args: ask.args.iter().map(Into::into).collect(),
            env: Vec::new(),
            directory,
            workspace: files.to_owned(),
            tools: self.settings.tools.clone(),
            time: ask.time,
        })
    }

    fn enter<'a>(&'a self, ask: &CommandAsk, child: &Child, stop: &Arc<Notify>) -> Entered<'a> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let shown: Vec<&str> = std::iter::once(ask.command.as_str())
            .chain(ask.args.iter().map(String::as_str))
            .collect();
        let running = RunningCommand {
            id,
            caller: ask.caller.clone(),
            command: audit::printable(&shown.join(" "))
                .chars()
                .take(200)
                .collect(),
            pid: child.pid(),
            since: Instant::now(),
            stop: Arc::clone(stop),
        };
        self.table().insert(id, running);
        Entered { commands: self, id }
    }
}

/// A command's row in the table, for as long as it runs.
struct Entered<'a> {
    commands: &'a Commands,
    id: u64,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.commands.table().remove(&self.id);
    }
}

fn is_plain(path: impl AsRef<Path>) -> bool {
    !path
        .as_ref()
        .components()
        .any(|part| part == Component::ParentDir)
}

/// A command that could not be executed, which is a result as much as one that failed.
const NOT_EXECUTED: i64 = -1;

async fn start(hub: &Arc<Hub>, line: CommandLine) -> Result<Spawned, NotStarted> {
    let hub = Arc::clone(hub);
    let started = tokio::task::spawn_blocking(move || {
        let jailing = hub.jailing();
        if jailing.probe().rung() != Some(Rung::Namespaces) {
            let why = jailing.probe().repair().unwrap_or_default();
            return Err(NotStarted::Broken(format!(
                "commands need namespaces: {why}"
            )));
        }
        match line.jail().start(&jailing.jailer()) {
            Ok(jailed) => Ok(jailed.spawned),
            Err(
                error @ (SpawnError::NotOnPath { .. }
                | SpawnError::NoSuchFile { .. }
                | SpawnError::NoInterpreter { .. }
                | SpawnError::NotExecutable { .. }),
            ) => Err(NotStarted::NotExecuted(error.to_string())),
            Err(error) => Err(NotStarted::Broken(error.to_string())),
        }
    })
    .await;
    started.unwrap_or_else(|error| Err(NotStarted::Broken(error.to_string())))
}

/// Why a command does not run.
enum NotStarted {
    /// There is no such program in the jail; whoever asked is told.
    NotExecuted(String),
    /// Something of ours.
    Broken(String),
}

/// Feeds and drains a command until it ends, or its time does.
async fn attend(
    spawned: Spawned,
    input: Vec<u8>,
    output_bytes: usize,
    time: Duration,
) -> Result<(Tail, std::process::ExitStatus), NotRan> {
    let Spawned {
        child,
        stdin,
        stdout,
        stderr,
    } = spawned;
    let tail = Mutex::new(Tail::new(output_bytes));
    let not_started = |error: std::io::Error| NotRan::NotStarted(error.to_string());
    tokio::spawn(feed(stdin, input));
    let deadline = Instant::now() + time;
    let most = MOST_PRINTED.min(FLOOD.saturating_mul(output_bytes as u64));
    let drained = {
        let out = drain(stdout, Stream::Out, &tail, most);
        let err = drain(stderr, Stream::Err, &tail, most);
        tokio::time::timeout(time, async { tokio::try_join!(out, err) }).await
    };
    match drained {
        Ok(Ok(_)) => {}
        Ok(Err(printed)) => {
            end(child, Duration::ZERO).await;
            return Err(NotRan::Flooded { printed });
        }
        Err(_) => {
            end(child, GRACE).await;
            return Err(NotRan::TimedOut(time));
        }
    }
    let left = deadline.saturating_duration_since(Instant::now());
    let waited = tokio::task::spawn_blocking(move || {
        let mut child = child;
        let ended = child.wait_timeout(left);
        (child, ended)
    })
    .await;
    let (child, ended) = waited.map_err(|error| NotRan::NotStarted(error.to_string()))?;
    match ended.map_err(not_started)? {
        Some(status) => Ok((
            tail.into_inner().unwrap_or_else(PoisonError::into_inner),
            status,
        )),
        None => {
            end(child, GRACE).await;
            Err(NotRan::TimedOut(time))
        }
    }
}

async fn end(child: Child, grace: Duration) {
    // Nobody is left to tell; what the kernel holds on to is reaped later.
    let _ = tokio::task::spawn_blocking(move || child.terminate(grace)).await;
}

async fn feed(stdin: OwnedFd, input: Vec<u8>) {
    if let Ok(mut pipe) = pipe::Sender::from_owned_fd(stdin) {
        // A command need not read what it is given.
        let _ = pipe.write_all(&input).await;
    }
}

/// Reads a stream to its end; `Err` with how much was printed once that is too much.
async fn drain(stream: OwnedFd, which: Stream, tail: &Mutex<Tail>, most: u64) -> Result<(), u64> {
    let Ok(mut pipe) = pipe::Receiver::from_owned_fd(stream) else {
        return Ok(());
    };
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
        let printed = {
            let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
            tail.push(which, buffer.get(..read).unwrap_or_default());
            tail.printed(Stream::Out) + tail.printed(Stream::Err)
        };
        if printed > most {
            return Err(printed);
        }
    }
    Ok(())
}

/// What belongs to one caller, and what the files in it carry.
///
/// **Invariant: what a workspace carries never falls.** A rise reads, joins and writes under one lock, so that of two commands which begin
/// at once neither takes back what the other wrote down. Tests `of_many_rises_at_once_none_is_lost`,
/// `what_a_workspace_carries_only_rises_and_outlives_the_process`.
#[derive(Debug, Clone)]
pub struct Workspace {
    files: PathBuf,
    mark: PathBuf,
    /// One for all workspaces: they rise seldom.
    raising: Arc<Mutex<()>>,
}

impl Workspace {
    /// Where the files are.
    #[must_use]
    pub fn files(&self) -> &Path {
        &self.files
    }

    /// Raises what the files carry to at least this, on the disk, before a command that carries it can write one. Returns what they carry.
    ///
    /// # Errors
    /// If it cannot be written down.
    pub async fn raise(&self, mark: vocab::Mark) -> std::io::Result<vocab::Mark> {
        // It waits for the disk, and no other call waits with it.
        let own = self.clone();
        tokio::task::spawn_blocking(move || own.raise_now(mark))
            .await
            .map_err(std::io::Error::other)?
    }

    fn raise_now(&self, mark: vocab::Mark) -> std::io::Result<vocab::Mark> {
        let _one_at_a_time = self.raising.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.carried()?;
        let raised = before.join(mark);
        if raised != before || !self.mark.exists() {
            let new = self.mark.with_extension("new");
            std::fs::write(&new, [b'0' + raised.pack()])?;
            std::fs::File::open(&new)?.sync_all()?;
            std::fs::rename(&new, &self.mark)?;
            if let Some(directory) = self.mark.parent() {
                std::fs::File::open(directory)?.sync_all()?;
            }
        }
        Ok(raised)
    }

    /// What its files carry. A record that cannot be read carries the most there is.
    fn carried(&self) -> std::io::Result<vocab::Mark> {
        match std::fs::read(&self.mark) {
            Ok(text) => Ok(text
                .first()
                .and_then(|byte| byte.checked_sub(b'0'))
                .filter(|byte| *byte < 8)
                .map_or_else(|| vocab::Mark::unpack(0b111), vocab::Mark::unpack)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Ok(vocab::Mark::default())
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::{Integrity, Level, Mark};

    #[test]
    fn what_a_workspace_carries_only_rises_and_outlives_the_process() {
        let place = tempfile::tempdir().unwrap();
        let commands = || {
            Commands::new(CommandSettings {
                workspaces: place.path().to_owned(),
                tools: Vec::new(),
            })
        };
        let high = Mark {
            secrecy: Level::Confidential,
            integrity: Integrity::Untrusted,
        };
        let low = Mark::trusted(Level::Public);
        let own = commands().workspace("alice").unwrap();
        assert_eq!(own.raise_now(low).unwrap(), low);
        assert_eq!(own.raise_now(high).unwrap(), high);
        assert_eq!(
            commands()
                .workspace("alice")
                .unwrap()
                .raise_now(low)
                .unwrap(),
            high
        );
        assert_eq!(
            commands().workspace("bob").unwrap().raise_now(low).unwrap(),
            low
        );
        std::fs::write(&own.mark, "?").unwrap();
        assert_eq!(
            own.raise_now(low).unwrap(),
            Mark::unpack(0b111),
            "what is damaged carries the most"
        );
    }

    #[test]
    fn of_many_rises_at_once_none_is_lost() {
        let place = tempfile::tempdir().unwrap();
        let commands = Commands::new(CommandSettings {
            workspaces: place.path().to_owned(),
            tools: Vec::new(),
        });
        let secret = Mark::trusted(Level::Restricted);
        let untrusted = Mark {
            secrecy: Level::Public,
            integrity: Integrity::Untrusted,
        };
        for round in 0..200 {
            let own = commands.workspace(&format!("caller {round}")).unwrap();
            std::thread::scope(|scope| {
                for mark in [secret, untrusted] {
                    let own = &own;
                    scope.spawn(move || own.raise_now(mark).unwrap());
                }
            });
            assert_eq!(own.carried().unwrap(), secret.join(untrusted), "{round}");
        }
    }

    #[test]
    fn only_names_and_paths_of_the_workspace_are_commands() {
        let place = tempfile::tempdir().unwrap();
        let commands = Commands::new(CommandSettings {
            workspaces: place.path().to_owned(),
            tools: Vec::new(),
        });
        let workspace = commands.workspace("a").unwrap();
        let ask = |command: &str, directory: Option<&str>| CommandAsk {
            caller: "a".into(),
            command: command.into(),
            args: Vec::new(),
            directory: directory.map(Into::into),
            input: Vec::new(),
            time: Duration::from_secs(1),
            output_bytes: 1024,
        };
        for (command, directory) in [
            ("git", None),
            ("./build.sh", Some("sub")),
            ("/workspace/x", Some("/workspace/sub")),
        ] {
            assert!(
                commands
                    .line(workspace.files(), &ask(command, directory))
                    .is_ok(),
                "{command}"
            );
        }
        for (command, directory) in [
            ("/bin/sh", None),
            ("../x", None),
            ("git", Some("/etc")),
            ("git", Some("../..")),
        ] {
            assert!(
                commands
                    .line(workspace.files(), &ask(command, directory))
                    .is_err(),
                "{command} {directory:?}"
            );
        }
    }
}
