//! `cargo xtask bench`: what the gate costs, against the least a proxy can cost, in one interleaved run.
//!
//! Direct, floor and gate take turns on the same upstream with the same load, so the machine's mood falls on all of them. Ratios are
//! taken within a round and the median of them is judged; absolute numbers are shown but promise nothing, save for what deciding
//! costs, which is CPU time of one thread and has bounds of its own. `docs/bench.md` has the method. The smallest form (`--smoke`) runs in the gate of every change and judges nothing.

mod decide;
mod judge;
mod matrix;
mod places;
mod report;
#[cfg(test)]
mod tests;

use std::process::Command;

use anyhow::{Result, bail, ensure};

use crate::{say, tools::process};
use matrix::{Cell, Plan, Upstream};
use places::{PROGRAMS, Programs, Stand};

/// How much to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    Full,
    Quick,
    Smoke,
}

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let (mut extent, mut era, mut fresh) = (Extent::Full, "legacy", true);
    for argument in arguments {
        match argument.as_str() {
            "--quick" => extent = Extent::Quick,
            "--smoke" => extent = Extent::Smoke,
            "--modern" => era = "modern",
            "--no-build" => fresh = false,
            other => bail!("`{other}`: usage: cargo xtask bench [--quick | --smoke] [--modern] [--no-build]"),
        }
    }
    if fresh {
        build(extent)?;
    }
    let profile = if extent == Extent::Smoke { "debug" } else { "release" };
    let programs = Programs::in_directory(process::target()?.join(profile))?;
    say(format_args!("{} cores, {extent:?} run, clients of the {era} era", std::thread::available_parallelism()?));
    let costs = decide::measure(&programs, extent)?;
    let stand = Stand::start(&programs, era)?;
    let measured = matrix::Results { costs, ..matrix::measure(stand, &plan(extent))? };
    let judged = if extent == Extent::Smoke { Vec::new() } else { judge::judge(&measured) };
    report::show(&measured, &judged);
    let file = report::save(&process::target()?.join("bench"), &measured, &judged)?;
    say(format_args!("\nall rounds: {}", file.display()));
    let failed = judged.iter().filter(|target| !target.met).count();
    ensure!(failed == 0, "{failed} of {} targets are not met", judged.len());
    Ok(())
}

/// Builds what is measured, as it ships; the smoke run takes the programs the tests use.
fn build(extent: Extent) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet", "-p", "portcullis", "-p", "worker", "-p", "testkit"]).current_dir(process::root()?);
    cargo.args(PROGRAMS.iter().flat_map(|program| ["--bin", program]));
    if extent != Extent::Smoke {
        say("building the release profile …");
        cargo.arg("--release");
    }
    ensure!(cargo.status()?.success(), "the programs do not build");
    Ok(())
}

fn plan(extent: Extent) -> Plan {
    let cells = |upstream, connections: &[usize], sizes: &[usize]| -> Vec<Cell> {
        let pairs = sizes.iter().flat_map(|size| connections.iter().map(move |connections| (*connections, *size)));
        pairs.map(|(connections, size)| Cell { upstream, connections, size }).collect()
    };
    let all = [1, 16, 64];
    let sizes = [100, 10_000, 1_000_000];
    match extent {
        Extent::Full => Plan {
            cells: [cells(Upstream::Http, &all, &sizes), cells(Upstream::Stdio, &all, &sizes)].concat(),
            rounds: 5,
            seconds: 1.2,
            starts: 5,
        },
        Extent::Quick => Plan {
            cells: [
                cells(Upstream::Http, &all, &[100]),
                cells(Upstream::Http, &[16], &[1_000_000]),
                cells(Upstream::Stdio, &[16], &[100]),
            ]
            .concat(),
            rounds: 3,
            seconds: 0.5,
            starts: 3,
        },
        Extent::Smoke => Plan {
            cells: [cells(Upstream::Http, &[2], &[100, 1_000_000]), cells(Upstream::Stdio, &[2], &[100])].concat(),
            rounds: 1,
            seconds: 0.2,
            starts: 1,
        },
    }
}
