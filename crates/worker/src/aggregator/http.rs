//! Streamable HTTP: one POST per message, the reply a JSON document or an event stream.
//!
//! The server's own headers from the configuration are sent with every request to its origin and nowhere else; those the protocol
//! owns cannot be overridden. Redirects stay on the origin.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header, uri::PathAndQuery,
};
use tokio::{task::JoinHandle, time::timeout};
use wire::mcp::Revision;

use super::{
    connection::Connection,
    era,
    hub::Hub,
    incoming::Incoming,
    link::Replies,
    login::{Login, bearer},
    outgoing::Outgoing,
    post_stream::{Events, PostStream},
    proofs::Prover,
};
use crate::{
    failure::{Failure, Kind, clip},
    net::{Client, Exchange, Payload, Target},
};

const MAX_REDIRECTS: usize = 3;
/// How much of an error response is read.
const MAX_ERROR_BODY: usize = 64 << 10;
const MAX_SESSION_ID: usize = 1024;
/// A stream may carry notifications besides its result; this much more than a result in all.
const STREAM_SLACK: usize = 8 << 20;
const FAREWELL: Duration = Duration::from_secs(2);
pub(crate) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

#[derive(Debug)]
pub(crate) struct HttpLink {
    client: Rc<Client>,
    path: RefCell<PathAndQuery>,
    /// Sent with every request; holds the session and the protocol version once they are known.
    headers: RefCell<HeaderMap>,
    max_result: usize,
    modern: Cell<bool>,
    /// One at a time opens a lost session anew.
    reviving: tokio::sync::Mutex<()>,
    login: Option<Login>,
    prover: Prover,
}

impl HttpLink {
    pub(crate) fn new(
        hub: &Rc<Hub>,
        target: Target,
        mut headers: HeaderMap,
        max_result: usize,
        (has_login, key): (bool, Option<u64>),
    ) -> Result<Rc<Self>, Failure> {
        headers.insert(
            header::USER_AGENT,
            HeaderValue::from_static(concat!("portcullis/", env!("CARGO_PKG_VERSION"))),
        );
        if target.tls {
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        }
        let path = RefCell::new(target.path.clone());
        Ok(Rc::new(Self {
            client: Client::new(Rc::clone(&hub.net), target)?,
            path,
            headers: RefCell::new(headers),
            max_result,
            modern: Cell::new(false),
            reviving: tokio::sync::Mutex::new(()),
            login: has_login.then(Login::default),
            prover: Prover::new(hub, key),
        }))
    }

    pub(crate) fn set_revision(&self, revision: Option<Revision>) {
        self.modern.set(revision.is_some_and(Revision::is_modern));
        let mut headers = self.headers.borrow_mut();
        match revision {
            // Before 2025-06-18 there was no such header; an unknown one does no harm, but an older server gets none.
            Some(revision) if revision >= Revision::V2025_06_18 => {
                headers.insert(VERSION, HeaderValue::from_static(revision.as_str()));
            }
            _ => {
                headers.remove(VERSION);
            }
        }
    }

    pub(crate) fn session(&self) -> Option<HeaderValue> {
        self.headers.borrow().get(SESSION).cloned()
    }

    fn adopt_session(&self, response: &HeaderMap) {
        let given = response
            .get(SESSION)
            .filter(|id| id.len() <= MAX_SESSION_ID && id.to_str().is_ok());
        match given {
            Some(id) => self.headers.borrow_mut().insert(SESSION, id.clone()),
            None => self.headers.borrow_mut().remove(SESSION),
        };
    }

    pub(crate) async fn open(
        self: &Rc<Self>,
        conn: &Rc<Connection>,
        outgoing: &Outgoing,
    ) -> Result<Replies, Failure> {
        let mut revived = outgoing.opening;
        let mut renewed = false;
        loop {
            let bearer = bearer(&self.headers);
            let session = if outgoing.opening {
                None
            } else {
                self.session()
            };
            let limit = if outgoing.endless {
                usize::MAX
            } else {
                self.max_result.saturating_add(STREAM_SLACK)
            };
            let exchange = self
                .send(Method::POST, BOTH, &outgoing.headers, &outgoing.body, limit)
                .await?;
            if exchange.status == StatusCode::NOT_FOUND && session.is_some() && !revived {
                revived = true;
                drop(exchange);
                Box::pin(self.revive(conn, session)).await?;
                continue;
            }
            if exchange.status == StatusCode::UNAUTHORIZED && !renewed && conn.peer().is_some() {
                renewed = true;
                // The server did not take the request, so it may be sent again as it is.
                if self.is_renewed(conn, bearer.as_ref()).await {
                    continue;
                }
            }
            if exchange.status == StatusCode::FORBIDDEN
                && self.login.is_some()
                && let Some(scope) = wanted_scope(&exchange.headers)
            {
                conn.hub
                    .tell("unauthorized", &conn.server, conn.generation, |line| {
                        line.str("scope", &scope);
                    });
            }
            if outgoing.opening && exchange.status.is_success() {
                self.adopt_session(&exchange.headers);
            }
            // While the gate does not keep up, answers stay in the kernel.
            conn.hub.out.room().await;
            return self.read(exchange).await;
        }
    }

    async fn is_renewed(&self, conn: &Connection, refused: Option<&HeaderValue>) -> bool {
        match &self.login {
            Some(login) => login.is_renewed(conn, &self.headers, refused).await,
            None => false,
        }
    }

    /// The gate renewed the login, or has none any more.
    pub(super) fn replace_bearer(
        &self,
        bearer: (Option<&str>, Option<u64>),
    ) -> Result<(), Failure> {
        match &self.login {
            Some(login) => login.replace(&self.headers, &self.prover, bearer),
            None => Err(Failure::invalid("this connection has no login")),
        }
    }

    /// The server forgot our session: opens a new one, unless another call did so meanwhile.
    async fn revive(
        &self,
        conn: &Rc<Connection>,
        lost: Option<HeaderValue>,
    ) -> Result<(), Failure> {
        let _one = self.reviving.lock().await;
        if self.session() != lost {
            return Ok(());
        }
        tracing::info!(
            server = &*conn.server,
            "the server forgot our session; opening a new one"
        );
        self.headers.borrow_mut().remove(SESSION);
        era::reopen(conn).await
    }

    async fn read(self: &Rc<Self>, exchange: Exchange) -> Result<Replies, Failure> {
        if !exchange.status.is_success() {
            return Err(Box::pin(self.refusal(exchange)).await);
        }
        match &*exchange.content_type() {
            "application/json" => {
                let body = exchange.whole().await?;
                let message =
                    Incoming::read(body, self.max_result.saturating_add(STREAM_SLACK)).await?;
                Ok(Replies::Document(Some(message)))
            }
            "text/event-stream" => {
                let events = Events::new(exchange, self.max_result);
                Ok(Replies::Stream(Box::new(PostStream::new(
                    Rc::clone(self),
                    events,
                    !self.modern.get(),
                ))))
            }
            // Some legacy servers accept a request and reply on the standing stream.
            "" if !self.modern.get() => {
                exchange.release();
                Ok(Replies::Inbox)
            }
            other => Err(Failure::invalid(format!(
                "the server answered with content type `{}`; JSON or an event stream was expected",
                clip(other)
            ))),
        }
    }

    /// Sends a notification or a reply.
    pub(crate) async fn post(&self, body: Payload) -> Result<(), Failure> {
        let exchange = self
            .send(Method::POST, BOTH, &[], &body, MAX_ERROR_BODY)
            .await?;
        if exchange.status.is_success() {
            exchange.release();
            return Ok(());
        }
        Err(self.refusal(exchange).await)
    }

    /// Opens the standing stream, or resumes one.
    pub(crate) async fn get(&self, last_id: Option<&str>) -> Result<Events, Failure> {
        let mut extra = Vec::new();
        if let Some(id) = last_id.and_then(|id| HeaderValue::try_from(id).ok()) {
            extra.push((LAST_EVENT, id));
        }
        let exchange = self
            .send(Method::GET, EVENTS, &extra, &Payload::default(), usize::MAX)
            .await?;
        if !exchange.status.is_success() {
            return Err(self.refusal(exchange).await);
        }
        if exchange.content_type() != "text/event-stream" {
            return Err(Failure::invalid("the server offers no event stream")
                .status(exchange.status.as_u16()));
        }
        Ok(Events::new(exchange, self.max_result))
    }

    async fn send(
        &self,
        method: Method,
        accept: HeaderValue,
        extra: &[(HeaderName, HeaderValue)],
        body: &Payload,
        limit: usize,
    ) -> Result<Exchange, Failure> {
        let mut path = self.path.borrow().clone();
        for _ in 0..=MAX_REDIRECTS {
            let build = || self.build(method.clone(), path.clone(), accept.clone(), extra, body);
            let (mut exchange, is_refused) = self.proved(build()?, limit).await?;
            if is_refused {
                // The server did not take the request, so it may be sent again as it is, with the nonce it wants.
                exchange.release();
                (exchange, _) = self.proved(build()?, limit).await?;
            }
            match exchange.status {
                StatusCode::MOVED_PERMANENTLY
                | StatusCode::FOUND
                | StatusCode::TEMPORARY_REDIRECT
                | StatusCode::PERMANENT_REDIRECT => path = self.follow(&exchange)?,
                _ => return Ok(exchange),
            }
        }
        Err(Failure::upstream(format!(
            "{} redirects more than {MAX_REDIRECTS} times",
            self.client.origin().place()
        )))
    }

    async fn proved(
        &self,
        request: Request<Payload>,
        limit: usize,
    ) -> Result<(Exchange, bool), Failure> {
        self.prover.send(&self.client, request, limit).await
    }

    /// Where a redirect leads, if it stays on this origin. Credentials never follow one elsewhere.
    fn follow(&self, exchange: &Exchange) -> Result<PathAndQuery, Failure> {
        let here = Target {
            path: self.path.borrow().clone(),
            ..self.client.origin().clone()
        };
        let location = exchange
            .headers
            .get(header::LOCATION)
            .and_then(|value| value.to_str().ok());
        let there = here.join(
            location
                .ok_or_else(|| Failure::upstream("the server redirects, but not to anywhere"))?,
        )?;
        if !here.same_origin(&there) {
            return Err(Failure::refused(format!(
                "{}://{} redirects to {}://{}; redirects to another host, port or scheme are not followed",
                here.scheme(),
                here.place(),
                there.scheme(),
                there.place()
            )));
        }
        if matches!(
            exchange.status,
            StatusCode::MOVED_PERMANENTLY | StatusCode::PERMANENT_REDIRECT
        ) {
            self.path.borrow_mut().clone_from(&there.path);
        }
        Ok(there.path)
    }

    fn build(
        &self,
        method: Method,
        path: PathAndQuery,
        accept: HeaderValue,
        extra: &[(HeaderName, HeaderValue)],
        body: &Payload,
    ) -> Result<Request<Payload>, Failure> {
        let mut headers = self.headers.borrow().clone();
        headers.insert(header::ACCEPT, accept);
        if method == Method::POST {
            headers.insert(header::CONTENT_TYPE, JSON);
        }
        for (name, value) in extra {
            headers.insert(name, value.clone());
        }
        let mut request = Request::new(body.clone());
        *request.method_mut() = method;
        *request.uri_mut() = Uri::from(path);
        *request.headers_mut() = headers;
        Ok(request)
    }

    /// Turns an HTTP error into words, keeping a JSON-RPC error the server put into it.
    async fn refusal(&self, exchange: Exchange) -> Failure {
        let status = exchange.status;
        let challenge = exchange
            .headers
            .get(header::WWW_AUTHENTICATE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_owned();
        let scope = status == StatusCode::FORBIDDEN && challenge.contains("insufficient_scope");
        let place = self.client.origin().place();
        if self.login.is_some() && (status == StatusCode::UNAUTHORIZED || scope) {
            let text = match named_scope(&challenge) {
                Some(wanted) if scope => format!("{place} wants more rights: {wanted} (HTTP 403)"),
                _ if scope => format!("insufficient scope for {place} (HTTP 403)"),
                _ => format!("{place} wants a login (HTTP 401)"),
            };
            return Failure::new(Kind::Login, text).status(status.as_u16());
        }
        let is_json = exchange.content_type() == "application/json";
        let body = if is_json {
            timeout(FAREWELL, exchange.whole())
                .await
                .ok()
                .and_then(Result::ok)
        } else {
            None
        };
        if let Some(Ok(Incoming::Error { error, .. })) =
            body.map(|body| Incoming::parse(body, MAX_ERROR_BODY))
        {
            return Failure::rpc(error).status(status.as_u16());
        }
        let text = match status {
            StatusCode::UNAUTHORIZED => format!("authentication required by {place} (HTTP 401)"),
            StatusCode::FORBIDDEN if scope => format!("insufficient scope for {place} (HTTP 403)"),
            StatusCode::FORBIDDEN => format!("forbidden by {place} (HTTP 403)"),
            _ => format!("{place} answered with HTTP {}", status.as_u16()),
        };
        Failure::upstream(text).status(status.as_u16())
    }

    /// Ends the session, if there is one, without waiting for it.
    pub(crate) fn close(self: &Rc<Self>) -> Option<JoinHandle<()>> {
        self.session()?;
        let link = Rc::clone(self);
        Some(tokio::task::spawn_local(async move {
            let nothing = Payload::default();
            let gone = link.send(Method::DELETE, BOTH, &[], &nothing, MAX_ERROR_BODY);
            if let Ok(Ok(exchange)) = timeout(FAREWELL, gone).await {
                exchange.release();
            }
            link.headers.borrow_mut().remove(SESSION);
        }))
    }

    pub(crate) fn sweep(&self) {
        self.client.sweep();
    }
}

/// The scopes that a server wants beyond those it was shown.
fn wanted_scope(headers: &HeaderMap) -> Option<String> {
    let challenge = headers.get(header::WWW_AUTHENTICATE)?.to_str().ok()?;
    challenge
        .contains("insufficient_scope")
        .then(|| named_scope(challenge))
        .flatten()
}

/// The scopes that a challenge names.
fn named_scope(challenge: &str) -> Option<String> {
    let (_, rest) = challenge.split_once("scope=\"")?;
    rest.split_once('"').map(|(scope, _)| clip(scope))
}

/// Headers of the configuration that the protocol or HTTP itself owns.
pub(crate) fn is_reserved(name: &HeaderName) -> bool {
    const RESERVED: [&str; 12] = [
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "expect",
        "host",
        "last-event-id",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    name.as_str().starts_with("mcp-") || RESERVED.contains(&name.as_str())
}
