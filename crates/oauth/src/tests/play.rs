//! A scripted authorization server: answers by address, and notes what was asked.

use std::collections::BTreeMap;

use secrets::Secret;
use serde_json::{Value, json};
use url::form_urlencoded;
use zeroize::Zeroizing;

use crate::{
    Address, Answer, Body, Challenge, Configured, Drawn, Flow, Grant, Login, Moment, Next, Plain,
    Plan, Problem, Redirects, Request, ResourceChoice, Returned, Scopes,
};

pub(super) const SERVER: &str = "https://mcp.example/v1/mcp";
pub(super) const ISSUER: &str = "https://auth.example/tenant";
pub(super) const REDIRECT: &str = "http://127.0.0.1:17878/oauth/callback";
pub(super) const NOW: u64 = 1_800_000_000;

pub(super) fn moment() -> Moment {
    Moment {
        now: NOW,
        random: [7; 16],
    }
}

pub(super) fn address(text: &str) -> Address {
    Address::parse(text, Plain::OnLoopback).unwrap()
}

pub(super) fn plan() -> Plan {
    Plan {
        server: address(SERVER),
        challenge: None,
        grant: Grant::AuthorizationCode,
        issuer: None,
        endpoints: None,
        known_issuer: None,
        client: None,
        client_document: None,
        registered: None,
        client_name: "Portcullis".into(),
        redirects: Redirects {
            all: vec![REDIRECT.into()],
            used: REDIRECT.into(),
        },
        scopes: None,
        had: Scopes::default(),
        scopes_max: None,
        resource: ResourceChoice::Auto,
        authorize_params: Vec::new(),
        assumes_pkce: false,
        older_discovery: false,
        uses_proofs: false,
    }
}

pub(super) fn configured(secret: Option<&str>) -> Configured {
    Configured {
        id: "our client".into(),
        secret: secret.map(|secret| Secret::new(secret.into())),
        key: None,
        method: None,
        bound_to: None,
    }
}

pub(super) fn challenge(header: &str) -> Option<Challenge> {
    Some(Challenge::parse(header).unwrap())
}

pub(super) fn answer(status: u16, json: &Value) -> Answer {
    Answer {
        status,
        json: Some(Zeroizing::new(json.to_string().into_bytes())),
        retry_after: None,
        dpop_nonce: None,
    }
}

/// One request as the other side saw it.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) to: String,
    pub(super) pairs: BTreeMap<String, String>,
    pub(super) json: Option<Value>,
    pub(super) headers: BTreeMap<String, String>,
}

pub(super) struct Stage {
    pub(super) documents: BTreeMap<String, Value>,
    pub(super) token: Value,
    pub(super) registration: Value,
    pub(super) seen: Vec<Seen>,
    /// What the person brings back besides the code and the state.
    pub(super) iss: Option<String>,
    pub(super) visited: Vec<BTreeMap<String, String>>,
    /// The nonce that the token endpoint wants.
    pub(super) nonce: Option<String>,
}

pub(super) fn server_document() -> Value {
    json!({"issuer": ISSUER, "authorization_endpoint": "https://auth.example/authorize?x=1", "token_endpoint": "https://auth.example/token",
        "registration_endpoint": "https://auth.example/register", "revocation_endpoint": "https://auth.example/revoke",
        "code_challenge_methods_supported": ["S256"]})
}

impl Stage {
    pub(super) fn new() -> Self {
        let documents = [
            (
                "https://mcp.example/.well-known/oauth-protected-resource/v1/mcp",
                json!({"resource": SERVER, "authorization_servers": [ISSUER]}),
            ),
            (
                "https://auth.example/.well-known/oauth-authorization-server/tenant",
                server_document(),
            ),
        ];
        Self {
            documents: documents
                .map(|(place, document)| (place.to_owned(), document))
                .into(),
            token: json!({"access_token": "at-1", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "rt-1"}),
            registration: json!({"client_id": "dyn-1"}),
            seen: Vec::new(),
            iss: None,
            visited: Vec::new(),
            nonce: None,
        }
    }

    pub(super) fn document(&mut self, place: &str) -> &mut Value {
        self.documents.get_mut(place).unwrap()
    }

    pub(super) fn server(&mut self) -> &mut Value {
        self.document("https://auth.example/.well-known/oauth-authorization-server/tenant")
    }

    pub(super) fn resource(&mut self) -> &mut Value {
        self.document("https://mcp.example/.well-known/oauth-protected-resource/v1/mcp")
    }

    pub(super) fn asked(&self) -> Vec<&str> {
        self.seen.iter().map(|seen| seen.to.as_str()).collect()
    }

    pub(super) fn at(&self, path: &str) -> &Seen {
        self.seen
            .iter()
            .rfind(|seen| seen.to.ends_with(path))
            .unwrap()
    }

    fn reply(&mut self, request: &Request) -> Answer {
        let to = request.to.url().to_owned();
        let (pairs, json) = match &request.body {
            Body::None => (BTreeMap::new(), None),
            Body::Form(form) => (
                form_urlencoded::parse(form.expose().as_bytes())
                    .into_owned()
                    .collect(),
                None,
            ),
            Body::Json(text) => (
                BTreeMap::new(),
                Some(serde_json::from_str(text.expose()).unwrap()),
            ),
        };
        let headers = request
            .headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.expose().to_owned()));
        let headers: BTreeMap<String, String> = headers.collect();
        self.seen.push(Seen {
            to: to.clone(),
            pairs,
            json,
            headers: headers.clone(),
        });
        match &*to {
            place if place.ends_with("/token") => {
                let wanted = self.nonce.as_ref().filter(|nonce| {
                    claims(&headers["dpop"])["nonce"]
                        .as_str()
                        .is_none_or(|given| given != *nonce)
                });
                match wanted {
                    Some(nonce) => Answer {
                        dpop_nonce: Some(nonce.clone()),
                        ..answer(400, &json!({"error": "use_dpop_nonce"}))
                    },
                    None => answer(200, &self.token),
                }
            }
            place if place.ends_with("/register") => answer(201, &self.registration),
            place => self
                .documents
                .get(place)
                .map_or_else(|| answer(404, &json!({})), |document| answer(200, document)),
        }
    }

    /// Plays a login to its end.
    pub(super) fn play(&mut self, plan: Plan) -> Result<Login, Problem> {
        let drawn = Drawn {
            verifier: [1; 32],
            state: [2; 32],
        };
        let mut flow = Flow::begin(plan, &drawn, NOW)?;
        for _ in 0..20 {
            match flow.next(moment())? {
                Next::Send(request) => {
                    let answer = self.reply(&request);
                    flow.answer(Ok(answer), NOW)?;
                }
                Next::Visit(visit) => {
                    let asked: BTreeMap<String, String> = url::Url::parse(visit.to.url())
                        .unwrap()
                        .query_pairs()
                        .into_owned()
                        .collect();
                    let mut back = format!("code=the-code&state={}", asked["state"]);
                    if let Some(iss) = &self.iss {
                        back.push_str(&format!("&iss={iss}"));
                    }
                    self.visited.push(asked);
                    flow.returned(Returned::parse(&back).unwrap())?;
                }
                Next::Done(login) => return Ok(*login),
            }
        }
        panic!("a login without end");
    }
}

/// The claims of a signed statement, unverified.
pub(super) fn claims(jwt: &str) -> Value {
    part(jwt, 1)
}

pub(super) fn part(jwt: &str, index: usize) -> Value {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    let part = jwt.split('.').nth(index).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}
