//! The little of PEM and DER that key files need: finding the one key in a file, and telling its kind from its fixed opening.

use zeroize::Zeroizing;

use crate::text64;

/// `SubjectPublicKeyInfo` of an Ed25519 key, up to the 32 bytes.
pub(crate) const ED25519_SPKI: &[u8] = &[
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];
/// PKCS#8 version 1 of an Ed25519 key, up to the 32 bytes of its seed.
pub(crate) const ED25519_PKCS8: &[u8] = &[
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
/// The algorithm of a P-256 key: `id-ecPublicKey`, `prime256v1`.
const P256_ALGORITHM: &[u8] = &[
    0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
    0xce, 0x3d, 0x03, 0x01, 0x07,
];
/// The algorithm of an RSA key: `rsaEncryption`, no parameters.
const RSA_ALGORITHM: &[u8] = &[
    0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
];

/// Longer than the file of any key that is accepted.
const MAX_FILE: usize = 32 << 10;

/// The one PEM block of a file: its label, and what it holds.
pub(crate) fn pem(text: &str) -> Option<(&str, Zeroizing<Vec<u8>>)> {
    if text.len() > MAX_FILE {
        return None;
    }
    let (label, rest) = text
        .trim()
        .strip_prefix("-----BEGIN ")?
        .split_once("-----")?;
    let (body, end) = rest.split_once("-----END ")?;
    if end.strip_suffix("-----")? != label {
        return None;
    }
    let body: Zeroizing<String> = Zeroizing::new(body.split_ascii_whitespace().collect());
    Some((label, Zeroizing::new(text64::from_padded(&body)?)))
}

/// Writes a PEM block.
pub(crate) fn to_pem(label: &str, der: &[u8]) -> Zeroizing<String> {
    let body = Zeroizing::new(text64::padded(der));
    let mut out = Zeroizing::new(format!("-----BEGIN {label}-----\n"));
    for (at, character) in body.chars().enumerate() {
        if at > 0 && at % 64 == 0 {
            out.push('\n');
        }
        out.push(character);
    }
    out.push_str(&format!("\n-----END {label}-----\n"));
    out
}

/// A public key as `SubjectPublicKeyInfo` holds it.
pub(crate) enum Spki<'a> {
    Ed25519(&'a [u8]),
    /// An uncompressed point.
    P256(&'a [u8]),
    /// Modulus and exponent, big-endian, without leading zeros.
    Rsa(&'a [u8], &'a [u8]),
}

pub(crate) fn spki(der: &[u8]) -> Option<Spki<'_>> {
    if let Some(key) = der.strip_prefix(ED25519_SPKI) {
        return (key.len() == 32).then_some(Spki::Ed25519(key));
    }
    let (body, after) = element(der, 0x30)?;
    if !after.is_empty() {
        return None;
    }
    if let Some(rest) = body.strip_prefix(P256_ALGORITHM) {
        let point = bits(rest)?;
        return (point.len() == 65 && point.first() == Some(&4)).then_some(Spki::P256(point));
    }
    let key = bits(body.strip_prefix(RSA_ALGORITHM)?)?;
    let (modulus, exponent) = rsa_public(key)?;
    Some(Spki::Rsa(modulus, exponent))
}

/// `RSAPublicKey` of PKCS#1.
pub(crate) fn rsa_public(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (body, after) = element(der, 0x30)?;
    let (modulus, rest) = unsigned(body)?;
    let (exponent, rest) = unsigned(rest)?;
    (after.is_empty() && rest.is_empty()).then_some((modulus, exponent))
}

/// A bit string that fills `der` and has no unused bits.
fn bits(der: &[u8]) -> Option<&[u8]> {
    let (content, after) = element(der, 0x03)?;
    after
        .is_empty()
        .then(|| content.strip_prefix(&[0]))
        .flatten()
}

/// A positive integer, in the one way DER allows to write it.
fn unsigned(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (content, rest) = element(der, 0x02)?;
    match content {
        [0, high, ..] if *high >= 0x80 => Some((content.get(1..)?, rest)),
        [1..=0x7f, ..] => Some((content, rest)),
        _ => None,
    }
}

/// The content of the element with a tag that stands first, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let [first, length, rest @ ..] = der else {
        return None;
    };
    if *first != tag {
        return None;
    }
    match (*length, rest) {
        (0..=0x7f, _) => rest.split_at_checked(usize::from(*length)),
        (0x81, [one @ 0x80..=0xff, rest @ ..]) => rest.split_at_checked(usize::from(*one)),
        (0x82, [high @ 1..=0xff, low, rest @ ..]) => {
            rest.split_at_checked(usize::from(u16::from_be_bytes([*high, *low])))
        }
        _ => None,
    }
}
