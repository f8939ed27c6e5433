//! The text of a token, and how the parts of a credential are written down.

use std::fmt;

use crate::tokens::{Random, TokenError};

const PREFIX: &str = "pct_";
/// 24 characters of 62 are 142 bits.
const LENGTH: usize = 24;
const MIN_LENGTH: usize = 22;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A token in clear. It does not print itself.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenText(String);

impl TokenText {
    pub(super) fn random(random: Random<'_>) -> Result<Self, TokenError> {
        let mut text = PREFIX.to_owned();
        while text.len() < PREFIX.len() + LENGTH {
            let mut bytes = [0; 32];
            random(&mut bytes)?;
            // 248 is the largest multiple of 62 in a byte: above it, some characters would be likelier than others.
            let fair = bytes
                .iter()
                .filter(|byte| **byte < 248)
                .filter_map(|byte| ALPHABET.get(usize::from(byte % 62)));
            let missing = PREFIX.len() + LENGTH - text.len();
            text.extend(fair.take(missing).map(|byte| char::from(*byte)));
        }
        Ok(Self(text))
    }

    /// Text that could be a token; whether it is one only the list knows.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let random = text.strip_prefix(PREFIX)?;
        let well_formed = random.len() >= MIN_LENGTH
            && random.len() <= 128
            && random.bytes().all(|byte| ALPHABET.contains(&byte));
        well_formed.then(|| Self(text.to_owned()))
    }

    /// The token itself: for the screen of the person who asked for it, its file, and the request that uses it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenText(…)")
    }
}

/// Eight characters that name a credential without telling anything about its token.
pub(super) fn short_id(sha256: &[u8; 32]) -> String {
    // Hashed again, so that the id gives away no part of the stored hash.
    let again = super::hash(&hex::text(sha256));
    hex::text(&again).chars().take(8).collect()
}

pub(super) mod hex {
    use std::fmt::Write as _;

    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(in crate::tokens) fn text(bytes: &[u8; 32]) -> String {
        bytes
            .iter()
            .fold(String::with_capacity(64), |mut out, byte| {
                // Writing to a String cannot fail.
                let _ = write!(out, "{byte:02x}");
                out
            })
    }

    pub(in crate::tokens) fn serialize<S: Serializer>(
        bytes: &[u8; 32],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&text(bytes))
    }

    pub(in crate::tokens) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return Err(D::Error::custom("a hash has 64 hexadecimal digits"));
        }
        for (place, byte) in bytes.iter_mut().enumerate() {
            let digits = text.get(2 * place..2 * place + 2).unwrap_or_default();
            *byte = u8::from_str_radix(digits, 16).map_err(D::Error::custom)?;
        }
        Ok(bytes)
    }
}

pub(super) mod view {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};
    use vocab::View;

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde's `with` passes a reference"
    )]
    pub(in crate::tokens) fn serialize<S: Serializer>(
        view: &View,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(super::view_name(*view))
    }

    pub(in crate::tokens) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<View, D::Error> {
        let text = String::deserialize(deserializer)?;
        let views = [View::Double, View::Flat, View::Raw];
        let found = views
            .into_iter()
            .find(|view| super::view_name(*view) == text);
        found.ok_or_else(|| D::Error::custom(format!("`{text}` is not a view")))
    }
}

/// How a view is written in files and on the command line.
#[must_use]
pub fn view_name(view: vocab::View) -> &'static str {
    match view {
        vocab::View::Double => "double",
        vocab::View::Flat => "flat",
        vocab::View::Raw => "raw",
    }
}
