//! Reading the suite's requirement files: which scenarios a revision requires, and which run unscored.
//!
//! The files are YAML, but of one fixed shape; anything else in them is refused rather than guessed at.

use anyhow::{Context, Result, ensure};

/// Which half of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leg {
    Server,
    Client,
}

impl Leg {
    fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }
}

/// The scenarios of one leg at one revision.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Requirements {
    pub(super) required: Vec<String>,
    pub(super) unscored: Vec<String>,
}

impl Requirements {
    /// Reads one leg out of a requirement file.
    pub(super) fn read(yaml: &str, leg: Leg) -> Result<Self> {
        let mut found = Self::default();
        let mut section = "";
        let mut unscored = None;
        for line in yaml
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'))
        {
            if let Some(name) = line.strip_suffix(':').filter(|name| !name.starts_with(' ')) {
                section = name;
            } else if section == "not_scored" {
                if let Some(scenario) = line.strip_prefix("  - scenario: ") {
                    unscored = Some(scenario.trim());
                } else if let Some(of) = line.strip_prefix("    leg: ") {
                    let scenario = unscored
                        .take()
                        .context("a leg without a scenario in the requirement file")?;
                    if of.trim() == leg.name() {
                        found.unscored.push(scenario.to_owned());
                    }
                }
            } else if section == leg.name()
                && let Some(scenario) = line.strip_prefix("  - ")
            {
                found.required.push(scenario.trim().to_owned());
            }
        }
        Ok(found)
    }

    /// The same without the scenarios whose names begin with `prefix`.
    pub(super) fn without(mut self, prefix: &str) -> Self {
        self.required
            .retain(|scenario| !scenario.starts_with(prefix));
        self.unscored
            .retain(|scenario| !scenario.starts_with(prefix));
        self
    }

    /// Those scenarios alone.
    pub(super) fn only(mut self, prefix: &str) -> Self {
        self.required
            .retain(|scenario| scenario.starts_with(prefix));
        self.unscored
            .retain(|scenario| scenario.starts_with(prefix));
        self
    }

    /// Refuses a file that holds more or less than we know.
    pub(super) fn expect(&self, revision: &str, required: usize, unscored: usize) -> Result<()> {
        let found = (self.required.len(), self.unscored.len());
        ensure!(
            found == (required, unscored),
            "the suite's requirements for {revision} are not the pinned ones: expected {required} required and {unscored} \
             unscored scenarios, found {} and {}",
            found.0,
            found.1,
        );
        Ok(())
    }

    /// Every scenario, and whether it is scored.
    pub(super) fn scenarios(&self) -> impl Iterator<Item = (&str, bool)> {
        let required = self
            .required
            .iter()
            .map(|scenario| (scenario.as_str(), true));
        required.chain(
            self.unscored
                .iter()
                .map(|scenario| (scenario.as_str(), false)),
        )
    }
}
