//! What came out: reading the checks the suite saved, and the table a person reads.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

/// How many lines of a failed client's log are worth showing.
const LOG_TAIL: usize = 12;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Check {
    id: String,
    status: String,
    #[serde(default)]
    error_message: Option<String>,
}

/// The outcome of one scenario.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    scenario: String,
    checks: usize,
    complaints: Vec<String>,
}

impl Verdict {
    /// Reads the checks saved under the directory whose name begins with `stem`; none saved is a failure.
    pub(super) fn read(results: &Path, stem: &str, scenario: &str) -> Result<Self> {
        let mut verdict = Self {
            scenario: scenario.to_owned(),
            checks: 0,
            complaints: Vec::new(),
        };
        let Some(text) = saved_checks(results, stem)? else {
            verdict.fail("the scenario did not run to its end");
            return Ok(verdict);
        };
        let checks: Vec<Check> =
            serde_json::from_str(&text).with_context(|| format!("the checks of {scenario}"))?;
        for check in checks {
            match check.status.as_str() {
                "SUCCESS" => verdict.checks += 1,
                "INFO" | "SKIPPED" => {}
                bad => verdict.fail(&format!(
                    "{bad} {}: {}",
                    check.id,
                    check.error_message.unwrap_or_default()
                )),
            }
        }
        Ok(verdict)
    }

    /// Reads a line `ok SCENARIO` or `failed SCENARIO: WHY` of a program's output; no such line is a failure.
    pub(super) fn said(scenario: &str, output: &str) -> Self {
        let mut verdict = Self {
            scenario: scenario.to_owned(),
            checks: 0,
            complaints: Vec::new(),
        };
        let failed = format!("failed {scenario}: ");
        if output
            .lines()
            .any(|line| line.strip_prefix("ok ") == Some(scenario))
        {
            verdict.checks = 1;
        } else {
            let why = output
                .lines()
                .find_map(|line| line.strip_prefix(failed.as_str()));
            verdict.fail(why.unwrap_or("the scenario did not run to its end"));
        }
        verdict
    }

    pub(super) fn passed(&self) -> bool {
        self.complaints.is_empty()
    }

    pub(super) fn fail(&mut self, complaint: &str) {
        self.complaints.push(complaint.to_owned());
    }

    /// Adds the end of a log to the complaints of a failed scenario.
    pub(super) fn explain_from(&mut self, log: &Path) {
        if self.passed() {
            return;
        }
        let text = fs::read_to_string(log).unwrap_or_default();
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let tail = lines
            .get(lines.len().saturating_sub(LOG_TAIL)..)
            .unwrap_or_default();
        self.complaints
            .extend(tail.iter().map(|line| format!("| {line}")));
    }
}

/// The suite saves to `STEM-TIMESTAMP/checks.json`; a stem may begin another, so the timestamp must follow directly.
fn saved_checks(results: &Path, stem: &str) -> Result<Option<String>> {
    for entry in
        fs::read_dir(results).with_context(|| format!("cannot read {}", results.display()))?
    {
        let entry = entry?;
        let name = entry.file_name();
        let rest = name
            .to_str()
            .and_then(|name| name.strip_prefix(stem))
            .and_then(|rest| rest.strip_prefix('-'));
        if rest.is_some_and(|rest| {
            rest.starts_with(|first: char| first.is_ascii_digit()) && rest.ends_with('Z')
        }) {
            return Ok(fs::read_to_string(entry.path().join("checks.json")).ok());
        }
    }
    Ok(None)
}

/// Scenarios passed, of how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) total: usize,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.passed, self.total))
    }
}

/// One requirement set's outcome.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    pub(crate) revision: String,
    pub(crate) required: Tally,
    pub(crate) unscored: Tally,
    pub(crate) checks: usize,
}

/// The outcome of one suite against one thing.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    label: String,
    runs: Vec<Run>,
    failures: Vec<(String, Verdict)>,
}

impl Summary {
    pub(super) fn new(label: &str) -> Self {
        Self {
            label: label.to_owned(),
            runs: Vec::new(),
            failures: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, revision: &str, scored: bool, verdict: Verdict) {
        if self.runs.last().is_none_or(|run| run.revision != revision) {
            self.runs.push(Run {
                revision: revision.to_owned(),
                ..Run::default()
            });
        }
        if let Some(run) = self.runs.last_mut() {
            let tally = if scored {
                &mut run.required
            } else {
                &mut run.unscored
            };
            tally.total += 1;
            tally.passed += usize::from(verdict.passed());
            run.checks += verdict.checks;
        }
        if !verdict.passed() {
            self.failures.push((revision.to_owned(), verdict));
        }
    }

    /// How many scenarios passed, scored or not.
    pub(crate) fn passed(&self) -> usize {
        self.runs
            .iter()
            .map(|run| run.required.passed + run.unscored.passed)
            .sum()
    }

    /// How many scenarios did not pass, scored or not.
    pub(crate) fn failed(&self) -> usize {
        self.failures.len()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "conformance {}: {} passed, {} failed",
            self.label,
            self.passed(),
            self.failed()
        )?;
        write!(
            f,
            "  {:<12} {:>9} {:>9} {:>7}",
            "revision", "required", "unscored", "checks"
        )?;
        for run in &self.runs {
            write!(
                f,
                "\n  {:<12} {:>9} {:>9} {:>7}",
                run.revision, run.required, run.unscored, run.checks
            )?;
        }
        for (revision, verdict) in &self.failures {
            write!(f, "\n  FAILED {revision} {}", verdict.scenario)?;
            for complaint in &verdict.complaints {
                write!(f, "\n    {complaint}")?;
            }
        }
        Ok(())
    }
}
