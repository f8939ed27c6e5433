//! The hash tree, computed as a binary counter: one slot per level, carried like an addition.

use crate::chain::Hash;

#[derive(Clone, Debug, Default)]
pub(crate) struct Levels {
    /// At index n, the root of a complete subtree of 2^n records that has no partner yet.
    slots: Vec<Option<Hash>>,
}

impl Levels {
    pub(crate) fn push(&mut self, record: &Hash) {
        let mut carry = Hash::leaf(record);
        for slot in &mut self.slots {
            match slot.take() {
                None => {
                    *slot = Some(carry);
                    return;
                }
                Some(left) => carry = Hash::node(&left, &carry),
            }
        }
        self.slots.push(Some(carry));
    }

    /// The levels under `size` records whose peaks are these, widest first; `None` if there can be no such.
    pub(crate) fn from_peaks(size: u64, hex: &[u8]) -> Option<Levels> {
        let mut peaks = hex.chunks(64).rev();
        let mut slots = Vec::new();
        let mut rest = size;
        while rest > 0 {
            slots.push(if rest & 1 == 1 {
                Some(Hash::from_hex(peaks.next()?)?)
            } else {
                None
            });
            rest >>= 1;
        }
        peaks.next().is_none().then_some(Levels { slots })
    }

    pub(crate) fn root(&self) -> Hash {
        let joined = self
            .slots
            .iter()
            .flatten()
            .copied()
            .reduce(|right, left| Hash::node(&left, &right));
        joined.unwrap_or_else(|| Hash::of(b""))
    }

    pub(crate) fn peaks_in_hex(&self) -> String {
        self.slots
            .iter()
            .rev()
            .flatten()
            .map(Hash::to_string)
            .collect()
    }
}
