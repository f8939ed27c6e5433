//! Tokens that are bound to a key (RFC 9449), judged without any code of the gate.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde_json::Value;

use super::{Books, http::Asked};

/// A proof whose signature holds.
pub(super) struct Proof {
    /// Both halves of the public key.
    pub(super) key: String,
    claims: Value,
}

impl Proof {
    pub(super) fn read(asked: &Asked) -> Option<Self> {
        let text = asked.header("dpop")?;
        let mut parts = text.split('.');
        let [head, claims, signature] = [parts.next()?, parts.next()?, parts.next()?];
        let decoded = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let read = |part: &str| serde_json::from_slice::<Value>(&decoded(part)?).ok();
        let head = read(head)?;
        let text_at = |place: &str| head.pointer(place).and_then(Value::as_str);
        let is_right = text_at("/typ") == Some("dpop+jwt") && text_at("/alg") == Some("ES256");
        if !is_right || head.pointer("/jwk/d").is_some() {
            return None;
        }
        let half = |name: &str| text_at(&format!("/jwk/{name}"));
        let (x, y) = (half("x")?, half("y")?);
        let point = [vec![4], decoded(x)?, decoded(y)?].concat();
        let (signed, _) = text.rsplit_once('.')?;
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
            .verify(signed.as_bytes(), &decoded(signature)?)
            .ok()?;
        Some(Self {
            key: format!("{x}.{y}"),
            claims: read(claims)?,
        })
    }

    pub(super) fn nonce(&self) -> Option<&str> {
        self.claims.get("nonce")?.as_str()
    }
}

impl Books {
    /// What is wrong with the proof of a request that came with a good token.
    pub(super) fn wrong_proof(&mut self, asked: &Asked, origin: &str) -> Option<&'static str> {
        let Some(proof) = Proof::read(asked) else {
            return Some("there is none, or its signature does not hold");
        };
        let token = asked.header("authorization").unwrap_or_default();
        let token = token.strip_prefix("DPoP ").unwrap_or_default();
        let of_token = URL_SAFE_NO_PAD.encode(digest(&SHA256, token.as_bytes()));
        let said = |name: &str| {
            let claim = proof.claims.get(name).and_then(Value::as_str);
            claim.unwrap_or_default().to_owned()
        };
        if self.keys.get(token) != Some(&proof.key) {
            return Some("the token is bound to another key");
        }
        if said("ath") != of_token {
            return Some("it is for another token");
        }
        if said("htm") != asked.method || said("htu") != format!("{origin}{}", asked.path) {
            return Some("it is for another request");
        }
        if said("jti").is_empty() || !self.proofs.insert(said("jti")) {
            return Some("it was used before");
        }
        None
    }
}
