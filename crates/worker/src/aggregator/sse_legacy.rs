//! HTTP+SSE of revision 2024-11-05: a standing event stream, and an address to POST to that the stream names first.

use std::{
    cell::RefCell,
    rc::{Rc, Weak},
};

use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header, uri::PathAndQuery};

use super::{
    connection::Connection,
    hub::Hub,
    login::{Login, bearer},
    post_stream::Events,
    proofs::Prover,
};
use crate::{
    failure::{Failure, Kind},
    net::{Client, Payload, Target},
};

const MAX_ERROR_BODY: usize = 64 << 10;
/// Events that may come before the one that names the address.
const MAX_PRELUDE: usize = 16;

#[derive(Debug)]
pub(crate) struct SseLink {
    client: Rc<Client>,
    headers: RefCell<HeaderMap>,
    endpoint: RefCell<PathAndQuery>,
    login: Option<Login>,
    prover: Prover,
}

impl SseLink {
    /// Opens the stream and waits for the `endpoint` event. An endpoint on another origin is refused: our credentials would go there.
    pub(crate) async fn connect(
        hub: &Rc<Hub>,
        target: Target,
        headers: HeaderMap,
        max_result: usize,
        (has_login, key): (bool, Option<u64>),
    ) -> Result<(Rc<Self>, Events), Failure> {
        let client = Client::new(Rc::clone(&hub.net), target.clone())?;
        let prover = Prover::new(hub, key);
        let mut greeting = headers.clone();
        greeting.insert(
            header::ACCEPT,
            HeaderValue::from_static("text/event-stream"),
        );
        let build = || {
            let mut request = Request::new(Payload::default());
            *request.uri_mut() = Uri::from(target.path.clone());
            *request.headers_mut() = greeting.clone();
            request
        };
        let (mut exchange, is_refused) = prover.send(&client, build(), usize::MAX).await?;
        if is_refused {
            exchange.release();
            (exchange, _) = prover.send(&client, build(), usize::MAX).await?;
        }
        let status = exchange.status;
        if !status.is_success() || exchange.content_type() != "text/event-stream" {
            if has_login && status == StatusCode::UNAUTHORIZED {
                return Err(wants_login(&target));
            }
            let text = match status.as_u16() {
                401 => format!("authentication required by {} (HTTP 401)", target.place()),
                code => format!("{} offers no event stream (HTTP {code})", target.place()),
            };
            return Err(Failure::upstream(text).status(status.as_u16()));
        }
        let mut events = Events::new(exchange, max_result);
        for _ in 0..MAX_PRELUDE {
            let Some(event) = events.next().await? else {
                break;
            };
            if event.event.as_deref() != Some("endpoint") {
                continue;
            }
            let named = String::from_utf8_lossy(&event.data).into_owned();
            let endpoint = target.join(&named)?;
            if !target.same_origin(&endpoint) {
                return Err(Failure::refused(format!(
                    "{} names {} as its endpoint; another host, port or scheme is not accepted",
                    target.place(),
                    endpoint.place()
                )));
            }
            return Ok((
                Rc::new(Self {
                    client,
                    headers: RefCell::new(headers),
                    endpoint: RefCell::new(endpoint.path),
                    login: has_login.then(Login::default),
                    prover,
                }),
                events,
            ));
        }
        Err(Failure::invalid(
            "the server's event stream names no endpoint",
        ))
    }

    /// Sends a message; a bearer that the server does not take is renewed first.
    pub(crate) async fn post(&self, conn: &Connection, body: Payload) -> Result<(), Failure> {
        let refused = bearer(&self.headers);
        let mut status = self.send(body.clone()).await?;
        if status == StatusCode::UNAUTHORIZED
            && conn.peer().is_some()
            && let Some(login) = &self.login
            && login
                .is_renewed(conn, &self.headers, refused.as_ref())
                .await
        {
            // The server did not take the message, so it may be sent again as it is.
            status = self.send(body).await?;
        }
        let place = self.client.origin();
        match status {
            _ if status.is_success() => Ok(()),
            StatusCode::UNAUTHORIZED if self.login.is_some() => Err(wants_login(place)),
            _ => {
                let text = format!("{} answered with HTTP {}", place.place(), status.as_u16());
                Err(Failure::upstream(text).status(status.as_u16()))
            }
        }
    }

    async fn send(&self, body: Payload) -> Result<StatusCode, Failure> {
        let (status, is_refused) = self.send_once(body.clone()).await?;
        match is_refused {
            // The server wants another nonce in the proof, and did not take the message.
            true => Ok(self.send_once(body).await?.0),
            false => Ok(status),
        }
    }

    async fn send_once(&self, body: Payload) -> Result<(StatusCode, bool), Failure> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from(self.endpoint.borrow().clone());
        *request.headers_mut() = self.headers.borrow().clone();
        request.headers_mut().insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        request.headers_mut().insert(
            header::ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        let (exchange, is_refused) = self
            .prover
            .send(&self.client, request, MAX_ERROR_BODY)
            .await?;
        let status = exchange.status;
        exchange.release();
        Ok((status, is_refused))
    }

    /// The gate renewed the login, or has none any more. The standing stream goes on: it was opened by who had the right to.
    pub(super) fn replace_bearer(
        &self,
        bearer: (Option<&str>, Option<u64>),
    ) -> Result<(), Failure> {
        match &self.login {
            Some(login) => login.replace(&self.headers, &self.prover, bearer),
            None => Err(Failure::invalid("this connection has no login")),
        }
    }

    pub(crate) fn sweep(&self) {
        self.client.sweep();
    }
}

fn wants_login(target: &Target) -> Failure {
    let text = format!("{} wants a login (HTTP 401)", target.place());
    Failure::new(Kind::Login, text).status(StatusCode::UNAUTHORIZED.as_u16())
}

/// Reads the stream for as long as it lasts; its end is the end of the connection.
pub(crate) fn start(conn: &Rc<Connection>, events: Events) {
    let reader = tokio::task::spawn_local(read(Rc::downgrade(conn), events));
    conn.own(reader.abort_handle());
}

async fn read(conn: Weak<Connection>, mut events: Events) {
    let why = loop {
        match events.next().await {
            Ok(None) => break Failure::upstream("the server closed its event stream"),
            Err(failure) => break failure,
            Ok(Some(event)) => {
                let Some(conn) = conn.upgrade() else { return };
                if event.event.as_deref().is_none_or(|name| name == "message") {
                    conn.take(event).await;
                }
            }
        }
    };
    if let Some(conn) = conn.upgrade() {
        conn.close(why, true);
    }
}
