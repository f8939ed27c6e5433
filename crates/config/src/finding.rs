//! What is wrong with a file, where, and what to do about it.
//!
//! A finding never speaks alone: a [`Report`] holds all of them, so one run of `portcullis config check` is enough to repair a
//! file. Excerpts come from the file, so values of credentials must never be repeated in `what` or `fix`.

use std::fmt::{self, Write as _};

use serde::Serialize;

use super::secret::looks_like_token;

/// A stretch of the file. Lines and columns count from one, offsets are characters from the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Place {
    pub line: usize,
    pub column: usize,
    #[serde(skip)]
    pub start: usize,
    #[serde(skip)]
    pub end_line: usize,
    #[serde(skip)]
    pub end_column: usize,
    #[serde(skip)]
    pub end: usize,
    /// Which file of the configuration this is in: [`crate::layers::USER`] or another.
    #[serde(skip)]
    pub layer: u8,
}

impl Place {
    #[must_use]
    pub const fn start() -> Self {
        Self {
            line: 1,
            column: 1,
            start: 0,
            end_line: 1,
            end_column: 1,
            end: 0,
            layer: 0,
        }
    }

    /// From the start of this to the end of `last`.
    #[must_use]
    pub const fn until(self, last: Self) -> Self {
        Self {
            end_line: last.end_line,
            end_column: last.end_column,
            end: last.end,
            ..self
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    Warning,
}

/// One thing to repair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub severity: Severity,
    #[serde(flatten)]
    pub place: Place,
    pub what: Box<str>,
    pub fix: Box<str>,
    /// The line itself, without its end. Empty until a [`Report`] has seen the source.
    pub excerpt: String,
    /// The file, where it is not the report's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The place holds a credential: the excerpt stops before it.
    #[serde(skip)]
    pub hidden: bool,
}

impl Finding {
    #[must_use]
    pub fn error(place: Place, what: impl Into<Box<str>>, fix: impl Into<Box<str>>) -> Self {
        Self {
            severity: Severity::Error,
            place,
            what: what.into(),
            fix: fix.into(),
            excerpt: String::new(),
            file: None,
            hidden: false,
        }
    }

    #[must_use]
    pub fn warning(place: Place, what: impl Into<Box<str>>, fix: impl Into<Box<str>>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(place, what, fix)
        }
    }

    /// Marks a finding whose place must not be shown, only pointed at.
    #[must_use]
    pub fn hidden(self) -> Self {
        Self {
            hidden: true,
            ..self
        }
    }
}

/// Everything found in one file, in the order of its lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    pub file: String,
    pub findings: Vec<Finding>,
}

impl Report {
    /// Of a file that could not be read as YAML, so that nobody knows which of its words are credentials.
    #[must_use]
    pub fn new(file: &str, source: &str, findings: Vec<Finding>) -> Self {
        let cautious: Vec<String> = source.lines().map(without_named_values).collect();
        Self::of_lines(file, &cautious, findings)
    }

    /// Credentials stand at these places; no excerpt shows them, whatever it was made for.
    #[must_use]
    pub fn hiding(file: &str, source: &str, findings: Vec<Finding>, credentials: &[Place]) -> Self {
        let mut lines: Vec<Vec<char>> = source.lines().map(|line| line.chars().collect()).collect();
        for place in credentials {
            for number in place.line..=place.end_line {
                let Some(line) = lines.get_mut(number.saturating_sub(1)) else {
                    continue;
                };
                let from = if number == place.line {
                    place.column.saturating_sub(1)
                } else {
                    0
                };
                let to = if number == place.end_line {
                    place.end_column.saturating_sub(1)
                } else {
                    line.len()
                };
                // One for one, so that what points into the line still does.
                line.iter_mut().take(to).skip(from).for_each(|c| *c = '*');
            }
        }
        let lines: Vec<String> = lines
            .into_iter()
            .map(|line| line.into_iter().collect())
            .collect();
        Self::of_lines(file, &lines, findings)
    }

    /// Both, the findings of `other` with the name of their own file.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.findings
            .extend(other.findings.into_iter().map(|mut finding| {
                finding.file.get_or_insert_with(|| other.file.clone());
                finding
            }));
        self
    }

    fn of_lines(file: &str, lines: &[String], mut findings: Vec<Finding>) -> Self {
        findings.sort_by_key(|finding| (finding.place.line, finding.place.column));
        findings.dedup();
        for finding in &mut findings {
            let line = lines
                .get(finding.place.line.saturating_sub(1))
                .map_or("", String::as_str);
            finding.excerpt = presentable(line).chars().take(MAX_EXCERPT).collect();
            finding.what = presentable(&finding.what).into();
            finding.fix = presentable(&finding.fix).into();
            if finding.hidden {
                let before: String = finding
                    .excerpt
                    .chars()
                    .take(finding.place.column.saturating_sub(1))
                    .collect();
                finding.excerpt = format!("{before}(hidden)");
            }
        }
        Self {
            file: file.to_owned(),
            findings,
        }
    }

    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.severity == Severity::Error)
    }
}

impl std::error::Error for Report {}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, finding) in self.findings.iter().enumerate() {
            if index > 0 {
                f.write_char('\n')?;
            }
            let file = finding.file.as_deref().unwrap_or(&self.file);
            f.write_str(&render(file, finding))?;
        }
        Ok(())
    }
}

/// Longer lines are cut here: an excerpt is for finding the place, not for reading the file.
const MAX_EXCERPT: usize = 160;

/// Names after which a credential is to be expected.
const TELLING: [&str; 9] = [
    "authorization",
    "token",
    "secret",
    "password",
    "passwd",
    "api_key",
    "apikey",
    "api-key",
    "credential",
];

/// A line that is not YAML, up to the first value that its name says is a credential.
fn without_named_values(line: &str) -> String {
    let lower = line.to_ascii_lowercase();
    let after = |name: &&str| {
        let found = lower.find(*name)? + name.len();
        let colon = lower.get(found..)?.find([':', '='])?;
        Some(found + colon + 1)
    };
    match TELLING.iter().filter_map(after).min() {
        Some(end) => format!("{} (hidden)", line.get(..end).unwrap_or_default()),
        None => line.to_owned(),
    }
}

/// Control characters would let a file paint on the terminal of whoever checks it, and a credential written by mistake must not
/// travel on into logs and screenshots.
fn presentable(text: &str) -> String {
    let text: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let is_delimiter = |c: char| c.is_whitespace() || "\"'`=,[]{}".contains(c);
    text.split_inclusive(is_delimiter)
        .map(|piece| {
            let word = piece.trim_end_matches(is_delimiter);
            if looks_like_token(word) {
                piece.replace(word, "(hidden)")
            } else {
                piece.to_owned()
            }
        })
        .collect()
}

fn render(file: &str, finding: &Finding) -> String {
    let Place {
        line,
        column,
        end_line,
        end_column,
        ..
    } = finding.place;
    let word = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let number = line.to_string();
    let margin = " ".repeat(number.len());
    let shown = finding.excerpt.chars().count();
    let indent = column.saturating_sub(1).min(shown);
    let wanted = if end_line == line {
        end_column.saturating_sub(column)
    } else {
        shown.saturating_sub(indent)
    };
    let carets = "^".repeat(wanted.clamp(1, shown.saturating_sub(indent).max(1)));
    let mut out = format!(
        "{word}: {}\n{margin}--> {file}:{line}:{column}\n",
        finding.what
    );
    if !finding.excerpt.trim().is_empty() {
        let spaces = " ".repeat(indent);
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            "{margin} |\n{number} | {}\n{margin} | {spaces}{carets}\n",
            finding.excerpt
        );
    }
    if !finding.fix.is_empty() {
        let _ = writeln!(out, "{margin} = fix: {}", finding.fix);
    }
    out
}

/// The candidate nearest to `wrong`, when it is near enough to be a slip of the hand.
#[must_use]
pub fn nearest<'a>(wrong: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = 1 + wrong.chars().count() / 4;
    let folded = wrong.to_lowercase().replace('-', "_");
    candidates
        .map(|candidate| (distance(&folded, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Edits (insert, remove, replace, swap of neighbours) that turn one word into the other, as far as words of a reasonable length go.
fn distance(a: &str, b: &str) -> usize {
    let short = |text: &str| text.chars().take(64).collect::<String>();
    strsim::osa_distance(&short(a), &short(b))
}
