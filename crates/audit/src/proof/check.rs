//! Checking an export, line by line, with nothing but a public key.

use super::export::{EXPORT, Exported, middle};
use super::{decode_hash, recomputed};
use crate::chain::Hash;
use crate::record::Record;
use crate::verify::{BadHead, Head, Levels};
use std::io::{self, BufRead, Read};
use std::ops::Range;

/// No line of an export is as long.
const LONGEST: u64 = 1 << 20;
/// A tree of any size has fewer subtrees beside a run.
const MOST_HASHES: usize = 128;
/// A checkpoint with many witnesses.
const LONGEST_NOTE: usize = 1 << 16;

#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("reading it failed: {0}")]
    Disk(#[from] io::Error),
    #[error("{0}")]
    Head(#[from] BadHead),
    #[error("this is no export of a ledger: {0}")]
    Malformed(&'static str),
    #[error("record {seq}: {reason}")]
    Record { seq: u64, reason: &'static str },
    #[error(
        "the records do not lead to the root that was signed: some were changed, added or left out"
    )]
    Wrong,
    #[error("forked: the first {size} records are not those that the given checkpoint covers")]
    Forked { size: u64 },
}

/// Checks an export against a public key that was got elsewhere, or else against the one it names itself, and says what it holds. With a
/// checkpoint that was kept elsewhere, also that the two agree, where that can be computed.
pub fn check_export(
    input: impl BufRead,
    key: Option<&str>,
    against: Option<&str>,
) -> Result<Exported, ExportError> {
    let mut lines = Lines(input);
    let (named, run, left, right) = header(&mut lines)?;
    let key = key.unwrap_or(&named);
    let head = Head::verified(&lines.note()?, key)?;
    let kept = against.map(|note| Head::verified(note, key)).transpose()?;
    if run.is_empty() || run.end > head.size {
        return Err(ExportError::Malformed(
            "it claims records that its checkpoint does not cover",
        ));
    }
    let peaks: String = left.iter().map(Hash::to_string).collect();
    let levels = Levels::from_peaks(run.start, peaks.as_bytes());
    let levels = levels.ok_or(ExportError::Malformed(
        "the hashes on its left are not those of a tree",
    ))?;
    let (left, right) = (left.into_iter(), right.into_iter());
    let (since, until) = (String::new(), String::new());
    let mut check = Check {
        lines,
        run,
        left,
        right,
        levels,
        kept,
        size: 0,
        previous: None,
        since,
        until,
    };
    check.size = check.run.start;
    check.compare()?;
    if check.root(0..head.size)? != head.root {
        return Err(ExportError::Wrong);
    }
    if check.left.next().is_some() || check.right.next().is_some() || check.lines.next()?.is_some()
    {
        return Err(ExportError::Malformed(
            "something follows its last record, or is left over",
        ));
    }
    let unproven = check.agreement(&head)?;
    let (first, records) = (check.run.start, check.run.end - check.run.start);
    Ok(Exported {
        first,
        records,
        since: check.since,
        until: check.until,
        head,
        key: named,
        unproven,
    })
}

type Header = (String, Range<u64>, Vec<Hash>, Vec<Hash>);

fn header(lines: &mut Lines<impl BufRead>) -> Result<Header, ExportError> {
    if lines.next()?.as_deref() != Some(EXPORT) {
        return Err(ExportError::Malformed("its first line is another"));
    }
    let (mut key, mut first, mut records) = (None, None, None);
    let (mut left, mut right) = (Vec::new(), Vec::new());
    while let Some(line) = lines.next()?.filter(|line| !line.is_empty()) {
        let (word, value) = line
            .split_once(' ')
            .ok_or(ExportError::Malformed("a line of its head makes no sense"))?;
        let hash =
            || decode_hash(value).ok_or(ExportError::Malformed("a hash in its head is none"));
        match word {
            "key" => key = Some(value.to_owned()),
            "first" => first = value.parse::<u64>().ok(),
            "records" => records = value.parse::<u64>().ok(),
            "left" => left.push(hash()?),
            "right" => right.push(hash()?),
            _ => return Err(ExportError::Malformed("a line of its head is unknown")),
        }
        if left.len() + right.len() > MOST_HASHES {
            return Err(ExportError::Malformed("its head is too long"));
        }
    }
    let (Some(key), Some(first), Some(records)) = (key, first, records) else {
        return Err(ExportError::Malformed(
            "its head does not say which records it holds",
        ));
    };
    let end = first.checked_add(records).ok_or(ExportError::Malformed(
        "its head does not say which records it holds",
    ))?;
    Ok((key, first..end, left, right))
}

struct Check<R> {
    lines: Lines<R>,
    run: Range<u64>,
    left: std::vec::IntoIter<Hash>,
    right: std::vec::IntoIter<Hash>,
    /// The tree up to the last record read, and how many that is.
    levels: Levels,
    size: u64,
    /// A head that was kept elsewhere and is not yet compared.
    kept: Option<Head>,
    previous: Option<Hash>,
    since: String,
    until: String,
}

impl<R: BufRead> Check<R> {
    /// The root over `range`, taking hashes and records as they come, from left to right.
    fn root(&mut self, range: Range<u64>) -> Result<Hash, ExportError> {
        if range.end <= self.run.start {
            return self.left.next().ok_or(ExportError::Wrong);
        }
        if range.start >= self.run.end {
            return self.right.next().ok_or(ExportError::Wrong);
        }
        if range.end - range.start == 1 {
            return self.record();
        }
        let middle = middle(&range);
        let left = self.root(range.start..middle)?;
        let right = self.root(middle..range.end)?;
        Ok(Hash::node(&left, &right))
    }

    /// The leaf of the next record, which must fit its own hash, its number and the record before it.
    fn record(&mut self) -> Result<Hash, ExportError> {
        let seq = self.size;
        let wrong = |reason| ExportError::Record { seq, reason };
        let line = self.lines.next()?.ok_or_else(|| wrong("it is missing"))?;
        let hash =
            recomputed(line.as_bytes()).ok_or_else(|| wrong("it does not fit its own hash"))?;
        let record: Record = serde_json::from_str(&line).map_err(|_| wrong("it is no record"))?;
        if record.seq != seq {
            return Err(wrong("another one stands in its place"));
        }
        if self
            .previous
            .is_some_and(|previous| Hash::from_hex(record.prev.as_bytes()) != Some(previous))
        {
            return Err(wrong("it does not follow from the one before it"));
        }
        if self.previous.is_none() {
            self.since.clone_from(&record.time);
        }
        self.until = record.time;
        self.previous = Some(hash);
        self.levels.push(&hash);
        self.size += 1;
        self.compare()?;
        Ok(Hash::leaf(&hash))
    }

    /// Compares with the head that was kept elsewhere, where it covers exactly the records so far.
    fn compare(&mut self) -> Result<(), ExportError> {
        match self.kept.take_if(|kept| kept.size == self.size) {
            Some(kept) if kept.root != self.levels.root() => {
                Err(ExportError::Forked { size: kept.size })
            }
            _ => Ok(()),
        }
    }

    /// What remains to be said about the head that was kept elsewhere.
    fn agreement(&mut self, head: &Head) -> Result<Option<String>, ExportError> {
        let Some(kept) = self.kept.take() else {
            return Ok(None);
        };
        if kept.size == head.size {
            return if kept.root == head.root {
                Ok(None)
            } else {
                Err(ExportError::Forked { size: kept.size })
            };
        }
        let (size, first, end) = (kept.size, self.run.start, self.run.end);
        Ok(Some(format!(
            "the given checkpoint covers {size} records, and this export can be compared only with one that covers {first} to {end}, or {}",
            head.size
        )))
    }
}

struct Lines<R>(R);

impl<R: BufRead> Lines<R> {
    /// The next line without its end.
    fn next(&mut self) -> Result<Option<String>, ExportError> {
        let mut line = String::new();
        if (&mut self.0).take(LONGEST).read_line(&mut line)? == 0 {
            return Ok(None);
        }
        if line.pop() != Some('\n') {
            return Err(ExportError::Malformed("a line has no end, or is too long"));
        }
        Ok(Some(line))
    }

    /// The checkpoint: a text, a blank line, signatures, a blank line.
    fn note(&mut self) -> Result<String, ExportError> {
        let (mut note, mut blanks) = (String::new(), 0);
        while blanks < 2 && note.len() < LONGEST_NOTE {
            let line = self
                .next()?
                .ok_or(ExportError::Malformed("it has no checkpoint"))?;
            blanks += usize::from(line.is_empty());
            if blanks < 2 {
                note.push_str(&line);
                note.push('\n');
            }
        }
        Ok(note)
    }
}
