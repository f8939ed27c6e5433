//! Where the hash tree can be computed from: the beginning, or what retention left of it.

use super::{ProofError, hash_of};
use crate::filter::Filter;
use crate::places::{Places, oldest};
use crate::read::{read, tail};
use crate::recover::ROTATED;
use crate::retain::TRIMMED;
use crate::tree::Tree;
use std::io;
use std::ops::Range;
use std::path::Path;

pub(crate) struct Base {
    /// Over all records that cannot be read any more.
    pub(crate) tree: Tree,
}

impl Base {
    pub(crate) fn of(dir: &Path) -> Result<Base, ProofError> {
        let first = oldest(dir)?.unwrap_or(0);
        if first == 0 {
            return Ok(Base {
                tree: Tree::default(),
            });
        }
        let tree = match announced(dir, first)? {
            Some(tree) => Some(tree),
            // Retention was interrupted: the first segment itself carries a tree, a little further on.
            None => carried(dir, first)?,
        };
        Ok(Base {
            tree: tree.ok_or(ProofError::Damaged)?,
        })
    }

    /// The subtree over `range`, as far as it lies in what was removed.
    pub(crate) fn begin(&self, range: Range<u64>) -> (Range<u64>, Tree) {
        let tree = self.tree.within(&range);
        (range, tree)
    }

    /// Reads the ledger once, up to `size` records: adds each to the subtree it belongs to, and shows those that belong to none.
    pub(crate) fn fill(
        &self,
        dir: &Path,
        size: u64,
        subtrees: &mut [(Range<u64>, Tree)],
        mut show: impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> Result<(), ProofError> {
        let mut lines = Places::new(dir, None)?;
        let mut at = oldest(dir)?.unwrap_or(0);
        while at < size {
            let (_, line) = lines.next_line()?.ok_or(ProofError::Damaged)?;
            if at >= self.tree.size() {
                match subtrees.iter_mut().find(|(range, _)| range.contains(&at)) {
                    Some((_, tree)) => tree.push(&hash_of(line).ok_or(ProofError::Damaged)?),
                    None => show(at, line)?,
                }
            }
            at += 1;
        }
        Ok(())
    }
}

/// The tree in the change that announced the removal of everything before `first`.
fn announced(dir: &Path, first: u64) -> Result<Option<Tree>, ProofError> {
    let filter = Filter {
        action: TRIMMED.to_owned(),
        ..Filter::default()
    };
    let latest = tail(dir, &filter, 1)?
        .pop()
        .filter(|record| record.count == Some(first));
    Ok(latest.and_then(|record| Tree::from_hex(first, &record.tree)))
}

fn carried(dir: &Path, first: u64) -> Result<Option<Tree>, ProofError> {
    let filter = Filter {
        from: first,
        action: ROTATED.to_owned(),
        ..Filter::default()
    };
    for record in read(dir, filter)? {
        let record = record?;
        if record.count == Some(0) {
            return Ok(Tree::from_hex(record.seq, &record.tree));
        }
    }
    Ok(None)
}
