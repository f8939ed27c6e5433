//! Accepting connections, and letting go of them without dropping what is in flight.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use doors::{Arrival, Entrance, Limiter, Stream};
use gateway::Gate;
use http::header;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
    task::JoinSet,
};

use crate::{
    body,
    crowd::{Crowd, Guest, connections},
    door::Door,
    inlet::Inlet,
    route,
};

/// How long a connection may stand idle, or take to send a request's head.
const HEAD_DEADLINE: Duration = Duration::from_secs(60);
const MAX_HEADERS: usize = 128;
/// What the system holds of an answer that it cannot send yet, because the client does not read: no more than this, so that
/// what waits does so where it is counted.
const UNSENT: u32 = 256 << 10;
/// What is read at once: a head has room, and what long bodies begin with is not copied far.
const READ_BUFFER: usize = 64 << 10;
/// How long a connection that has become too old may take to end.
const LAST_WORDS: Duration = Duration::from_secs(15);
/// After a failed accept (out of descriptors, say) we wait instead of spinning.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where connections come in, and what each passes before its first request.
pub type Entrances = Vec<(TcpListener, Arc<Entrance>)>;

/// Serves the HTTP doors until `shutdown` resolves, then drains: no new connection, streams end, and connections get as long to end as
/// `shutdown` says. The gate gives the calls themselves less, and then cancels them, so that each is answered. `descriptors` is how many this process may have open.
pub async fn serve(
    gate: Gate,
    entrances: Entrances,
    limiter: Arc<Limiter>,
    descriptors: usize,
    shutdown: impl Future<Output = Duration>,
) -> io::Result<()> {
    let (close, closing) = watch::channel(false);
    let door = Door::new(gate, limiter, closing);
    let (strangers, callers) = connections(descriptors);
    let crowd = Crowd::new(strangers, callers);
    let mut connections = JoinSet::new();
    let mut accepting = JoinSet::new();
    let (come, mut came) = mpsc::channel(1);
    let (stop, stopping) = watch::channel(false);
    for (listener, entrance) in entrances {
        accepting.spawn(accept(listener, entrance, come.clone(), stopping.clone()));
    }
    drop(come);
    let mut shutdown = std::pin::pin!(shutdown);
    let patience = loop {
        tokio::select! {
            patience = &mut shutdown => break patience,
            Some(_) = connections.join_next() => {}
            Some((stream, peer, entrance)) = came.recv() => {
                connections.spawn(welcome(Arc::clone(&door), stream, peer, entrance, crowd.enter()));
            }
        }
    };
    let _ = stop.send(true);
    // Who was accepted is still welcome. This ends when the last listener is closed.
    while let Some((stream, peer, entrance)) = came.recv().await {
        connections.spawn(welcome(
            Arc::clone(&door),
            stream,
            peer,
            entrance,
            crowd.enter(),
        ));
    }
    // Nobody listening any more is fine: then there is nothing to end.
    let _ = close.send(true);
    let drained = tokio::time::timeout(patience, async {
        while connections.join_next().await.is_some() {}
    })
    .await;
    if drained.is_err() {
        tracing::warn!(
            connections = connections.len(),
            "closing connections that did not finish in time"
        );
    }
    connections.shutdown().await;
    Ok(())
}

fn protocol(max_header_bytes: usize) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .max_headers(MAX_HEADERS)
        .max_header_size(max_header_bytes)
        .max_buf_size(READ_BUFFER.max(max_header_bytes + (8 << 10)));
    http
}

/// How the system is to treat a connection.
fn prepare(stream: &TcpStream, write_timeout: Duration) {
    let socket = socket2::SockRef::from(stream);
    // Without the first a stream's last piece waits for the client's delayed acknowledgement.
    let prepared = stream
        .set_nodelay(true)
        .and_then(|()| socket.set_tcp_notsent_lowat(UNSENT))
        .and_then(|()| socket.set_tcp_user_timeout(Some(2 * write_timeout)));
    if let Err(error) = prepared {
        tracing::debug!(%error, "could not prepare a connection");
    }
}

/// A connection as it was accepted.
type Come = (TcpStream, SocketAddr, Arc<Entrance>);

async fn accept(
    listener: TcpListener,
    entrance: Arc<Entrance>,
    come: mpsc::Sender<Come>,
    mut stopping: watch::Receiver<bool>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|stop| *stop) => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                if come
                    .send((stream, peer, Arc::clone(&entrance)))
                    .await
                    .is_err()
                {
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn welcome(
    door: Arc<Door>,
    stream: TcpStream,
    peer: SocketAddr,
    entrance: Arc<Entrance>,
    guest: Arc<Guest>,
) {
    prepare(&stream, door.gate.settings().write_timeout);
    let admitted = tokio::select! {
        admitted = entrance.admit(stream, peer) => admitted,
        () = guest.dismissed() => return tracing::debug!("a connection that was being opened made room"),
    };
    match admitted {
        Ok((stream, arrival)) => {
            converse(door, stream, Arc::new(arrival), entrance.age(), guest).await
        }
        Err(closed) => {
            tracing::debug!(%peer, %closed, "a connection was closed before its first request");
            door.gate.strangers(closed.reason());
        }
    }
}

async fn converse(
    door: Arc<Door>,
    stream: Stream,
    arrival: Arc<Arrival>,
    age: Option<Duration>,
    guest: Arc<Guest>,
) {
    let write_timeout = door.gate.settings().write_timeout;
    let (inlet, diversion) = Inlet::new(stream, write_timeout);
    let max_header_bytes = door.gate.settings().max_header_bytes;
    let service = service_fn(|mut request| {
        let (door, guest) = (Arc::clone(&door), Arc::clone(&guest));
        body::may_divert(&mut request, &diversion);
        request.extensions_mut().insert(Arc::clone(&guest));
        request.extensions_mut().insert(Arc::clone(&arrival));
        async move {
            guest.set_busy(true);
            let mut reply = route::answer(&door, request).await;
            guest.set_busy(false);
            if guest.is_surplus() || door.gate.settings().max_header_bytes != max_header_bytes {
                // A connection keeps the limit it began with, so the next request comes on another one.
                reply.headers_mut().insert(
                    header::CONNECTION,
                    header::HeaderValue::from_static("close"),
                );
            }
            Ok::<_, std::convert::Infallible>(reply)
        }
    });
    let mut connection =
        std::pin::pin!(protocol(max_header_bytes).serve_connection(TokioIo::new(inlet), service));
    let too_old = async {
        match age {
            Some(age) => tokio::time::sleep(age).await,
            None => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = too_old => {
            connection.as_mut().graceful_shutdown();
            // A stream has no end of its own.
            let Ok(ended) = tokio::time::timeout(LAST_WORDS, connection).await else {
                return tracing::debug!("a connection with a client certificate was closed for its age");
            };
            ended
        }
        () = guest.dismissed() => return tracing::debug!("a connection without a credential made room"),
        () = door.closing() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
