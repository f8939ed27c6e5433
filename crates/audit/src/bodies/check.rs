//! Whether the kept bodies are the ones that the records name.

use super::find::{Bodies, Body};
use crate::chain::Hash;
use crate::read::{Filter, read};
use std::io;
use std::path::Path;

/// What became of the bodies that records name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BodyReport {
    pub kept: u64,
    /// The key was destroyed; the sealed bytes are still those that were recorded.
    pub erased: u64,
    /// Not there: lost in a power cut, or removed.
    pub missing: u64,
    /// The `seq` of each record whose body is another one now, or can no longer be unsealed.
    pub altered: Vec<u64>,
}

/// Compares every kept body in `dir` with the record that names it. The records themselves are [`crate::verify`]'s business.
pub fn verify_bodies(dir: &Path) -> io::Result<BodyReport> {
    let mut report = BodyReport::default();
    // Before the bodies: what a running gate adds meanwhile is then found, not missed.
    let records: Vec<_> = read(dir, Filter::default())?.collect::<Result<_, _>>()?;
    let bodies = Bodies::open(dir)?;
    for record in records.into_iter().filter(|record| !record.body.is_empty() && record.intent.is_none()) {
        let sealed = match bodies.sealed_bytes(&record.call) {
            Ok(Some(sealed)) => sealed,
            Ok(None) => {
                report.missing += 1;
                continue;
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof) => {
                report.missing += 1;
                continue;
            }
            Err(error) => return Err(error),
        };
        let is_the_one = Hash::from_hex(record.body.as_bytes()) == Some(Hash::of(&sealed));
        match bodies.get(&record.call)? {
            Body::Kept { .. } if is_the_one => report.kept += 1,
            Body::Erased if is_the_one => report.erased += 1,
            _ => report.altered.push(record.seq),
        }
    }
    Ok(report)
}
