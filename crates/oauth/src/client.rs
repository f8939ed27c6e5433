//! Who we are to an authorization server: a registered client, a document at an address, or a client it registers now.

use base64::{Engine, engine::general_purpose::STANDARD};
use secrets::Secret;
use wire::{Json, write::Object};

use crate::{
    Address, Answer, Body, Issuer, Method, Problem, Request, SigningKey, Step, exchange::text,
    metadata::Endpoints,
};

const MAX_ID: usize = 2 << 10;
const MAX_SECRET: usize = 4 << 10;
/// A secret that ends within this time is not begun with.
const NEAR_SECONDS: u64 = 3600;

pub(crate) const REGISTRATION_MEMBERS: &[&str] = &[
    "client_id",
    "client_secret",
    "client_secret_expires_at",
    "token_endpoint_auth_method",
    "redirect_uris",
    "error",
    "error_description",
];

/// How a client shows that it is itself.
#[derive(Debug)]
pub enum Proof {
    None,
    Basic(Secret),
    Post(Secret),
    /// A signed assertion.
    Key(Box<SigningKey>),
}

impl Proof {
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic(_) => "client_secret_basic",
            Self::Post(_) => "client_secret_post",
            Self::Key(_) => "private_key_jwt",
        }
    }
}

/// A client of one issuer. It is never shown to another.
#[derive(Debug)]
pub struct Client {
    pub id: String,
    pub proof: Proof,
    pub issuer: String,
    /// It was registered by us and can be registered again.
    pub is_dynamic: bool,
    /// When its secret ends, in seconds of the epoch.
    pub expires_at: Option<u64>,
    /// The redirects it was registered with; none where others registered it.
    pub redirects: Vec<String>,
}

/// A client that the operator registered.
#[derive(Debug)]
pub struct Configured {
    pub id: String,
    pub secret: Option<Secret>,
    pub key: Option<SigningKey>,
    /// How it authenticates, where the operator says so.
    pub method: Option<String>,
    /// The issuer it was first used with.
    pub bound_to: Option<String>,
}

impl Configured {
    pub(crate) fn client(self, issuer: &Issuer) -> Result<Client, Problem> {
        if let Some(bound) = self.bound_to.filter(|bound| *bound != issuer.issuer) {
            return Err(Problem::ClientOfOtherIssuer {
                bound,
                named: issuer.issuer.clone(),
            });
        }
        let wants_post = self.method.as_deref() == Some("client_secret_post")
            || (self.method.is_none()
                && !issuer.takes("client_secret_basic")
                && issuer.takes("client_secret_post"));
        let proof = match (self.key, self.secret) {
            (Some(key), _) => Proof::Key(Box::new(key)),
            (None, Some(secret)) if wants_post => Proof::Post(secret),
            (None, Some(secret)) => Proof::Basic(secret),
            (None, None) => Proof::None,
        };
        Ok(Client {
            id: self.id,
            proof,
            issuer: issuer.issuer.clone(),
            is_dynamic: false,
            expires_at: None,
            redirects: Vec::new(),
        })
    }
}

impl From<Client> for Configured {
    /// The same client again, for the issuer it was used with.
    fn from(client: Client) -> Self {
        let method = client.proof.name().to_owned();
        let (secret, key) = match client.proof {
            Proof::None => (None, None),
            Proof::Basic(secret) | Proof::Post(secret) => (Some(secret), None),
            Proof::Key(key) => (None, Some(*key)),
        };
        Self {
            id: client.id,
            secret,
            key,
            method: Some(method),
            bound_to: Some(client.issuer),
        }
    }
}

impl Client {
    /// The client whose id is the address of a document about it.
    pub(crate) fn of_document(address: &str, issuer: &Issuer) -> Self {
        Self {
            id: address.to_owned(),
            proof: Proof::None,
            issuer: issuer.issuer.clone(),
            is_dynamic: false,
            expires_at: None,
            redirects: Vec::new(),
        }
    }

    /// Can it be used again with this issuer, with these redirects, for the time a login takes?
    pub(crate) fn serves(&self, issuer: &Issuer, redirects: &[String], now: u64) -> bool {
        self.is_dynamic
            && self.issuer == issuer.issuer
            && self.redirects == redirects
            && self
                .expires_at
                .is_none_or(|at| at > now.saturating_add(NEAR_SECONDS))
    }

    /// Puts who we are into a token request.
    pub(crate) fn authenticate<'a>(
        &'a self,
        pairs: &mut Vec<(&'a str, &'a str)>,
        headers: &mut Vec<(&'static str, Secret)>,
        assertion: Option<&'a Secret>,
    ) {
        if let Proof::Basic(secret) = &self.proof {
            headers.push(("authorization", basic(&self.id, secret)));
            return;
        }
        // An assertion of the place we run in may say by itself whose it is.
        if !self.id.is_empty() {
            pairs.push(("client_id", &self.id));
        }
        if let Proof::Post(secret) = &self.proof {
            pairs.push(("client_secret", secret.expose()));
        }
        if let Some(assertion) = assertion {
            pairs.push((
                "client_assertion_type",
                "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
            ));
            pairs.push(("client_assertion", assertion.expose()));
        }
    }

    pub(crate) fn assertion(&self, jti: &str, now: u64) -> Result<Option<Secret>, Problem> {
        match &self.proof {
            Proof::Key(key) => key
                .assertion(&self.id, &self.issuer, jti, now)
                .map(Some)
                .ok_or(Problem::Unsigned),
            _ => Ok(None),
        }
    }
}

/// RFC 6749 §2.3.1: both halves are encoded like a form before they are joined.
pub(crate) fn basic(id: &str, secret: &Secret) -> Secret {
    let encode =
        |text: &str| -> String { url::form_urlencoded::byte_serialize(text.as_bytes()).collect() };
    let pair = zeroize::Zeroizing::new(format!("{}:{}", encode(id), encode(secret.expose())));
    Secret::new(format!("Basic {}", STANDARD.encode(pair.as_bytes())))
}

/// The request that registers a client (RFC 7591).
pub(crate) fn registration(
    issuer: &Issuer,
    to: &Address,
    name: &str,
    redirects: &[String],
    is_web: bool,
) -> Request {
    let methods = ["none", "client_secret_basic", "client_secret_post"];
    let method = methods
        .into_iter()
        .find(|method| issuer.takes(method))
        .unwrap_or("none");
    let list = |entries: &[&str]| {
        let quoted: Vec<Vec<u8>> = entries
            .iter()
            .map(|entry| wire::write::quoted(entry))
            .collect();
        [b"[", quoted.join(&b","[..]).as_slice(), b"]"].concat()
    };
    let redirects: Vec<&str> = redirects.iter().map(String::as_str).collect();
    let mut out = Object::new();
    out.str("client_name", name)
        .raw("redirect_uris", &list(&redirects))
        .raw(
            "grant_types",
            &list(&["authorization_code", "refresh_token"]),
        )
        .raw("response_types", &list(&["code"]))
        .str("application_type", if is_web { "web" } else { "native" })
        .str("token_endpoint_auth_method", method);
    Request {
        step: Step::Registration,
        method: Method::Post,
        to: to.clone(),
        headers: Vec::new(),
        body: Body::Json(Secret::new(
            String::from_utf8(out.finish()).unwrap_or_default(),
        )),
        want: REGISTRATION_MEMBERS,
    }
}

/// What the authorization server says counts, whatever was asked for.
pub(crate) fn registered(
    answer: &Answer,
    issuer: &Issuer,
    endpoints: &Endpoints,
    redirects: &[String],
) -> Result<Client, Problem> {
    let place = endpoints.registration.as_ref().unwrap_or(&endpoints.token);
    if !answer.is_success() || answer.error().is_some() {
        return Err(answer.refusal(Step::Registration, place));
    }
    let unusable = |why| Problem::unusable(Step::Registration, place, why);
    let json = answer.object().ok_or(unusable("it is not a JSON object"))?;
    let id = text(json, "client_id", MAX_ID).ok_or(unusable("it names no client"))?;
    let mut given = json.get("redirect_uris").into_iter().flat_map(Json::items);
    let is_ours = |uri: Json<'_>| {
        uri.as_str()
            .is_some_and(|uri| redirects.iter().any(|ours| *ours == uri))
    };
    if !given.all(is_ours) {
        return Err(unusable("it names redirect addresses that are not ours"));
    }
    let secret = text(json, "client_secret", MAX_SECRET).map(Secret::new);
    let method = text(json, "token_endpoint_auth_method", 64);
    let proof = match (secret, method.as_deref()) {
        (None, None | Some("none")) => Proof::None,
        (Some(secret), Some("client_secret_post")) => Proof::Post(secret),
        (Some(secret), Some("client_secret_basic")) => Proof::Basic(secret),
        // Some give a secret although none was asked for, and then insist on it.
        (Some(secret), None | Some("none")) => {
            match !issuer.takes("client_secret_basic") && issuer.takes("client_secret_post") {
                true => Proof::Post(secret),
                false => Proof::Basic(secret),
            }
        }
        (None, Some(_)) => {
            return Err(unusable(
                "it names a way to authenticate but gives no secret",
            ));
        }
        (Some(_), Some(_)) => {
            return Err(unusable(
                "it wants a way to authenticate that we do not have",
            ));
        }
    };
    let expires_at = json
        .get("client_secret_expires_at")
        .and_then(Json::as_u64)
        .filter(|at| *at != 0);
    Ok(Client {
        id,
        proof,
        issuer: issuer.issuer.clone(),
        is_dynamic: true,
        expires_at,
        redirects: redirects.to_vec(),
    })
}
