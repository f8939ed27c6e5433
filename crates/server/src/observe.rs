//! The door of those who watch: `/metrics`, `/livez`, `/readyz`, and nothing else. It is on loopback, takes no credential and shows no caller.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use doors::Limiter;
use gateway::Gate;
use http::{HeaderValue, Method, Request, StatusCode, header};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, sync::Semaphore, task::JoinSet};

use crate::{
    metrics::{self, Certificates},
    reply::{self, Body, Reply},
};

/// Whoever watches needs few connections; another waits for its turn.
const CONNECTIONS: usize = 16;
const HEAD_DEADLINE: Duration = Duration::from_secs(10);
/// How long one connection is kept, so that nobody holds a place for ever.
const AGE: Duration = Duration::from_secs(300);

/// What is watched.
#[derive(Clone)]
pub struct Watched {
    pub gate: Gate,
    pub limiter: Arc<Limiter>,
    pub certificates: Certificates,
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").finish_non_exhaustive()
    }
}

/// Answers until `shutdown` resolves, which is when nothing is left to watch.
pub async fn serve_watchers(
    watched: Watched,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let (place, stream) = tokio::select! {
            () = &mut shutdown => return Ok(()),
            Some(_) = connections.join_next() => continue,
            come = come(&places, &listener) => match come {
                Ok(come) => come,
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection of a watcher");
                    tokio::time::sleep(crate::listen::ACCEPT_PAUSE).await;
                    continue;
                }
            },
        };
        let watched = watched.clone();
        connections.spawn(async move {
            let _place = place;
            let service = service_fn(move |request| {
                let watched = watched.clone();
                async move { Ok::<_, Infallible>(answer(&watched, &request).await) }
            });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new())
                .header_read_timeout(HEAD_DEADLINE);
            let connection = http.serve_connection(TokioIo::new(stream), service);
            let _ended = tokio::time::timeout(AGE, connection).await;
        });
    }
}

async fn come(
    places: &Arc<Semaphore>,
    listener: &TcpListener,
) -> io::Result<(tokio::sync::OwnedSemaphorePermit, tokio::net::TcpStream)> {
    let place = Arc::clone(places)
        .acquire_owned()
        .await
        .map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((place, stream))
}

async fn answer(watched: &Watched, request: &Request<Incoming>) -> Reply {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return reply::wrong_method("GET, HEAD");
    }
    match request.uri().path() {
        "/metrics" => {
            let status = watched.gate.admin().status().await;
            let certificates = (watched.certificates)();
            let tallied = watched.gate.tallied();
            let text = metrics::text(&status, &tallied, &watched.limiter, &certificates);
            let mut reply = reply::json(StatusCode::OK, Body::whole(text.into_bytes()));
            let kind = HeaderValue::from_static(metrics::TYPE);
            reply.headers_mut().insert(header::CONTENT_TYPE, kind);
            reply
        }
        "/livez" => reply::json(StatusCode::OK, Body::whole(&b"{\"status\":\"ok\"}"[..])),
        "/readyz" => ready(watched).await,
        _ => reply::not_found(),
    }
}

/// Whether new work should come here, and if not, why. Servers never count.
async fn ready(watched: &Watched) -> Reply {
    let status = watched.gate.admin().status().await;
    let mut reasons = Vec::new();
    if !watched.gate.is_ready() {
        reasons.push("draining".to_owned());
    }
    if status.ledger.broken.is_some() {
        reasons.push("ledger".to_owned());
    }
    if status.worker.pid.is_none() {
        reasons.push("worker".to_owned());
    }
    let quoted: Vec<String> = reasons
        .iter()
        .map(|reason| format!("\"{reason}\""))
        .collect();
    let (code, word) = match reasons.is_empty() {
        true => (StatusCode::OK, "ok"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "not ready"),
    };
    let text = format!(
        "{{\"status\":\"{word}\",\"reasons\":[{}]}}",
        quoted.join(",")
    );
    reply::json(code, Body::whole(text.into_bytes()))
}
