//! One attempt to connect to a server, through the worker.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use sandbox::Child;
use std::os::fd::AsFd;
use tokio::{io::AsyncReadExt, net::unix::pipe};
use wire::{worker::method, write::Object};

use super::{Hub, Upstream};
use crate::{
    link::{ErrorKind, Link, Word},
    logins::{Live, LoginState, NoToken},
    settings::{ServerSpec, Text, Transport},
};

/// A stdio server may have to be fetched by its launcher first.
const STDIO_PATIENCE: Duration = Duration::from_secs(60);
const HTTP_PATIENCE: Duration = Duration::from_secs(10);
const CATALOG_PATIENCE: Duration = Duration::from_secs(60);
/// How long a server may take to leave after its pipes are closed.
const GRACE: Duration = Duration::from_millis(500);

/// A live connection. Dropping it disconnects, and ends the server's process if there is one.
pub(super) struct Connection {
    link: Arc<Link>,
    disconnect: Vec<u8>,
    child: Option<Child>,
    pub(super) generation: u64,
    pub(super) hello: Bytes,
    /// The token of its login, and when to renew it.
    pub(super) login: Option<Live>,
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum Unconnected {
    /// It may work the next time.
    Failed(String),
    /// A person must log in first.
    Login(LoginState),
}

impl From<String> for Unconnected {
    fn from(error: String) -> Self {
        Self::Failed(error)
    }
}

impl From<NoToken> for Unconnected {
    fn from(why: NoToken) -> Self {
        match why {
            NoToken::Person(state) => Self::Login(state),
            NoToken::Later { problem, .. } => Self::Failed(problem),
        }
    }
}

impl Connection {
    /// The server's process, if the gate started it.
    pub(super) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::pid)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.link.tell(method::DISCONNECT, &self.disconnect);
        if let Some(child) = self.child.take() {
            // Ending a process waits for it, so it gets a thread; the sandbox reaps whatever is left at exit.
            std::thread::spawn(move || child.terminate(GRACE));
        }
    }
}

fn reference(generation: u64, id: &str) -> Vec<u8> {
    let mut out = Object::new();
    out.str("server", id).u64("generation", generation);
    out.finish()
}

pub(super) async fn connect(
    hub: &Arc<Hub>,
    upstream: &Arc<Upstream>,
    link: &Arc<Link>,
) -> Result<Connection, Unconnected> {
    let spec = upstream.spec();
    let login = match spec.login_address() {
        Some(address) => hub.logins().token(&(&spec.id).into(), address).await?,
        None => None,
    };
    match attempt(hub, upstream, link, login).await {
        // The token looked alive, and the server says it is not: another one, once.
        Err(Refused::Token(stale)) => {
            let address = spec.login_address().unwrap_or_default();
            let holder = (&spec.id).into();
            let login = hub.logins().renew(&holder, address, &stale.access).await?;
            match attempt(hub, upstream, link, Some(login)).await {
                Err(Refused::Token(_)) => Err(Unconnected::Login(LoginState::Expired {
                    problem: "the server does not take a token that was renewed just now"
                        .to_owned(),
                })),
                Err(Refused::Other(why)) => Err(why),
                Ok(connection) => Ok(connection),
            }
        }
        Err(Refused::Other(why)) => Err(why),
        Ok(connection) => Ok(connection),
    }
}

/// Why one attempt failed.
enum Refused {
    /// The server does not take this token.
    Token(Live),
    Other(Unconnected),
}

impl From<String> for Refused {
    fn from(error: String) -> Self {
        Self::Other(error.into())
    }
}

async fn attempt(
    hub: &Arc<Hub>,
    upstream: &Arc<Upstream>,
    link: &Arc<Link>,
    login: Option<Live>,
) -> Result<Connection, Refused> {
    let spec = upstream.spec();
    let generation = hub.next_generation();
    let (child, patience) = match &spec.transport {
        Transport::Stdio { .. } => (
            Some(start(hub, upstream, link, generation).await?),
            STDIO_PATIENCE,
        ),
        _ => (None, HTTP_PATIENCE),
    };
    let patience = spec.connect_timeout.unwrap_or(patience);
    let mut connection = Connection {
        link: Arc::clone(link),
        disconnect: reference(generation, spec.id.as_str()),
        child,
        generation,
        hello: Bytes::new(),
        login: None,
    };
    let request = request(hub, &spec, generation, patience, login.as_ref()).await?;
    match link
        .ask_within(method::CONNECT, &request, patience + Duration::from_secs(2))
        .await
    {
        Word::Result(hello) => {
            connection.hello = hello.into_bytes();
            connection.login = login;
            Ok(connection)
        }
        Word::Error {
            kind: ErrorKind::Login,
            ..
        } => Err(match login {
            Some(stale) => Refused::Token(stale),
            None => Refused::Other(Unconnected::Login(LoginState::Required)),
        }),
        Word::Error { text, .. } => Err(text.into()),
        Word::Lost => Err("the worker was lost while connecting".to_owned().into()),
        Word::Done | Word::Waits(_) | Word::Event { .. } => {
            Err("the worker answered `connect` with something else"
                .to_owned()
                .into())
        }
    }
}

/// Starts a stdio server and hands its pipes to the worker; the gate itself never reads them.
async fn start(
    hub: &Arc<Hub>,
    upstream: &Arc<Upstream>,
    link: &Arc<Link>,
    generation: u64,
) -> Result<Child, String> {
    let spawned = super::start::start(hub, upstream).await?;
    tokio::spawn(keep_stderr(Arc::clone(upstream), spawned.stderr));
    link.handover
        .send(
            generation,
            upstream.spec().id.as_str().as_bytes(),
            &[spawned.stdin.as_fd(), spawned.stdout.as_fd()],
        )
        .map_err(|error| format!("cannot hand the pipes to the worker: {error}"))?;
    Ok(spawned.child)
}

async fn keep_stderr(upstream: Arc<Upstream>, stderr: std::os::fd::OwnedFd) {
    let Ok(mut pipe) = pipe::Receiver::from_owned_fd(stderr) else {
        return;
    };
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
        upstream.keep_stderr(buffer.get(..read).unwrap_or_default());
    }
}

async fn request(
    hub: &Hub,
    spec: &ServerSpec,
    generation: u64,
    patience: Duration,
    login: Option<&Live>,
) -> Result<Vec<u8>, String> {
    let mut out = Object::new();
    out.str("server", spec.id.as_str())
        .u64("generation", generation);
    match &spec.transport {
        Transport::Stdio { .. } => {
            out.object("transport", |out| {
                out.object("stdio", |out| {
                    out.u64("handover", generation);
                });
            });
        }
        Transport::Http {
            url,
            kind,
            headers,
            bearer,
        } => {
            let mut http = Object::new();
            http.str("url", url).str("kind", kind.as_str());
            let mut shown = Object::new();
            for (name, value) in headers {
                shown.str(name, hub.reveal(value).await?.expose());
            }
            http.raw("headers", &shown.finish());
            // Those that carry the gate's own secrets never go out with a user's credential.
            let secret = headers
                .iter()
                .filter(|(_, value)| matches!(value, Text::Secret(_)));
            let names: Vec<Vec<u8>> = secret.map(|(name, _)| wire::write::quoted(name)).collect();
            http.raw(
                "system_headers",
                &[b"[", names.join(&b","[..]).as_slice(), b"]"].concat(),
            );
            if let Some(bearer) = bearer {
                http.str("bearer", hub.reveal(bearer).await?.expose());
            }
            if spec.login_address().is_some() {
                http.bool("login", true);
            }
            if let Some(login) = login {
                hub.hold_login(&(&spec.id).into(), login.access.expose());
                http.str("bearer", login.access.expose());
                if let Some(key) = login.key {
                    http.u64("key", key);
                }
            }
            let http = http.finish();
            out.object("transport", |out| {
                out.raw("http", &http);
            });
        }
        Transport::Nothing => return Err("the entry names neither a command nor a url".into()),
    }
    out.u64(
        "timeout_ms",
        u64::try_from(patience.as_millis()).unwrap_or(u64::MAX),
    );
    out.u64("max_result_bytes", spec.budget.result_bytes as u64);
    out.object("allow", |out| {
        out.bool("sampling", spec.allow.sampling)
            .bool("roots", spec.allow.roots)
            .bool("elicitation", spec.allow.elicitation);
    });
    out.object("client", |out| {
        out.str("name", hub.name()).str("version", hub.version());
    });
    Ok(out.finish())
}

/// Why a connected server's lists could not be read.
#[derive(Debug)]
pub(super) struct Unlisted {
    pub(super) error: String,
    /// Nobody is there any more.
    pub(super) is_lost: bool,
    /// Somebody is there who wants a login for this, or more rights than it has.
    pub(super) wants_login: bool,
}

/// Asks for the lists of a connected server.
pub(super) async fn catalog(link: &Link, spec: &ServerSpec) -> Result<Bytes, Unlisted> {
    let unlisted = |error: String, kind| Unlisted {
        error,
        is_lost: kind == Some(ErrorKind::Upstream),
        wants_login: kind == Some(ErrorKind::Login),
    };
    let mut params = Object::new();
    params.str("server", spec.id.as_str());
    match link
        .ask_within(method::CATALOG, &params.finish(), CATALOG_PATIENCE)
        .await
    {
        Word::Result(lists) => Ok(lists.into_bytes()),
        Word::Error { text, kind, .. } => Err(unlisted(
            format!("cannot list what it offers: {text}"),
            Some(kind),
        )),
        _ => Err(unlisted("the worker was lost while listing".into(), None)),
    }
}

impl Hub {
    /// A literal as it is, or the secret it names.
    pub(super) async fn reveal(&self, text: &Text) -> Result<vocab::Redacted<String>, String> {
        match text {
            Text::Literal(value) => Ok(vocab::Redacted::new(value.clone())),
            Text::Secret(reference) => {
                let value = self.secrets().reveal(reference).await?;
                self.hold(value.expose());
                Ok(value)
            }
        }
    }
}
