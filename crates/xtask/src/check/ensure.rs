//! What the checks need from the machine: found, or installed from Debian's packages, or refused with the command to run.
//!
//! What comes from npm and PyPI is pinned and installed under `target/tools` by those who use it: the conformance suite by
//! `tools.rs`, other people's servers and clients by the integration tests.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use super::Tally;
use crate::say;

/// The parts of the Rust toolchain the gate itself uses, and git, which knows what is tracked.
pub(super) fn toolchain() -> Result<Tally> {
    for (component, program) in [("rustfmt", "cargo-fmt"), ("clippy", "cargo-clippy")] {
        if !answers(program, &["--version"]) {
            say(format_args!("installing {component} (once)"));
            let status = Command::new("rustup")
                .args(["component", "add", component])
                .status();
            let status = status.with_context(|| {
                format!("{component} is missing, and so is rustup to install it")
            })?;
            ensure!(
                status.success(),
                "`rustup component add {component}` failed"
            );
        }
    }
    program("git", &["--version"], &["git"])?;
    Ok(Tally::passed(1))
}

/// What other people's servers and clients run on.
pub(super) fn foreign() -> Result<Tally> {
    program("npm", &["--version"], &["nodejs", "npm"])?;
    program(
        "python3",
        &["-c", "import ensurepip, venv"],
        &["python3", "python3-venv"],
    )?;
    program("sh", &["-c", "command -v nfs-ls"], &["libnfs-utils"])?;
    Ok(Tally::passed(1))
}

/// What makes system calls fail, and limits files, for the ledger's faults.
/// What builds a Debian and judges a package.
pub(crate) fn packaging() -> Result<()> {
    program("lintian", &["--version"], &["lintian"])?;
    program("debootstrap", &["--version"], &["debootstrap"])?;
    program("systemd-analyze", &["--version"], &["systemd"])
}

pub(super) fn faults() -> Result<()> {
    program("strace", &["-V"], &["strace"])?;
    program("prlimit", &["--version"], &["util-linux"])?;
    // What doors and the limiter are tried with.
    program("redis-server", &["--version"], &["redis-server"])?;
    program("promtool", &["--version"], &["prometheus"])?;
    program("openssl", &["version"], &["openssl"])?;
    program("curl", &["--version"], &["curl"])
}

/// Makes sure a program runs, from these Debian packages if it does not.
fn program(name: &str, probe: &[&str], packages: &[&str]) -> Result<()> {
    if answers(name, probe) {
        return Ok(());
    }
    debian(packages)?;
    ensure!(
        answers(name, probe),
        "`{name} {}` still fails after installing {}",
        probe.join(" "),
        packages.join(" ")
    );
    Ok(())
}

/// Installs Debian packages. Only root can; anyone else is told what to run.
fn debian(packages: &[&str]) -> Result<()> {
    let list = packages.join(" ");
    if !answers("apt-get", &["--version"]) || !is_root() {
        bail!(
            "missing: {list}. Install with your package manager, on Debian: sudo apt-get install {list}"
        );
    }
    say(format_args!("installing {list} (once)"));
    let install = || {
        apt(
            &["install", "-y", "-qq", "--no-install-recommends"],
            packages,
        )
    };
    // The package lists may be old or absent; refresh them once and try again.
    ensure!(
        install() || (apt(&["update", "-qq"], &[]) && install()),
        "apt-get could not install {list}"
    );
    Ok(())
}

fn apt(verb: &[&str], packages: &[&str]) -> bool {
    let mut apt = Command::new("apt-get");
    apt.args(verb)
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    apt.status().is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
}

fn answers(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
