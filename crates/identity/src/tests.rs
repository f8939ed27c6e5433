//! Tests, by subject. Published vectors come from packages and are read as they are.

mod access;
mod canonical;
mod envelope;
mod jose_vectors;
mod keys;
mod replay;
mod token;

use wire::{Json, Limits};

pub(crate) fn json(text: &str) -> Json<'_> {
    Json::parse(text.as_bytes(), Limits::default()).unwrap()
}

/// Flips every bit of every byte, one at a time.
pub(crate) fn flipped(text: &[u8]) -> impl Iterator<Item = (usize, Vec<u8>)> + '_ {
    (0..text.len()).flat_map(move |at| {
        (0..8).map(move |bit| {
            let mut changed = text.to_vec();
            changed[at] ^= 1 << bit;
            (at, changed)
        })
    })
}
