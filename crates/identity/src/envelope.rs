//! The `seal/v1` envelope: a call, the token of the session it belongs to, and a signature over both.
//!
//! Signed are payload, token and whole second; nothing else may influence anything. So an envelope has exactly its five fields. The one
//! field that is tolerated beside them, `container_id`, is sent by existing gateways' clients and dropped unread; any other is refused,
//! because a reader further in might believe it although nobody signed it. What was parsed here is what was signed: the payload is
//! kept as text, and the signing input is built from that same text.
//!
//! **Invariant: what was signed is what was parsed**, number for number. Tests `published_vectors_verify`,
//! `what_python_and_javascript_sign_verifies`, `every_flipped_bit_of_an_envelope_is_refused`,
//! `numbers_keep_the_text_that_was_sent`; fuzz target `envelope`.

mod timestamp;

use std::borrow::Cow;

use thiserror::Error;
use wire::{
    Json, JsonError, Kind, Limits,
    canonical::{Order, canonical_after},
    json::decode_key,
    write,
};

use crate::{jws::MAX_TOKEN, text64};

pub(crate) const PROTOCOL: &str = "seal/v1";

/// Base64 of 64 bytes.
const SIGNATURE_TEXT: usize = 88;

/// A parsed envelope. Its signature is **not** verified yet: see [`crate::PublicKey::verifies`].
#[derive(Debug, Clone)]
pub struct Envelope<'a> {
    token: Cow<'a, str>,
    payload: Json<'a>,
    seconds: u64,
    signature_text: Cow<'a, str>,
    signature: [u8; 64],
}

/// Why bytes are no envelope.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Malformed {
    #[error("the envelope is not acceptable JSON: {0}")]
    Json(#[from] JsonError),
    #[error("the envelope is not a JSON object")]
    NotAnObject,
    #[error("the envelope has no `{0}`")]
    Missing(&'static str),
    #[error("`{0}` is not a field of an envelope; only signed fields are accepted")]
    Unknown(String),
    #[error("`{field}` must be {wanted}")]
    Wrong {
        field: &'static str,
        wanted: &'static str,
    },
}

impl<'a> Envelope<'a> {
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        Self::parse_within(body, Limits::default())
    }

    /// Like [`Envelope::parse`], for a gate with other limits on size and depth.
    pub fn parse_within(body: &'a [u8], limits: Limits) -> Result<Self, Malformed> {
        let outline = Json::parse_fields(body, limits)?;
        if !outline.json.is_object() {
            return Err(Malformed::NotAnObject);
        }
        let mut found = Found::default();
        for (key, value) in outline.fields().iter() {
            match &*decode_key(key) {
                "protocol" => found.protocol = Some(*value),
                "security_token" => found.token = Some(*value),
                "signature" => found.signature = Some(*value),
                "payload" => found.payload = Some(*value),
                "timestamp" => found.timestamp = Some(*value),
                "container_id" => {}
                other => return Err(Malformed::Unknown(other.chars().take(64).collect())),
            }
        }
        found.read()
    }

    /// The compact token, as signed.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The call, byte for byte as it was sent.
    #[must_use]
    pub fn payload(&self) -> Json<'a> {
        self.payload
    }

    /// The second at which it says it was signed, since 1970.
    #[must_use]
    pub fn seconds(&self) -> u64 {
        self.seconds
    }

    #[must_use]
    pub fn signature(&self) -> &[u8; 64] {
        &self.signature
    }

    /// The signature as it was written; there is only one way to write it.
    #[must_use]
    pub fn signature_text(&self) -> &str {
        &self.signature_text
    }

    /// The bytes the signature is over, for one order of keys.
    #[must_use]
    pub fn signing_input(&self, order: Order) -> Vec<u8> {
        signing_input(self.payload, &self.token, self.seconds, order)
    }
}

/// The bytes that a client signs for a call.
#[must_use]
pub(crate) fn signing_input(payload: Json<'_>, token: &str, seconds: u64, order: Order) -> Vec<u8> {
    let room = payload.as_bytes().len() + token.len() + 64;
    let mut out = Vec::with_capacity(room);
    out.extend_from_slice(b"{\"payload\":");
    let mut out = canonical_after(out, payload, order);
    // A token has no character that JSON would escape: `Found::token` saw to that.
    out.extend_from_slice(b",\"security_token\":\"");
    out.extend_from_slice(token.as_bytes());
    out.extend_from_slice(b"\",\"timestamp\":");
    write::number(&mut out, seconds);
    out.push(b'}');
    out
}

/// The fields as they stand, before they are read.
#[derive(Default)]
struct Found<'a> {
    protocol: Option<Json<'a>>,
    token: Option<Json<'a>>,
    signature: Option<Json<'a>>,
    payload: Option<Json<'a>>,
    timestamp: Option<Json<'a>>,
}

impl<'a> Found<'a> {
    fn read(self) -> Result<Envelope<'a>, Malformed> {
        let protocol = self.protocol.ok_or(Malformed::Missing("protocol"))?;
        if protocol.as_str().as_deref() != Some(PROTOCOL) {
            return Err(Malformed::Wrong {
                field: "protocol",
                wanted: "`seal/v1`",
            });
        }
        let token = self.token()?;
        let (signature_text, signature) = self.signature()?;
        let payload = self.payload.ok_or(Malformed::Missing("payload"))?;
        if !payload.is_object() {
            return Err(Malformed::Wrong {
                field: "payload",
                wanted: "an object",
            });
        }
        let seconds = self.seconds()?;
        Ok(Envelope {
            token,
            payload,
            seconds,
            signature_text,
            signature,
        })
    }

    fn token(&self) -> Result<Cow<'a, str>, Malformed> {
        let wrong = Malformed::Wrong {
            field: "security_token",
            wanted: "a compact token of at most 8192 characters",
        };
        let token = self
            .token
            .ok_or(Malformed::Missing("security_token"))?
            .as_str()
            .ok_or(wrong.clone())?;
        let plain = token
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
        if plain && !token.is_empty() && token.len() <= MAX_TOKEN {
            Ok(token)
        } else {
            Err(wrong)
        }
    }

    fn signature(&self) -> Result<(Cow<'a, str>, [u8; 64]), Malformed> {
        let wrong = || Malformed::Wrong {
            field: "signature",
            wanted: "the padded base64 of 64 bytes",
        };
        let text = self
            .signature
            .ok_or(Malformed::Missing("signature"))?
            .as_str()
            .ok_or_else(wrong)?;
        if text.len() != SIGNATURE_TEXT {
            return Err(wrong());
        }
        let bytes = text64::from_padded(&text)
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or_else(wrong)?;
        Ok((text, bytes))
    }

    fn seconds(&self) -> Result<u64, Malformed> {
        let timestamp = self.timestamp.ok_or(Malformed::Missing("timestamp"))?;
        let seconds = match timestamp.kind() {
            Kind::Number => timestamp
                .as_u64()
                .filter(|seconds| *seconds <= timestamp::LATEST),
            Kind::String => timestamp
                .as_str()
                .and_then(|text| timestamp::seconds(&text)),
            _ => None,
        };
        seconds.ok_or(Malformed::Wrong {
            field: "timestamp",
            wanted: "an ISO 8601 instant with its offset, or whole Unix seconds",
        })
    }
}
