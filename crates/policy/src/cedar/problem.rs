//! What is wrong with a bundle, where, and what to write instead.

use std::fmt;

use miette::Diagnostic;

use super::source::Place;

/// One mistake in a bundle. Lines and columns count from 1; columns count characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub file: String,
    pub line: u32,
    pub column: u32,
    pub message: String,
    pub fix: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}:{}: {}\n  fix: {}",
            self.file, self.line, self.column, self.message, self.fix
        )
    }
}

impl std::error::Error for Problem {}

impl Problem {
    pub(super) fn at(
        place: &Place<'_>,
        offset: usize,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        let (line, column) = place.line_column(offset);
        Self {
            file: place.file.to_owned(),
            line,
            column,
            message: message.into(),
            fix: fix.into(),
        }
    }

    /// A mistake that Cedar found, at the first place it points to.
    pub(super) fn from_cedar(
        place: &Place<'_>,
        offset: usize,
        diagnostic: &dyn Diagnostic,
        fix: &str,
    ) -> Self {
        let label = diagnostic.labels().and_then(|mut labels| labels.next());
        let at = label.as_ref().map_or(0, miette::LabeledSpan::offset);
        let hint = label.and_then(|label| label.label().map(str::to_owned));
        let mut message = without_policy_name(&diagnostic.to_string());
        if let Some(hint) = hint.filter(|hint| !message.contains(hint.as_str())) {
            message = format!("{message} ({hint})");
        }
        let fix = diagnostic
            .help()
            .map_or_else(|| fix.to_owned(), |help| format!("{help}; {fix}"));
        Self::at(place, offset + at, message, fix)
    }
}

/// Cedar starts its messages with the policy's name, which stands in the file and line already.
fn without_policy_name(message: &str) -> String {
    match message
        .strip_prefix("for policy `")
        .and_then(|rest| rest.split_once("`, "))
    {
        Some((_, rest)) => rest.to_owned(),
        None => message.to_owned(),
    }
}
