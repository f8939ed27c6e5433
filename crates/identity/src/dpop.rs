//! Proofs of possession (RFC 9449): with each request the client shows that it holds the key its access token is bound to.
//!
//! The proof carries its own public key, and that is all the key is good for: it must be the one whose thumbprint stands in the access
//! token. A proof is for one method, one address, one token, a short time, and one use.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use thiserror::Error;
use wire::Json;

use crate::{
    Freshness, JwsError, KeyError, Replay, Spent, Stale,
    claims::{seconds, text},
    jwk,
    jws::{Compact, PAYLOAD},
    replay, text64,
};

/// What a proof must be about.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub method: &'a str,
    /// The address as the client knows it: scheme, host and path. Query and fragment are not compared.
    pub url: &'a str,
    pub access_token: &'a str,
    /// The thumbprint in the access token, `cnf.jkt`.
    pub bound_to: &'a str,
}

/// Why a proof is not accepted.
#[derive(Debug, Error)]
pub enum ProofError {
    #[error("the proof's header must have the type `dpop+jwt` and a public key that is used here")]
    Header,
    #[error("the proof's key cannot be used: {0}")]
    Key(#[from] KeyError),
    #[error(transparent)]
    Signed(#[from] JwsError),
    #[error("the proof's key is not the one the access token is bound to")]
    OtherKey,
    #[error("the claim `{0}` of the proof is missing or not what it must be")]
    Claim(&'static str),
    #[error("the proof is for another request")]
    OtherRequest,
    #[error("the proof is for another access token")]
    OtherToken,
    #[error(transparent)]
    Stale(#[from] Stale),
    #[error("{}", spent(.0))]
    Spent(#[from] Spent),
}

/// The same window keeps envelopes and proofs; here it is a proof that it speaks of.
fn spent(spent: &Spent) -> String {
    match spent {
        Spent::Replayed => "the proof was accepted before; make a new one with another `jti`".to_owned(),
        Spent::BeforeHorizon => {
            "the proof is older than what the gate remembers of its key; check the clock and make a new one".to_owned()
        }
        Spent::Full => "the gate cannot remember more proofs at the moment; try again in a minute".to_owned(),
        Spent::Journal(error) => format!("the gate cannot write down that it accepted this proof: {error}"),
    }
}

/// Verifies a proof and spends it.
pub fn verify(
    proof: &str,
    request: &Request<'_>,
    freshness: Freshness,
    replay: &Replay,
    now_ms: u64,
) -> Result<(), ProofError> {
    let compact = Compact::parse(proof)?;
    let header = compact.header()?;
    let typed = header
        .kind
        .as_deref()
        .is_some_and(|kind| kind.eq_ignore_ascii_case("dpop+jwt"));
    let embedded = header
        .embedded
        .filter(|_| typed)
        .ok_or(ProofError::Header)?;
    let key = jwk::read(embedded)?;
    compact.check(&header, &key)?;
    if !bool::from(
        key.thumbprint()
            .as_bytes()
            .ct_eq(request.bound_to.as_bytes()),
    ) {
        return Err(ProofError::OtherKey);
    }
    let json = Json::parse(&compact.payload, PAYLOAD)
        .ok()
        .filter(|json| json.is_object())
        .ok_or(ProofError::Claim("{}"))?;
    let demanded = |name| {
        text(json, name)
            .map_err(ProofError::Claim)?
            .ok_or(ProofError::Claim(name))
    };
    if demanded("htm")? != request.method || !same_address(&demanded("htu")?, request.url) {
        return Err(ProofError::OtherRequest);
    }
    let wanted = text64::url(&Sha256::digest(request.access_token.as_bytes()));
    if !bool::from(demanded("ath")?.as_bytes().ct_eq(wanted.as_bytes())) {
        return Err(ProofError::OtherToken);
    }
    let issued = seconds(json, "iat")
        .map_err(ProofError::Claim)?
        .ok_or(ProofError::Claim("iat"))?;
    freshness.check(issued, now_ms)?;
    let digest = replay::digest(&[
        b"dpop",
        key.thumbprint().as_bytes(),
        demanded("jti")?.as_bytes(),
    ]);
    replay.spend_digest(
        &format!("dpop:{}", key.thumbprint()),
        &digest,
        issued,
        now_ms,
    )?;
    Ok(())
}

/// Are these the same scheme, host, port and path? Names of schemes and hosts have no case, and a default port need not be written.
fn same_address(a: &str, b: &str) -> bool {
    match (Address::parse(a), Address::parse(b)) {
        (Some(a), Some(b)) => a == b,
        _ => false,
    }
}

#[derive(PartialEq, Eq)]
struct Address<'a> {
    scheme: String,
    authority: String,
    path: &'a str,
}

impl<'a> Address<'a> {
    fn parse(url: &'a str) -> Option<Self> {
        let url = url.split(['?', '#']).next()?;
        let (scheme, rest) = url.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at_checked(slash)?,
            None => (rest, "/"),
        };
        let default_port = match scheme.as_str() {
            "https" => ":443",
            "http" => ":80",
            _ => return None,
        };
        let authority = authority.to_ascii_lowercase();
        let authority = authority
            .strip_suffix(default_port)
            .unwrap_or(&authority)
            .to_owned();
        (!authority.is_empty() && !authority.contains('@')).then_some(Self {
            scheme,
            authority,
            path,
        })
    }
}
