//! The two documents of discovery: the server's (RFC 9728), and its authorization server's (RFC 8414 or OpenID Connect).
//!
//! **Invariant: only the document that was asked for counts.** A resource that is not the configured one, and a document of another
//! issuer, are as good as none. Tests `metadata_of_another_resource_stops_before_anything_is_sent`,
//! `a_document_of_another_issuer_does_not_exist`.

use wire::Json;

use crate::{Address, Answer, Plain, Problem, Scopes, Step, exchange::text};

/// Authorization servers of one server that are looked at.
const MAX_ISSUERS: usize = 8;
const MAX_ADDRESS: usize = 8 << 10;
/// Entries of a list in a document that are looked at.
const MAX_LISTED: usize = 256;

pub(crate) const RESOURCE_MEMBERS: &[&str] = &[
    "resource",
    "authorization_servers",
    "scopes_supported",
    "dpop_signing_alg_values_supported",
    "dpop_bound_access_tokens_required",
];
pub(crate) const SERVER_MEMBERS: &[&str] = &[
    "issuer",
    "authorization_endpoint",
    "token_endpoint",
    "registration_endpoint",
    "revocation_endpoint",
    "scopes_supported",
    "code_challenge_methods_supported",
    "token_endpoint_auth_methods_supported",
    "client_id_metadata_document_supported",
    "authorization_response_iss_parameter_supported",
    "dpop_signing_alg_values_supported",
];

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedResource {
    /// As it was written, which is how it is sent.
    pub resource: String,
    pub issuers: Vec<String>,
    pub scopes: Option<Scopes>,
    /// It takes tokens that are bound to a key.
    pub takes_proofs: bool,
}

/// Where a server's metadata may be when it did not say so: under its path, then at its root.
pub(crate) fn resource_places(server: &Address) -> Vec<Address> {
    const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
    let path = server.path().trim_end_matches('/');
    let root = server.at_path(WELL_KNOWN);
    match path {
        "" => vec![root],
        path => vec![server.at_path(&format!("{WELL_KNOWN}{path}")), root],
    }
}

impl ProtectedResource {
    /// `Ok(None)`: this is no such document.
    pub(crate) fn read(answer: &Answer, server: &Address) -> Result<Option<Self>, Problem> {
        let Some(json) = answer.object() else {
            return Ok(None);
        };
        let Some(resource) = text(json, "resource", MAX_ADDRESS) else {
            return Ok(None);
        };
        if !is_same_resource(&resource, server) {
            return Err(Problem::OtherResource {
                named: resource,
                configured: server.text().to_owned(),
            });
        }
        Ok(Some(Self {
            resource,
            issuers: strings(json, "authorization_servers", MAX_ISSUERS),
            scopes: scopes(json),
            takes_proofs: takes_proofs(json)
                || json
                    .get("dpop_bound_access_tokens_required")
                    .and_then(Json::as_bool)
                    == Some(true),
        }))
    }

    /// The configured issuer, or the one of the last login, or the first.
    pub(crate) fn issuer(
        &self,
        configured: Option<&str>,
        known: Option<&str>,
    ) -> Result<&str, Problem> {
        let find = |wanted: &str| self.issuers.iter().find(|issuer| *issuer == wanted);
        if let Some(wanted) = configured {
            return find(wanted)
                .map(String::as_str)
                .ok_or_else(|| Problem::IssuerNotListed {
                    wanted: wanted.to_owned(),
                    named: self.issuers.clone(),
                });
        }
        known
            .and_then(find)
            .or_else(|| self.issuers.first())
            .map(String::as_str)
            .ok_or(Problem::NoResourceMetadata)
    }
}

/// The same scheme, host and port, and a path that is the server's own or whole segments of its beginning.
fn is_same_resource(resource: &str, server: &Address) -> bool {
    let plain = if server.is_loopback() {
        Plain::OnLoopback
    } else {
        Plain::Never
    };
    let Ok(resource) = Address::parse(resource, plain) else {
        return false;
    };
    let (prefix, path) = (resource.path().trim_end_matches('/'), server.path());
    let is_prefix = path
        .strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let same_query = resource.query().is_none() || resource.query() == server.query();
    resource.same_origin(server) && is_prefix && same_query
}

/// An authorization server that said who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer {
    /// Byte for byte; nothing of a login is ever used with another.
    pub issuer: String,
    pub endpoints: Endpoints,
    pub scopes: Option<Scopes>,
    pub auth_methods: Option<Vec<String>>,
    pub takes_client_documents: bool,
    /// Its answers name it.
    pub names_itself: bool,
    pub offers_s256: bool,
    pub takes_proofs: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoints {
    pub authorization: Option<Address>,
    pub token: Address,
    pub registration: Option<Address>,
    pub revocation: Option<Address>,
}

/// Where the metadata of an issuer may be. Never at the root of one that has a path: somebody else may live there.
pub(crate) fn issuer_places(issuer: &Address) -> Vec<Address> {
    const OAUTH: &str = "/.well-known/oauth-authorization-server";
    const OPENID: &str = "/.well-known/openid-configuration";
    let places = match issuer.path().trim_end_matches('/') {
        "" => vec![OAUTH.to_owned(), OPENID.to_owned()],
        path => vec![
            format!("{OAUTH}{path}"),
            format!("{OPENID}{path}"),
            format!("{path}{OPENID}"),
        ],
    };
    places.iter().map(|path| issuer.at_path(path)).collect()
}

impl Issuer {
    /// `Ok(None)`: this is no document of that issuer.
    pub(crate) fn read(
        answer: &Answer,
        issuer: &str,
        plain: Plain,
    ) -> Result<Option<Self>, Problem> {
        let Some(json) = answer.object() else {
            return Ok(None);
        };
        if text(json, "issuer", MAX_ADDRESS).as_deref() != Some(issuer) {
            return Ok(None);
        }
        let place = |field: &'static str| {
            text(json, field, MAX_ADDRESS)
                .map(|text| Address::parse(&text, plain).map_err(Problem::address(field)))
                .transpose()
        };
        let Some(token) = place("token_endpoint")? else {
            return Ok(None);
        };
        let is_true = |field| json.get(field).and_then(Json::as_bool) == Some(true);
        let lists = |field, value: &str| {
            strings(json, field, MAX_LISTED)
                .iter()
                .any(|entry| entry == value)
        };
        Ok(Some(Self {
            issuer: issuer.to_owned(),
            endpoints: Endpoints {
                authorization: place("authorization_endpoint")?,
                token,
                registration: place("registration_endpoint")?,
                revocation: place("revocation_endpoint")?,
            },
            scopes: scopes(json),
            auth_methods: json
                .get("token_endpoint_auth_methods_supported")
                .map(|_| strings(json, "token_endpoint_auth_methods_supported", MAX_LISTED)),
            takes_client_documents: is_true("client_id_metadata_document_supported"),
            names_itself: is_true("authorization_response_iss_parameter_supported"),
            offers_s256: lists("code_challenge_methods_supported", "S256"),
            takes_proofs: takes_proofs(json),
        }))
    }

    /// Endpoints that the operator wrote, instead of what discovery would find.
    pub(crate) fn configured(issuer: &str, endpoints: Endpoints) -> Self {
        Self {
            issuer: issuer.to_owned(),
            endpoints,
            scopes: None,
            auth_methods: None,
            takes_client_documents: false,
            names_itself: false,
            offers_s256: true,
            takes_proofs: false,
        }
    }

    /// A server of 2025-03-26 without metadata: three fixed paths of its own origin.
    pub(crate) fn at_origin(server: &Address) -> Self {
        let endpoints = Endpoints {
            authorization: Some(server.at_path("/authorize")),
            token: server.at_path("/token"),
            registration: Some(server.at_path("/register")),
            revocation: None,
        };
        Self::configured(&server.origin(), endpoints)
    }

    /// Whether it is said to take this way of authenticating a client; whoever lists nothing takes them all.
    pub(crate) fn takes(&self, method: &str) -> bool {
        self.auth_methods
            .as_ref()
            .is_none_or(|methods| methods.iter().any(|known| known == method))
    }
}

/// Whether it says that it takes the proofs that we can sign.
fn takes_proofs(json: Json<'_>) -> bool {
    strings(json, "dpop_signing_alg_values_supported", MAX_LISTED)
        .iter()
        .any(|algorithm| algorithm == "ES256")
}

/// What of `scopes_supported` can be asked for. A list that cannot be read is none.
fn scopes(json: Json<'_>) -> Option<Scopes> {
    json.get("scopes_supported")?;
    let listed = strings(json, "scopes_supported", MAX_LISTED);
    Scopes::of(listed.iter().map(String::as_str)).ok()
}

fn strings(json: Json<'_>, name: &str, most: usize) -> Vec<String> {
    let items = json.get(name).into_iter().flat_map(Json::items);
    let texts = items.filter_map(Json::as_str);
    texts
        .take(most)
        .filter(|text| text.len() <= MAX_ADDRESS)
        .map(std::borrow::Cow::into_owned)
        .collect()
}

/// Which step an answer that is no document belongs to: what is not there is looked for elsewhere, anything else stops.
pub(crate) fn is_absent(answer: &Answer) -> bool {
    (400..500).contains(&answer.status) && answer.status != 429
}

pub(crate) fn broken(step: Step, place: &Address, answer: &Answer) -> Problem {
    Problem::Status {
        step,
        place: place.shown(),
        status: answer.status,
    }
}
