//! `cargo xtask check`: the gate, the same on a desk and in CI.
//!
//! Steps run in order, cheapest first, and the first failure ends the run with the command that repeats it. The last line is always
//! `N passed, N failed`.

pub(crate) mod deny;
pub(crate) mod ensure;
mod suites;
pub(crate) mod testrun;
#[cfg(test)]
mod tests;

use std::{
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};

use crate::{say, tidy, tools::process};

/// How many checks held and how many did not.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
}

impl Tally {
    pub(crate) fn passed(passed: usize) -> Self {
        Self { passed, failed: 0 }
    }

    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// One step of the gate.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// What a person runs to see this step alone.
    pub(crate) again: &'static str,
    pub(crate) run: fn() -> Result<Tally>,
}

const FAST: &[Step] = &[
    Step {
        name: "tools",
        again: "cargo xtask check --fast",
        run: ensure::toolchain,
    },
    Step {
        name: "format",
        again: "cargo fmt --all",
        run: format,
    },
    Step {
        name: "tidy",
        again: "cargo xtask tidy",
        run: house_rules,
    },
    Step {
        name: "lints",
        again: "cargo clippy --workspace --all-targets -- -D warnings",
        run: lints,
    },
];

const FAST_TESTS: Step = Step {
    name: "unit tests",
    again: "cargo test --workspace --lib --bins",
    run: testrun::unit,
};
const FOREIGN: Step = Step {
    name: "tools of other people",
    again: "cargo xtask check",
    run: ensure::foreign,
};
const DENY: Step = Step {
    name: "dependencies",
    again: "cargo xtask deny",
    run: deny::run,
};
const ALL_TESTS: Step = Step {
    name: "tests",
    again: "cargo nextest run --workspace",
    run: testrun::all,
};

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let fast = match arguments {
        [] => false,
        [one] if one == "--fast" => true,
        _ => bail!("usage: cargo xtask check [--fast]"),
    };
    let steps: Vec<&Step> = if fast {
        FAST.iter().chain([&FAST_TESTS]).collect()
    } else {
        FAST.iter()
            .chain([&DENY, &FOREIGN, &ALL_TESTS])
            .chain(suites::SUITES)
            .collect()
    };
    let started = Instant::now();
    let (tally, outcome) = walk(&steps);
    say(format_args!("\ntook {}", clock(started.elapsed())));
    say(format_args!(
        "{} passed, {} failed",
        tally.passed, tally.failed
    ));
    outcome
}

/// Runs the steps until one fails.
fn walk(steps: &[&Step]) -> (Tally, Result<()>) {
    let mut total = Tally::default();
    for (at, step) in steps.iter().enumerate() {
        let place = format!("[{}/{}]", at + 1, steps.len());
        say(format_args!("{place} {} …", step.name));
        let started = Instant::now();
        let outcome = (step.run)();
        let took = clock(started.elapsed());
        let problem = match outcome {
            Ok(tally) => {
                total.add(tally);
                (tally.failed > 0)
                    .then(|| format!("{} of {} failed", tally.failed, tally.passed + tally.failed))
            }
            Err(error) => {
                total.failed += 1;
                Some(format!("{error:#}"))
            }
        };
        let Some(problem) = problem else {
            say(format_args!("{place} {} ok, {took}", step.name));
            continue;
        };
        say(format_args!(
            "{place} {} FAILED, {took}: {problem}\n      again: {}",
            step.name, step.again
        ));
        return (
            total,
            Err(anyhow::anyhow!("the step `{}` failed", step.name)),
        );
    }
    (total, Ok(()))
}

fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 60 {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{} min {:02} s", seconds / 60, seconds % 60)
    }
}

fn format() -> Result<Tally> {
    cargo(&["fmt", "--all", "--check"])
}

fn house_rules() -> Result<Tally> {
    tidy::run(&process::root()?).map(Tally::passed)
}

fn lints() -> Result<Tally> {
    cargo(&[
        "clippy",
        "--quiet",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ])
}

/// Runs cargo with its output on the screen; a success counts as one check.
fn cargo(arguments: &[&str]) -> Result<Tally> {
    let status = Command::new("cargo")
        .args(arguments)
        .current_dir(process::root()?)
        .status()?;
    ensure!(status.success(), "`cargo {}` failed", arguments.join(" "));
    Ok(Tally::passed(1))
}
