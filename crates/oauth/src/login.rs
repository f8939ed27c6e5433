//! A login: what an authorization server gave, and everything that renewing it needs.
//!
//! **Invariant: renewing guesses nothing.** Issuer, endpoints, client and resource are kept with the tokens, and a login is for the one
//! address it was made for. Tests `a_login_comes_back_as_it_was_sealed`, `a_login_is_for_one_address`.

use secrets::Secret;
use wire::{Json, Limits, write::Object};

use crate::{
    Address, Client, Method, Near, Plain, Problem, Proof, Request, Scheme, Scopes, SigningKey,
    Step,
    exchange::{Body, form},
    token::{Moment, Tokens},
};

/// The vault takes no longer values.
const MAX_SEALED: usize = 64 << 10;
const VERSION: u64 = 1;

/// A login to one server.
#[derive(Debug)]
pub struct Login {
    /// The server it is for, as the configuration has it. Its token goes nowhere else.
    pub server: String,
    pub issuer: String,
    pub token_endpoint: Address,
    pub revocation_endpoint: Option<Address>,
    pub client: Client,
    pub resource: Option<String>,
    pub scopes: Scopes,
    pub access: Secret,
    pub scheme: Scheme,
    pub refresh: Option<Secret>,
    /// Seconds of the epoch.
    pub obtained_at: u64,
    pub expires_at: Option<u64>,
    /// No person made it: it is asked for again with the client's own credential.
    pub is_machine: bool,
    /// The file with the assertion that it is asked for again with, where that is not the client's own credential.
    pub assertion_file: Option<String>,
    /// The key that proofs are signed with.
    pub key: Option<SigningKey>,
    /// The place that the operator typed when the login was made: it may be inside, as only the operator's word can allow.
    pub written: Option<Address>,
}

impl Login {
    /// Is it for this address? One of another server must not be sent its token.
    #[must_use]
    pub fn is_for(&self, server: &str) -> bool {
        self.server == server
    }

    /// Which addresses its requests may reach: the same as when it was made. A host that the server named may not move inside afterwards.
    #[must_use]
    pub fn near(&self) -> Option<Near> {
        let near = Near::to(&Address::parse(&self.server, Plain::OnLoopback).ok()?);
        Some(match &self.written {
            Some(place) => near.and(place),
            None => near,
        })
    }

    #[must_use]
    pub fn is_alive(&self, now: u64) -> bool {
        self.expires_at.is_none_or(|end| now < end)
    }

    /// What an authorization server said, without what it was sent: some repeat a token in the sentence that refuses it.
    #[must_use]
    pub fn without_secrets(&self, text: &str) -> String {
        let client = match &self.client.proof {
            Proof::Basic(secret) | Proof::Post(secret) => Some(secret),
            Proof::None | Proof::Key(_) => None,
        };
        let secrets = [Some(&self.access), self.refresh.as_ref(), client];
        let secrets = secrets.into_iter().flatten().map(Secret::expose);
        // Replacing next to nothing would say more than it hides.
        let secrets = secrets.filter(|secret| secret.len() >= 4);
        secrets.fold(text.to_owned(), |text, secret| {
            text.replace(secret, "[secret]")
        })
    }

    /// The same login with new tokens. A refresh token that is not replaced stays.
    pub(crate) fn with(&self, tokens: Tokens, now: u64) -> Option<Self> {
        let mut login = Self::open(&self.seal(), Plain::OnLoopback)?;
        login.access = tokens.access;
        login.scheme = tokens.scheme;
        if let Some(refresh) = tokens.refresh {
            login.refresh = Some(refresh);
        }
        if let Some(scopes) = tokens.scopes {
            login.scopes = scopes;
        }
        login.obtained_at = now;
        login.expires_at = tokens.expires_in.map(|life| now.saturating_add(life));
        Some(login)
    }

    /// The same login with a client that is not used again, if it is one that can be registered anew.
    #[must_use]
    pub fn with_client_refused(&self) -> Option<Self> {
        let mut login = Self::open(&self.seal(), Plain::OnLoopback)?;
        login.client.expires_at = Some(0);
        login.client.is_dynamic.then_some(login)
    }

    /// The requests that take it back (RFC 7009): the refresh token first, since with it goes the rest.
    pub fn revocations(&self, moment: Moment) -> Vec<Request> {
        let Some(to) = &self.revocation_endpoint else {
            return Vec::new();
        };
        let refresh = self.refresh.as_ref().map(|token| (token, "refresh_token"));
        let tokens = refresh.into_iter().chain([(&self.access, "access_token")]);
        let request = |(token, hint): (&Secret, &'static str)| {
            let assertion = self.client.assertion(&moment.jti(), moment.now).ok()?;
            let mut headers = Vec::new();
            let mut pairs = vec![("token", token.expose()), ("token_type_hint", hint)];
            self.client
                .authenticate(&mut pairs, &mut headers, assertion.as_ref());
            Some(Request {
                step: Step::Revocation,
                method: Method::Post,
                to: to.clone(),
                headers,
                body: Body::Form(form(&pairs)),
                want: &["error"],
            })
        };
        tokens.filter_map(request).collect()
    }

    /// The text to seal.
    #[must_use]
    pub fn seal(&self) -> Secret {
        let mut out = Object::with_capacity(4 << 10);
        out.u64("version", VERSION)
            .str("server", &self.server)
            .str("issuer", &self.issuer)
            .str("token_endpoint", self.token_endpoint.text())
            .str("client_id", &self.client.id)
            .str("client_proof", self.client.proof.name())
            .bool("client_is_dynamic", self.client.is_dynamic)
            .str("redirects", &self.client.redirects.join(" "))
            .str("scopes", &self.scopes.to_string())
            .str("access", self.access.expose())
            .str("scheme", self.scheme.as_str())
            .bool("is_machine", self.is_machine)
            .u64("obtained_at", self.obtained_at);
        match &self.client.proof {
            Proof::None => {}
            Proof::Basic(secret) | Proof::Post(secret) => {
                out.str("client_secret", secret.expose());
            }
            Proof::Key(key) => {
                out.str("client_key", key.kept().expose());
            }
        }
        let texts = [
            (
                "revocation_endpoint",
                self.revocation_endpoint.as_ref().map(Address::text),
            ),
            ("resource", self.resource.as_deref()),
            ("written", self.written.as_ref().map(Address::text)),
            ("assertion_file", self.assertion_file.as_deref()),
            ("refresh", self.refresh.as_ref().map(Secret::expose)),
            ("key", self.key.as_ref().map(|key| key.kept().expose())),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                out.str(name, text);
            }
        }
        for (name, number) in [
            ("expires_at", self.expires_at),
            ("client_expires_at", self.client.expires_at),
        ] {
            if let Some(number) = number {
                out.u64(name, number);
            }
        }
        Secret::new(String::from_utf8(out.finish()).unwrap_or_default())
    }

    /// Reads what [`Login::seal`] wrote. `None` for anything else.
    #[must_use]
    pub fn open(sealed: &Secret, plain: Plain) -> Option<Self> {
        let json = Json::parse(sealed.expose().as_bytes(), Limits::new(MAX_SEALED, 2)).ok()?;
        let text = |name: &str| Some(json.get(name)?.as_str()?.into_owned());
        let secret = |name: &str| text(name).map(Secret::new);
        let number = |name: &str| json.get(name)?.as_u64();
        if number("version")? != VERSION {
            return None;
        }
        let place = |name: &str| Address::parse(&text(name)?, plain).ok();
        let key = |name: &str| SigningKey::parse(&text(name)?).ok();
        let proof = match text("client_proof")?.as_str() {
            "none" => Proof::None,
            "client_secret_basic" => Proof::Basic(secret("client_secret")?),
            "client_secret_post" => Proof::Post(secret("client_secret")?),
            "private_key_jwt" => Proof::Key(Box::new(key("client_key")?)),
            _ => return None,
        };
        let issuer = text("issuer")?;
        let redirects = text("redirects")?;
        Some(Self {
            server: text("server")?,
            token_endpoint: place("token_endpoint")?,
            revocation_endpoint: place("revocation_endpoint"),
            client: Client {
                id: text("client_id")?,
                proof,
                issuer: issuer.clone(),
                is_dynamic: json.get("client_is_dynamic")?.as_bool()?,
                expires_at: number("client_expires_at"),
                redirects: redirects.split_whitespace().map(str::to_owned).collect(),
            },
            issuer,
            resource: text("resource"),
            scopes: Scopes::parse(&text("scopes")?).ok()?,
            access: secret("access")?,
            scheme: match text("scheme")?.as_str() {
                "Bearer" => Scheme::Bearer,
                "DPoP" => Scheme::Dpop,
                _ => return None,
            },
            refresh: secret("refresh"),
            obtained_at: number("obtained_at")?,
            expires_at: number("expires_at"),
            is_machine: json.get("is_machine")?.as_bool()?,
            assertion_file: text("assertion_file"),
            key: key("key"),
            written: place("written"),
        })
    }

    /// The proof that goes with one request to the server, where the login has a key.
    pub fn proof(
        &self,
        method: &str,
        to: &Address,
        nonce: Option<&str>,
        moment: Moment,
    ) -> Result<Option<Secret>, Problem> {
        let Some(key) = self.key.as_ref().filter(|_| self.scheme == Scheme::Dpop) else {
            return Ok(None);
        };
        let access = Some(&self.access);
        key.proof(method, to, access, nonce, &moment.jti(), moment.now)
            .map(Some)
            .ok_or(Problem::Unsigned)
    }
}
