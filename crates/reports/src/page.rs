//! A report as `portcullis audit report` writes it. Each format is a function of the [`Report`]; the one for a terminal is with the command line.

pub mod charts;
pub mod csv;
pub mod html;

use api::{Listed, Party, Report, Row, Step};

pub fn total(rows: &[Row]) -> u64 {
    rows.iter().map(|row| row.count).sum()
}
