//! The hash that links one record to the next, and records into a tree.
//!
//! This is the only code that the writer, [`crate::verify`] and the proof checker share. It must never learn about fields or files:
//! bytes in, bytes out.

use sha2::{Digest, Sha256};
use std::fmt;

/// A SHA-256 value: the hash of one record, which covers every record before it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hash([u8; 32]);

impl Hash {
    /// What the first record of a ledger names as its predecessor.
    pub const GENESIS: Hash = Hash([0; 32]);

    /// `SHA-256(previous || body)`, where `body` is the canonical line up to, and without, its own hash.
    pub fn link(previous: &Hash, body: &[u8]) -> Hash {
        let mut sha = Sha256::new();
        sha.update(previous.0);
        sha.update(body);
        Hash(sha.finalize().into())
    }

    /// A leaf of the hash tree (RFC 6962): `SHA-256(0x00 || the record's hash)`.
    pub fn leaf(record: &Hash) -> Hash {
        let mut sha = Sha256::new();
        sha.update([0]);
        sha.update(record.0);
        Hash(sha.finalize().into())
    }

    /// An inner node of the hash tree (RFC 6962): `SHA-256(0x01 || left || right)`.
    pub fn node(left: &Hash, right: &Hash) -> Hash {
        let mut sha = Sha256::new();
        sha.update([1]);
        sha.update(left.0);
        sha.update(right.0);
        Hash(sha.finalize().into())
    }

    /// Plain SHA-256, for naming bytes that are no record.
    pub(crate) fn of(bytes: &[u8]) -> Hash {
        Hash(Sha256::digest(bytes).into())
    }

    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub(crate) fn from_bytes(bytes: [u8; 32]) -> Hash {
        Hash(bytes)
    }

    /// Appends the 64 lowercase hex digits.
    pub(crate) fn write_hex(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.digits());
    }

    fn digits(&self) -> [u8; 64] {
        let mut digits = [0; 64];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.0) {
            if let [high, low] = pair {
                *high = hex_digit(byte >> 4);
                *low = hex_digit(byte & 15);
            }
        }
        digits
    }

    /// Reads exactly 64 lowercase hex digits; upper case is another spelling and therefore refused.
    pub fn from_hex(text: &[u8]) -> Option<Hash> {
        if text.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            let [high, low] = pair else { return None };
            *byte = hex_value(*high)? << 4 | hex_value(*low)?;
        }
        Some(Hash(bytes))
    }
}

pub(crate) fn hex_digit(nibble: u8) -> u8 {
    if nibble < 10 {
        b'0' + nibble
    } else {
        b'a' + (nibble & 15) - 10
    }
}

fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.digits()).unwrap_or_default())
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
