//! Whether the kept bodies are the ones that the records name.

use super::find::{Bodies, Body};
use crate::chain::Hash;
use crate::filter::Filter;
use crate::read::read;
use std::collections::HashSet;
use std::io;
use std::path::Path;

/// What became of the bodies that records name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BodyReport {
    pub kept: u64,
    /// The key was destroyed, and a record says by whom, or that retention did it.
    pub erased: u64,
    /// Not there, and no record says why: lost in a power cut, or removed.
    pub missing: u64,
    /// The `seq` of each record whose body is another one now, can no longer be unsealed, or lost its key without a record of it.
    pub altered: Vec<u64>,
}

impl BodyReport {
    /// How many bodies the records name.
    pub fn checked(&self) -> u64 {
        self.kept + self.erased + self.missing + self.altered.len() as u64
    }
}

/// A body as its record names it.
struct Named {
    seq: u64,
    call: String,
    digest: String,
}

/// What the records say about bodies.
#[derive(Default)]
struct Told {
    named: Vec<Named>,
    /// Calls whose arguments a person erased.
    erased: HashSet<String>,
    /// Records below this were announced to go, and their bodies with them.
    trimmed: u64,
}

impl Told {
    fn read(dir: &Path) -> io::Result<Told> {
        let mut told = Told::default();
        for record in read(dir, Filter::default())? {
            let record = record?;
            if record.action == "body.erased" {
                told.erased.insert(record.call);
            } else if record.action == "ledger.trimmed" {
                told.trimmed = told.trimmed.max(record.count.unwrap_or(0));
            } else if !record.body.is_empty() && record.intent.is_none() {
                told.named.push(Named {
                    seq: record.seq,
                    call: record.call,
                    digest: record.body,
                });
            }
        }
        Ok(told)
    }

    fn is_gone_for_a_reason(&self, named: &Named) -> bool {
        named.seq < self.trimmed || self.erased.contains(&named.call)
    }
}

/// Compares every kept body in `dir` with the record that names it. The records themselves are [`crate::verify`]'s business.
pub fn verify_bodies(dir: &Path) -> io::Result<BodyReport> {
    // Before the bodies: what a running gate adds meanwhile is then found, not missed.
    let told = Told::read(dir)?;
    let bodies = Bodies::open(dir)?;
    let mut report = BodyReport::default();
    for named in &told.named {
        let gone_for_a_reason = told.is_gone_for_a_reason(named);
        let sealed = match bodies.sealed_bytes(&named.call) {
            Ok(sealed) => sealed,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof
                ) =>
            {
                None
            }
            Err(error) => return Err(error),
        };
        let is_the_one =
            sealed.map(|sealed| Hash::from_hex(named.digest.as_bytes()) == Some(Hash::of(&sealed)));
        match (is_the_one, bodies.get(&named.call)?) {
            (None, _) if gone_for_a_reason => report.erased += 1,
            (None, _) => report.missing += 1,
            (Some(true), Body::Kept { .. }) => report.kept += 1,
            (Some(true), Body::Erased) if gone_for_a_reason => report.erased += 1,
            _ => report.altered.push(named.seq),
        }
    }
    Ok(report)
}
