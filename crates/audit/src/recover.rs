//! Finding the end of a ledger after any kind of stop.
//!
//! Reads the last segment (and earlier ones only as far as needed), checks every line's hash and chain, and says where
//! the good part ends and which intents have no outcome. It must never cut a record that is known to be
//! synced: a bad line with whole records behind it is damage there, and refused; above that point it is a power cut's work.
//!
//! **Invariant: a crash loses nothing that was acknowledged and invents no outcome.** Tests
//! `a_tail_torn_at_any_byte_loses_no_earlier_record`, `an_intent_without_an_outcome_becomes_indeterminate_once`.

use crate::chain::Hash;
use crate::disk::Disk;
use crate::error::OpenError;
use crate::tree::Tree;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The change that opens every segment but the first; it lists the intents still open, so recovery reads one segment.
pub(crate) const ROTATED: &str = "ledger.rotated";

/// Where the ledger goes on.
#[derive(Debug)]
pub(crate) struct Tail {
    /// First `seq` of the last segment, which names its file.
    pub(crate) segment: u64,
    /// Good bytes in it.
    pub(crate) size: u64,
    pub(crate) next_seq: u64,
    pub(crate) head: Hash,
    pub(crate) tree: Tree,
    /// Intents without an outcome: `seq` → call.
    pub(crate) outstanding: BTreeMap<u64, String>,
    pub(crate) torn: Option<Torn>,
    /// Whether the record asked about was found with the hash given.
    pub(crate) holds_expected: bool,
}

/// Bytes of writes that were interrupted, to be cut.
#[derive(Debug)]
pub(crate) struct Torn {
    pub(crate) bytes: Vec<u8>,
    /// How many whole records are among them: written after one that never reached the disk.
    pub(crate) records: u64,
}

impl Tail {
    /// Where the cut bytes are kept when whole records are among them.
    pub(crate) fn name_of_cut(&self) -> String {
        let digest = self
            .torn
            .as_ref()
            .map_or(Hash::GENESIS, |torn| Hash::of(&torn.bytes))
            .to_string();
        format!(
            "{:020}-{}.cut",
            self.next_seq,
            digest.get(..16).unwrap_or_default()
        )
    }

    pub(crate) fn describe_cut(&self) -> Option<String> {
        let torn = self.torn.as_ref()?;
        let (bytes, digest) = (torn.bytes.len(), Hash::of(&torn.bytes));
        let mut text = format!(
            "cut {bytes} bytes of an interrupted write after {} records; sha256 of the cut {digest}",
            self.next_seq
        );
        if torn.records > 0 {
            let (records, name) = (torn.records, self.name_of_cut());
            text += &format!(
                "; {records} whole records follow the bytes that never arrived, kept in {name}"
            );
        }
        Some(text)
    }
}

pub(crate) fn segment_path(dir: &Path, first_seq: u64) -> PathBuf {
    dir.join(format!("{first_seq:020}.log"))
}

/// The first `seq` in a segment's file name; `None` for any other file.
pub(crate) fn segment_seq(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log")?;
    let all_digits = digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit());
    all_digits.then(|| digits.parse().ok()).flatten()
}

/// What is known about the ledger before it is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// The last acknowledged record.
    pub(crate) expected: Option<(u64, Hash)>,
    /// Every record below this was synced: what is wrong there is damage. What is wrong above it, after a power cut, is a write that
    /// never reached the disk, even where a later one did.
    pub(crate) durable: u64,
}

/// Finds the tail of the ledger in `dir`.
pub(crate) fn find_tail(disk: &dyn Disk, dir: &Path, known: Known) -> Result<Tail, OpenError> {
    let expected = known.expected;
    let names = disk
        .list(dir)
        .map_err(OpenError::disk("listing the ledger directory", dir))?;
    let mut segments: Vec<u64> = names.iter().filter_map(|name| segment_seq(name)).collect();
    segments.sort_unstable();

    // Newest first, until one tells everything: it has a head, and it says which intents were open when it began.
    let mut scans: Vec<Scan> = Vec::new();
    for first_seq in segments.iter().rev() {
        let scan = Scan::of(disk, dir, *first_seq, known)?;
        if let (Some(torn), false) = (&scan.torn, scans.is_empty()) {
            return Err(OpenError::Corrupt {
                path: segment_path(dir, *first_seq),
                line: scan.lines + 1,
                reason: format!(
                    "{} bytes that are no record end a finished segment",
                    torn.bytes.len()
                ),
            });
        }
        let reaches_expected = expected.is_none_or(|(seq, _)| seq >= *first_seq);
        // Ledgers of before the tree have rotation records without one: then every segment is read, once.
        let knows_tree = scan.carried_tree.is_some();
        let tells_everything =
            scan.head.is_some() && scan.opens_with_rotation && knows_tree && reaches_expected;
        scans.push(scan);
        if tells_everything {
            break;
        }
    }
    join(dir, scans, expected)
}

/// Puts the scans, newest first, together in order.
fn join(
    dir: &Path,
    mut scans: Vec<Scan>,
    expected: Option<(u64, Hash)>,
) -> Result<Tail, OpenError> {
    let mut tail = Tail {
        segment: 0,
        size: 0,
        next_seq: 0,
        head: Hash::GENESIS,
        tree: Tree::default(),
        outstanding: BTreeMap::new(),
        torn: None,
        holds_expected: expected.is_none(),
    };
    let mut oldest = true;
    while let Some(scan) = scans.pop() {
        if !oldest && scan.first_seq != tail.next_seq {
            return Err(OpenError::Corrupt {
                path: segment_path(dir, scan.first_seq),
                line: 1,
                reason: format!("the segment before it ends at record {}", tail.next_seq),
            });
        }
        oldest = false;
        scan.extend_tree(&mut tail.tree);
        tail.outstanding.extend(scan.opened);
        for seq in &scan.closed {
            tail.outstanding.remove(seq);
        }
        tail.segment = scan.first_seq;
        tail.size = scan.good_bytes;
        tail.next_seq = scan.first_seq + scan.lines;
        tail.head = scan.head.unwrap_or(tail.head);
        tail.torn = scan.torn;
        tail.holds_expected |= scan.holds_expected;
    }
    if tail.tree.size() != tail.next_seq {
        return Err(OpenError::Corrupt {
            path: segment_path(dir, tail.segment),
            line: 1,
            reason: "the segments before it are missing".to_owned(),
        });
    }
    Ok(tail)
}

/// The fields recovery needs; the rest of the line is covered by its hash.
#[derive(Deserialize)]
struct Line<'a> {
    seq: u64,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    call: Cow<'a, str>,
    #[serde(default)]
    intent: Option<u64>,
    #[serde(borrow, default)]
    action: Cow<'a, str>,
    #[serde(borrow, default)]
    detail: Cow<'a, str>,
    #[serde(borrow, default)]
    tree: Cow<'a, str>,
    #[serde(default)]
    count: Option<u64>,
    #[serde(borrow)]
    prev: Cow<'a, str>,
    #[serde(borrow)]
    hash: Cow<'a, str>,
}

#[derive(Debug, Default)]
struct Scan {
    first_seq: u64,
    lines: u64,
    good_bytes: u64,
    head: Option<Hash>,
    opened: BTreeMap<u64, String>,
    closed: Vec<u64>,
    opens_with_rotation: bool,
    /// Every record's hash, for the tree.
    leaves: Vec<Hash>,
    /// The tree that a rotation record carries, over everything before that record.
    carried_tree: Option<Tree>,
    torn: Option<Torn>,
    holds_expected: bool,
}

impl Scan {
    fn of(disk: &dyn Disk, dir: &Path, first_seq: u64, known: Known) -> Result<Scan, OpenError> {
        let path = segment_path(dir, first_seq);
        let bytes = disk
            .read(&path)
            .map_err(OpenError::disk("reading the ledger segment", &path))?;
        let mut scan = Scan {
            first_seq,
            ..Scan::default()
        };
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            match scan.take_line(rest, known.expected) {
                Ok(after) => rest = after,
                Err(reason) => {
                    let records = whole_records(rest);
                    if records > 0 && first_seq + scan.lines < known.durable {
                        return Err(OpenError::Corrupt {
                            path,
                            line: scan.lines + 1,
                            reason,
                        });
                    }
                    scan.torn = Some(Torn {
                        bytes: rest.to_vec(),
                        records,
                    });
                    break;
                }
            }
        }
        Ok(scan)
    }

    /// Makes `tree`, over everything before this segment or over nothing, a tree over everything up to its end.
    fn extend_tree(&self, tree: &mut Tree) {
        if tree.size() != self.first_seq
            && let Some(carried) = &self.carried_tree
        {
            *tree = carried.clone();
        }
        let known =
            usize::try_from(tree.size().saturating_sub(self.first_seq)).unwrap_or(usize::MAX);
        self.leaves
            .iter()
            .skip(known)
            .for_each(|leaf| tree.push(leaf));
    }

    /// Accepts the first line of `rest` and returns what follows it, or says why it is not the next record.
    fn take_line<'a>(
        &mut self,
        rest: &'a [u8],
        expected: Option<(u64, Hash)>,
    ) -> Result<&'a [u8], String> {
        let (text, after) = split_line(rest).ok_or("the line has no end")?;
        let (line, hash) = self_consistent(text).ok_or("the line does not match its hash")?;
        let seq = self.first_seq + self.lines;
        if line.seq != seq {
            return Err(format!("record {} stands where {seq} belongs", line.seq));
        }
        let follows = match self.head {
            Some(head) => Hash::from_hex(line.prev.as_bytes()) == Some(head),
            None => seq > 0 || Hash::from_hex(line.prev.as_bytes()) == Some(Hash::GENESIS),
        };
        if !follows {
            return Err("the line does not follow from the one before it".to_owned());
        }
        match (&*line.kind, line.intent) {
            ("intent", _) => drop(self.opened.insert(seq, line.call.into_owned())),
            ("outcome", Some(intent)) => self.closed.push(intent),
            ("change", _) if line.action == ROTATED => {
                self.opens_with_rotation |= line.count == Some(0);
                self.carried_tree = Tree::from_hex(seq, &line.tree).or(self.carried_tree.take());
                self.opened.extend(carried(&line.detail));
            }
            _ => {}
        }
        self.holds_expected |= expected == Some((seq, hash));
        self.leaves.push(hash);
        self.lines += 1;
        self.good_bytes += text.len() as u64 + 1;
        self.head = Some(hash);
        Ok(after)
    }
}

/// One carried intent per line: its `seq`, a space, its call.
pub(crate) fn carry(seq: u64, call: &str) -> String {
    format!("{seq} {}\n", call.replace(char::is_whitespace, "_"))
}

fn carried(detail: &str) -> impl Iterator<Item = (u64, String)> + '_ {
    detail.lines().filter_map(|item| {
        let (seq, call) = item.split_once(' ')?;
        Some((seq.parse().ok()?, call.to_owned()))
    })
}

fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|b| *b == b'\n')?;
    Some((bytes.get(..end)?, bytes.get(end + 1..)?))
}

/// Parses a line and checks that it carries its own hash.
fn self_consistent(text: &[u8]) -> Option<(Line<'_>, Hash)> {
    let line: Line<'_> = serde_json::from_slice(text).ok()?;
    let previous = Hash::from_hex(line.prev.as_bytes())?;
    let hash = Hash::from_hex(line.hash.as_bytes())?;
    // `,"hash":"` + 64 digits + `"}`
    let body = text.get(..text.len().checked_sub(75)?)?;
    (Hash::link(&previous, body) == hash).then_some((line, hash))
}

fn whole_records(mut bytes: &[u8]) -> u64 {
    let mut records = 0;
    while let Some((text, after)) = split_line(bytes) {
        // A hole reads as zeros, and may end in the middle of a line.
        let text = text
            .iter()
            .position(|b| *b == b'{')
            .and_then(|start| text.get(start..))
            .unwrap_or_default();
        records += u64::from(self_consistent(text).is_some());
        bytes = after;
    }
    records
}
