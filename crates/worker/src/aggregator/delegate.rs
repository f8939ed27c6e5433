//! Calls in a user's own name: the server sees the user's credential, never the system's.
//!
//! Invariant: a call that names a user leaves on a connection that carries that user's credential, or it does not leave. Nothing here
//! sends on the system's connection, which only tells who the server is, and nothing here knows the system's credential: [`Site`] holds
//! what is left of the configuration without it.
//!
//! **Invariant: a user's account is used for that user only.** Test `a_users_own_account_is_used_and_no_other`.

use std::{rc::Rc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use tokio::time::timeout;
use wire::Json;

use super::{
    call::Call,
    connect::{Opening, authorization},
    connection::Connection,
    era,
    forward::{self, Forward},
    http::HttpLink,
    link::Link,
    sse_legacy::{self, SseLink},
    terms::Owner,
    users,
};
use crate::{failure::Failure, net::Target};

const MAX_USER: usize = 512;

/// Words in the name of a header that say that its value lets somebody in.
const KEYS: [&str; 15] = [
    "apikey",
    "auth",
    "authentication",
    "authorization",
    "bearer",
    "cookie",
    "credential",
    "credentials",
    "jwt",
    "key",
    "password",
    "secret",
    "session",
    "signature",
    "token",
];

/// A user and what lets them in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Credential {
    pub(crate) user: Rc<str>,
    /// Marked as sensitive, so that it shows nowhere.
    authorization: HeaderValue,
    /// The key that it is bound to.
    key: Option<u64>,
}

impl Credential {
    /// Reads `as`. Whatever is wrong with it is an error: without a user the call would be somebody else's.
    pub(crate) fn read(json: Json<'_>) -> Result<Self, Failure> {
        let text = |key: &str| {
            json.get(key)
                .and_then(Json::as_str)
                .filter(|text| !text.is_empty())
        };
        let (Some(user), Some(bearer)) = (text("user"), text("bearer")) else {
            return Err(Failure::invalid("`as` must hold `user` and `bearer`"));
        };
        if user.len() > MAX_USER {
            return Err(Failure::invalid(format!(
                "`as.user` is longer than {MAX_USER} bytes"
            )));
        }
        let key = json.get("key").and_then(Json::as_u64);
        Ok(Self {
            user: user.into(),
            authorization: authorization(&bearer, key)?,
            key,
        })
    }
}

/// Where a server is and what every request to it says, whoever makes it.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) target: Target,
    headers: HeaderMap,
    patience: Duration,
}

impl Site {
    /// Keeps of the configured headers those that let nobody in. `systems` are names of further ones that are the system's alone.
    pub(crate) fn new(
        target: Target,
        configured: &HeaderMap,
        systems: &[String],
        patience: Duration,
    ) -> Rc<Self> {
        let mut headers = configured.clone();
        for name in configured.keys() {
            let is_key = name
                .as_str()
                .split(['-', '_'])
                .any(|word| KEYS.contains(&word));
            if is_key || systems.iter().any(|system| system == name.as_str()) {
                headers.remove(name);
            }
        }
        Rc::new(Self {
            target,
            headers,
            patience,
        })
    }

    /// The headers of a user's requests.
    pub(super) fn headers_for(&self, credential: &Credential) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert(header::AUTHORIZATION, credential.authorization.clone());
        headers
    }
}

/// Opens a connection for a user beside the system's: the same server, the same era, a session of its own.
pub(super) async fn open(
    system: &Connection,
    site: &Site,
    credential: &Credential,
) -> Result<Rc<Connection>, Failure> {
    match timeout(site.patience, Box::pin(attempt(system, site, credential))).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Failure::timeout(format!(
            "timeout: the server opened no session within {} ms",
            site.patience.as_millis()
        ))),
    }
}

async fn attempt(
    system: &Connection,
    site: &Site,
    credential: &Credential,
) -> Result<Rc<Connection>, Failure> {
    let options = &system.options;
    let build = |link| {
        let (hub, server) = (Rc::clone(&system.hub), Rc::clone(&system.server));
        Opening::new(Connection::new(
            hub,
            server,
            system.generation,
            options.clone(),
            link,
            Owner::User,
        ))
    };
    let headers = site.headers_for(credential);
    let login = (false, credential.key);
    let opening = match &system.link {
        Link::Stdio(_) => return Err(no_users(&system.server)),
        Link::Http(_) => {
            let opening = build(Link::Http(HttpLink::new(
                &system.hub,
                site.target.clone(),
                headers,
                options.max_result,
                login,
            )?));
            match system.peer().filter(|_| system.is_modern()) {
                // No session: every request says who makes it.
                Some(peer) => {
                    opening.conn()?.set_modern(true);
                    opening.conn()?.introduce(peer.clone());
                }
                None => era::initialize(opening.conn()?).await?,
            }
            opening
        }
        Link::Sse(_) => {
            let (link, events) = SseLink::connect(
                &system.hub,
                site.target.clone(),
                headers,
                options.max_result,
                login,
            )
            .await?;
            let opening = build(Link::Sse(link));
            sse_legacy::start(opening.conn()?, events);
            era::initialize(opening.conn()?).await?;
            opening
        }
    };
    opening.done()
}

/// What a call for a user of a server without users gets.
pub(super) fn no_users(server: &str) -> Failure {
    Failure::refused(format!(
        "`{server}` is a local process and knows no users; only a server with a `url` can be called with a user's credential"
    ))
}

/// Runs a call in a user's name to its end.
pub(super) async fn run(
    system: &Rc<Connection>,
    call: &Rc<Call>,
    forward: &Forward,
    credential: &Rc<Credential>,
) -> Result<Bytes, Failure> {
    let leased = tokio::select! {
        biased;
        leased = users::lease(system, credential) => leased,
        stop = call.interrupted() => return Err(forward::stopped(call, stop)),
    };
    let outcome = match leased {
        Err(failure) => Err(failure),
        Ok(lease) => match forward::prepare(lease.conn(), call, forward, forward.params.as_ref()) {
            Err(failure) => Err(failure),
            Ok(first) => {
                let outcome = forward::run(lease.conn(), call, forward, first).await;
                if outcome
                    .as_ref()
                    .is_err_and(|failure| failure.status == Some(401))
                {
                    users::dismiss(system, &lease);
                }
                outcome
            }
        },
    };
    outcome.map_err(|failure| failure.of_user(&system.server, &credential.user))
}
