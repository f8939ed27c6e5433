//! The gate's side: starting the jailer, telling it what to build, hearing what became of it.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use super::report::Line;
use super::spec::Jail;
use crate::jail::{Measure, Report};
use crate::spawn::{Command, SpawnError, Spawned};

/// Building a jail takes milliseconds; a jailer that says nothing for this long is killed.
const PATIENCE: Duration = Duration::from_secs(20);
/// More than a report can have.
const MAX_REPORT: u64 = 1 << 16;

/// The program that plays the jailer, and the arguments that make it one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jailer {
    pub program: PathBuf,
    pub args: Vec<OsString>,
}

/// A program that runs in a jail.
#[derive(Debug)]
#[must_use = "dropping it kills the program"]
pub struct Jailed {
    pub spawned: Spawned,
    pub report: Report,
}

impl Jailer {
    /// The role of the worker program.
    #[must_use]
    pub fn worker(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: vec!["--role".into(), "jailer".into()],
        }
    }
}

impl Jail {
    /// Builds the jail and starts the program in it. Blocks until the program runs or cannot: a few milliseconds.
    ///
    /// # Errors
    /// [`SpawnError`] says what is wrong, in words for whoever configured it.
    pub fn start(&self, jailer: &Jailer) -> Result<Jailed, SpawnError> {
        let command = self.program.to_string_lossy().into_owned();
        let no_jail = |why: String| SpawnError::NoJail {
            command: command.clone(),
            why,
        };
        let (mut ours, theirs) = UnixStream::pair().map_err(|error| no_jail(error.to_string()))?;
        let spawned = Command::new(&jailer.program)
            .args(&jailer.args)
            .directory("/")
            .spawn_with(Some(theirs.into()))?;
        ours.set_read_timeout(Some(PATIENCE))
            .and_then(|()| ours.set_write_timeout(Some(PATIENCE)))
            .and_then(|()| ours.write_all(&self.encode()))
            .and_then(|()| ours.shutdown(std::net::Shutdown::Write))
            .map_err(|error| no_jail(format!("the jailer does not listen: {error}")))?;
        let mut measures = Vec::new();
        for line in BufReader::new(ours.take(MAX_REPORT)).lines() {
            let line = line.map_err(|error| no_jail(format!("the jailer hangs: {error}")))?;
            match Line::parse(&line) {
                Some(Line::Applied(name, how)) => measures.push(Measure::new(name, Ok(how))),
                Some(Line::Refused(name, why)) => measures.push(Measure::new(name, Err(why))),
                Some(Line::NotExecuted(errno, is_there)) => {
                    return Err(self.explain(errno, is_there));
                }
                Some(Line::NoDirectory(errno)) => {
                    return Err(SpawnError::Directory {
                        directory: self.directory.display().to_string(),
                        source: std::io::Error::from_raw_os_error(errno),
                    });
                }
                Some(Line::Failed(why)) => return Err(no_jail(why)),
                None => return Err(no_jail(format!("the jailer said `{line}`"))),
            }
        }
        if measures.is_empty() {
            return Err(no_jail("the jailer ended without a word".to_owned()));
        }
        Ok(Jailed {
            spawned,
            report: Report::new(measures),
        })
    }

    /// In words, from what the jail has. Who asked may be an agent, so the host's files have no say in it.
    fn explain(&self, errno: i32, is_there: bool) -> SpawnError {
        let command = self.program.to_string_lossy().into_owned();
        let path = self.env.iter().find(|(name, _)| name == "PATH");
        match errno {
            libc::ENOENT if is_there => SpawnError::NoInterpreter { command },
            libc::ENOENT if command.contains('/') => SpawnError::NoSuchFile { command },
            libc::ENOENT => SpawnError::NotOnPath {
                command,
                path: path
                    .map_or_else(String::new, |(_, path)| path.to_string_lossy().into_owned()),
            },
            libc::EACCES => SpawnError::NotExecutable { command },
            _ => SpawnError::NotExecuted {
                command,
                source: std::io::Error::from_raw_os_error(errno),
            },
        }
    }
}
