//! A report as `portcullis audit report` writes it. Each format is a function of the [`Report`]; counting is `reports`' part.

pub(crate) mod charts;
pub(crate) mod csv;
pub(crate) mod html;
pub(crate) mod text;

use api::{Listed, Party, Report, Row, Step};

pub(crate) fn total(rows: &[Row]) -> u64 {
    rows.iter().map(|row| row.count).sum()
}

#[cfg(test)]
mod tests;
