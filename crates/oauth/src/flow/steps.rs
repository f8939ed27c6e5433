//! The steps of a login, one after the other.

use std::collections::VecDeque;

use super::{At, Flow, Grant, Next, ResourceChoice};
use crate::{
    Address, Answer, Authorization, Body, Client, Exchange, Issuer, Login, Method, Plain, Problem,
    ProtectedResource, Request, Scheme, Scopes, SigningKey, Step,
    authorize::Asked,
    client,
    metadata::{self, RESOURCE_MEMBERS, SERVER_MEMBERS},
    token::{self, Asking, Moment, Tokens},
};

pub(crate) const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const OFFLINE: &str = "offline_access";

impl Flow {
    pub(super) fn start(&mut self, now: u64) -> Result<(), Problem> {
        if let Some(endpoints) = self.plan.endpoints.take() {
            let issuer = self.plan.issuer.clone();
            let issuer = issuer.unwrap_or_else(|| endpoints.token.origin());
            return self.settle(Issuer::configured(&issuer, endpoints), now);
        }
        let named = self.plan.challenge.as_ref();
        let places = match named.and_then(|challenge| challenge.place(self.plain)) {
            // What the server names is asked, and then nothing else.
            Some(place) => vec![place.map_err(Problem::address("resource_metadata"))?],
            None => metadata::resource_places(&self.plan.server),
        };
        self.at = At::Resource(places.into());
        Ok(())
    }

    pub(super) fn ask_document(
        &self,
        place: Option<&Address>,
        is_resource: bool,
    ) -> Result<Next, Problem> {
        let (step, want) = match is_resource {
            true => (Step::ResourceMetadata, RESOURCE_MEMBERS),
            false => (Step::ServerMetadata, SERVER_MEMBERS),
        };
        Ok(Next::Send(Box::new(Request {
            step,
            method: Method::Get,
            to: place.ok_or(Problem::OutOfTurn)?.clone(),
            headers: Vec::new(),
            body: Body::None,
            want,
        })))
    }

    pub(super) fn take_resource(
        &mut self,
        mut places: VecDeque<Address>,
        exchange: Exchange,
    ) -> Result<(), Problem> {
        let place = places.pop_front().ok_or(Problem::OutOfTurn)?;
        let answer = came(exchange, Step::ResourceMetadata, &place)?;
        if answer.is_success()
            && let Some(found) = ProtectedResource::read(&answer, &self.plan.server)?
        {
            let known = self.plan.known_issuer.as_deref();
            let issuer = found.issuer(self.plan.issuer.as_deref(), known)?.to_owned();
            self.resource = Some(found);
            return self.look_for(&issuer);
        }
        if !answer.is_success() && !metadata::is_absent(&answer) {
            return Err(metadata::broken(Step::ResourceMetadata, &place, &answer));
        }
        if !places.is_empty() {
            self.at = At::Resource(places);
            return Ok(());
        }
        self.without_resource()
    }

    /// No metadata of the server anywhere: its own origin, if a person accepted that, or the issuer that the operator wrote.
    fn without_resource(&mut self) -> Result<(), Problem> {
        let has_named = |challenge: &crate::Challenge| challenge.resource_metadata.is_some();
        if self.plan.challenge.as_ref().is_some_and(has_named) {
            return Err(Problem::NoResourceMetadata);
        }
        if let Some(issuer) = self.plan.issuer.clone() {
            return self.look_for(&issuer);
        }
        if !self.plan.older_discovery {
            return Err(Problem::NoResourceMetadata);
        }
        self.named = self.plan.server.origin();
        let place = self
            .plan
            .server
            .at_path("/.well-known/oauth-authorization-server");
        self.at = At::Server(VecDeque::from([place]));
        Ok(())
    }

    fn look_for(&mut self, issuer: &str) -> Result<(), Problem> {
        let address = Address::parse(issuer, self.plain).map_err(Problem::address("issuer"))?;
        issuer.clone_into(&mut self.named);
        self.at = At::Server(metadata::issuer_places(&address).into());
        Ok(())
    }

    pub(super) fn take_server(
        &mut self,
        mut places: VecDeque<Address>,
        exchange: Exchange,
        now: u64,
    ) -> Result<(), Problem> {
        let place = places.pop_front().ok_or(Problem::OutOfTurn)?;
        let answer = came(exchange, Step::ServerMetadata, &place)?;
        if answer.is_success()
            && let Some(issuer) = Issuer::read(&answer, &self.named, self.plain)?
        {
            return self.settle(issuer, now);
        }
        if !answer.is_success() && !metadata::is_absent(&answer) {
            return Err(metadata::broken(Step::ServerMetadata, &place, &answer));
        }
        if !places.is_empty() {
            self.at = At::Server(places);
            return Ok(());
        }
        // Only where there is no document at all: one of another issuer is no leave to guess.
        let is_older = self.resource.is_none() && self.plan.issuer.is_none();
        if is_older && !answer.is_success() {
            return self.settle(Issuer::at_origin(&self.plan.server), now);
        }
        Err(Problem::NoServerMetadata {
            issuer: self.named.clone(),
        })
    }

    /// The authorization server is known: decide what to ask for, and as whom.
    fn settle(&mut self, issuer: Issuer, now: u64) -> Result<(), Problem> {
        let by_person = matches!(self.plan.grant, Grant::AuthorizationCode);
        if by_person && !issuer.offers_s256 && !self.plan.assumes_pkce {
            return Err(Problem::NoPkce);
        }
        self.scopes = self.wanted_scopes(&issuer, by_person)?;
        self.client = self.known_client(&issuer, by_person, now)?;
        if self.plan.uses_proofs && issuer.takes_proofs && self.server_takes_proofs() {
            self.key = Some(SigningKey::generate().map_err(|_| Problem::Unsigned)?);
        }
        let registers = issuer.endpoints.registration.is_some() && by_person;
        let redirects = self.plan.redirects.all.clone();
        self.issuer = Some(issuer);
        self.at = match (&self.client, &self.plan.grant) {
            (None, _) if registers => At::Registration,
            (None, _) => return Err(Problem::ClientNeeded { redirects }),
            (Some(_), Grant::AuthorizationCode) => At::Visit,
            (Some(_), Grant::IdJag { .. }) => At::Assertion,
            (Some(_), _) => At::Token,
        };
        Ok(())
    }

    /// Many authorization servers offer bound tokens to whoever asks; the server must take them, too.
    fn server_takes_proofs(&self) -> bool {
        let challenge = self.plan.challenge.as_ref();
        challenge.is_some_and(|challenge| challenge.is_dpop)
            || self
                .resource
                .as_ref()
                .is_some_and(|found| found.takes_proofs)
    }

    /// The operator's scopes, or those of the challenge, or all the server lists; and those the login had.
    fn wanted_scopes(&self, issuer: &Issuer, by_person: bool) -> Result<Scopes, Problem> {
        let max = self.plan.scopes_max.as_ref();
        let challenged = self
            .plan
            .challenge
            .as_ref()
            .and_then(|challenge| challenge.scope.clone());
        let listed = || {
            let listed = self.resource.as_ref()?.scopes.clone()?;
            let allowed = |scope: &&str| max.is_none_or(|max| max.contains(scope));
            Scopes::of(listed.iter().filter(allowed)).ok()
        };
        let wanted = self.plan.scopes.clone().or(challenged).or_else(listed);
        let mut wanted = self
            .plan
            .had
            .union(&wanted.unwrap_or_default())?
            .within(max)?;
        let lists_offline = issuer
            .scopes
            .as_ref()
            .is_some_and(|scopes| scopes.contains(OFFLINE));
        if by_person && lists_offline {
            wanted = wanted.union(&Scopes::parse(OFFLINE)?)?;
        } else if by_person && issuer.scopes.is_some() && self.plan.scopes.is_none() {
            // A server may list it; only an authorization server can give it.
            wanted = Scopes::of(wanted.iter().filter(|scope| *scope != OFFLINE))?;
        }
        Ok(wanted)
    }

    /// A client that need not be registered first: the operator's, the one of a document, or one from before.
    fn known_client(
        &mut self,
        issuer: &Issuer,
        by_person: bool,
        now: u64,
    ) -> Result<Option<Client>, Problem> {
        if let Some(configured) = self.plan.client.take() {
            return configured.client(issuer).map(Some);
        }
        if let Some(document) = &self.plan.client_document
            && issuer.takes_client_documents
        {
            return Ok(Some(Client::of_document(document, issuer)));
        }
        let redirects = &self.plan.redirects.all;
        let registered = self.plan.registered.take();
        let needs_none = matches!(self.plan.grant, Grant::Workload { .. });
        Ok(registered
            .filter(|client| by_person && client.serves(issuer, redirects, now))
            .or_else(|| needs_none.then(|| Client::of_document("", issuer))))
    }

    pub(super) fn ask_registration(&self) -> Result<Next, Problem> {
        let issuer = self.issuer.as_ref().ok_or(Problem::OutOfTurn)?;
        let to = issuer
            .endpoints
            .registration
            .as_ref()
            .ok_or(Problem::OutOfTurn)?;
        let redirects = &self.plan.redirects;
        let is_web = redirects.used.starts_with("https://");
        let request =
            client::registration(issuer, to, &self.plan.client_name, &redirects.all, is_web);
        Ok(Next::Send(Box::new(request)))
    }

    pub(super) fn take_registration(&mut self, exchange: Exchange) -> Result<(), Problem> {
        let issuer = self.issuer.as_ref().ok_or(Problem::OutOfTurn)?;
        let place = issuer
            .endpoints
            .registration
            .as_ref()
            .ok_or(Problem::OutOfTurn)?;
        let answer = came(exchange, Step::Registration, place)?;
        let client =
            client::registered(&answer, issuer, &issuer.endpoints, &self.plan.redirects.all)?;
        self.client = Some(client);
        self.is_new_client = true;
        self.at = At::Visit;
        Ok(())
    }

    pub(super) fn visit(&self) -> Result<Next, Problem> {
        let (Some(issuer), Some(client)) = (&self.issuer, &self.client) else {
            return Err(Problem::OutOfTurn);
        };
        let endpoint = issuer.endpoints.authorization.as_ref();
        let endpoint = endpoint.ok_or_else(|| {
            let token = &issuer.endpoints.token;
            Problem::unusable(
                Step::ServerMetadata,
                token,
                "it names no place to send a person to",
            )
        })?;
        let asked = Asked {
            client,
            redirect: &self.plan.redirects.used,
            pkce: &self.pkce,
            resource: self.resource_text(),
            scopes: &self.scopes,
            extra: &self.plan.authorize_params,
        };
        Ok(Next::Visit(Box::new(Authorization {
            to: asked.address(endpoint),
            issuer: issuer.issuer.clone(),
            scopes: self.scopes.clone(),
            client_id: client.id.clone(),
            is_new_client: self.is_new_client,
        })))
    }

    /// Byte for byte as the server gives it, in every request alike.
    fn resource_text(&self) -> Option<&str> {
        match &self.plan.resource {
            ResourceChoice::Auto => self.resource.as_ref().map(|found| found.resource.as_str()),
            ResourceChoice::None => None,
            ResourceChoice::Named(resource) => Some(resource),
        }
    }

    pub(super) fn ask_assertion(&self, moment: Moment) -> Result<Next, Problem> {
        let (
            Grant::IdJag {
                subject,
                provider,
                client,
            },
            Some(issuer),
        ) = (&self.plan.grant, &self.issuer)
        else {
            return Err(Problem::OutOfTurn);
        };
        let scopes = self.scopes.to_string();
        let mut pairs = vec![
            ("grant_type", TOKEN_EXCHANGE),
            ("requested_token_type", token::ID_JAG),
            ("audience", &issuer.issuer),
            ("subject_token", subject.token.expose()),
            ("subject_token_type", &subject.kind),
        ];
        pairs.extend(self.resource_text().map(|resource| ("resource", resource)));
        if !self.scopes.is_empty() {
            pairs.push(("scope", &scopes));
        }
        let asking = Asking {
            step: Step::Assertion,
            to: provider,
            client,
            pairs,
            key: None,
            nonce: None,
        };
        Ok(Next::Send(Box::new(asking.request(moment)?)))
    }

    pub(super) fn take_assertion(&mut self, exchange: Exchange) -> Result<(), Problem> {
        let Grant::IdJag { provider, .. } = &self.plan.grant else {
            return Err(Problem::OutOfTurn);
        };
        let answer = came(exchange, Step::Assertion, provider)?;
        self.spent = Some(token::read_id_jag(&answer, provider)?);
        self.at = At::Token;
        Ok(())
    }

    pub(super) fn ask_token(&self, moment: Moment) -> Result<Next, Problem> {
        let (Some(issuer), Some(client)) = (&self.issuer, &self.client) else {
            return Err(Problem::OutOfTurn);
        };
        let spent = self.spent.as_ref().map_or("", secrets::Secret::expose);
        let mut pairs: Vec<(&str, &str)> = match &self.plan.grant {
            Grant::AuthorizationCode => vec![
                ("grant_type", "authorization_code"),
                ("code", spent),
                ("redirect_uri", &self.plan.redirects.used),
                ("code_verifier", self.pkce.verifier.expose()),
            ],
            Grant::ClientCredentials => vec![("grant_type", "client_credentials")],
            Grant::Workload { assertion, .. } => vec![
                ("grant_type", JWT_BEARER),
                ("assertion", assertion.expose()),
            ],
            Grant::IdJag { .. } => vec![("grant_type", JWT_BEARER), ("assertion", spent)],
            Grant::TokenExchange(subject) => vec![
                ("grant_type", TOKEN_EXCHANGE),
                ("subject_token", subject.token.expose()),
                ("subject_token_type", &subject.kind),
                ("requested_token_type", ACCESS_TOKEN),
            ],
            Grant::OnBehalfOf(subject) => vec![
                ("grant_type", JWT_BEARER),
                ("assertion", subject.token.expose()),
                ("requested_token_use", "on_behalf_of"),
            ],
        };
        let scopes = self.scopes.to_string();
        if !matches!(self.plan.grant, Grant::AuthorizationCode) && !self.scopes.is_empty() {
            pairs.push(("scope", &scopes));
        }
        pairs.extend(self.resource_text().map(|resource| ("resource", resource)));
        let asking = Asking {
            step: Step::Token,
            to: &issuer.endpoints.token,
            client,
            pairs,
            key: self.key.as_ref(),
            nonce: self.nonce.as_deref(),
        };
        Ok(Next::Send(Box::new(asking.request(moment)?)))
    }

    pub(super) fn take_token(&mut self, exchange: Exchange, now: u64) -> Result<(), Problem> {
        let issuer = self.issuer.as_ref().ok_or(Problem::OutOfTurn)?;
        let place = issuer.endpoints.token.clone();
        let answer = came(exchange, Step::Token, &place)?;
        if let Some(nonce) = token::wanted_nonce(&answer)
            && self.key.is_some()
            && !self.asked_with_nonce
        {
            self.nonce = Some(nonce);
            self.asked_with_nonce = true;
            self.at = At::Token;
            return Ok(());
        }
        let tokens = token::read(&answer, Step::Token, &place, self.key.is_some())?;
        let login = self.login(tokens, now).ok_or(Problem::OutOfTurn)?;
        self.at = At::Done(Box::new(login));
        Ok(())
    }

    fn login(&mut self, tokens: Tokens, now: u64) -> Option<Login> {
        let issuer = self.issuer.take()?;
        Some(Login {
            server: self.plan.server.text().to_owned(),
            resource: self.resource_text().map(str::to_owned),
            token_endpoint: issuer.endpoints.token,
            revocation_endpoint: issuer.endpoints.revocation,
            issuer: issuer.issuer,
            client: self.client.take()?,
            scopes: tokens.scopes.unwrap_or_else(|| self.scopes.clone()),
            access: tokens.access,
            scheme: tokens.scheme,
            refresh: tokens.refresh,
            obtained_at: now,
            expires_at: tokens.expires_in.map(|life| now.saturating_add(life)),
            is_machine: matches!(
                self.plan.grant,
                Grant::ClientCredentials | Grant::Workload { .. }
            ),
            assertion_file: match &self.plan.grant {
                Grant::Workload { file, .. } => Some(file.clone()),
                _ => None,
            },
            key: self.key.take().filter(|_| tokens.scheme == Scheme::Dpop),
            written: (self.plan.issuer.as_deref())
                .and_then(|issuer| Address::parse(issuer, Plain::OnLoopback).ok()),
        })
    }
}

fn came(exchange: Exchange, step: Step, place: &Address) -> Result<Answer, Problem> {
    exchange.map_err(|why| Problem::Unreachable {
        step,
        place: place.shown(),
        why: crate::theirs(&why),
    })
}
