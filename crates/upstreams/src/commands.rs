//! Running commands of agents: each in a jail of its own, in its caller's workspace, within time, output and number.
//!
//! **Invariant: a command leaves nothing running and reaches nothing but its workspace.** Whoever stops waiting for it ends it. Tests
//! `commands_run_in_the_workspace_and_nowhere_else`, `a_command_ends_with_its_time`,
//! `whoever_ends_a_command_ends_its_program_too`.

mod attend;
mod room;
mod workspace;

use std::{
    collections::BTreeMap,
    os::unix::process::ExitStatusExt as _,
    path::{Component, Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use sandbox::{
    jailer::{CommandLine, WORKSPACE},
    output::Stream,
};
use tokio::sync::{Notify, Semaphore};

use crate::upstream::Hub;
use attend::{NotStarted, attend, start};
use room::Rooms;

pub use workspace::{Directory, Workspace};

/// How long a command may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(2);
/// The kernel takes no longer text among the arguments of a program, and none with a zero byte in it.
const LONGEST_TEXT: usize = (128 << 10) - 1;
/// Less than the kernel takes in all.
const MOST_TEXT: usize = 1 << 20;

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
    /// How much its caller's workspace may hold.
    pub workspace_bytes: u64,
}

impl CommandAsk {
    /// Whether this can be run at all, whatever the workspace has in it.
    ///
    /// # Errors
    /// [`NotRan::Asked`] says what whoever asked got wrong.
    pub fn check(&self) -> Result<(), NotRan> {
        let wrong = |what: String| Err(NotRan::Asked(what));
        let is_path = self.command.contains('/');
        let command = Path::new(&self.command);
        let is_inside = command.starts_with(WORKSPACE) || command.is_relative();
        if is_path && !(is_inside && is_plain(command)) {
            return wrong(format!(
                "`command` must be a name, or a path inside {WORKSPACE}"
            ));
        }
        let directory = self.directory();
        if !directory.starts_with(WORKSPACE) || !is_plain(&directory) {
            return wrong(format!("`cwd` must be inside {WORKSPACE}"));
        }
        let texts = [("command", &self.command)]
            .into_iter()
            .chain(self.directory.iter().map(|text| ("cwd", text)))
            .chain(self.args.iter().map(|text| ("args", text)));
        let mut sum = 0_usize;
        for (name, text) in texts {
            if text.contains('\0') {
                return wrong(format!("`{name}` must not hold a zero byte"));
            }
            sum = sum.saturating_add(text.len() + 1);
            if text.len() > LONGEST_TEXT || sum > MOST_TEXT {
                return wrong(format!(
                    "`{name}` is too long: a text has at most {LONGEST_TEXT} bytes, all together {MOST_TEXT}; `stdin` takes more"
                ));
            }
        }
        Ok(())
    }

    /// Where it runs, as it sees it.
    fn directory(&self) -> PathBuf {
        Path::new(WORKSPACE).join(self.directory.as_deref().unwrap_or_default())
    }
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
    /// How much its workspace held when it began, where that was too much: it could write nothing then.
    pub was_full: Option<u64>,
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
    /// Its workspace held more than it may, and it was ended.
    Full {
        held: u64,
        most: u64,
    },
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
    places: Arc<Semaphore>,
    rooms: Rooms,
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
            places: Arc::new(Semaphore::new(cores * 2)),
            rooms: Rooms::default(),
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
            room: self.rooms.of(&place),
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

    /// Runs a command to its end, in this directory. Waiting for a place and building its jail count against its time. Whoever drops the future ends the command.
    ///
    /// # Errors
    /// If it was not started, or was ended before its end.
    pub async fn run(
        &self,
        hub: &Arc<Hub>,
        directory: Directory<'_>,
        ask: CommandAsk,
    ) -> Result<Ran, NotRan> {
        let begun = Instant::now();
        let line = self.line(directory.files, &ask)?;
        let deadline = tokio::time::Instant::now() + ask.time;
        let starting = self.start(hub, directory, line, ask.workspace_bytes);
        let started = match tokio::time::timeout_at(deadline, starting).await {
            Ok(started) => started,
            Err(_) => return Err(NotRan::TimedOut(ask.time)),
        };
        let (mut kept, pipes, was_full) = match started {
            Ok(started) => started,
            Err(NotStarted::Broken(why)) => return Err(NotRan::NotStarted(why)),
            Err(NotStarted::Asked(why)) => return Err(NotRan::Asked(why)),
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
                    was_full: None,
                    took: begun.elapsed(),
                });
            }
        };
        let stop = Arc::new(Notify::new());
        let running = self.enter(&ask, kept.pid(), &stop);
        let most = bound(ask.workspace_bytes, was_full);
        let ended = tokio::select! {
            ended = tokio::time::timeout_at(deadline, attend(&mut kept, pipes, ask.input, ask.output_bytes)) => {
                ended.unwrap_or(Err(NotRan::TimedOut(ask.time)))
            }
            () = stop.notified() => Err(NotRan::Ended),
            held = directory.overflows(most) => Err(NotRan::Full { held, most }),
        };
        let (tail, status) = match ended {
            Ok(ended) => ended,
            Err(why) => {
                let grace = match why {
                    NotRan::TimedOut(_) => GRACE,
                    _ => Duration::ZERO,
                };
                // Whoever is told that it was ended can rely on it.
                kept.end(grace).await;
                drop(running);
                directory.measure_soon();
                return Err(why);
            }
        };
        drop(running);
        directory.measure_soon();
        let signal = status.signal();
        let texts = tail.texts();
        Ok(Ran {
            is_lossy: texts.is_lossy,
            stdout: texts.out,
            stderr: texts.err,
            exit_code: i64::from(
                status
                    .code()
                    .unwrap_or_else(|| 128 + signal.unwrap_or_default()),
            ),
            signal,
            stdout_bytes: tail.printed(Stream::Out),
            stderr_bytes: tail.printed(Stream::Err),
            is_truncated: texts.is_cut,
            was_full,
            took: begun.elapsed(),
        })
    }

    /// Starts a command when there is a place for it. In a workspace that is full it can delete and not write.
    async fn start(
        &self,
        hub: &Arc<Hub>,
        directory: Directory<'_>,
        mut line: CommandLine,
        most: u64,
    ) -> Result<(attend::Kept, attend::Pipes, Option<u64>), NotStarted> {
        let place = Arc::clone(&self.places)
            .acquire_owned()
            .await
            .map_err(|error| NotStarted::Broken(error.to_string()))?;
        let held = directory.held().await;
        let was_full = (held > most).then_some(held);
        line.may_write = was_full.is_none();
        let (kept, pipes) = start(hub, line, place).await?;
        Ok((kept, pipes, was_full))
    }

    fn line(&self, files: &Path, ask: &CommandAsk) -> Result<CommandLine, NotRan> {
        ask.check()?;
        Ok(CommandLine {
            command: ask.command.clone().into(),
            args: ask.args.iter().map(Into::into).collect(),
            env: Vec::new(),
            directory: ask.directory(),
            workspace: files.to_owned(),
            tools: self.settings.tools.clone(),
            time: ask.time,
            may_write: true,
        })
    }

    fn enter<'a>(&'a self, ask: &CommandAsk, pid: u32, stop: &Arc<Notify>) -> Entered<'a> {
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
            pid,
            since: Instant::now(),
            stop: Arc::clone(stop),
        };
        self.table().insert(id, running);
        Entered { commands: self, id }
    }
}

/// The most that a workspace may hold while a command runs: what it held before where that was more, for the command to delete. What
/// nobody could measure is no bound.
fn bound(most: u64, was_full: Option<u64>) -> u64 {
    let measured = was_full.filter(|held| *held != room::UNMEASURED);
    most.max(measured.unwrap_or_default())
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

#[cfg(test)]
mod tests {
    use super::*;

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
            workspace_bytes: 1 << 20,
        };
        for (command, directory) in [
            ("git", None),
            ("./build.sh", Some("sub")),
            ("/workspace/x", Some("/workspace/sub")),
        ] {
            assert!(
                commands
                    .line(&workspace.files, &ask(command, directory))
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
                    .line(&workspace.files, &ask(command, directory))
                    .is_err(),
                "{command} {directory:?}"
            );
        }
    }

    #[test]
    fn a_workspace_that_nobody_can_measure_bounds_its_command_all_the_same() {
        assert_eq!(bound(100, None), 100);
        assert_eq!(bound(100, Some(150)), 150);
        assert_eq!(bound(100, Some(room::UNMEASURED)), 100);
    }

    #[test]
    fn texts_that_no_program_can_be_given_are_the_callers_mistake() {
        let ask = |command: &str, args: &[String], directory: Option<&str>| CommandAsk {
            caller: "a".into(),
            command: command.into(),
            args: args.to_vec(),
            directory: directory.map(Into::into),
            input: Vec::new(),
            time: Duration::from_secs(1),
            output_bytes: 1024,
            workspace_bytes: 1 << 20,
        };
        let long = "x".repeat(LONGEST_TEXT);
        assert!(ask("ls", std::slice::from_ref(&long), None).check().is_ok());
        for (command, args, directory) in [
            ("l\0s", vec![], None),
            ("ls", vec!["a\0b".to_owned()], None),
            ("ls", vec![], Some("a\0b")),
            ("ls", vec![format!("{long}x")], None),
            ("ls", vec![long; 9], None),
        ] {
            let refused = ask(command, &args, directory).check();
            assert!(
                matches!(refused, Err(NotRan::Asked(_))),
                "{command:?} {directory:?}"
            );
        }
    }
}
