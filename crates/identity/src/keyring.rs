//! Keys that verify tokens, and the ring in which they are found.
//!
//! A key knows its one algorithm; a token's header may only agree with it. A key id is a name in this map and nothing else: it is never
//! a path, an address or a query.

use std::{collections::HashMap, fmt, sync::Arc};

use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384,
    RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use sha2::{Digest, Sha256};

use crate::{
    KeyError, PublicKey,
    der::{self, Spki},
    roca, text64,
};

/// Keys of one ring: those of a large identity provider in the middle of a rotation, several times over.
pub(crate) const MAX_KEYS: usize = 64;
/// Longer ids are refused rather than looked up.
pub(crate) const MAX_KEY_ID: usize = 256;

/// What a key signs with. There is no symmetric one, so no public text can be taken for a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    EdDsa,
    Es256,
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
}

impl Algorithm {
    pub const ALL: [Self; 8] = [
        Self::EdDsa,
        Self::Es256,
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
    ];

    /// As RFC 7518 and RFC 8037 write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::EdDsa => "EdDSA",
            Self::Es256 => "ES256",
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.name() == name)
    }

    fn rsa(self) -> Option<&'static RsaParameters> {
        match self {
            Self::Rs256 => Some(&RSA_PKCS1_2048_8192_SHA256),
            Self::Rs384 => Some(&RSA_PKCS1_2048_8192_SHA384),
            Self::Rs512 => Some(&RSA_PKCS1_2048_8192_SHA512),
            Self::Ps256 => Some(&RSA_PSS_2048_8192_SHA256),
            Self::Ps384 => Some(&RSA_PSS_2048_8192_SHA384),
            Self::Ps512 => Some(&RSA_PSS_2048_8192_SHA512),
            Self::EdDsa | Self::Es256 => None,
        }
    }
}

/// A public key and the one algorithm it is used with.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifyingKey {
    algorithm: Algorithm,
    material: Material,
    thumbprint: Arc<str>,
}

#[derive(Clone, PartialEq, Eq)]
enum Material {
    Ed25519(PublicKey),
    /// An uncompressed point.
    P256([u8; 65]),
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
}

impl VerifyingKey {
    /// Reads a PEM or DER public key: `SubjectPublicKeyInfo`, or `RSA PUBLIC KEY`. An RSA key is used with RS256.
    pub fn parse(file: &[u8]) -> Result<Self, KeyError> {
        let block = std::str::from_utf8(file).ok().and_then(der::pem);
        let key = match &block {
            Some(("PUBLIC KEY", der)) => der::spki(der),
            Some(("RSA PUBLIC KEY", der)) => {
                der::rsa_public(der).map(|(modulus, exponent)| Spki::Rsa(modulus, exponent))
            }
            Some(_) => None,
            None => der::spki(file),
        };
        match key.ok_or(KeyError::Unreadable)? {
            Spki::Ed25519(key) => Self::ed25519(PublicKey::from_bytes(
                key.try_into().map_err(|_| KeyError::Unreadable)?,
            )?),
            Spki::P256(point) => Self::p256(point.try_into().map_err(|_| KeyError::Unreadable)?),
            Spki::Rsa(modulus, exponent) => Self::rsa(Algorithm::Rs256, modulus, exponent),
        }
    }

    pub(crate) fn ed25519(key: PublicKey) -> Result<Self, KeyError> {
        let text = format!(
            r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#,
            text64::url(key.as_bytes())
        );
        Ok(Self::new(Algorithm::EdDsa, Material::Ed25519(key), &text))
    }

    pub(crate) fn p256(point: [u8; 65]) -> Result<Self, KeyError> {
        let (Some(&4), Some(x), Some(y)) = (point.first(), point.get(1..33), point.get(33..))
        else {
            return Err(KeyError::Unreadable);
        };
        let text = format!(
            r#"{{"crv":"P-256","kty":"EC","x":"{}","y":"{}"}}"#,
            text64::url(x),
            text64::url(y)
        );
        Ok(Self::new(Algorithm::Es256, Material::P256(point), &text))
    }

    pub(crate) fn rsa(
        algorithm: Algorithm,
        modulus: &[u8],
        exponent: &[u8],
    ) -> Result<Self, KeyError> {
        if algorithm.rsa().is_none() {
            return Err(KeyError::Unsupported);
        }
        let bits = match modulus.first() {
            Some(0) | None => return Err(KeyError::Unreadable),
            Some(first) => modulus.len() * 8 - first.leading_zeros() as usize,
        };
        // An exponent of one signs nothing, an even one is no key; more than four bytes only make verifying slow.
        let usable = matches!(
            exponent,
            [3..=255] | [1..=255, _] | [1..=255, _, _] | [1..=255, _, _, _]
        );
        let odd = |number: &[u8]| number.last().is_some_and(|byte| byte & 1 == 1);
        match bits {
            0..2048 => Err(KeyError::TooShort),
            8193.. => Err(KeyError::Unsupported),
            _ if !usable || !odd(exponent) || !odd(modulus) => Err(KeyError::Unsupported),
            _ if roca::is_vulnerable(modulus) => Err(KeyError::Weak),
            _ => {
                let (e, n) = (text64::url(exponent), text64::url(modulus));
                let text = format!(r#"{{"e":"{e}","kty":"RSA","n":"{n}"}}"#);
                let material = Material::Rsa {
                    modulus: modulus.to_vec(),
                    exponent: exponent.to_vec(),
                };
                Ok(Self::new(algorithm, material, &text))
            }
        }
    }

    fn new(algorithm: Algorithm, material: Material, canonical: &str) -> Self {
        Self {
            algorithm,
            material,
            thumbprint: text64::url(&Sha256::digest(canonical.as_bytes())).into(),
        }
    }

    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The RFC 7638 thumbprint, which names the key whatever id others give it.
    #[must_use]
    pub fn thumbprint(&self) -> &str {
        &self.thumbprint
    }

    pub(crate) fn shared_thumbprint(&self) -> Arc<str> {
        Arc::clone(&self.thumbprint)
    }

    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            Material::Ed25519(key) => signature
                .try_into()
                .is_ok_and(|signature| key.verifies_bytes(message, signature)),
            Material::P256(point) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                .verify(message, signature)
                .is_ok(),
            Material::Rsa { modulus, exponent } => self.algorithm.rsa().is_some_and(|parameters| {
                RsaPublicKeyComponents {
                    n: modulus,
                    e: exponent,
                }
                .verify(parameters, message, signature)
                .is_ok()
            }),
        }
    }

    /// The key as a JWK with its thumbprint as id, for those who verify our tokens.
    #[must_use]
    pub fn to_jwk(&self) -> String {
        let parts = match &self.material {
            Material::Ed25519(key) => format!(
                r#""kty":"OKP","crv":"Ed25519","x":"{}""#,
                text64::url(key.as_bytes())
            ),
            Material::P256(point) => {
                let part = |range| text64::url(point.get(range).unwrap_or_default());
                format!(
                    r#""kty":"EC","crv":"P-256","x":"{}","y":"{}""#,
                    part(1..33),
                    part(33..65)
                )
            }
            Material::Rsa { modulus, exponent } => {
                format!(
                    r#""kty":"RSA","n":"{}","e":"{}""#,
                    text64::url(modulus),
                    text64::url(exponent)
                )
            }
        };
        format!(
            r#"{{{parts},"use":"sig","alg":"{}","kid":"{}"}}"#,
            self.algorithm.name(),
            self.thumbprint
        )
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "VerifyingKey({} {})",
            self.algorithm.name(),
            self.thumbprint
        )
    }
}

/// Keys by their ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyRing {
    keys: HashMap<String, VerifyingKey>,
}

impl KeyRing {
    /// Adds a key under an id of its own. The same key twice is one key; another key under a known id is refused, because then
    /// the id would no longer say which.
    pub fn add(&mut self, id: &str, key: VerifyingKey) -> Result<(), KeyError> {
        match self.keys.get(id) {
            Some(known) if *known == key => return Ok(()),
            Some(_) => return Err(KeyError::Twice),
            None => {}
        }
        if self.keys.len() >= MAX_KEYS || id.len() > MAX_KEY_ID {
            return Err(KeyError::Full);
        }
        self.keys.insert(id.to_owned(), key);
        Ok(())
    }

    pub fn remove(&mut self, id: &str) -> bool {
        self.keys.remove(id).is_some()
    }

    #[must_use]
    pub fn get(&self, id: &str) -> Option<&VerifyingKey> {
        self.keys.get(id)
    }

    /// The key, if there is no other it could be confused with.
    #[must_use]
    pub fn only(&self) -> Option<&VerifyingKey> {
        let mut keys = self.keys.values();
        keys.next().filter(|_| keys.next().is_none())
    }

    /// Is this key still in the ring, under whatever id?
    #[must_use]
    pub fn holds(&self, thumbprint: &str) -> bool {
        self.keys.values().any(|key| key.thumbprint() == thumbprint)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &VerifyingKey)> {
        self.keys.iter().map(|(id, key)| (id.as_str(), key))
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}
