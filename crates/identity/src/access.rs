//! Access tokens of an OAuth 2.1 authorization server, as a protected resource reads them (RFC 9068 in spirit: providers differ).
//!
//! A token counts only if it names this resource as its audience and comes from the issuer whose keys verified it. A token that is
//! bound to a key (RFC 9449) is good only together with a proof of that key; see [`crate::dpop`].

use std::sync::Arc;

use thiserror::Error;
use wire::Json;

use crate::{
    Jwks, JwsError, TokenCache,
    claims::{audience, seconds, text},
    jws::{self, KeyId},
    token::LEEWAY,
};

/// Scopes in one token; more are not looked at.
const MAX_SCOPES: usize = 128;
/// Values of a list claim, such as groups.
const MAX_VALUES: usize = 256;

/// `JWT` is what most providers write; RFC 9068 has its own word.
const KINDS: [&str; 3] = ["at+jwt", "application/at+jwt", "JWT"];

/// What an access token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    pub issuer: String,
    pub audience: Vec<String>,
    pub subject: String,
    pub client: Option<String>,
    pub scopes: Vec<String>,
    /// The thumbprint of the key the token is bound to.
    pub bound_to: Option<String>,
    pub issued: u64,
    pub not_before: Option<u64>,
    pub expires: u64,
    /// Everything it says, for claims that only an operator knows the name of.
    payload: Vec<u8>,
}

/// What a resource demands of a token before it looks at scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expect<'a> {
    pub issuer: &'a str,
    pub audience: &'a str,
}

/// Why an access token is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum AccessError {
    #[error("the access token has expired")]
    Expired,
    #[error("the access token is not valid yet")]
    NotYetValid,
    #[error("the access token comes from another issuer")]
    Issuer,
    #[error("the access token is for another resource")]
    Audience,
    #[error("the claim `{0}` of the access token is missing or not what it must be")]
    Claim(&'static str),
    #[error(transparent)]
    Signed(#[from] JwsError),
}

/// The issuer a token claims to come from, to choose the keys it is then verified with. Nothing in it is believed yet.
#[must_use]
pub fn claimed_issuer(token: &str) -> Option<String> {
    let compact = jws::Compact::parse(token).ok()?;
    let json = Json::parse(&compact.payload, jws::PAYLOAD).ok()?;
    text(json, "iss").ok().flatten()
}

/// Verifies an access token with a provider's keys.
pub fn verify(
    token: &str,
    keys: &Jwks,
    expect: &Expect<'_>,
    now_ms: u64,
) -> Result<Access, AccessError> {
    let (access, _) = read(token, keys)?;
    accept(&access, expect, now_ms)?;
    Ok(access)
}

/// Like [`verify`], without verifying the signature of a token that was verified before with a key that is still in the set.
pub fn verify_cached(
    cache: &TokenCache<Access>,
    token: &str,
    keys: &Jwks,
    expect: &Expect<'_>,
    now_ms: u64,
) -> Result<Arc<Access>, AccessError> {
    let access = cache.claims(token, keys.ring(), || read(token, keys))?;
    accept(&access, expect, now_ms)?;
    Ok(access)
}

impl Access {
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        self.scopes.iter().any(|given| given == scope)
    }

    /// The text of a claim.
    #[must_use]
    pub fn claim(&self, name: &str) -> Option<String> {
        let value = Json::checked_before(&self.payload).get(name)?;
        value
            .as_str()
            .filter(|text| !text.is_empty())
            .map(|text| text.into_owned())
    }

    /// The texts of a claim that is a list, or one text.
    #[must_use]
    pub fn claim_list(&self, name: &str) -> Vec<String> {
        match Json::checked_before(&self.payload).get(name) {
            Some(value) if value.is_array() => value
                .items()
                .filter_map(|item| item.as_str().map(|text| text.into_owned()))
                .take(MAX_VALUES)
                .collect(),
            _ => self.claim(name).into_iter().collect(),
        }
    }
}

fn read(token: &str, keys: &Jwks) -> Result<(Access, Arc<str>), AccessError> {
    let (payload, key) = jws::verify(token, keys.ring(), &KINDS, KeyId::OptionalForOne)?;
    let json = Json::parse(&payload, jws::PAYLOAD)
        .ok()
        .filter(|json| json.is_object())
        .ok_or(AccessError::Claim("{}"))?;
    let fail = AccessError::Claim;
    let demanded = |name| text(json, name).map_err(fail)?.ok_or(fail(name));
    let expires = seconds(json, "exp").map_err(fail)?.ok_or(fail("exp"))?;
    let not_before = seconds(json, "nbf").map_err(fail)?;
    let client = match text(json, "client_id").map_err(fail)? {
        Some(client) => Some(client),
        None => text(json, "azp").map_err(fail)?,
    };
    let access = Access {
        issuer: demanded("iss")?,
        audience: audience(json).map_err(fail)?,
        subject: demanded("sub")?,
        client,
        scopes: scopes(json)?,
        bound_to: bound_to(json)?,
        issued: seconds(json, "iat")
            .map_err(fail)?
            .or(not_before)
            .unwrap_or(0),
        not_before,
        expires,
        payload: json.as_bytes().to_vec(),
    };
    Ok((access, key.shared_thumbprint()))
}

fn accept(access: &Access, expect: &Expect<'_>, now_ms: u64) -> Result<(), AccessError> {
    if access.issuer != expect.issuer {
        return Err(AccessError::Issuer);
    }
    if !access
        .audience
        .iter()
        .any(|audience| same_resource(audience, expect.audience))
    {
        return Err(AccessError::Audience);
    }
    // The lifetime is the provider's to choose, so it is not bounded here.
    let now = now_ms / 1000;
    if now >= access.expires {
        return Err(AccessError::Expired);
    }
    let soonest = access.not_before.unwrap_or(0).max(access.issued);
    if soonest > now + LEEWAY {
        Err(AccessError::NotYetValid)
    } else {
        Ok(())
    }
}

/// A resource with and without the last slash is the same one; nothing else is.
fn same_resource(a: &str, b: &str) -> bool {
    a.strip_suffix('/').unwrap_or(a) == b.strip_suffix('/').unwrap_or(b)
}

/// `scope` is one text with spaces (RFC 9068); some providers write `scp`, as a text or a list.
fn scopes(json: Json<'_>) -> Result<Vec<String>, AccessError> {
    let mut all = Vec::new();
    for name in ["scope", "scp"] {
        let Some(value) = json.get(name) else {
            continue;
        };
        let texts: Vec<_> = if value.is_array() {
            value.items().collect()
        } else {
            vec![value]
        };
        for text in texts {
            let text = text.as_str().ok_or(AccessError::Claim(name))?;
            all.extend(text.split_ascii_whitespace().map(str::to_owned));
        }
    }
    all.truncate(MAX_SCOPES);
    Ok(all)
}

/// `cnf.jkt`. A token that is bound in a way that is not known here is refused: accepting it would drop the binding.
fn bound_to(json: Json<'_>) -> Result<Option<String>, AccessError> {
    let Some(confirmation) = json.get("cnf") else {
        return Ok(None);
    };
    let thumbprint = confirmation
        .get("jkt")
        .and_then(Json::as_str)
        .filter(|text| text.len() == 43);
    thumbprint
        .map(|text| Some(text.into_owned()))
        .ok_or(AccessError::Claim("cnf"))
}
