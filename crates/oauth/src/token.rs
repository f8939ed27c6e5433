//! Token requests and their answers.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use secrets::Secret;
use wire::Json;

use crate::{
    Address, Answer, Body, Client, Method, Problem, Request, Scopes, SigningKey, Step,
    exchange::{form, text},
};

const MAX_TOKEN: usize = 16 << 10;
/// Longer lives are taken for this long; nobody knows what becomes of a token in ten years.
const MAX_LIFE: u64 = 10 * 366 * 86_400;

pub(crate) const TOKEN_MEMBERS: &[&str] = &[
    "access_token",
    "token_type",
    "expires_in",
    "refresh_token",
    "scope",
    "issued_token_type",
    "error",
    "error_description",
];

pub(crate) const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// How a token is shown to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Bearer,
    /// With a proof that the sender holds a key.
    Dpop,
}

impl Scheme {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bearer => "Bearer",
            Self::Dpop => "DPoP",
        }
    }
}

/// When a request is made, and random bytes for it that are used for nothing else.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// Seconds of the epoch.
    pub now: u64,
    pub random: [u8; 16],
}

impl Moment {
    pub(crate) fn jti(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.random)
    }
}

/// A request to a token endpoint, under way.
pub(crate) struct Asking<'a> {
    pub(crate) step: Step,
    pub(crate) to: &'a Address,
    pub(crate) client: &'a Client,
    pub(crate) pairs: Vec<(&'a str, &'a str)>,
    pub(crate) key: Option<&'a SigningKey>,
    pub(crate) nonce: Option<&'a str>,
}

impl Asking<'_> {
    pub(crate) fn request(self, moment: Moment) -> Result<Request, Problem> {
        let mut headers = Vec::new();
        let assertion = self.client.assertion(&moment.jti(), moment.now)?;
        if let Some(key) = self.key {
            let proof = key.proof("POST", self.to, None, self.nonce, &moment.jti(), moment.now);
            headers.push(("dpop", proof.ok_or(Problem::Unsigned)?));
        }
        let mut pairs: Vec<(&str, &str)> = self.pairs;
        self.client
            .authenticate(&mut pairs, &mut headers, assertion.as_ref());
        let body = form(&pairs);
        Ok(Request {
            step: self.step,
            method: Method::Post,
            to: self.to.clone(),
            headers,
            body: Body::Form(body),
            want: TOKEN_MEMBERS,
        })
    }
}

/// What an authorization server gave.
#[derive(Debug)]
pub(crate) struct Tokens {
    pub(crate) access: Secret,
    pub(crate) refresh: Option<Secret>,
    pub(crate) scheme: Scheme,
    pub(crate) expires_in: Option<u64>,
    pub(crate) scopes: Option<Scopes>,
}

/// The nonce that the other side wants to see in the next proof.
pub(crate) fn wanted_nonce(answer: &Answer) -> Option<String> {
    const LONGEST: usize = 512;
    let wants = answer.error().as_deref() == Some("use_dpop_nonce");
    answer
        .dpop_nonce
        .clone()
        .filter(|nonce| wants && nonce.len() <= LONGEST)
}

/// Reads a token answer. An error in it is one whatever the status is.
pub(crate) fn read(
    answer: &Answer,
    step: Step,
    place: &Address,
    with_proof: bool,
) -> Result<Tokens, Problem> {
    if !answer.is_success() || answer.error().is_some() {
        return Err(answer.refusal(step, place));
    }
    let unusable = |why| Problem::unusable(step, place, why);
    let json = answer.object().ok_or(unusable("it is not a JSON object"))?;
    let access = token(json, "access_token").ok_or(unusable("it holds no access token"))?;
    let kind = text(json, "token_type", 64).unwrap_or_default();
    let scheme = match kind.to_ascii_lowercase().as_str() {
        "bearer" => Scheme::Bearer,
        "dpop" if with_proof => Scheme::Dpop,
        _ => return Err(unusable("its token is of a type that cannot be used")),
    };
    Ok(Tokens {
        access,
        refresh: token(json, "refresh_token"),
        scheme,
        expires_in: life(json),
        scopes: text(json, "scope", 64 << 10).and_then(|scope| Scopes::parse(&scope).ok()),
    })
}

/// The assertion that a company's identity provider issued for another authorization server.
pub(crate) fn read_id_jag(answer: &Answer, place: &Address) -> Result<Secret, Problem> {
    let step = Step::Assertion;
    if !answer.is_success() || answer.error().is_some() {
        return Err(answer.refusal(step, place));
    }
    let unusable = |why| Problem::unusable(step, place, why);
    let json = answer.object().ok_or(unusable("it is not a JSON object"))?;
    let is_assertion = text(json, "issued_token_type", 128).as_deref() == Some(ID_JAG);
    let is_no_token =
        text(json, "token_type", 64).is_some_and(|kind| kind.eq_ignore_ascii_case("n_a"));
    if !is_assertion || !is_no_token {
        return Err(unusable("it is no identity assertion"));
    }
    token(json, "access_token").ok_or(unusable("it holds no assertion"))
}

/// Tokens are opaque, but must fit a header.
fn token(json: Json<'_>, name: &str) -> Option<Secret> {
    text(json, name, MAX_TOKEN)
        .filter(|token| !token.contains(' '))
        .map(Secret::new)
}

/// Some write the number as text.
fn life(json: Json<'_>) -> Option<u64> {
    let member = json.get("expires_in")?;
    let seconds = member
        .as_u64()
        .or_else(|| member.as_str().and_then(|text| text.parse().ok()))?;
    Some(seconds.min(MAX_LIFE))
}
