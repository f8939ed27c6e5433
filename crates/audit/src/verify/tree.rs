//! The hash tree, computed as a binary counter: one slot per level, carried like an addition.

use crate::chain::Hash;

#[derive(Clone, Debug, Default)]
pub(super) struct Levels {
    /// At index n, the root of a complete subtree of 2^n records that has no partner yet.
    slots: Vec<Option<Hash>>,
}

impl Levels {
    pub(super) fn push(&mut self, record: &Hash) {
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

    pub(super) fn root(&self) -> Hash {
        let joined = self.slots.iter().flatten().copied().reduce(|right, left| Hash::node(&left, &right));
        joined.unwrap_or_else(|| Hash::of(b""))
    }

    pub(super) fn peaks_in_hex(&self) -> String {
        self.slots.iter().rev().flatten().map(Hash::to_string).collect()
    }
}
