//! Base64 with one spelling per value: unused bits must be zero, and padding is either demanded or refused.

use base64::{
    Engine,
    alphabet::{STANDARD, URL_SAFE},
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

const fn strict(padding: DecodePaddingMode, encode_padding: bool) -> GeneralPurposeConfig {
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(false)
        .with_decode_padding_mode(padding)
        .with_encode_padding(encode_padding)
}

/// RFC 4648 §4, padded: signatures and keys of envelopes.
const PADDED: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, strict(DecodePaddingMode::RequireCanonical, true));
/// RFC 7515 §2: the parts of a token.
const URL: GeneralPurpose =
    GeneralPurpose::new(&URL_SAFE, strict(DecodePaddingMode::RequireNone, false));
/// Keys that people paste come with and without padding.
const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, strict(DecodePaddingMode::Indifferent, true));
const LENIENT_URL: GeneralPurpose =
    GeneralPurpose::new(&URL_SAFE, strict(DecodePaddingMode::Indifferent, true));

pub(crate) fn padded(bytes: &[u8]) -> String {
    PADDED.encode(bytes)
}

pub(crate) fn from_padded(text: &str) -> Option<Vec<u8>> {
    PADDED.decode(text).ok()
}

pub(crate) fn url(bytes: &[u8]) -> String {
    URL.encode(bytes)
}

pub(crate) fn from_url(text: &str) -> Option<Vec<u8>> {
    URL.decode(text).ok()
}

/// In either alphabet, padded or not.
pub(crate) fn from_any(text: &str) -> Option<Vec<u8>> {
    LENIENT
        .decode(text)
        .or_else(|_| LENIENT_URL.decode(text))
        .ok()
}
