//! What deciding costs by itself: `bench-decide` measures it, here it gets names and bounds.

use std::process::Command;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{Extent, level::Level, matrix::median, places::Programs};

/// What `bench-decide` says about one piece of work.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Cost {
    pub(super) what: String,
    /// With which vector instructions.
    #[serde(default)]
    level: String,
    /// CPU time of one run, in each round.
    pub(super) microseconds: Vec<f64>,
}

impl Cost {
    pub(super) fn median(&self) -> f64 {
        median(self.microseconds.clone())
    }

    /// What it is called in the report.
    pub(super) fn name(&self) -> &str {
        WORKS
            .iter()
            .find(|work| work.what == self.what)
            .map_or(&self.what, |work| work.name)
    }

    #[cfg(test)]
    pub(super) fn of(what: &str, level: &str, microseconds: Vec<f64>) -> Self {
        Self {
            what: what.to_owned(),
            level: level.to_owned(),
            microseconds,
        }
    }
}

/// The level that the programs run at.
pub(super) fn level(costs: &[Cost]) -> Result<Level> {
    costs
        .first()
        .context("bench-decide measured nothing")?
        .level
        .parse()
}

/// What a megabyte of prose costs with vector instructions, as a part of what it costs with those that every processor has.
pub(super) fn gains(costs: &[Cost]) -> impl Iterator<Item = (String, f64, f64)> {
    GAINS.into_iter().filter_map(|(what, name, bound)| {
        let named = |what: &str| {
            costs
                .iter()
                .find(|cost| cost.what == what)
                .map(Cost::median)
        };
        let (cost, plain) = (named(what)?, named(&format!("{what}-plain"))?);
        (plain > 0.0).then(|| {
            (
                format!("{name}, × without AVX and SSE4.2"),
                cost / plain,
                bound,
            )
        })
    })
}

/// A kernel whose vector operations are calls is slower than one without any. SSE2 is enough for the validator.
const GAINS: [(&str, &str, f64); 3] = [
    (
        "injection-1m-prose",
        "1 MB of prose searched for injections",
        0.7,
    ),
    (
        "secrets-1m-prose",
        "1 MB of prose searched for secrets",
        0.7,
    ),
    ("validate-1m-prose", "1 MB of prose validated", 1.3),
];

/// A piece of work, and the microseconds of CPU it may take, if that is judged.
pub(super) struct Work {
    what: &'static str,
    name: &'static str,
    pub(super) bound: Option<f64>,
}

const fn work(what: &'static str, name: &'static str, bound: Option<f64>) -> Work {
    Work { what, name, bound }
}

pub(super) const WORKS: [Work; 11] = [
    work("decide-1", "a decision, 1 policy", None),
    work("decide-10", "a decision, 10 policies", None),
    work("decide-100", "a decision, 100 policies", Some(20.0)),
    work("decide-1000", "a decision, 1000 policies", None),
    work(
        "decide-stranger",
        "the first decision for a caller, 100 policies",
        None,
    ),
    work(
        "check",
        "a call of 1 KB from Admit to Judge, 100 policies",
        Some(60.0),
    ),
    work(
        "weigh-10k",
        "a call of 1 KB held against 10,000 values that were read",
        Some(60.0),
    ),
    work("injection-1k", "1 KB searched for injections", None),
    work("digest-1m", "1 MB digested", None),
    work("secrets-10k", "10 KB searched for secrets", Some(100.0)),
    work(
        "secrets-10k-found",
        "10 KB searched for secrets, two found",
        Some(100.0),
    ),
];

impl Work {
    /// What the run says about it.
    pub(super) fn among<'a>(&self, costs: &'a [Cost]) -> Option<&'a Cost> {
        costs.iter().find(|cost| cost.what == self.what)
    }
}

/// Measures while nothing else of ours runs.
pub(super) fn measure(programs: &Programs, extent: Extent) -> Result<Vec<Cost>> {
    let (rounds, milliseconds) = match extent {
        Extent::Full => ("15", "40"),
        Extent::Quick => ("9", "20"),
        Extent::Smoke => ("1", "1"),
    };
    let mut program = Command::new(programs.path("bench-decide"));
    let said =
        super::places::output(program.args(["--rounds", rounds, "--milliseconds", milliseconds]))?;
    let costs = said.lines().map(|line| {
        serde_json::from_str(line).with_context(|| format!("not what was expected: {line}"))
    });
    costs.collect()
}
