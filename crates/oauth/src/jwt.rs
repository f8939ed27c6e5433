//! Signed statements: assertions that authenticate a client (RFC 7523), and proofs of possession (RFC 9449). ES256 only.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair},
};
use secrets::Secret;
use sha2::{Digest, Sha256};
use thiserror::Error;
use wire::write::Object;
use zeroize::Zeroizing;

use crate::Address;

/// An assertion is for one request that is made at once.
const ASSERTION_SECONDS: u64 = 120;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SigningKeyError {
    #[error("not a PKCS#8 private key of the curve P-256")]
    Unreadable,
    #[error("the system gave no randomness")]
    NoRandomness,
}

/// A P-256 key that signs for this client. The library draws what a signature needs by itself.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    document: Secret,
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SigningKey([secret])")
    }
}

impl SigningKey {
    pub fn generate() -> Result<Self, SigningKeyError> {
        let document =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
                .map_err(|_| SigningKeyError::NoRandomness)?;
        Self::from_der(document.as_ref())
    }

    /// Reads a PKCS#8 key: PEM, or the base64 that [`SigningKey::kept`] gives.
    pub fn parse(text: &str) -> Result<Self, SigningKeyError> {
        let lines = text.lines().map(str::trim);
        let body: String = lines.filter(|line| !line.starts_with("-----")).collect();
        let body = Zeroizing::new(body);
        let der = base64::engine::general_purpose::STANDARD
            .decode(body.as_bytes())
            .map(Zeroizing::new)
            .map_err(|_| SigningKeyError::Unreadable)?;
        Self::from_der(&der)
    }

    fn from_der(der: &[u8]) -> Result<Self, SigningKeyError> {
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &SystemRandom::new())
                .map_err(|_| SigningKeyError::Unreadable)?;
        let document = Secret::new(base64::engine::general_purpose::STANDARD.encode(der));
        Ok(Self { pair, document })
    }

    /// The text it is kept as, sealed.
    #[must_use]
    pub fn kept(&self) -> &Secret {
        &self.document
    }

    /// An assertion of a client about itself, for one issuer.
    pub(crate) fn assertion(
        &self,
        client_id: &str,
        issuer: &str,
        jti: &str,
        now: u64,
    ) -> Option<Secret> {
        let mut header = Object::new();
        header.str("alg", "ES256").str("typ", "JWT");
        let mut claims = Object::new();
        claims
            .str("iss", client_id)
            .str("sub", client_id)
            .str("aud", issuer)
            .str("jti", jti)
            .u64("iat", now)
            .u64("exp", now.saturating_add(ASSERTION_SECONDS));
        self.sign(&header.finish(), &claims.finish())
    }

    /// A proof for one request: its method, its address without query, the token it goes with, and the nonce the other side gave.
    pub fn proof(
        &self,
        method: &str,
        to: &Address,
        access_token: Option<&Secret>,
        nonce: Option<&str>,
        jti: &str,
        now: u64,
    ) -> Option<Secret> {
        let mut header = Object::new();
        header
            .str("typ", "dpop+jwt")
            .str("alg", "ES256")
            .raw("jwk", &self.jwk()?);
        let mut claims = Object::new();
        claims
            .str("jti", jti)
            .str("htm", method)
            .str("htu", &to.shown())
            .u64("iat", now);
        if let Some(token) = access_token {
            let digest = Sha256::digest(token.expose().as_bytes());
            claims.str("ath", &URL_SAFE_NO_PAD.encode(digest));
        }
        if let Some(nonce) = nonce {
            claims.str("nonce", nonce);
        }
        self.sign(&header.finish(), &claims.finish())
    }

    fn jwk(&self) -> Option<Vec<u8>> {
        let point = self.pair.public_key().as_ref();
        let (x, y) = point.strip_prefix(&[4])?.split_at_checked(32)?;
        let mut out = Object::new();
        out.str("kty", "EC")
            .str("crv", "P-256")
            .str("x", &URL_SAFE_NO_PAD.encode(x))
            .str("y", &URL_SAFE_NO_PAD.encode(y));
        Some(out.finish())
    }

    fn sign(&self, header: &[u8], claims: &[u8]) -> Option<Secret> {
        let mut text = format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(header),
            URL_SAFE_NO_PAD.encode(claims)
        );
        let signature = self.pair.sign(&SystemRandom::new(), text.as_bytes()).ok()?;
        text.push('.');
        text.push_str(&URL_SAFE_NO_PAD.encode(signature.as_ref()));
        Some(Secret::new(text))
    }
}
