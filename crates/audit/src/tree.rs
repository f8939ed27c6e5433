//! The hash tree over all records, as the writer keeps it: only the *peaks*, the roots of its complete subtrees.
//!
//! A tree of n records has one peak per 1-bit of n, so appending and the root cost a few hashes and no disk. The shape is that of RFC 6962
//! (and so of the C2SP formats). [`crate::verify`] and the proof checker compute it in their own way.

use crate::chain::Hash;
use std::ops::Range;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    size: u64,
    /// Widest first.
    peaks: Vec<Hash>,
}

impl Tree {
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Appends the record with this hash.
    pub(crate) fn push(&mut self, record: &Hash) {
        let mut node = Hash::leaf(record);
        // Every trailing 1-bit is a peak as wide as what has been joined so far.
        for _ in 0..self.size.trailing_ones() {
            if let Some(left) = self.peaks.pop() {
                node = Hash::node(&left, &node);
            }
        }
        self.peaks.push(node);
        self.size += 1;
    }

    pub(crate) fn root(&self) -> Hash {
        let mut peaks = self.peaks.iter().rev();
        let Some(narrowest) = peaks.next() else {
            return Hash::of(b"");
        };
        peaks.fold(*narrowest, |right, left| Hash::node(left, &right))
    }

    /// The tree over those of its records that lie in `range`. What lies in it must be whole peaks, as it is for every subtree of a larger
    /// tree that ends at or behind this one's end.
    pub(crate) fn within(&self, range: &Range<u64>) -> Tree {
        let mut part = Tree::default();
        let mut start = 0;
        for (width, peak) in self.widths().zip(&self.peaks) {
            if range.contains(&start) && start + width <= range.end {
                part.size += width;
                part.peaks.push(*peak);
            }
            start += width;
        }
        part
    }

    /// How many records each peak covers, widest first.
    fn widths(&self) -> impl Iterator<Item = u64> {
        let size = self.size;
        (0..u64::BITS)
            .rev()
            .map(|bit| 1_u64 << bit)
            .filter(move |width| size & width != 0)
    }

    /// The peaks in hex, as a `ledger.rotated` record carries them.
    pub(crate) fn to_hex(&self) -> String {
        self.peaks.iter().map(Hash::to_string).collect()
    }

    /// The tree over `size` records with these peaks; `None` if there cannot be one.
    pub(crate) fn from_hex(size: u64, hex: &str) -> Option<Tree> {
        let peaks: Option<Vec<Hash>> = hex.as_bytes().chunks(64).map(Hash::from_hex).collect();
        let peaks = peaks.filter(|peaks| peaks.len() == size.count_ones() as usize)?;
        Some(Tree { size, peaks })
    }
}
