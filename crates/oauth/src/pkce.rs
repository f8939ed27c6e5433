//! What is drawn for one login: the verifier of RFC 7636 and the state.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use secrets::Secret;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Random bytes for one login, drawn by the caller. They are used for nothing else.
#[derive(Clone)]
pub struct Drawn {
    pub verifier: [u8; 32],
    pub state: [u8; 32],
}

impl std::fmt::Debug for Drawn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Drawn([secret])")
    }
}

impl Drop for Drawn {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.verifier);
        zeroize::Zeroize::zeroize(&mut self.state);
    }
}

#[derive(Debug)]
pub(crate) struct Pkce {
    pub(crate) verifier: Secret,
    state: Secret,
}

impl Pkce {
    pub(crate) fn new(drawn: &Drawn) -> Self {
        Self {
            verifier: Secret::new(URL_SAFE_NO_PAD.encode(drawn.verifier)),
            state: Secret::new(URL_SAFE_NO_PAD.encode(drawn.state)),
        }
    }

    pub(crate) fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier.expose().as_bytes()))
    }

    pub(crate) fn state(&self) -> &str {
        self.state.expose()
    }

    pub(crate) fn is_state(&self, given: &str) -> bool {
        bool::from(given.as_bytes().ct_eq(self.state.expose().as_bytes()))
    }
}
