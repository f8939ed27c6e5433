//! Reaching a server: which transport, which era, in which order things are tried.

use std::{rc::Rc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use tokio::time::timeout;
use vocab::Redacted;
use wire::{Json, write::Object};

use super::{
    Aggregator,
    connection::Connection,
    delegate::Site,
    era::{self, Probe},
    http::{HttpLink, is_reserved},
    incoming::known,
    link::Link,
    listen, sse_legacy,
    sse_legacy::SseLink,
    stdio::{self, Pipes, StdioLink},
    terms::{Allow, Options, Owner},
    users::Users,
};
use crate::{
    failure::{Failure, clip},
    net::Target,
};

pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
pub(crate) const DEFAULT_MAX_RESULT: usize = 32 << 20;
/// How long a stdio server may think about `server/discover` before it counts as legacy.
const STDIO_PATIENCE: Duration = Duration::from_millis(1500);
const HTTP_PATIENCE: Duration = Duration::from_secs(4);
const MAX_HEADERS: usize = 64;

/// Which HTTP transport to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HttpKind {
    Auto,
    Streamable,
    Sse,
}

pub(crate) enum Transport {
    Http {
        site: Rc<Site>,
        kind: HttpKind,
        headers: HeaderMap,
        /// Its bearer is a login's: the gate can replace it, or there is none yet. And the key that the bearer is bound to.
        login: (bool, Option<u64>),
    },
    Stdio {
        tag: u64,
    },
}

/// Everything needed to connect to one server.
pub(crate) struct Spec {
    pub(crate) server: Rc<str>,
    pub(crate) generation: u64,
    pub(crate) transport: Transport,
    pub(crate) timeout: Duration,
    pub(crate) options: Options,
}

impl Spec {
    /// Reads the params of `connect`.
    pub(crate) fn read(params: Json<'_>) -> Result<Self, Failure> {
        let server = text(params, "server")?;
        let generation = params.get("generation").and_then(Json::as_u64).unwrap_or(0);
        let timeout = params
            .get("timeout_ms")
            .and_then(Json::as_u64)
            .map_or(DEFAULT_TIMEOUT, Duration::from_millis);
        let transport = params
            .get("transport")
            .ok_or_else(|| Failure::invalid("`transport` is missing"))?;
        let transport = match (transport.get("http"), transport.get("stdio")) {
            (Some(http), None) => read_http(http, timeout)?,
            (None, Some(stdio)) => {
                let tag = stdio.get("handover").and_then(Json::as_u64);
                Transport::Stdio {
                    tag: tag
                        .ok_or_else(|| Failure::invalid("`transport.stdio.handover` is missing"))?,
                }
            }
            _ => {
                return Err(Failure::invalid(
                    "`transport` must hold either `http` or `stdio`",
                ));
            }
        };
        Ok(Self {
            server: server.into(),
            generation,
            transport,
            timeout,
            options: read_options(params),
        })
    }

    /// What a seed definition says: HTTP only, nothing allowed beyond plain calls.
    pub(crate) fn seed(
        server: &str,
        generation: u64,
        url: &str,
        headers: Option<Json<'_>>,
        bearer: Option<&str>,
    ) -> Result<Self, Failure> {
        let headers = read_headers(headers, bearer, None)?;
        let site = Site::new(Target::parse(url)?, &headers, &[], DEFAULT_TIMEOUT);
        let transport = Transport::Http {
            site,
            kind: HttpKind::Auto,
            headers,
            login: (false, None),
        };
        let options = read_options(Json::EMPTY_OBJECT);
        Ok(Self {
            server: server.into(),
            generation,
            transport,
            timeout: DEFAULT_TIMEOUT,
            options,
        })
    }
}

fn text(params: Json<'_>, key: &str) -> Result<String, Failure> {
    let found = params
        .get(key)
        .and_then(Json::as_str)
        .filter(|text| !text.is_empty());
    found
        .map(|text| text.into_owned())
        .ok_or_else(|| Failure::invalid(format!("`{key}` is missing")))
}

fn read_options(params: Json<'_>) -> Options {
    let flag = |key| {
        params
            .path(&["allow", key])
            .and_then(Json::as_bool)
            .unwrap_or(false)
    };
    let max_result = params
        .get("max_result_bytes")
        .and_then(Json::as_u64)
        .and_then(|bytes| usize::try_from(bytes).ok());
    let client = params
        .get("client")
        .filter(|client| client.is_object())
        .map(|client| Bytes::copy_from_slice(client.as_bytes()));
    Options {
        allow: Allow {
            sampling: flag("sampling"),
            roots: flag("roots"),
            elicitation: flag("elicitation"),
        },
        client: client.unwrap_or_else(own_identity),
        max_result: max_result.unwrap_or(DEFAULT_MAX_RESULT).max(1024),
    }
}

fn own_identity() -> Bytes {
    let mut client = Object::new();
    client
        .str("name", "portcullis")
        .str("version", env!("CARGO_PKG_VERSION"));
    client.finish().into()
}

fn read_http(http: Json<'_>, patience: Duration) -> Result<Transport, Failure> {
    let kind = match http.get("kind").and_then(Json::as_str).as_deref() {
        None | Some("auto") => HttpKind::Auto,
        Some("streamable-http") => HttpKind::Streamable,
        Some("sse") => HttpKind::Sse,
        Some(other) => {
            return Err(Failure::invalid(format!(
                "`kind` is `{}`; it can be auto, streamable-http or sse",
                clip(other)
            )));
        }
    };
    let bearer = http.get("bearer").and_then(Json::as_str);
    let key = http.get("key").and_then(Json::as_u64);
    let headers = read_headers(http.get("headers"), bearer.as_deref(), key)?;
    let systems: Vec<String> = http
        .get("system_headers")
        .into_iter()
        .flat_map(Json::items)
        .filter_map(|name| name.as_str().map(|name| name.to_ascii_lowercase()))
        .collect();
    let site = Site::new(
        Target::parse(&text(http, "url")?)?,
        &headers,
        &systems,
        patience,
    );
    let has_login = http.get("login").and_then(Json::as_bool) == Some(true);
    Ok(Transport::Http {
        site,
        kind,
        headers,
        login: (has_login, key),
    })
}

/// The configured headers, without those that are not the configuration's to set.
fn read_headers(
    given: Option<Json<'_>>,
    bearer: Option<&str>,
    key: Option<u64>,
) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    for (name, value) in given.into_iter().flat_map(Json::fields).take(MAX_HEADERS) {
        // Only the name is ever shown: the value may be a credential.
        let name = HeaderName::try_from(&*name)
            .map_err(|_| Failure::invalid(format!("`{}` is not a header name", clip(&name))))?;
        if is_reserved(&name) {
            tracing::warn!(
                "the configured header `{name}` belongs to the protocol and is not sent"
            );
            continue;
        }
        let value = value
            .as_str()
            .map(|value| Redacted::new(value.into_owned()));
        let value = value.and_then(|value| HeaderValue::try_from(value.expose().as_str()).ok());
        let mut value = value.ok_or_else(|| {
            Failure::invalid(format!("the value of header `{name}` is not valid"))
        })?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    if let Some(bearer) = bearer.filter(|bearer| !bearer.is_empty()) {
        headers.insert(header::AUTHORIZATION, authorization(bearer, key)?);
    }
    Ok(headers)
}

/// What the header `Authorization` says for this bearer, which may be bound to a key; never shown by anything that shows headers.
pub(super) fn authorization(bearer: &str, key: Option<u64>) -> Result<HeaderValue, Failure> {
    let scheme = if key.is_some() { "DPoP" } else { "Bearer" };
    let line = Redacted::new(format!("{scheme} {bearer}"));
    let mut value = HeaderValue::try_from(line.expose().as_str())
        .map_err(|_| Failure::invalid("the bearer holds characters a header cannot carry"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Connects within the time the spec gives.
pub(crate) async fn connect(
    aggregator: &Rc<Aggregator>,
    spec: Spec,
) -> Result<Rc<Connection>, Failure> {
    let limit = spec.timeout;
    match timeout(limit, Box::pin(attempt(aggregator, spec))).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Failure::timeout(format!(
            "timeout: the server did not connect within {} ms",
            limit.as_millis()
        ))),
    }
}

async fn attempt(aggregator: &Rc<Aggregator>, spec: Spec) -> Result<Rc<Connection>, Failure> {
    let Spec {
        server,
        generation,
        transport,
        timeout,
        options,
    } = spec;
    let (hub, max_result) = (&aggregator.hub, options.max_result);
    let build = |link, users| {
        let owner = Owner::System(users);
        Opening::new(Connection::new(
            Rc::clone(hub),
            Rc::clone(&server),
            generation,
            options.clone(),
            link,
            owner,
        ))
    };
    match transport {
        Transport::Stdio { tag } => {
            let pipes = aggregator.parked.take(tag).await?;
            let link = StdioLink::new();
            let opening = build(Link::Stdio(Rc::clone(&link)), Users::none());
            over_stdio(opening.conn()?, &link, pipes).await?;
            opening.done()
        }
        Transport::Http {
            site,
            kind,
            headers,
            login,
        } => {
            if kind != HttpKind::Sse {
                let link =
                    HttpLink::new(hub, site.target.clone(), headers.clone(), max_result, login)?;
                let opening = build(Link::Http(link), Users::of(Rc::clone(&site)));
                match over_http(opening.conn()?, HTTP_PATIENCE.min(timeout / 2)).await {
                    Ok(()) => return opening.done(),
                    Err(failure) if kind == HttpKind::Auto && suggests_sse(&failure) => {}
                    Err(failure) => return Err(failure),
                }
            }
            let (link, events) =
                SseLink::connect(hub, site.target.clone(), headers, max_result, login).await?;
            let opening = build(Link::Sse(link), Users::of(site));
            sse_legacy::start(opening.conn()?, events);
            era::initialize(opening.conn()?).await?;
            opening.done()
        }
    }
}

/// A connection in the making: closed again unless it is completed.
pub(super) struct Opening(Option<Rc<Connection>>);

impl Opening {
    pub(super) fn new(conn: Rc<Connection>) -> Self {
        Self(Some(conn))
    }

    pub(super) fn conn(&self) -> Result<&Rc<Connection>, Failure> {
        self.0
            .as_ref()
            .ok_or_else(|| Failure::upstream("the connection is gone"))
    }

    pub(super) fn done(mut self) -> Result<Rc<Connection>, Failure> {
        self.0
            .take()
            .ok_or_else(|| Failure::upstream("the connection is gone"))
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(conn) = self.0.take() {
            conn.close(Failure::upstream("connecting was given up"), false);
        }
    }
}

/// A legacy SSE server knows nothing of POST at its address.
fn suggests_sse(failure: &Failure) -> bool {
    failure.rpc.is_none() && matches!(failure.status, Some(400 | 404 | 405 | 406 | 415 | 501))
}

async fn over_http(conn: &Rc<Connection>, patience: Duration) -> Result<(), Failure> {
    match era::probe(conn, patience).await? {
        Probe::Modern(peer) => {
            conn.introduce(peer);
            listen::reopen(conn).await;
            Ok(())
        }
        Probe::Legacy => era::initialize(conn).await,
    }
}

async fn over_stdio(
    conn: &Rc<Connection>,
    link: &Rc<StdioLink>,
    pipes: Pipes,
) -> Result<(), Failure> {
    stdio::start(conn, link, pipes);
    if let Probe::Modern(peer) = era::probe(conn, STDIO_PATIENCE).await? {
        conn.introduce(peer);
        listen::reopen(conn).await;
        return Ok(());
    }
    let refused = match era::initialize(conn).await {
        Err(failure) if failure.rpc.is_some() => failure,
        outcome => return outcome,
    };
    // A modern server that was only slow to start refuses `initialize`; by now it is awake.
    match era::probe(conn, STDIO_PATIENCE).await? {
        Probe::Modern(peer) => {
            conn.introduce(peer);
            listen::reopen(conn).await;
            Ok(())
        }
        Probe::Legacy => Err(refused),
    }
}

/// What `connect` answers with.
pub(crate) fn description(conn: &Connection) -> Vec<u8> {
    let mut out = Object::new();
    if let Some(peer) = conn.peer() {
        out.str("protocol", peer.revision.as_str());
        out.str(
            "era",
            if peer.revision.is_modern() {
                "modern"
            } else {
                "legacy"
            },
        );
        out.json("capabilities", known(&peer.capabilities));
        out.json("server_info", known(&peer.info));
        if let Some(instructions) = &peer.instructions {
            out.raw("instructions", instructions);
        }
    }
    out.finish()
}
