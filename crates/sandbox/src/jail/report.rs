//! What became of every step into the jail.

use std::fmt;

/// Whether one measure is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// In force; the text says how far.
    Applied(String),
    /// Not in force; the text says why.
    Refused(String),
}

/// One step into the jail and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measure {
    pub name: &'static str,
    pub outcome: Outcome,
}

impl Measure {
    pub(crate) fn new(name: &'static str, outcome: Result<String, String>) -> Self {
        let outcome = outcome.map_or_else(Outcome::Refused, Outcome::Applied);
        Self { name, outcome }
    }

    #[must_use]
    pub fn is_applied(&self) -> bool {
        matches!(self.outcome, Outcome::Applied(_))
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Outcome::Applied(how) => write!(f, "{}: applied ({how})", self.name),
            Outcome::Refused(why) => write!(f, "{}: REFUSED ({why})", self.name),
        }
    }
}

/// Every measure, in the order in which it was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    measures: Vec<Measure>,
}

impl Report {
    pub(crate) fn new(measures: Vec<Measure>) -> Self {
        Self { measures }
    }

    #[must_use]
    pub fn measures(&self) -> &[Measure] {
        &self.measures
    }

    /// The measures that are not in force, for the operator to see.
    pub fn refused(&self) -> impl Iterator<Item = &Measure> {
        self.measures.iter().filter(|measure| !measure.is_applied())
    }

    /// Whether every measure is in force.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.refused().next().is_none()
    }

    /// Whether the measure of this name is in force.
    #[must_use]
    pub fn applied(&self, name: &str) -> bool {
        self.measures
            .iter()
            .any(|measure| measure.name == name && measure.is_applied())
    }
}

/// One line per measure.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, measure) in self.measures.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{measure}")?;
        }
        Ok(())
    }
}
