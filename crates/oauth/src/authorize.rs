//! Sending a person to the authorization server, and what they bring back.

use std::borrow::Cow;

use secrets::Secret;
use url::form_urlencoded;

use crate::{Address, Issuer, Problem, Scopes, Step, client::Client, pkce::Pkce};

/// What a redirect carries is never longer.
const MAX_QUERY: usize = 16 << 10;
const MAX_PARAMS: usize = 32;

/// Parameters that OAuth owns; an operator cannot add them.
const OWNED: &[&str] = &[
    "response_type",
    "client_id",
    "redirect_uri",
    "scope",
    "state",
    "code_challenge",
    "code_challenge_method",
    "resource",
    "request",
    "request_uri",
    "response_mode",
    "nonce",
    "dpop_jkt",
    "client_secret",
    "code",
];

/// Whether OAuth itself sets this parameter of the address, so that nobody else can.
#[must_use]
pub fn sets_parameter(name: &str) -> bool {
    OWNED.contains(&name)
}

/// Where a person must go. The address holds the state, so it is for that person alone.
pub struct Authorization {
    pub to: Address,
    pub issuer: String,
    pub scopes: Scopes,
    pub client_id: String,
    /// The client was registered for this login.
    pub is_new_client: bool,
}

impl std::fmt::Debug for Authorization {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authorization")
            .field("to", &self.to.shown())
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}

/// Everything that goes into the address, besides the endpoint.
pub(crate) struct Asked<'a> {
    pub(crate) client: &'a Client,
    pub(crate) redirect: &'a str,
    pub(crate) pkce: &'a Pkce,
    pub(crate) resource: Option<&'a str>,
    pub(crate) scopes: &'a Scopes,
    pub(crate) extra: &'a [(String, String)],
}

impl Asked<'_> {
    pub(crate) fn address(&self, endpoint: &Address) -> Address {
        let (challenge, scopes) = (self.pkce.challenge(), self.scopes.to_string());
        let mut pairs = vec![
            ("response_type", "code"),
            ("client_id", &self.client.id),
            ("redirect_uri", self.redirect),
            ("state", self.pkce.state()),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ];
        if let Some(resource) = self.resource {
            pairs.push(("resource", resource));
        }
        if !self.scopes.is_empty() {
            pairs.push(("scope", &scopes));
        }
        let is_free = |name: &str| !sets_parameter(name);
        pairs.extend(
            self.extra
                .iter()
                .filter(|(name, _)| is_free(name))
                .map(|(name, value)| (name.as_str(), value.as_str())),
        );
        endpoint.with_query(&pairs)
    }
}

/// What came back with the redirect: the query, each parameter at most once.
pub struct Returned {
    state: Option<Secret>,
    code: Option<Secret>,
    iss: Option<String>,
    error: Option<String>,
    description: Option<String>,
}

impl std::fmt::Debug for Returned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Returned([secret])")
    }
}

impl Returned {
    /// Reads the query of the redirect. `None` if it is too long or says something twice.
    #[must_use]
    pub fn parse(query: &str) -> Option<Self> {
        if query.len() > MAX_QUERY {
            return None;
        }
        let pairs: Vec<(Cow<'_, str>, Cow<'_, str>)> = form_urlencoded::parse(query.as_bytes())
            .take(MAX_PARAMS + 1)
            .collect();
        if pairs.len() > MAX_PARAMS {
            return None;
        }
        let one = |name: &str| -> Option<Option<String>> {
            let mut values = pairs.iter().filter(|(known, _)| known == name);
            let first = values.next().map(|(_, value)| value.clone().into_owned());
            values.next().is_none().then_some(first)
        };
        Some(Self {
            state: one("state")?.map(Secret::new),
            code: one("code")?.map(Secret::new),
            iss: one("iss")?,
            error: one("error")?,
            description: one("error_description")?,
        })
    }

    /// Is this the answer to that login? A door asks this before it believes anything.
    pub(crate) fn is_for(&self, pkce: &Pkce) -> bool {
        self.state
            .as_ref()
            .is_some_and(|state| pkce.is_state(state.expose()))
    }

    /// The code, if the answer is of the issuer that was asked. Of an answer of another, not even the error is used.
    pub(crate) fn code(self, issuer: &Issuer) -> Result<Secret, Problem> {
        match &self.iss {
            Some(iss) if *iss != issuer.issuer => return Err(Problem::OtherIssuer),
            None if issuer.names_itself => return Err(Problem::OtherIssuer),
            _ => {}
        }
        let place = issuer.endpoints.authorization.as_ref();
        let place = place.unwrap_or(&issuer.endpoints.token);
        if let Some(error) = self.error {
            return Err(Problem::Refused {
                step: Step::Authorization,
                place: place.shown(),
                error,
                description: self.description,
            });
        }
        self.code
            .filter(|code| !code.expose().is_empty())
            .ok_or_else(|| Problem::unusable(Step::Authorization, place, "it brings no code"))
    }
}

/// What a person pasted: the whole address they ended at, or its query.
pub fn from_pasted(text: &str, redirects: &[String]) -> Result<Returned, Problem> {
    let text = text.trim();
    let query = match text.split_once('?') {
        Some((base, query)) => {
            let is_ours = base.is_empty() || redirects.iter().any(|redirect| redirect == base);
            if !is_ours {
                return Err(Problem::OtherState);
            }
            query.split('#').next().unwrap_or_default()
        }
        None => text,
    };
    let returned = Returned::parse(query).ok_or(Problem::OtherState)?;
    match returned.state {
        Some(_) => Ok(returned),
        None => Err(Problem::CodeAlone),
    }
}
