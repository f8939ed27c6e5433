//! An independent check of a ledger directory.
//!
//! Re-derives the chain from the bytes with its own file walk, line reader and parser; it shares only
//! [`Hash::link`](crate::Hash::link) with the writer, so that one misunderstanding cannot hide in both. It must never
//! write, lock or repair. What it cannot see: a tail that was cut off cleanly, or a whole ledger written anew, unless the
//! reader has kept a head from outside. `docs/ledger.md` says so too.

use crate::chain::Hash;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

/// The first thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub file: PathBuf,
    /// Counted from 1; 0 where the file as a whole is meant.
    pub line: u64,
    /// The `seq` that belongs there.
    pub seq: u64,
    pub reason: String,
    /// The last line has no end: an interrupted write, or a ledger being written right now.
    pub incomplete_tail: bool,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, line {}, record {}: {}", self.file.display(), self.line, self.seq, self.reason)
    }
}

/// What a ledger holds, up to the first finding.
#[derive(Clone, Debug)]
pub struct Report {
    pub segments: u64,
    pub records: u64,
    pub bytes: u64,
    pub intents: u64,
    pub outcomes: u64,
    pub refusals: u64,
    pub changes: u64,
    /// Intents without an outcome: calls in flight, or a gate that has not been started since it stopped.
    pub open_intents: u64,
    pub head: Hash,
    pub finding: Option<Finding>,
}

impl Report {
    pub fn is_clean(&self) -> bool {
        self.finding.is_none()
    }
}

/// Checks every record in `dir`, in order, and stops at the first that is wrong.
pub fn verify(dir: &Path) -> io::Result<Report> {
    let mut check = Check::new();
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            files.push(path);
        }
    }
    files.sort();
    for (index, file) in files.iter().enumerate() {
        check.segment(file, index + 1 == files.len())?;
        if check.report.finding.is_some() {
            break;
        }
    }
    check.report.open_intents = check.open.len() as u64;
    Ok(check.report)
}

struct Check {
    report: Report,
    open: HashSet<u64>,
    file: PathBuf,
    line: u64,
}

impl Check {
    fn new() -> Check {
        Check {
            report: Report {
                segments: 0,
                records: 0,
                bytes: 0,
                intents: 0,
                outcomes: 0,
                refusals: 0,
                changes: 0,
                open_intents: 0,
                head: Hash::GENESIS,
                finding: None,
            },
            open: HashSet::new(),
            file: PathBuf::new(),
            line: 0,
        }
    }

    fn found(&mut self, reason: impl Into<String>, incomplete_tail: bool) {
        self.report.finding = Some(Finding {
            file: self.file.clone(),
            line: self.line,
            seq: self.report.records,
            reason: reason.into(),
            incomplete_tail,
        });
    }

    fn segment(&mut self, file: &Path, last: bool) -> io::Result<()> {
        self.file = file.to_owned();
        self.line = 0;
        self.report.segments += 1;
        let expected = format!("{:020}.log", self.report.records);
        if file.file_name().is_none_or(|name| *name != *expected) {
            self.found(format!("the segment {expected} belongs here"), false);
            return Ok(());
        }
        let mut reader = BufReader::with_capacity(1 << 18, File::open(file)?);
        let mut line = Vec::with_capacity(4096);
        loop {
            line.clear();
            if reader.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            self.line += 1;
            let Some((b'\n', text)) = line.split_last() else {
                self.found("the line has no end", last);
                return Ok(());
            };
            if let Err(reason) = self.record(text) {
                self.found(reason, false);
                return Ok(());
            }
            self.report.bytes += line.len() as u64;
        }
        if self.line == 0 && !last {
            self.found("the segment is empty, and another follows", false);
        }
        Ok(())
    }

    fn record(&mut self, text: &[u8]) -> Result<(), String> {
        let link = Link::of(text).ok_or("the line does not end in its chain fields")?;
        if link.previous != self.report.head {
            return Err("the record does not follow from the one before it".to_owned());
        }
        if Hash::link(&link.previous, link.body) != link.hash {
            return Err("the record does not match its hash".to_owned());
        }
        let fields = Fields::of(text)?;
        let seq = self.report.records;
        if fields.seq != Some(seq) {
            return Err(format!("the record does not say that it is number {seq}"));
        }
        self.account(seq, &fields)?;
        self.report.records += 1;
        self.report.head = link.hash;
        Ok(())
    }

    /// Intents and outcomes must pair: an outcome ends exactly one earlier intent, once.
    fn account(&mut self, seq: u64, fields: &Fields<'_>) -> Result<(), String> {
        let report = &mut self.report;
        match (fields.kind, fields.intent) {
            (b"intent", None) => {
                report.intents += 1;
                self.open.insert(seq);
            }
            (b"outcome", intent) => {
                report.outcomes += 1;
                if intent.is_some_and(|intent| !self.open.remove(&intent)) {
                    return Err("the outcome ends an intent that is not open".to_owned());
                }
            }
            (b"refusal", None) => report.refusals += 1,
            (b"change", None) => report.changes += 1,
            (kind, _) => {
                let kind = String::from_utf8_lossy(kind);
                return Err(format!("a record of kind `{kind}` cannot be like this"));
            }
        }
        Ok(())
    }
}

/// The end of every line: `,"prev":"` 64 digits `","hash":"` 64 digits `"}`.
struct Link<'a> {
    previous: Hash,
    hash: Hash,
    body: &'a [u8],
}

impl<'a> Link<'a> {
    fn of(text: &'a [u8]) -> Option<Link<'a>> {
        let rest = text.strip_suffix(b"\"}")?;
        let (rest, hash) = rest.split_at_checked(rest.len().checked_sub(64)?)?;
        let body = rest.strip_suffix(b",\"hash\":\"")?;
        let rest = body.strip_suffix(b"\"")?;
        let (rest, previous) = rest.split_at_checked(rest.len().checked_sub(64)?)?;
        rest.strip_suffix(b",\"prev\":\"")?;
        Some(Link { previous: Hash::from_hex(previous)?, hash: Hash::from_hex(hash)?, body })
    }
}

/// The fields that matter here, found by walking a flat object of strings and whole numbers.
#[derive(Default)]
struct Fields<'a> {
    seq: Option<u64>,
    kind: &'a [u8],
    intent: Option<u64>,
}

impl<'a> Fields<'a> {
    fn of(text: &'a [u8]) -> Result<Fields<'a>, String> {
        if std::str::from_utf8(text).is_err() || text.iter().any(|b| *b < 0x20 || *b == 0x7f) {
            return Err("the line holds bytes that no record may hold".to_owned());
        }
        Fields::walk(text).ok_or_else(|| "the line is not a flat object".to_owned())
    }

    fn walk(text: &'a [u8]) -> Option<Fields<'a>> {
        let mut fields = Fields::default();
        let mut rest = text.strip_prefix(b"{")?;
        loop {
            let (key, after) = quoted(rest)?;
            rest = after.strip_prefix(b":")?;
            if rest.first() == Some(&b'"') {
                let (value, after) = quoted(rest)?;
                if key == b"kind" {
                    fields.kind = value;
                }
                rest = after;
            } else {
                let (value, after) = whole_number(rest)?;
                match key {
                    b"seq" => fields.seq = Some(value),
                    b"intent" => fields.intent = Some(value),
                    _ => {}
                }
                rest = after;
            }
            match rest.split_first()? {
                (b',', after) => rest = after,
                (b'}', []) => return Some(fields),
                _ => return None,
            }
        }
    }
}

/// A string and what follows it; the content keeps its escapes.
fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let inner = text.strip_prefix(b"\"")?;
    let mut escaped = false;
    let end = inner.iter().position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    })?;
    Some((inner.get(..end)?, inner.get(end + 1..)?))
}

fn whole_number(text: &[u8]) -> Option<(u64, &[u8])> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit())?;
    let (digits, after) = text.split_at_checked(end)?;
    let value = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some((value, after))
}
