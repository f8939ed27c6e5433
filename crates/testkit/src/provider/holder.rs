//! A client that holds a key its access tokens are bound to.

use anyhow::{Context, Result, anyhow};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

use super::encode;

/// A P-256 key, as browsers and most libraries use for proofs.
#[derive(Debug)]
pub struct Holder {
    pair: EcdsaKeyPair,
    thumbprint: String,
}

impl Holder {
    /// A new key.
    ///
    /// # Errors
    /// When the system gives no randomness.
    pub fn new() -> Result<Self> {
        let random = SystemRandom::new();
        let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)
            .map_err(|error| anyhow!("{error}"))?;
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.as_ref(), &random)
                .map_err(|error| anyhow!("{error}"))?;
        let set = json!({ "keys": [jwk(&pair)?] }).to_string();
        let set = identity::Jwks::parse(set.as_bytes())?;
        let thumbprint = set
            .ring()
            .only()
            .context("one key")?
            .thumbprint()
            .to_owned();
        Ok(Self { pair, thumbprint })
    }

    /// What stands in `cnf.jkt` of a token that is bound to it.
    pub fn thumbprint(&self) -> &str {
        &self.thumbprint
    }

    /// A proof for one request; what `more` has replaces its claims.
    ///
    /// # Errors
    /// When it cannot sign.
    pub fn proof(
        &self,
        method: &str,
        url: &str,
        token: &str,
        id: &str,
        more: &Value,
    ) -> Result<String> {
        let hash = ring::digest::digest(&ring::digest::SHA256, token.as_bytes());
        let mut claims = json!({ "jti": id, "htm": method, "htu": url, "iat": super::now(), "ath": encode(hash.as_ref()) });
        for (name, value) in more.as_object().into_iter().flatten() {
            if let Some(claims) = claims.as_object_mut() {
                claims.insert(name.clone(), value.clone());
            }
        }
        let header = json!({ "typ": "dpop+jwt", "alg": "ES256", "jwk": jwk(&self.pair)? });
        let input = format!(
            "{}.{}",
            encode(header.to_string().as_bytes()),
            encode(claims.to_string().as_bytes())
        );
        let signature = self
            .pair
            .sign(&SystemRandom::new(), input.as_bytes())
            .map_err(|error| anyhow!("{error}"))?;
        Ok(format!("{input}.{}", encode(signature.as_ref())))
    }
}

fn jwk(pair: &EcdsaKeyPair) -> Result<Value> {
    let point = pair.public_key().as_ref();
    let (x, y) = point
        .get(1..)
        .context("a point")?
        .split_at_checked(32)
        .context("a point")?;
    Ok(json!({ "kty": "EC", "crv": "P-256", "x": encode(x), "y": encode(y) }))
}
