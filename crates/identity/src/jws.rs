//! Compact signed tokens (RFC 7515): the only form that is accepted.
//!
//! The header is believed in two points: the id under which the key is looked up, and an algorithm that must be the key's own. Whatever
//! would make a verifier fetch a key, take one from the token, or read the token differently, is refused unread.
//!
//! **Invariant: a token never chooses its key or algorithm.** Tests `the_header_decides_nothing`,
//! `hostile_key_ids_lead_nowhere`, `wycheproof_signatures_and_keys_have_no_mismatch`,
//! `wycheproof_ed25519_has_no_mismatch`.

use thiserror::Error;
use wire::{Json, Limits};

use crate::{
    keyring::{KeyRing, MAX_KEY_ID, VerifyingKey},
    text64,
};

/// Longer tokens are refused before they are decoded.
pub(crate) const MAX_TOKEN: usize = 8 << 10;
const MAX_HEADER: usize = 1 << 10;
const HEADER: Limits = Limits::new(MAX_HEADER, 4);
pub(crate) const PAYLOAD: Limits = Limits::new(MAX_TOKEN, 16);

/// Header fields that lead to a key, or to another reading of the token.
const REFUSED: [&str; 8] = ["jku", "x5u", "x5c", "crit", "b64", "zip", "enc", "cty"];

/// Why a text is not a token that a known key signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum JwsError {
    #[error("the token is longer than 8192 bytes")]
    TooLong,
    #[error("the token is not three base64url parts")]
    NotCompact,
    #[error("the token's header is not a JSON object of at most 1024 bytes with an algorithm")]
    Header,
    #[error("the token's header has `{0}`, which is never followed")]
    Refused(&'static str),
    #[error("the token's type is not the one expected here")]
    Type,
    #[error("the token does not say which key signed it")]
    NoKeyId,
    #[error("the token was signed by a key that is not known here")]
    UnknownKey,
    #[error("the token's algorithm is not that of its key")]
    Algorithm,
    #[error("the token's signature is not valid")]
    Signature,
}

/// A token taken apart; nothing in it is verified.
pub(crate) struct Compact<'a> {
    /// What the signature is over.
    pub(crate) signed: &'a [u8],
    header: Vec<u8>,
    pub(crate) payload: Vec<u8>,
    signature: Vec<u8>,
}

impl<'a> Compact<'a> {
    pub(crate) fn parse(token: &'a str) -> Result<Self, JwsError> {
        if token.len() > MAX_TOKEN {
            return Err(JwsError::TooLong);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(JwsError::NotCompact)?;
        let (header, payload) = signed.split_once('.').ok_or(JwsError::NotCompact)?;
        let decode = |part: &str| text64::from_url(part).ok_or(JwsError::NotCompact);
        // A second dot in the payload is no base64url, so there are three parts and no more.
        let (header, payload, signature) = (decode(header)?, decode(payload)?, decode(signature)?);
        Ok(Self {
            signed: signed.as_bytes(),
            header,
            payload,
            signature,
        })
    }

    pub(crate) fn header(&self) -> Result<Header<'_>, JwsError> {
        let json = Json::parse(&self.header, HEADER).map_err(|_| JwsError::Header)?;
        if !json.is_object() {
            return Err(JwsError::Header);
        }
        if let Some(refused) = REFUSED.into_iter().find(|field| json.get(field).is_some()) {
            return Err(JwsError::Refused(refused));
        }
        let text = |field| match json.get(field).map(|value| value.as_str()) {
            None => Ok(None),
            Some(Some(text)) => Ok(Some(text.into_owned())),
            Some(None) => Err(JwsError::Header),
        };
        let algorithm = text("alg")?.ok_or(JwsError::Header)?;
        let key_id = text("kid")?;
        if key_id.as_ref().is_some_and(|id| id.len() > MAX_KEY_ID) {
            return Err(JwsError::UnknownKey);
        }
        Ok(Header {
            algorithm,
            key_id,
            kind: text("typ")?,
            embedded: json.get("jwk"),
        })
    }

    /// Checks the signature with a key that was found, not one that was offered.
    pub(crate) fn check(&self, header: &Header<'_>, key: &VerifyingKey) -> Result<(), JwsError> {
        if header.algorithm != key.algorithm().name() {
            return Err(JwsError::Algorithm);
        }
        if key.verifies(self.signed, &self.signature) {
            Ok(())
        } else {
            Err(JwsError::Signature)
        }
    }
}

pub(crate) struct Header<'a> {
    pub(crate) algorithm: String,
    pub(crate) key_id: Option<String>,
    pub(crate) kind: Option<String>,
    /// A key in the header itself: a proof of possession shows one, everywhere else it is refused.
    pub(crate) embedded: Option<Json<'a>>,
}

/// Whether a token without a key id may be verified with the ring's only key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyId {
    Demanded,
    /// Providers with a single key may leave it out (OpenID Connect Core §10.1).
    OptionalForOne,
}

/// Verifies a token with a ring; gives its payload and the key.
pub(crate) fn verify<'k>(
    token: &str,
    ring: &'k KeyRing,
    kinds: &[&str],
    key_id: KeyId,
) -> Result<(Vec<u8>, &'k VerifyingKey), JwsError> {
    let compact = Compact::parse(token)?;
    let header = compact.header()?;
    if header.embedded.is_some() {
        return Err(JwsError::Refused("jwk"));
    }
    if header
        .kind
        .as_deref()
        .is_some_and(|kind| !kinds.iter().any(|known| known.eq_ignore_ascii_case(kind)))
    {
        return Err(JwsError::Type);
    }
    let key = match &header.key_id {
        Some(id) => ring.get(id).ok_or(JwsError::UnknownKey)?,
        None if key_id == KeyId::Demanded => return Err(JwsError::NoKeyId),
        None => ring.only().ok_or(JwsError::NoKeyId)?,
    };
    compact.check(&header, key)?;
    Ok((compact.payload, key))
}
