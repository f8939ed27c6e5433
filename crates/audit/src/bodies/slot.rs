//! The bytes of kept bodies: a *slot* in the key file says where a sealed body lies and holds its key.
//!
//! ```text
//! slot, 64 bytes:  tag 16 | place u64 | length u32 | zero u32 | key 32        numbers are little-endian
//! sealed body:     ChaCha20-Poly1305(key, nonce 0, aad = call, plain) with its 16-byte tag
//! plain:           1 (whole) or 2 (cut) | length before the cut u32 | bytes
//! ```
//!
//! The nonce may be constant because a key seals one body. The tag is the start of the SHA-256 of the call's id.

use super::BODY_LIMIT;
use crate::chain::Hash;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use std::fmt;
use std::path::{Path, PathBuf};

pub(super) const BODIES: &str = "bodies";
pub(super) const SLOT_BYTES: usize = 64;
pub(super) const KEY_AT: u64 = 32;
pub(super) const NO_KEY: [u8; 32] = [0; 32];
const WHOLE: u8 = 1;
const CUT: u8 = 2;

pub(super) fn bodies_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(BODIES).join(format!("{number:020}.bodies"))
}

pub(super) fn keys_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(BODIES).join(format!("{number:020}.keys"))
}

pub(super) fn part_number(name: &str) -> Option<u64> {
    let digits = name
        .strip_suffix(".keys")
        .or_else(|| name.strip_suffix(".bodies"))?;
    let all_digits = digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit());
    all_digits.then(|| digits.parse().ok()).flatten()
}

#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub(super) tag: [u8; 16],
    pub(super) place: u64,
    pub(super) length: u32,
    key: [u8; 32],
}

impl Slot {
    pub(super) fn new(call: &str, place: u64, length: usize, key: [u8; 32]) -> Slot {
        Slot {
            tag: tag(call),
            place,
            length: u32::try_from(length).unwrap_or(u32::MAX),
            key,
        }
    }

    pub(super) fn moved_by(mut self, by: u64) -> Slot {
        self.place += by;
        self
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.tag);
        out.extend_from_slice(&self.place.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.key);
    }

    fn read(bytes: &[u8]) -> Option<Slot> {
        let (tag, rest) = bytes.split_first_chunk()?;
        let (place, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (_, rest) = rest.split_first_chunk::<4>()?;
        let (key, _) = rest.split_first_chunk()?;
        Some(Slot {
            tag: *tag,
            place: u64::from_le_bytes(*place),
            length: u32::from_le_bytes(*length),
            key: *key,
        })
    }

    pub(super) fn is_erased(&self) -> bool {
        self.key == NO_KEY
    }

    /// The body and whether it was cut; `None` if the bytes are not what was sealed for `call`.
    pub(super) fn unseal(&self, call: &str, mut sealed: Vec<u8>) -> Option<(Vec<u8>, bool)> {
        let plain = cipher(&self.key)?
            .open_in_place(nonce(), Aad::from(call), &mut sealed)
            .ok()?;
        let (flag, rest) = plain.split_first()?;
        let (_, bytes) = rest.split_first_chunk::<4>()?;
        Some((bytes.to_vec(), *flag == CUT))
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot")
            .field("place", &self.place)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

/// All whole slots of a key file, in order. A torn last one is left out.
pub(super) fn slots(keys: &[u8]) -> impl Iterator<Item = Slot> + '_ {
    keys.chunks_exact(SLOT_BYTES).filter_map(Slot::read)
}

/// Where in a key file the slots of `call` begin.
pub(super) fn places_of(keys: &[u8], call: &str) -> Vec<u64> {
    let tag = tag(call);
    let mine = slots(keys)
        .enumerate()
        .filter(|(_, slot)| slot.tag == tag && !slot.is_erased());
    mine.map(|(index, _)| (index * SLOT_BYTES) as u64).collect()
}

pub(crate) fn tag(call: &str) -> [u8; 16] {
    let hash = Hash::of(call.as_bytes());
    hash.bytes().first_chunk().copied().unwrap_or_default()
}

pub(super) fn seal(key: &[u8; 32], call: &str, body: &[u8]) -> Option<Vec<u8>> {
    let (kept, cut) = body.split_at(body.len().min(BODY_LIMIT));
    let mut sealed = Vec::with_capacity(kept.len() + 32);
    sealed.push(if cut.is_empty() { WHOLE } else { CUT });
    sealed.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes());
    sealed.extend_from_slice(kept);
    cipher(key)?
        .seal_in_place_append_tag(nonce(), Aad::from(call), &mut sealed)
        .ok()?;
    Some(sealed)
}

fn cipher(key: &[u8; 32]) -> Option<LessSafeKey> {
    Some(LessSafeKey::new(
        UnboundKey::new(&CHACHA20_POLY1305, key).ok()?,
    ))
}

/// One key, one body: the nonce has nothing left to tell apart.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}
