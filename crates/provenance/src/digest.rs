//! Values are kept as keyed digests: short, the same length for all, and worth nothing to who reads the file without the key.
//!
//! The key is the gate's own and secret. So nobody can look for a second value with the same digest except by making calls.

use crate::form::{Class, Form};

/// What digests of values are made with.
#[derive(Clone, Copy)]
pub struct Key([u8; 32]);

impl Key {
    #[must_use]
    pub const fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    /// The digest of a whole text, in hex.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&[TEXT]).update(text.as_bytes());
        hasher.finalize().to_hex().to_string()
    }

    /// The digest of a value in its normal form.
    pub(crate) fn value(&self, form: &Form) -> Digest {
        self.of(form.class as u8, form.text.as_bytes())
    }

    /// The digest of a value as somebody sees it who does not look closely.
    pub(crate) fn look(&self, form: &Form) -> u64 {
        let looks = crate::form::look(&form.text);
        self.of(LOOK, looks.as_bytes()).high
    }

    /// The digest of one word.
    pub(crate) fn word(&self, word: &str) -> u64 {
        self.of(WORD, word.as_bytes()).high
    }

    /// The digest of a record: of the server it is from and of what names it there.
    pub(crate) fn record(&self, server: &str, id: &str) -> u64 {
        let mut text = Vec::with_capacity(server.len() + id.len() + 1);
        text.extend_from_slice(server.as_bytes());
        text.push(0);
        text.extend_from_slice(id.as_bytes());
        self.of(RECORD, &text).high
    }

    /// The digest of a text of this class.
    fn of(&self, class: u8, text: &[u8]) -> Digest {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&[class]).update(text);
        let mut out = [0; 12];
        hasher.finalize_xof().fill(&mut out);
        let [a, b, c, d, e, f, g, h, i, j, k, l] = out;
        Digest {
            high: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            low: u32::from_le_bytes([i, j, k, l]),
        }
    }
}

// Numbers that no class of values has.
const LOOK: u8 = 101;
const WORD: u8 = 102;
const RECORD: u8 = 103;
const TEXT: u8 = 104;
const _: () = assert!((Class::LAST as u8) < LOOK);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// Ninety-six bits that stand for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Digest {
    pub(crate) high: u64,
    pub(crate) low: u32,
}
