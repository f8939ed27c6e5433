//! An independent check of a ledger directory.
//!
//! Re-derives the chain from the bytes with its own file walk, line reader and parser; it shares only
//! [`Hash`](crate::Hash) with the writer, so that one misunderstanding cannot hide in both. It must never
//! write, lock or repair. What it cannot see: a tail that was cut off cleanly, or a whole ledger written anew, by someone who has the
//! signing key too, unless the reader kept a head from outside. `docs/operate/ledger.md` says so too.
//!
//! **Invariant: verify shares only the hash function with the writer, and finds every changed byte.** Tests
//! `every_flipped_byte_is_found`, `deletion_insertion_and_swap_are_found`, `missing_and_renamed_segments_are_found`.

mod files;
mod front;
mod head;
mod heads;
mod line;
mod report;
mod tree;

pub(crate) use files::Files;
pub use head::{BadHead, Head};
pub use report::{Finding, Report};
pub(crate) use tree::Levels;

use crate::chain::Hash;
use files::Folder;
use front::Front;
use line::{Fields, Link};
use std::collections::HashSet;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

/// Checks every record in `dir`, in order, and the ledger's own signed head; stops at the first thing that is wrong.
pub fn verify(dir: &Path) -> io::Result<Report> {
    verify_folder(dir, &Asked::default())
}

/// [`verify`], where `key` is the ledger's public key, kept outside: the ledger's own signed head must be signed with it.
pub fn verify_signed(dir: &Path, key: &str) -> io::Result<Report> {
    Head::check_key(key)
        .map_err(|bad| io::Error::new(io::ErrorKind::InvalidInput, bad.to_string()))?;
    verify_folder(
        dir,
        &Asked {
            heads: Vec::new(),
            key: Some(key.to_owned()),
        },
    )
}

/// A running gate may remove a segment between our seeing its name and our opening it: then the names are read again.
fn verify_folder(dir: &Path, asked: &Asked) -> io::Result<Report> {
    const TIMES: u32 = 5;
    for _ in 1..TIMES {
        match verify_files(&Folder(dir), asked.clone()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && dir.is_dir() => {}
            report => return report,
        }
    }
    verify_files(&Folder(dir), asked.clone())
}

/// [`verify_signed`], and that the ledger still holds everything that `checkpoint` covers, unchanged. The checkpoint was kept outside;
/// `key` is the ledger's public key, kept outside too. Finds rollback and forks.
pub fn verify_against(dir: &Path, checkpoint: &str, key: &str) -> io::Result<Report> {
    let head = match Head::verified(checkpoint, key) {
        Ok(head) => head,
        Err(bad) => return Err(io::Error::new(io::ErrorKind::InvalidInput, bad.to_string())),
    };
    let given = Expected {
        head,
        place: PathBuf::from("the given checkpoint"),
    };
    verify_folder(
        dir,
        &Asked {
            heads: vec![given],
            key: Some(key.to_owned()),
        },
    )
}

/// What the reader knows from elsewhere.
#[derive(Clone, Default)]
pub(crate) struct Asked {
    heads: Vec<Expected>,
    key: Option<String>,
}

/// A head that the ledger must reach.
#[derive(Clone)]
pub(crate) struct Expected {
    pub(crate) head: Head,
    pub(crate) place: PathBuf,
}

pub(crate) fn verify_files(files: &dyn Files, asked: Asked) -> io::Result<Report> {
    let mut check = Check::new();
    let heads_given = !asked.heads.is_empty();
    let mut expected = asked.heads;
    // Read before the records: a gate that is writing may sign a newer one meanwhile.
    check.own_head(files, &mut expected, asked.key.as_deref())?;
    expected.sort_by_key(|expected| std::cmp::Reverse(expected.head.size));
    check.expected = expected;
    let mut segments = files.names()?;
    segments.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    segments.sort();
    if let Some(first) = segments
        .first()
        .and_then(|path| first_seq(path))
        .filter(|first| *first > 0)
    {
        check.begin_at(first);
    }
    check.compare_heads();
    for (index, file) in segments.iter().enumerate() {
        if check.report.finding.is_some() {
            break;
        }
        let reader = BufReader::with_capacity(1 << 18, files.open(file)?);
        check.segment(file, reader, index + 1 == segments.len())?;
    }
    check.unreached_heads();
    check.front_at_end();
    check.unsigned_end(asked.key.is_some(), heads_given);
    check.report.open_intents = check.open.len() as u64;
    check.report.root = check.levels.root();
    Ok(check.report)
}

/// The number in a segment's name.
fn first_seq(path: &Path) -> Option<u64> {
    let digits = path
        .file_stem()?
        .to_str()
        .filter(|digits| digits.len() == 20)?;
    digits.parse().ok()
}

#[derive(Clone)]
pub(crate) struct Check {
    pub(crate) report: Report,
    open: HashSet<u64>,
    levels: Levels,
    front: Front,
    /// Largest first.
    expected: Vec<Expected>,
    file: PathBuf,
    line: u64,
}

impl Check {
    pub(crate) fn new() -> Check {
        Check {
            report: Report {
                segments: 0,
                first: 0,
                records: 0,
                bytes: 0,
                intents: 0,
                outcomes: 0,
                refusals: 0,
                changes: 0,
                open_intents: 0,
                head: Hash::GENESIS,
                root: Hash::GENESIS,
                checkpoint: None,
                finding: None,
                unproven: Vec::new(),
            },
            open: HashSet::new(),
            levels: Levels::default(),
            front: Front::default(),
            expected: Vec::new(),
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

    fn segment(&mut self, file: &Path, mut reader: impl BufRead, last: bool) -> io::Result<()> {
        self.file = file.to_owned();
        self.line = 0;
        self.report.segments += 1;
        let expected = format!("{:020}.log", self.report.records);
        if file.file_name().is_none_or(|name| *name != *expected) {
            self.found(format!("the segment {expected} belongs here"), false);
            return Ok(());
        }
        self.remember_start();
        self.lines(&mut reader, last)?;
        if self.front.waits_for_tree && self.report.finding.is_none() {
            self.found(
                "the records before it are missing, and it does not carry the hash tree over them",
                false,
            );
        }
        if self.line == 0 && !last {
            self.found("the segment is empty, and another follows", false);
        }
        Ok(())
    }

    /// Reads a segment's lines up to its end or to the first that is wrong.
    pub(crate) fn lines(&mut self, reader: &mut impl BufRead, last: bool) -> io::Result<()> {
        let mut line = Vec::with_capacity(4096);
        loop {
            line.clear();
            if reader.read_until(b'\n', &mut line)? == 0 {
                return Ok(());
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
            self.compare_heads();
            if self.report.finding.is_some() {
                return Ok(());
            }
        }
    }

    fn record(&mut self, text: &[u8]) -> Result<(), String> {
        let link = Link::of(text).ok_or("the line does not end in its chain fields")?;
        // What the first record of a trimmed ledger follows is not there to compare with.
        let begins = self.front.waits_for_tree && self.report.records == self.report.first;
        if !begins && link.previous != self.report.head {
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
        self.rotation(seq, &fields)?;
        if fields.action == b"ledger.trimmed" {
            self.trimmed(&fields)?;
        } else if !fields.tree.is_empty() && fields.tree != self.levels.peaks_in_hex().as_bytes() {
            return Err(
                "the record carries another hash tree than the records before it make".to_owned(),
            );
        }
        self.account(seq, &fields)?;
        self.report.records += 1;
        self.report.head = link.hash;
        if self.front.waits_for_tree {
            self.lead(&link.hash);
        } else {
            self.levels.push(&link.hash);
        }
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
                if intent.is_some_and(|intent| {
                    !self.open.remove(&intent) && !self.ends_before_front(intent)
                }) {
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
