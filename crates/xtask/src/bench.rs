//! `cargo xtask bench`: what the gate costs, against the least a proxy can cost, in one interleaved run.
//!
//! Direct, floor and gate take turns on the same upstream with the same load, so the machine's mood falls on all of them. Ratios are
//! taken within a round and the median of them is judged; absolute numbers are shown but promise nothing, save for what deciding
//! costs, which is CPU time of one thread and has bounds of its own. `docs/understand/bench.md` has the method. The smallest form (`--smoke`) runs in the gate of every change and judges nothing.

mod decide;
mod judge;
mod level;
mod matrix;
mod neighbours;
mod places;
mod report;
#[cfg(test)]
mod tests;

use std::process::Command;

use anyhow::{Result, bail, ensure};

use crate::{say, tools::process};
use level::Level;
use matrix::{Cell, Plan, Upstream};
use places::{PROGRAMS, Programs, Stand};

/// How much to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    Full,
    Quick,
    Smoke,
}

/// What was asked for.
struct Options {
    extent: Extent,
    era: &'static str,
    text: String,
    fresh: bool,
    /// Programs for this level instead of those that ship.
    level: Option<Level>,
}

impl Options {
    fn read(arguments: &[String]) -> Result<Self> {
        let mut options = Self {
            extent: Extent::Full,
            era: "legacy",
            text: "prose".to_owned(),
            fresh: true,
            level: None,
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match (argument.as_str(), arguments.as_slice().first()) {
                ("--quick", _) => options.extent = Extent::Quick,
                ("--smoke", _) => options.extent = Extent::Smoke,
                ("--modern", _) => options.era = "modern",
                ("--no-build", _) => options.fresh = false,
                ("--level", Some(level)) => options.level = Some(level.parse()?),
                ("--text", Some(text)) => options.text.clone_from(text),
                _ => bail!("`{argument}`: usage: {USAGE}"),
            }
            if matches!(argument.as_str(), "--level" | "--text") {
                arguments.next();
            }
        }
        ensure!(
            options.extent != Extent::Smoke || options.level.is_none(),
            "a smoke run has no level: usage: {USAGE}"
        );
        Ok(options)
    }

    /// The profile whose programs are measured. Programs for one level are kept apart from those that ship.
    fn profile(&self) -> &'static str {
        match (self.extent, self.level) {
            (Extent::Smoke, _) => "debug",
            (_, None) => "dist",
            (_, Some(_)) => "bench-level",
        }
    }
}

const USAGE: &str = "cargo xtask bench [--quick | --smoke] [--modern] [--text NAME] [--level avx512|avx2|sse4.2|plain] [--no-build]";

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let options = Options::read(arguments)?;
    let Options { extent, era, .. } = options;
    if options.fresh {
        build(&options)?;
    }
    let programs = Programs::in_directory(process::target()?.join(options.profile()))?;
    let costs = decide::measure(&programs, extent)?;
    let level = decide::level(&costs)?;
    let is_wanted = options.level.is_none_or(|wanted| wanted == level);
    ensure!(
        is_wanted,
        "the programs run at the level {level} here: this processor has no more, or they were built for it"
    );
    say(format_args!(
        "{} cores, {extent:?} run, level {level}, clients of the {era} era, text: {}",
        std::thread::available_parallelism()?,
        options.text
    ));
    let stand = Stand::start(&programs, era, &options.text)?;
    let measured = matrix::Results {
        costs,
        level,
        ..matrix::measure(stand, &plan(extent))?
    };
    let judged = if extent == Extent::Smoke {
        Vec::new()
    } else {
        judge::judge(&measured)
    };
    report::show(&measured, &judged);
    let file = report::save(&process::target()?.join("bench"), &measured, &judged)?;
    say(format_args!("\nall rounds: {}", file.display()));
    let failed = judged.iter().filter(|target| !target.met).count();
    ensure!(
        failed == 0,
        "{failed} of {} targets are not met",
        judged.len()
    );
    Ok(())
}

/// Builds what is measured, as it ships or for one level; the smoke run takes the programs the tests use.
fn build(options: &Options) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo
        .args([
            "build",
            "--quiet",
            "-p",
            "portcullis",
            "-p",
            "worker",
            "-p",
            "bench",
        ])
        .current_dir(process::root()?);
    cargo.args(PROGRAMS.iter().flat_map(|program| ["--bin", program]));
    if options.extent != Extent::Smoke {
        say(format_args!("building the {} profile …", options.profile()));
        cargo.args(["--profile", options.profile()]);
    }
    if let Some(feature) = options.level.and_then(Level::feature) {
        cargo.args(["--features", feature]);
    }
    ensure!(cargo.status()?.success(), "the programs do not build");
    Ok(())
}

fn plan(extent: Extent) -> Plan {
    let cells = |upstream, connections: &[usize], sizes: &[usize]| -> Vec<Cell> {
        let pairs = sizes.iter().flat_map(|size| {
            connections
                .iter()
                .map(move |connections| (*connections, *size))
        });
        pairs
            .map(|(connections, size)| Cell {
                upstream,
                connections,
                size,
            })
            .collect()
    };
    let all = [1, 16, 64];
    let sizes = [100, 10_000, 1_000_000];
    match extent {
        Extent::Full => Plan {
            cells: [
                cells(Upstream::Http, &all, &sizes),
                cells(Upstream::Stdio, &all, &sizes),
            ]
            .concat(),
            rounds: 5,
            seconds: 1.2,
            starts: 5,
            neighbours: 3,
        },
        Extent::Quick => Plan {
            cells: [
                cells(Upstream::Http, &all, &[100]),
                cells(Upstream::Http, &all, &[1_000_000]),
                cells(Upstream::Stdio, &[16], &[100]),
            ]
            .concat(),
            rounds: 3,
            seconds: 0.5,
            starts: 3,
            neighbours: 1,
        },
        Extent::Smoke => Plan {
            cells: [
                cells(Upstream::Http, &[2], &[100, 1_000_000]),
                cells(Upstream::Stdio, &[2], &[100]),
            ]
            .concat(),
            rounds: 1,
            seconds: 0.2,
            starts: 1,
            neighbours: 0,
        },
    }
}
