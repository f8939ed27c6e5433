//! Tokens of sessions: the gate issues them, and verifies them on every signed call.
//!
//! One key signs; several verify, so that a new key can take over while tokens of the old one live out their hour. `exp` is exact: an
//! expired token is never accepted. `iat` and `nbf` may lie [`LEEWAY`] seconds ahead, because a replica's clock may.

use std::sync::Arc;

use thiserror::Error;
use wire::Json;

use crate::{
    Claims, JwsError, KeyError, TokenCache,
    jws::{self, KeyId},
    keyring::{KeyRing, VerifyingKey},
    sign::SigningKey,
    text64,
};

/// How far ahead of the gate's clock a token may have been issued or become valid.
pub(crate) const LEEWAY: u64 = 30;
/// No token lives longer, whoever signed it.
pub(crate) const LONGEST_LIFE: u64 = 24 * 3600;

/// Why a token is not accepted. `Expired` is kept apart, because a client can do something about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TokenError {
    #[error("the token has expired; attest again")]
    Expired,
    #[error("the token is not valid yet; check the clocks")]
    NotYetValid,
    #[error("the token would live longer than 24 hours")]
    TooLongLived,
    #[error("the token comes from another issuer")]
    Issuer,
    #[error("the token is for another audience")]
    Audience,
    #[error(
        "the token's claims are not a JSON object, or its claim `{0}` is missing or not what it must be"
    )]
    Claims(&'static str),
    #[error(transparent)]
    Signed(#[from] JwsError),
    #[error("the token could not be signed")]
    Signing,
}

/// Who must have issued a token, and for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expect<'a> {
    pub issuer: &'a str,
    pub audience: &'a str,
}

/// The gate's keys for session tokens.
#[derive(Debug)]
pub struct TokenKeys {
    signing: SigningKey,
    ring: KeyRing,
}

impl TokenKeys {
    pub fn new(signing: SigningKey) -> Result<Self, KeyError> {
        let mut ring = KeyRing::default();
        ring.add(signing.public().thumbprint(), signing.public().clone())?;
        Ok(Self { signing, ring })
    }

    /// New Ed25519 keys from 32 random bytes; [`SigningKey::seed_to_pem`] is the file to keep them in.
    pub fn generate(seed: &[u8; 32]) -> Result<Self, KeyError> {
        Self::new(SigningKey::from_seed(seed)?)
    }

    /// Accepts tokens of another key too: an earlier one, or the next.
    pub fn also_verify(mut self, key: VerifyingKey) -> Result<Self, KeyError> {
        let id = key.thumbprint().to_owned();
        self.ring.add(&id, key)?;
        Ok(self)
    }

    /// A new key signs from now on; tokens of the old one stay good until they expire or [`TokenKeys::retire`] is called.
    pub fn rotate(mut self, signing: SigningKey) -> Result<Self, KeyError> {
        self.ring
            .add(signing.public().thumbprint(), signing.public().clone())?;
        Ok(Self {
            signing,
            ring: self.ring,
        })
    }

    /// Tokens of a key are refused from now on. The key that signs stays.
    pub fn retire(&mut self, thumbprint: &str) -> bool {
        thumbprint != self.signing.public().thumbprint() && self.ring.remove(thumbprint)
    }

    /// The id of the key that signs.
    #[must_use]
    pub fn signing_key_id(&self) -> &str {
        self.signing.public().thumbprint()
    }

    #[must_use]
    pub fn ring(&self) -> &KeyRing {
        &self.ring
    }

    /// The public halves as a key set, the one that signs first.
    #[must_use]
    pub fn jwks(&self) -> String {
        let mut others: Vec<_> = self
            .ring
            .iter()
            .filter(|(id, _)| *id != self.signing_key_id())
            .collect();
        others.sort_by_key(|(id, _)| *id);
        let keys: Vec<String> = std::iter::once(self.signing.public())
            .chain(others.into_iter().map(|(_, key)| key))
            .map(VerifyingKey::to_jwk)
            .collect();
        format!(r#"{{"keys":[{}]}}"#, keys.join(","))
    }

    /// Signs claims. What could not be verified again is not issued.
    pub fn issue(&self, claims: &Claims, now_ms: u64) -> Result<String, TokenError> {
        in_time(claims.iat, claims.nbf, claims.exp, now_ms)?;
        let public = self.signing.public();
        let header = format!(
            r#"{{"alg":"{}","typ":"JWT","kid":"{}"}}"#,
            public.algorithm().name(),
            public.thumbprint()
        );
        let mut token = format!(
            "{}.{}",
            text64::url(header.as_bytes()),
            text64::url(&claims.to_json())
        );
        let signature = self
            .signing
            .sign(token.as_bytes())
            .ok_or(TokenError::Signing)?;
        token.push('.');
        token.push_str(&text64::url(&signature));
        if token.len() > jws::MAX_TOKEN {
            Err(TokenError::Signed(JwsError::TooLong))
        } else {
            Ok(token)
        }
    }

    pub fn verify(
        &self,
        token: &str,
        expect: &Expect<'_>,
        now_ms: u64,
    ) -> Result<Claims, TokenError> {
        let (claims, _) = self.read(token)?;
        accept(&claims, expect, now_ms)?;
        Ok(claims)
    }

    /// Like [`TokenKeys::verify`], without verifying the signature of a token that was verified before. Time, issuer, audience and
    /// whether its key is still in the ring are looked at every time.
    pub fn verify_cached(
        &self,
        cache: &TokenCache<Claims>,
        token: &str,
        expect: &Expect<'_>,
        now_ms: u64,
    ) -> Result<Arc<Claims>, TokenError> {
        let claims = cache.claims(token, &self.ring, || self.read(token))?;
        accept(&claims, expect, now_ms)?;
        Ok(claims)
    }

    fn read(&self, token: &str) -> Result<(Claims, Arc<str>), TokenError> {
        let (payload, key) = jws::verify(token, &self.ring, &["JWT"], KeyId::Demanded)?;
        let json = Json::parse(&payload, jws::PAYLOAD)
            .ok()
            .filter(|json| json.is_object())
            .ok_or(TokenError::Claims("{}"))?;
        Ok((
            Claims::read(json).map_err(TokenError::Claims)?,
            key.shared_thumbprint(),
        ))
    }
}

fn accept(claims: &Claims, expect: &Expect<'_>, now_ms: u64) -> Result<(), TokenError> {
    if claims.iss != expect.issuer {
        return Err(TokenError::Issuer);
    }
    if !claims
        .aud
        .iter()
        .any(|audience| audience == expect.audience)
    {
        return Err(TokenError::Audience);
    }
    in_time(claims.iat, claims.nbf, claims.exp, now_ms)
}

fn lives_too_long(issued: u64, expires: u64) -> bool {
    expires.saturating_sub(issued) > LONGEST_LIFE
}

/// Is a token of these times valid now?
pub(crate) fn in_time(
    issued: u64,
    not_before: Option<u64>,
    expires: u64,
    now_ms: u64,
) -> Result<(), TokenError> {
    let now = now_ms / 1000;
    if lives_too_long(issued, expires) {
        return Err(TokenError::TooLongLived);
    }
    if now >= expires {
        return Err(TokenError::Expired);
    }
    let soonest = not_before.unwrap_or(0).max(issued);
    if soonest > now + LEEWAY {
        Err(TokenError::NotYetValid)
    } else {
        Ok(())
    }
}
