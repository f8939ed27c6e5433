//! What deciding costs by itself: `bench-decide` measures it, here it gets names and bounds.

use std::process::Command;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{Extent, matrix::median, places::Programs};

/// What `bench-decide` says about one piece of work.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Cost {
    pub(super) what: String,
    /// CPU time of one run, in each round.
    pub(super) microseconds: Vec<f64>,
}

impl Cost {
    pub(super) fn median(&self) -> f64 {
        median(self.microseconds.clone())
    }

    /// What it is called in the report.
    pub(super) fn name(&self) -> &str {
        WORKS.iter().find(|work| work.what == self.what).map_or(&self.what, |work| work.name)
    }
}

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
    work("decide-stranger", "the first decision for a caller, 100 policies", None),
    work("check", "a call of 1 KB from Admit to Judge, 100 policies", Some(60.0)),
    work("injection-1k", "1 KB searched for injections", None),
    work("injection-1m", "1 MB searched for injections", None),
    work("secrets-10k", "10 KB searched for secrets", Some(100.0)),
    work("secrets-10k-found", "10 KB searched for secrets, two found", Some(100.0)),
    work("secrets-1m", "1 MB searched for secrets", None),
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
    let said = super::places::output(program.args(["--rounds", rounds, "--milliseconds", milliseconds]))?;
    let costs = said.lines().map(|line| serde_json::from_str(line).with_context(|| format!("not what was expected: {line}")));
    costs.collect()
}
