//! Inclusion proofs: one record, shown to belong to the ledger, to somebody who has nothing but the ledger's public key.
//!
//! A proof is a C2SP `tlog-proof` text: the record's line, its number, the sibling hashes from its leaf to the root, and the signed
//! checkpoint that fixes the root. [`check_proof`] needs no files and shares only the hash with the writer. It must never accept a line
//! that is not exactly the one that was recorded.

use crate::chain::Hash;
use crate::checkpoint::{read_checkpoint, read_public_key};
use crate::filter::Filter;
use crate::read::tail;
use crate::record::Record;
use crate::tree::Tree;
use crate::verify::{BadHead, Head};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use std::fmt::Write;
use std::io;
use std::ops::Range;
use std::path::Path;

mod base;
mod check;
mod export;

pub(crate) use base::Base;
pub use check::{ExportError, check_export};
pub use export::{Exported, export};

const FIRST_LINE: &str = "c2sp.org/tlog-proof@v1";

/// What a proof shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proven {
    pub record: Record,
    /// The record's line, as it stands in the ledger.
    pub line: String,
    /// The signed head that covers it.
    pub head: Head,
}

/// Why there is no proof, or why a text is none.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    #[error("reading the ledger failed: {0}")]
    Disk(#[from] io::Error),
    #[error(
        "record {seq} is not covered by a signed checkpoint yet; try again in a second, with the gate running"
    )]
    NotCovered { seq: u64 },
    #[error("there is no record {seq}; the newest is {newest}")]
    NoRecord { seq: u64, newest: u64 },
    #[error("record {seq} was removed by retention; an export from before still proves it")]
    Removed { seq: u64 },
    #[error("the ledger does not hold what its checkpoint covers; run `portcullis audit verify`")]
    Damaged,
    #[error("{0}")]
    Head(#[from] BadHead),
    #[error("this is no proof: {0}")]
    Malformed(&'static str),
    #[error("the proof does not lead from the record to the root that was signed")]
    Wrong,
}

/// The proof of record `seq` against the ledger's latest signed head.
pub fn prove(dir: &Path, seq: u64) -> Result<String, ProofError> {
    let (Some(note), Some(key)) = (read_checkpoint(dir)?, read_public_key(dir)?) else {
        return Err(ProofError::NotCovered { seq });
    };
    let head = Head::verified(&note, &key)?;
    if seq >= head.size {
        return Err(match tail(dir, &Filter::default(), 1)?.pop() {
            Some(newest) if newest.seq < seq => ProofError::NoRecord {
                seq,
                newest: newest.seq,
            },
            _ => ProofError::NotCovered { seq },
        });
    }
    let base = Base::of(dir)?;
    if seq < base.tree.size() {
        return Err(ProofError::Removed { seq });
    }
    let mut siblings = Vec::new();
    sibling_ranges(seq, 0..head.size, &mut siblings);
    let mut siblings: Vec<(Range<u64>, Tree)> = siblings
        .into_iter()
        .map(|range| base.begin(range))
        .collect();
    let mut line = None;
    base.fill(dir, head.size, &mut siblings, |at, text| {
        if at == seq {
            line = Some(text.to_vec());
        }
        Ok(())
    })?;
    let line = line.ok_or(ProofError::Damaged)?;
    let mut text = format!(
        "{FIRST_LINE}\nextra {}\nindex {seq}\n",
        BASE64.encode(&line)
    );
    for (_, tree) in &siblings {
        let _ = writeln!(text, "{}", BASE64.encode(tree.root().bytes()));
    }
    text.push('\n');
    text.push_str(&note);
    // What is handed out has been checked.
    check_proof(&text, &key).map_err(|_| ProofError::Damaged)?;
    Ok(text)
}

/// The ranges of records whose subtrees are the siblings on the way from the leaf to the root, leaf first.
fn sibling_ranges(seq: u64, within: Range<u64>, found: &mut Vec<Range<u64>>) {
    let width = within.end - within.start;
    if width <= 1 {
        return;
    }
    let middle = within.start + (width.next_power_of_two() / 2);
    let (mine, sibling) = if seq < middle {
        (within.start..middle, middle..within.end)
    } else {
        (middle..within.end, within.start..middle)
    };
    sibling_ranges(seq, mine, found);
    found.push(sibling);
}

/// The 64 digits before the final `"}`.
fn hash_of(line: &[u8]) -> Option<Hash> {
    let rest = line.strip_suffix(b"\"}")?;
    Hash::from_hex(rest.get(rest.len().checked_sub(64)?..)?)
}

/// Checks a proof against the ledger's public key (`name+id+key`), without the ledger, and says what it shows.
pub fn check_proof(proof: &str, key: &str) -> Result<Proven, ProofError> {
    let (parts, note) = proof
        .split_once("\n\n")
        .ok_or(ProofError::Malformed("it has no checkpoint"))?;
    let mut lines = parts.lines();
    if lines.next() != Some(FIRST_LINE) {
        return Err(ProofError::Malformed("its first line is another"));
    }
    let extra = lines.next().and_then(|line| line.strip_prefix("extra "));
    let line = extra
        .and_then(|extra| BASE64.decode(extra).ok())
        .ok_or(ProofError::Malformed("it does not hold the record"))?;
    let index = lines
        .next()
        .and_then(|line| line.strip_prefix("index ")?.parse().ok());
    let index: u64 = index.ok_or(ProofError::Malformed("it does not say which record"))?;
    let path: Option<Vec<Hash>> = lines.map(decode_hash).collect();
    let path = path.ok_or(ProofError::Malformed("a line of its path is no hash"))?;

    let head = Head::verified(note, key)?;
    let hash = recomputed(&line).ok_or(ProofError::Malformed(
        "the record does not fit its own hash",
    ))?;
    if root_from(index, head.size, Hash::leaf(&hash), &path) != Some(head.root) {
        return Err(ProofError::Wrong);
    }
    let record: Record = serde_json::from_slice(&line)
        .map_err(|_| ProofError::Malformed("the record is no record"))?;
    let line =
        String::from_utf8(line).map_err(|_| ProofError::Malformed("the record is no text"))?;
    if record.seq != index {
        return Err(ProofError::Wrong);
    }
    Ok(Proven { record, line, head })
}

fn decode_hash(text: &str) -> Option<Hash> {
    Some(Hash::from_bytes(BASE64.decode(text).ok()?.try_into().ok()?))
}

/// The line's hash, if the line ends in `,"prev":"…","hash":"…"}` and the hash follows from the rest.
fn recomputed(line: &[u8]) -> Option<Hash> {
    let stated = hash_of(line)?;
    let body = line.get(..line.len().checked_sub(75)?)?;
    let digits = body.strip_suffix(b"\"")?;
    let (before, previous) = digits.split_at_checked(digits.len().checked_sub(64)?)?;
    let well_formed =
        before.ends_with(b",\"prev\":\"") && line.get(body.len()..)?.starts_with(b",\"hash\":\"");
    (well_formed && Hash::link(&Hash::from_hex(previous)?, body) == stated).then_some(stated)
}

/// The root that a leaf's path leads to (RFC 9162, 2.1.3.2); `None` if the path has the wrong length.
fn root_from(index: u64, size: u64, leaf: Hash, path: &[Hash]) -> Option<Hash> {
    let mut last = size.checked_sub(1)?;
    let mut at = (index <= last).then_some(index)?;
    let mut hash = leaf;
    for sibling in path {
        if last == 0 {
            return None;
        }
        if at & 1 == 1 || at == last {
            hash = Hash::node(sibling, &hash);
            // On the right edge a subtree can be lower than its sibling: climb until it has one.
            while at & 1 == 0 && at != 0 {
                at >>= 1;
                last >>= 1;
            }
        } else {
            hash = Hash::node(&hash, sibling);
        }
        at >>= 1;
        last >>= 1;
    }
    (last == 0).then_some(hash)
}
