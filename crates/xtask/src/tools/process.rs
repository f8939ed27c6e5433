//! Child processes that cannot outlive us or hang us.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const POLL: Duration = Duration::from_millis(10);

/// A child that is killed when this is dropped.
pub(crate) struct Running {
    child: Child,
}

impl Running {
    /// Starts a program in the background with its stderr in a file.
    pub(crate) fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(log).with_context(|| format!("cannot write {}", log.display()))?)
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        Ok(Self { child })
    }

    /// The first line of stdout for which `pick` finds something, and what it found.
    pub(crate) fn first<T>(&mut self, pick: impl Fn(&str) -> Option<T>) -> Result<T> {
        let stdout = self
            .child
            .stdout
            .take()
            .context("stdout was already taken")?;
        let mut lines = BufReader::new(stdout).lines();
        let found = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| pick(&line));
        // Keep draining, so that a talkative child never blocks on a full pipe.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        found.context("the program ended without saying where it listens")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself already; either way nothing is left behind.
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Runs a program to its end with all its output in a file; kills it when `limit` has passed.
pub(crate) fn run_bounded(
    command: &mut Command,
    log: &Path,
    limit: Duration,
) -> Result<ExitStatus> {
    let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            bail!(
                "{} did not end within {limit:?}; its output is in {}",
                command.get_program().display(),
                log.display()
            );
        }
        std::thread::sleep(POLL);
    }
}

/// The workspace root.
pub(crate) fn root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .map(Path::to_path_buf)
        .context("xtask is not two directories below the workspace root")
}

/// Where cargo builds to: its own directory in the workspace, unless it was told another.
pub(crate) fn target() -> Result<PathBuf> {
    let told = std::env::var_os("CARGO_TARGET_DIR").filter(|told| !told.is_empty());
    Ok(root()?.join(told.unwrap_or_else(|| "target".into())))
}

/// Builds binaries of this workspace and answers the directory they are in.
pub(crate) fn build(arguments: &[&str]) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .arg("build")
        .arg("--quiet")
        .args(arguments)
        .current_dir(root()?)
        .status()?;
    if !status.success() {
        bail!("cargo build {} failed", arguments.join(" "));
    }
    Ok(target()?.join("debug"))
}

/// This program's own file. A build during the run may have replaced it, which the kernel says with a suffix; the new one is at the
/// same path and does the same.
pub(crate) fn this_program() -> Result<PathBuf> {
    let path = std::env::current_exe().context("cannot find xtask's own program")?;
    let text = path.to_string_lossy();
    Ok(text
        .strip_suffix(" (deleted)")
        .map_or_else(|| path.clone(), PathBuf::from))
}
