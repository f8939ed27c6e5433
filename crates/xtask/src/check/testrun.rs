//! Running the workspace's tests and counting them, with `cargo nextest` where it is installed and `cargo test` where not.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
    thread,
};

use anyhow::{Context, Result, ensure};

use super::{Tally, cargo};
use crate::{complain, say, tools::process};

/// Test programs with a `main` of their own, as package and target. `cargo nextest` asks such a program for its list of tests, takes
/// silence for "none" and skips it, so these are run by `cargo test` as well.
pub(crate) const OWN_MAIN: &[(&str, &str)] = &[("sandbox", "jail"), ("sandbox", "jails")];

/// Every test of the workspace. Programs are built first: tests start them.
pub(super) fn all() -> Result<Tally> {
    cargo(&["build", "--quiet", "--workspace", "--bins"])?;
    let mut tally = Tally::default();
    for (package, target) in OWN_MAIN {
        tally.add(counted(
            &["test", "--quiet", "--package", package, "--test", target],
            verdict,
        )?);
    }
    tally.add(with_a_harness()?);
    Ok(tally)
}

fn with_a_harness() -> Result<Tally> {
    if has_nextest() {
        cargo(&["nextest", "run", "--workspace", "--no-run", "--cargo-quiet"])?;
        return counted(
            &[
                "nextest",
                "run",
                "--workspace",
                "--cargo-quiet",
                "--no-fail-fast",
                "--status-level",
                "fail",
            ],
            summary,
        );
    }
    cargo(&[
        "test",
        "--quiet",
        "--workspace",
        "--all-targets",
        "--no-run",
    ])?;
    counted(
        &["test", "--workspace", "--all-targets", "--no-fail-fast"],
        summary,
    )
}

/// Tests that live beside the code; no other program is started.
pub(super) fn unit() -> Result<Tally> {
    if has_nextest() {
        return counted(
            &[
                "nextest",
                "run",
                "--workspace",
                "--lib",
                "--bins",
                "--cargo-quiet",
                "--status-level",
                "fail",
            ],
            summary,
        );
    }
    counted(&["test", "--workspace", "--lib", "--bins"], summary)
}

fn has_nextest() -> bool {
    let probe = Command::new("cargo")
        .args(["nextest", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    probe.is_ok_and(|status| status.success())
}

/// Shows the runner's output as it comes and counts what `read` finds in it.
fn counted(arguments: &[&str], read: fn(&str) -> Option<Tally>) -> Result<Tally> {
    let mut command = Command::new("cargo");
    command
        .args(arguments)
        .current_dir(process::root()?)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot start cargo")?;
    let stderr = child.stderr.take().context("cargo has no stderr")?;
    let stdout = child.stdout.take().context("cargo has no stdout")?;
    let errors = thread::spawn(move || relay(stderr, read, |line| complain(line)));
    let mut tally = relay(stdout, read, |line| say(line));
    tally.add(errors.join().unwrap_or_default());
    let status = child.wait()?;
    ensure!(
        status.success() || tally.failed > 0,
        "`cargo {}` failed",
        arguments.join(" ")
    );
    ensure!(
        tally.passed + tally.failed > 0,
        "`cargo {}` ran no test",
        arguments.join(" ")
    );
    Ok(tally)
}

fn relay(stream: impl Read, read: fn(&str) -> Option<Tally>, show: impl Fn(&str)) -> Tally {
    let mut tally = Tally::default();
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        show(&line);
        if let Some(counted) = read(&line) {
            tally.add(counted);
        }
    }
    tally
}

/// What a runner's closing line says: `Summary [ 1.2s] 9 tests run: 8 passed, 1 failed, 0 skipped` or
/// `test result: FAILED. 8 passed; 1 failed; 0 ignored; …`. A test that timed out has failed.
pub(super) fn summary(line: &str) -> Option<Tally> {
    // What a failed test said is shown again, indented: its own closing line does not count twice.
    if !line.trim_start().starts_with("Summary [") && !line.starts_with("test result:") {
        return None;
    }
    let words: Vec<&str> = line
        .split([' ', ',', ';', ':', '(', ')'])
        .filter(|word| !word.is_empty())
        .collect();
    let before = |label: &str| -> usize {
        words
            .windows(2)
            .find_map(|pair| {
                matches!(pair, [_, word] if *word == label).then(|| pair.first()?.parse().ok())?
            })
            .unwrap_or(0)
    };
    let timed_out = words.windows(3).find_map(|three| match three {
        [count, "timed", "out"] => count.parse::<usize>().ok(),
        _ => None,
    });
    Some(Tally {
        passed: before("passed"),
        failed: before("failed") + timed_out.unwrap_or(0),
    })
}

/// What a program with its own `main` says of one test: `test NAME ... ok`.
pub(super) fn verdict(line: &str) -> Option<Tally> {
    let passed = match line.strip_prefix("test ")?.rsplit_once(" ... ")?.1 {
        "ok" => true,
        "FAILED" => false,
        _ => return None,
    };
    Some(Tally {
        passed: usize::from(passed),
        failed: usize::from(!passed),
    })
}
