//! What retention must know of one segment.

use crate::chain::Hash;
use crate::recover::ROTATED;
use crate::tree::Tree;
use serde::Deserialize;
use std::borrow::Cow;

#[derive(Debug, Default)]
pub(super) struct Contents {
    first_seq: u64,
    pub(super) bytes: u64,
    pub(super) newest_ms: u64,
    leaves: Vec<Hash>,
    /// The tree that its rotation record carries, over everything before that record.
    carried: Option<Tree>,
    /// Calls whose arguments may have been kept.
    pub(super) calls: Vec<String>,
}

#[derive(Deserialize)]
struct Line<'a> {
    seq: u64,
    #[serde(default)]
    ms: u64,
    #[serde(borrow, default)]
    call: Cow<'a, str>,
    #[serde(borrow, default)]
    body: Cow<'a, str>,
    #[serde(borrow, default)]
    action: Cow<'a, str>,
    #[serde(borrow, default)]
    tree: Cow<'a, str>,
    #[serde(default)]
    count: Option<u64>,
    #[serde(borrow)]
    hash: Cow<'a, str>,
}

impl Contents {
    /// Reads as far as there are records; what is wrong shows when trees are compared.
    pub(super) fn of(first_seq: u64, bytes: &[u8]) -> Contents {
        let mut contents = Contents {
            first_seq,
            bytes: bytes.len() as u64,
            ..Contents::default()
        };
        for text in bytes.split_inclusive(|byte| *byte == b'\n') {
            let Ok(line) = serde_json::from_slice::<Line<'_>>(text) else {
                break;
            };
            let Some(hash) = Hash::from_hex(line.hash.as_bytes()) else {
                break;
            };
            contents.leaves.push(hash);
            contents.newest_ms = contents.newest_ms.max(line.ms);
            if line.action == ROTATED && line.count == Some(0) && contents.carried.is_none() {
                contents.carried = Tree::from_hex(line.seq, &line.tree);
            }
            if !line.body.is_empty() {
                contents.calls.push(line.call.into_owned());
            }
        }
        contents
    }

    /// Makes `tree`, over everything before this segment or over nothing, a tree over everything up to its end.
    pub(super) fn extend_tree(&self, tree: &mut Tree) {
        if tree.size() != self.first_seq
            && let Some(carried) = &self.carried
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

    /// Whether this segment begins where `before` ends, and carries the tree that its own first records make of it.
    pub(super) fn follows(&self, before: &Tree) -> bool {
        let Some(carried) = self
            .carried
            .as_ref()
            .filter(|_| before.size() == self.first_seq)
        else {
            return false;
        };
        let mut tree = before.clone();
        let lead =
            usize::try_from(carried.size().saturating_sub(self.first_seq)).unwrap_or(usize::MAX);
        self.leaves
            .iter()
            .take(lead)
            .for_each(|leaf| tree.push(leaf));
        tree == *carried
    }
}
