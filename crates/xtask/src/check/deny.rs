//! `cargo xtask deny`: what is linked, from where, under which licence, and what is there twice. The rules are in `deny.toml`.
//!
//! The tool is the real one, at a pinned version, built once without optimisation: it reads a few hundred small files. It runs offline,
//! so advisories are looked at only where their database is at hand already.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use super::Tally;
use crate::{say, tools::process};

const VERSION: &str = "0.20.2";
/// Building it takes two minutes of a processor, on a busy machine more of the clock.
const INSTALL_LIMIT: Duration = Duration::from_secs(1_200);

pub(crate) fn run() -> Result<Tally> {
    let tool = tool()?;
    let mut checks = vec!["bans", "licenses", "sources"];
    if has_advisories() {
        checks.push("advisories");
    } else {
        say(format_args!(
            "      no advisories: their database is not at hand; `cargo deny fetch db` gets it"
        ));
    }
    // The graph names crates of platforms that nothing here was built for; without a network what is there must do.
    let _fetched = Command::new("cargo")
        .args(["fetch", "--quiet", "--locked"])
        .current_dir(process::root()?)
        .status();
    let mut command = Command::new(&tool);
    command
        .args(["--offline", "check", "--hide-inclusion-graph"])
        .args(&checks)
        .current_dir(process::root()?);
    let status = command
        .status()
        .with_context(|| format!("cannot run {}", tool.display()))?;
    ensure!(
        status.success(),
        "`cargo deny check {}` failed",
        checks.join(" ")
    );
    Ok(Tally::passed(checks.len()))
}

/// The program on the `PATH` if it is of our version, else our own.
fn tool() -> Result<PathBuf> {
    let on_path = PathBuf::from("cargo-deny");
    if is_ours(&on_path) {
        return Ok(on_path);
    }
    let tools = process::target()?.join("tools");
    std::fs::create_dir_all(&tools)?;
    let home = tools.join("cargo-deny");
    let tool = home.join("bin").join("cargo-deny");
    if !is_ours(&tool) {
        say(format_args!("      building cargo-deny {VERSION} (once)"));
        let mut install = Command::new("cargo");
        install
            .args([
                "install", "--quiet", "--locked", "--force", "--debug", "--root",
            ])
            .arg(&home);
        install
            .arg("--target-dir")
            .arg(home.join("build"))
            .arg(format!("cargo-deny@{VERSION}"));
        let log = tools.join("cargo-deny.log");
        let status = process::run_bounded(&mut install, &log, INSTALL_LIMIT)?;
        ensure!(
            status.success() && is_ours(&tool),
            "cargo-deny could not be built; see {}",
            log.display()
        );
        // What it was built from is larger than everything we build.
        let _ = std::fs::remove_dir_all(home.join("build"));
    }
    Ok(tool)
}

fn is_ours(tool: &Path) -> bool {
    let said = Command::new(tool)
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    said.is_ok_and(|said| {
        String::from_utf8_lossy(&said.stdout).trim() == format!("cargo-deny {VERSION}")
    })
}

/// Whether the database of advisories was fetched before.
fn has_advisories() -> bool {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home =
        home.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    let databases = home.and_then(|home| std::fs::read_dir(home.join("advisory-dbs")).ok());
    databases.is_some_and(|entries| {
        entries
            .flatten()
            .any(|entry| entry.path().join(".git").exists())
    })
}
