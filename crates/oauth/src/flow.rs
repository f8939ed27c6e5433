//! A login from its beginning to its tokens: which request comes next, and what its answer changes.
//!
//! The order is fixed: the server's metadata, the authorization server's, a client, a person, a token. What a step found is kept and
//! never looked up again, so no two documents are mixed. A step that fails ends the flow; nothing is guessed and nothing is tried in
//! its place.

mod steps;

pub(crate) use steps::JWT_BEARER;

use std::collections::VecDeque;

use secrets::Secret;

use crate::{
    Address, Authorization, Challenge, Client, Configured, Drawn, Endpoints, Exchange, Issuer,
    Login, Plain, Problem, ProtectedResource, Request, Returned, Scopes, SigningKey, pkce::Pkce,
    token::Moment,
};

/// The resource that tokens are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceChoice {
    /// As the server's metadata gives it.
    Auto,
    /// Some authorization servers refuse the parameter.
    None,
    Named(String),
}

/// The addresses that a person may be sent back to, and the one that is used now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirects {
    /// Registered, all of them.
    pub all: Vec<String>,
    pub used: String,
}

/// A caller's own validated token, which stands for the caller elsewhere.
#[derive(Debug)]
pub struct Subject {
    pub token: Secret,
    /// `urn:ietf:params:oauth:token-type:…`
    pub kind: String,
}

/// How tokens are got.
#[derive(Debug)]
pub enum Grant {
    /// A person authorizes it in a browser.
    AuthorizationCode,
    ClientCredentials,
    /// An assertion that the place we run in gave (RFC 7523).
    Workload {
        assertion: Secret,
        /// The file that it is in. The place renews it there, and it is read anew for each token.
        file: String,
    },
    /// RFC 8693.
    TokenExchange(Subject),
    /// Entra's way of acting for a user.
    OnBehalfOf(Subject),
    /// A company's identity provider vouches for the user to the server's authorization server.
    IdJag {
        subject: Subject,
        provider: Address,
        client: Box<Client>,
    },
}

/// Everything a login needs to know before it begins.
#[derive(Debug)]
pub struct Plan {
    /// The server, as the configuration has it.
    pub server: Address,
    /// What it said when it refused.
    pub challenge: Option<Challenge>,
    pub grant: Grant,
    pub issuer: Option<String>,
    /// Instead of discovery, never beside it.
    pub endpoints: Option<Endpoints>,
    /// The issuer of the last login.
    pub known_issuer: Option<String>,
    pub client: Option<Configured>,
    /// The address of a document about this client.
    pub client_document: Option<String>,
    /// A client that was registered before.
    pub registered: Option<Client>,
    pub client_name: String,
    pub redirects: Redirects,
    pub scopes: Option<Scopes>,
    /// What the login had, where more is asked for.
    pub had: Scopes,
    pub scopes_max: Option<Scopes>,
    pub resource: ResourceChoice,
    pub authorize_params: Vec<(String, String)>,
    pub assumes_pkce: bool,
    /// A person accepted that the server's own origin is its authorization server.
    pub older_discovery: bool,
    /// Tokens are bound to a key where the authorization server takes proofs.
    pub uses_proofs: bool,
}

/// What comes next.
#[derive(Debug)]
pub enum Next {
    Send(Box<Request>),
    /// A person must go there; [`Flow::returned`] takes what they bring back.
    Visit(Box<Authorization>),
    Done(Box<Login>),
}

#[derive(Debug)]
enum At {
    Resource(VecDeque<Address>),
    Server(VecDeque<Address>),
    Registration,
    Visit,
    Assertion,
    Token,
    Done(Box<Login>),
    Over,
}

/// A login under way.
#[derive(Debug)]
pub struct Flow {
    plan: Plan,
    plain: Plain,
    pkce: Pkce,
    at: At,
    resource: Option<ProtectedResource>,
    /// The issuer whose metadata is looked for.
    named: String,
    issuer: Option<Issuer>,
    client: Option<Client>,
    is_new_client: bool,
    scopes: Scopes,
    /// The code, or the assertion that stands for it.
    spent: Option<Secret>,
    key: Option<SigningKey>,
    nonce: Option<String>,
    asked_with_nonce: bool,
}

impl Flow {
    /// Begins. What was drawn is used for this login only.
    pub fn begin(plan: Plan, drawn: &Drawn, now: u64) -> Result<Self, Problem> {
        let plain = if plan.server.is_loopback() {
            Plain::OnLoopback
        } else {
            Plain::Never
        };
        let mut flow = Self {
            plain,
            pkce: Pkce::new(drawn),
            at: At::Over,
            resource: None,
            named: String::new(),
            issuer: None,
            client: None,
            is_new_client: false,
            scopes: Scopes::default(),
            spent: None,
            key: None,
            nonce: None,
            asked_with_nonce: false,
            plan,
        };
        flow.start(now)?;
        Ok(flow)
    }

    /// What comes next. It stays the same until it was answered.
    pub fn next(&mut self, moment: Moment) -> Result<Next, Problem> {
        match &self.at {
            At::Resource(places) => self.ask_document(places.front(), true),
            At::Server(places) => self.ask_document(places.front(), false),
            At::Registration => self.ask_registration(),
            At::Visit => self.visit(),
            At::Assertion => self.ask_assertion(moment),
            At::Token => self.ask_token(moment),
            At::Done(_) => match std::mem::replace(&mut self.at, At::Over) {
                At::Done(login) => Ok(Next::Done(login)),
                _ => Err(Problem::OutOfTurn),
            },
            At::Over => Err(Problem::OutOfTurn),
        }
    }

    /// Takes the answer to the request that [`Flow::next`] gave. A problem ends the flow.
    pub fn answer(&mut self, exchange: Exchange, now: u64) -> Result<(), Problem> {
        let at = std::mem::replace(&mut self.at, At::Over);
        match at {
            At::Resource(places) => self.take_resource(places, exchange),
            At::Server(places) => self.take_server(places, exchange, now),
            At::Registration => self.take_registration(exchange),
            At::Assertion => self.take_assertion(exchange),
            At::Token => self.take_token(exchange, now),
            At::Visit | At::Done(_) | At::Over => Err(Problem::OutOfTurn),
        }
    }

    /// Takes what a person brought back. With a state that is not this login's nothing happens: whoever sent that one is told nothing,
    /// and the person may still come.
    pub fn returned(&mut self, returned: Returned) -> Result<(), Problem> {
        if !matches!(self.at, At::Visit) || !returned.is_for(&self.pkce) {
            return Err(Problem::OtherState);
        }
        self.at = At::Over;
        let issuer = self.issuer.as_ref().ok_or(Problem::OutOfTurn)?;
        self.spent = Some(returned.code(issuer)?);
        self.at = At::Token;
        Ok(())
    }

    /// The authorization server, once it is known.
    #[must_use]
    pub fn issuer(&self) -> Option<&str> {
        self.issuer.as_ref().map(|issuer| issuer.issuer.as_str())
    }
}
