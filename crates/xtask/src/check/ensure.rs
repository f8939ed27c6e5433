//! What the checks need from the machine: found, or installed from Debian, npm or PyPI, or refused with the command to run.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};

use super::Tally;
use crate::{say, tools::process};

const INSTALL_LIMIT: Duration = Duration::from_secs(600);

/// The parts of the Rust toolchain the gate itself uses.
pub(super) fn toolchain() -> Result<Tally> {
    for (component, program) in [("rustfmt", "cargo-fmt"), ("clippy", "cargo-clippy")] {
        if !answers(program, "--version") {
            say(format_args!("installing {component} (once)"));
            run(Command::new("rustup").args(["component", "add", component]), component)
                .with_context(|| format!("install {component}: rustup component add {component}"))?;
        }
    }
    command("git", "git")?;
    Ok(Tally::passed(1))
}

/// Makes sure a program is on the path, from this Debian package if it is not.
pub(crate) fn command(program: &str, package: &str) -> Result<()> {
    if answers(program, "--version") {
        return Ok(());
    }
    debian(&[package])?;
    ensure!(answers(program, "--version"), "`{program}` is still missing after installing {package}");
    Ok(())
}

/// Installs Debian packages. Only root can; anyone else is told what to run.
pub(crate) fn debian(packages: &[&str]) -> Result<()> {
    let list = packages.join(" ");
    if !answers("apt-get", "--version")
        || fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) != 0)
    {
        bail!("missing: {list}. Install with your package manager, on Debian: sudo apt-get install {list}");
    }
    say(format_args!("installing {list} (once)"));
    let quiet =
        |command: &mut Command| command.env("DEBIAN_FRONTEND", "noninteractive").status().is_ok_and(|status| status.success());
    let mut install = Command::new("apt-get");
    install.args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages).stdout(Stdio::null());
    // The package lists may be old or absent; refresh them once and try again.
    let installed = quiet(&mut install)
        || (quiet(Command::new("apt-get").args(["update", "-qq"]).stdout(Stdio::null())) && quiet(&mut install));
    ensure!(installed, "apt-get could not install {list}");
    Ok(())
}

/// A Python environment under `target/tools` holding exactly these pinned packages; the directory of its programs.
pub(crate) fn python(name: &str, pins: &[&str]) -> Result<PathBuf> {
    let home = process::root()?.join("target").join("tools").join(name);
    let programs = home.join("bin");
    let wanted = pins.join("\n") + "\n";
    let done = home.join("installed.txt");
    if fs::read_to_string(&done).is_ok_and(|installed| installed == wanted) {
        return Ok(programs);
    }
    command("python3", "python3")?;
    say(format_args!("installing {} from PyPI (once)", pins.join(", ")));
    if !make_environment(&home)? {
        debian(&["python3-venv"])?;
        ensure!(make_environment(&home)?, "`python3 -m venv` failed; see {}", home.display());
    }
    let mut pip = Command::new(programs.join("pip"));
    run(pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(pins), name)?;
    fs::write(&done, wanted)?;
    Ok(programs)
}

fn make_environment(home: &Path) -> Result<bool> {
    let status =
        Command::new("python3").args(["-m", "venv", "--clear"]).arg(home).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    Ok(status.success())
}

/// Runs an installer with its output in a file that the error names.
fn run(command: &mut Command, what: &str) -> Result<()> {
    let logs = process::root()?.join("target").join("tools");
    fs::create_dir_all(&logs)?;
    let log = logs.join(format!("{what}.log"));
    let status = process::run_bounded(command, &log, INSTALL_LIMIT)?;
    ensure!(status.success(), "could not install {what}:\n{}", fs::read_to_string(&log).unwrap_or_default());
    Ok(())
}

fn answers(program: &str, argument: &str) -> bool {
    Command::new(program)
        .arg(argument)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}
