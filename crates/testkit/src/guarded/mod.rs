//! A server behind OAuth, and the authorization server it names: rotating refresh tokens, and a family that is revoked when one is
//! used twice.
//!
//! It can let tokens end, forget a login, go down or name another issuer, and counts what was asked of it.

mod bound;
mod http;
mod mcp;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::json;

use http::{Asked, Given, Serving};

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// What both halves know.
#[derive(Debug, Default)]
pub struct Books {
    /// How long an access token lives, in seconds.
    pub life: u64,
    /// The token endpoint answers 503, and says when to come back, in seconds.
    pub is_down: bool,
    pub retry_after: Option<u64>,
    /// What tokens are said to live, where that is not true.
    pub said_life: Option<u64>,
    /// How long the token endpoint thinks before it answers.
    pub thinks: Duration,
    /// Clients are known no more: whoever comes with one is refused.
    pub forgot_clients: bool,
    /// A refresh token that is refused is repeated in the sentence that says so.
    pub repeats: bool,
    /// Requests to the token endpoint, whatever became of them.
    pub asked: usize,
    /// Answers of the authorization endpoint name their issuer; and, if set, this one instead of the right one.
    pub names_itself: bool,
    pub poses_as: Option<String>,
    /// Whoever has no token may greet the server.
    pub greets: bool,
    /// The server speaks the transport of 2024-11-05: answers come on a standing stream.
    pub is_legacy: bool,
    stream: Option<Sender<String>>,
    /// The rights that the last person gave.
    pub scopes: String,
    /// Where people are sent, if not to the authorization server itself.
    pub page: Option<String>,
    /// Tokens are bound to the key of a proof; and what nonce proofs must hold, at both halves.
    pub binds: bool,
    pub nonce: Option<String>,
    /// The keys by the tokens that are bound to them, the proofs that were seen, and what was wrong with others.
    pub keys: BTreeMap<String, String>,
    pub proofs: BTreeSet<String>,
    pub unproved: Vec<&'static str>,
    /// The path of the issuer.
    pub tenant: String,
    /// A client that was registered by hand: its id and secret. Then nobody can register.
    pub client: Option<(String, String)>,
    /// What the platform says of its programs, if that lets them in.
    pub workload: Option<String>,
    /// Token requests by grant, and how many used a refresh token that was spent.
    pub granted: BTreeMap<String, usize>,
    pub reused: usize,
    pub revoked: usize,
    /// The credential of each call of a tool, in order.
    pub shown: Vec<String>,
    /// Calls of tools that were carried out, and requests that came without a good token.
    pub calls: usize,
    pub refused: usize,
    codes: BTreeMap<String, BTreeMap<String, String>>,
    access: BTreeMap<String, Instant>,
    /// Every refresh token there ever was, and its family; those that can still be used.
    families: BTreeMap<String, usize>,
    usable: BTreeSet<String>,
    dead: BTreeSet<usize>,
    drawn: usize,
    pub registered: usize,
}

/// A running pair; it stops when this is dropped.
#[derive(Debug)]
pub struct Guarded {
    books: Arc<Mutex<Books>>,
    server: Serving,
    authorization: Serving,
}

impl Guarded {
    /// Starts both on loopback ports.
    ///
    /// # Errors
    /// When there is no port.
    pub fn start(life: u64) -> Result<Self> {
        let books = Arc::new(Mutex::new(Books {
            life,
            names_itself: true,
            ..Books::default()
        }));
        let known = Arc::clone(&books);
        let authorization = Serving::start(move |asked, origin| answer(&known, asked, origin))?;
        let (known, issuer) = (Arc::clone(&books), authorization.origin().to_owned());
        let server = Serving::start(move |asked, origin| {
            let issuer = format!("{issuer}{}", lock(&known).tenant);
            mcp::answer(&known, asked, origin, &issuer)
        })?;
        Ok(Self {
            books,
            server,
            authorization,
        })
    }

    /// The address of the MCP server.
    pub fn url(&self) -> String {
        format!("{}/mcp", self.server.origin())
    }

    pub fn issuer(&self) -> String {
        format!(
            "{}{}",
            self.authorization.origin(),
            self.with(|books| books.tenant.clone())
        )
    }

    /// Looks at, or changes, what it knows.
    pub fn with<T>(&self, look: impl FnOnce(&mut Books) -> T) -> T {
        look(&mut lock(&self.books))
    }

    /// Every access token ends now.
    pub fn end_tokens(&self) {
        self.with(|books| books.access.clear());
    }

    /// Every refresh token is forgotten, as if the user had taken the rights back.
    pub fn forget_logins(&self) {
        self.with(|books| books.usable.clear());
    }

    /// The access and refresh tokens that were ever given.
    pub fn secrets(&self) -> Vec<String> {
        self.with(|books| {
            let tokens = books.families.keys().chain(books.access.keys());
            tokens.cloned().collect()
        })
    }

    pub fn granted(&self, grant: &str) -> usize {
        self.with(|books| books.granted.get(grant).copied().unwrap_or(0))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer(books: &Mutex<Books>, asked: &Asked, origin: &str) -> Given {
    if asked.path == "/token" {
        let thinks = {
            let mut books = lock(books);
            books.asked += 1;
            books.thinks
        };
        std::thread::sleep(thinks);
    }
    let mut books = lock(books);
    let issuer = format!("{origin}{}", books.tenant);
    let well_known = format!("/.well-known/oauth-authorization-server{}", books.tenant);
    match (asked.method.as_str(), asked.path.as_str()) {
        ("GET", path) if path == well_known => {
            let registration = books.client.is_none().then(|| format!("{origin}/register"));
            let page = books.page.clone();
            let page = page.unwrap_or_else(|| format!("{origin}/authorize"));
            let document = json!({
                "registration_endpoint": registration,
                "issuer": issuer, "authorization_endpoint": page, "token_endpoint": format!("{origin}/token"),
                "revocation_endpoint": format!("{origin}/revoke"), "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": books.names_itself, "scopes_supported": ["use", "offline_access"],
                "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
                "dpop_signing_alg_values_supported": books.binds.then_some(["ES256"]),
            });
            Given::json(200, &document)
        }
        ("POST", "/register") if books.client.is_none() => {
            books.registered += 1;
            let id = format!("client-{}", books.registered);
            Given::json(
                201,
                &json!({ "client_id": id, "token_endpoint_auth_method": "none" }),
            )
        }
        ("GET", "/authorize") => books.authorize(&asked.query, &issuer),
        ("POST", "/token") if books.is_down => {
            let down = Given::json(503, &json!({}));
            match books.retry_after {
                Some(seconds) => down.with("retry-after", &seconds.to_string()),
                None => down,
            }
        }
        ("POST", "/token") if books.forgot_clients => {
            Given::json(401, &json!({ "error": "invalid_client" }))
        }
        ("POST", "/token") if books.binds => books.bound_token(asked),
        ("POST", "/token") => books.token(asked),
        ("POST", "/revoke") => {
            books.revoked += 1;
            Given::json(200, &json!({}))
        }
        _ => Given::json(404, &json!({})),
    }
}

impl Books {
    /// Nobody is asked: whoever comes is let in.
    fn authorize(&mut self, asked: &BTreeMap<String, String>, issuer: &str) -> Given {
        let get = |name: &str| asked.get(name).cloned().unwrap_or_default();
        if get("code_challenge_method") != "S256" || get("response_type") != "code" {
            return Given::json(400, &json!({ "error": "invalid_request" }));
        }
        self.drawn += 1;
        let code = format!("code-{}", self.drawn);
        self.codes.insert(code.clone(), asked.clone());
        let mut back = format!("{}?code={code}&state={}", get("redirect_uri"), get("state"));
        if self.names_itself {
            let named = self.poses_as.as_deref().unwrap_or(issuer);
            back.push_str(&format!("&iss={named}"));
        }
        Given::redirect(&back)
    }

    fn token(&mut self, asked: &Asked) -> Given {
        let form = asked.form();
        let get = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
        let grant = get("grant_type").to_owned();
        *self.granted.entry(grant.clone()).or_default() += 1;
        let refused = |error: &str| Given::json(400, &json!({ "error": error }));
        if let Some((id, secret)) = &self.client {
            let basic = format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")));
            if asked.header("authorization") != Some(&basic) {
                return Given::json(401, &json!({ "error": "invalid_client" }));
            }
        }
        match grant.as_str() {
            "authorization_code" => {
                let Some(visit) = self.codes.remove(get("code")) else {
                    return refused("invalid_grant");
                };
                let digest =
                    ring::digest::digest(&ring::digest::SHA256, get("code_verifier").as_bytes());
                let same = |name: &str| {
                    visit.get(name).map(String::as_str).unwrap_or_default() == get(name)
                };
                let proves =
                    visit.get("code_challenge") == Some(&URL_SAFE_NO_PAD.encode(digest.as_ref()));
                if !proves
                    || !same("redirect_uri")
                    || !same("resource")
                    || get("resource").is_empty()
                {
                    return refused("invalid_grant");
                }
                self.scopes = visit.get("scope").cloned().unwrap_or_default();
                let family = self.families.len() + 1;
                self.give(Some(family))
            }
            "refresh_token" => {
                let Some(family) = self.families.get(get("refresh_token")).copied() else {
                    return refused("invalid_grant");
                };
                if !self.usable.remove(get("refresh_token")) {
                    // Used twice: whoever holds the others may be a thief.
                    self.reused += 1;
                    self.dead.insert(family);
                }
                if self.dead.contains(&family) && self.repeats {
                    let why = format!("{} is not known here", get("refresh_token"));
                    let error = json!({ "error": "invalid_grant", "error_description": why });
                    return Given::json(400, &error);
                }
                if self.dead.contains(&family) {
                    return refused("invalid_grant");
                }
                self.give(Some(family))
            }
            "client_credentials" => self.give(None),
            JWT_BEARER if self.workload.as_deref() == Some(get("assertion")) => self.give(None),
            JWT_BEARER => refused("invalid_grant"),
            _ => refused("unsupported_grant_type"),
        }
    }

    /// A token for whoever holds the key of the proof.
    fn bound_token(&mut self, asked: &Asked) -> Given {
        let Some(proof) = bound::Proof::read(asked) else {
            return Given::json(400, &json!({ "error": "invalid_dpop_proof" }));
        };
        if let Some(nonce) = &self.nonce
            && proof.nonce() != Some(nonce)
        {
            let wanted = Given::json(400, &json!({ "error": "use_dpop_nonce" }));
            return wanted.with("dpop-nonce", nonce);
        }
        let known: BTreeSet<String> = self.access.keys().cloned().collect();
        let given = self.token(asked);
        let new = self.access.keys().find(|access| !known.contains(*access));
        if let Some(access) = new.cloned() {
            self.keys.insert(access, proof.key);
        }
        given
    }

    fn give(&mut self, family: Option<usize>) -> Given {
        self.drawn += 1;
        let access = format!("access-token-number-{}-x7Kq", self.drawn);
        self.access.insert(
            access.clone(),
            Instant::now() + Duration::from_secs(self.life),
        );
        let refresh = family.map(|family| {
            let refresh = format!("refresh-token-number-{}-p2Wd", self.drawn);
            self.families.insert(refresh.clone(), family);
            self.usable.insert(refresh.clone());
            refresh
        });
        let given = json!({
            "access_token": access, "token_type": if self.binds { "DPoP" } else { "Bearer" }, "expires_in": self.said_life.unwrap_or(self.life), "scope": self.scopes, "refresh_token": refresh,
        });
        Given::json(200, &given)
    }

    fn takes(&self, bearer: Option<&str>) -> bool {
        let scheme = if self.binds { "DPoP " } else { "Bearer " };
        let token = bearer.and_then(|bearer| bearer.strip_prefix(scheme));
        let end = token.and_then(|token| self.access.get(token));
        end.is_some_and(|end| Instant::now() < *end)
    }
}
