//! One request and its response on one connection.
//!
//! The connection is driven by whoever waits for the response, inside the same task: no hop to another task for each step of a
//! call. A connection whose response was read to its end goes back to the pool; any other is closed.

use std::{
    future::poll_fn,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body::Body;
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use sandbox::shared::Block;
use tokio::time::timeout;
use wire::worker;

use super::{
    Client, Payload,
    dial::Stream,
    gzip::Gunzip,
    held::Share,
    inlet::{Diversion, Inlet},
};
use crate::{failure::Failure, fair::Turn};

/// Response heads larger than this are refused.
const MAX_HEAD: usize = 64 << 10;
const MAX_HEADERS: usize = 128;
/// What is read at once: a head has room, and what long bodies begin with is not copied far.
const READ_BUFFER: usize = MAX_HEAD + (8 << 10);
/// How long, and for how many bytes, we wait for the end of a stream whose answer we already have.
const DRAIN: Duration = Duration::from_secs(2);
const DRAIN_BYTES: usize = 64 << 10;

/// Moves the bytes of one connection whenever it is polled.
type Drive = Pin<Box<http1::Connection<TokioIo<Inlet>, Payload>>>;

/// An HTTP/1.1 connection and the future that moves its bytes.
pub(super) struct Conn {
    send: SendRequest<Payload>,
    drive: Option<Drive>,
    diversion: Diversion,
}

/// A request that got no response. `unsent` holds it if no byte of it left.
pub(super) struct NoResponse {
    pub(super) unsent: Option<Request<Payload>>,
    pub(super) failure: Failure,
}

impl Conn {
    pub(super) async fn open(stream: Stream) -> Result<Self, Failure> {
        let (inlet, diversion) = Inlet::new(stream);
        let mut http = http1::Builder::new();
        http.max_headers(MAX_HEADERS)
            .max_header_size(MAX_HEAD)
            .max_buf_size(READ_BUFFER);
        let opened = http.handshake(TokioIo::new(inlet)).await;
        let (send, drive) =
            opened.map_err(|error| Failure::upstream(format!("HTTP could not start: {error}")))?;
        Ok(Self {
            send,
            drive: Some(Box::pin(drive)),
            diversion,
        })
    }

    fn drive(&mut self, cx: &mut Context<'_>) {
        if let Some(drive) = &mut self.drive
            && drive.as_mut().poll(cx).is_ready()
        {
            // Dropping it settles everything that still waits on it.
            self.drive = None;
        }
    }

    /// Still open, and free to take a request.
    pub(super) fn is_ready(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.drive.is_some() && self.send.is_ready()
    }

    pub(super) async fn send(
        &mut self,
        request: Request<Payload>,
    ) -> Result<Response<Incoming>, NoResponse> {
        let mut reply = std::pin::pin!(self.send.try_send_request(request));
        let outcome = poll_fn(|cx| {
            if let Some(drive) = &mut self.drive
                && drive.as_mut().poll(cx).is_ready()
            {
                self.drive = None;
            }
            reply.as_mut().poll(cx)
        });
        outcome.await.map_err(|mut error| {
            let unsent = error.take_message();
            NoResponse {
                unsent,
                failure: Failure::upstream(describe(error.error())),
            }
        })
    }
}

/// A response whose body may still be arriving.
pub(crate) struct Exchange {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    conn: Option<Conn>,
    client: Rc<Client>,
    gunzip: Option<Gunzip>,
    received: usize,
    limit: usize,
    ended: bool,
    turn: Turn,
    held: Share,
}

impl Exchange {
    pub(super) fn new(
        response: Response<Incoming>,
        conn: Conn,
        client: Rc<Client>,
        limit: usize,
    ) -> Result<Self, Failure> {
        let (head, body) = response.into_parts();
        let held = client.account().open();
        // One layer unpacks a thousand to one, two a million.
        let codings = head.headers.get_all(header::CONTENT_ENCODING).iter();
        if codings.count() > 1 {
            return Err(Failure::invalid(
                "the server used more than one content encoding",
            ));
        }
        let gunzip = match head
            .headers
            .get(header::CONTENT_ENCODING)
            .map(|value| value.as_bytes().to_ascii_lowercase())
            .as_deref()
        {
            None | Some(b"" | b"identity") => None,
            Some(b"gzip" | b"x-gzip") => Some(Gunzip::new(limit)),
            Some(_) => {
                return Err(Failure::invalid(
                    "the server used a content encoding we did not ask for",
                ));
            }
        };
        Ok(Self {
            status: head.status,
            headers: head.headers,
            body,
            conn: Some(conn),
            client,
            gunzip,
            received: 0,
            limit,
            ended: false,
            turn: Turn::default(),
            held,
        })
    }

    /// Says how much of this answer is in memory, besides what was handed on.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), Failure> {
        self.held.set(bytes)
    }

    /// The media type without its parameters, in lower case.
    pub(crate) fn content_type(&self) -> String {
        let value = self
            .headers
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        value
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase()
    }

    /// The next piece of the decoded body; `None` at its end. Nothing is lost if the future is dropped.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        self.turn.pass().await;
        poll_fn(|cx| self.poll_chunk(cx)).await
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Failure>> {
        loop {
            if self.ended {
                return Poll::Ready(Ok(None));
            }
            let frame = match self.poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(frame) => frame,
            };
            let chunk = match frame {
                None => {
                    self.ended = true;
                    match self.gunzip.as_mut().map(Gunzip::finish).transpose() {
                        Ok(rest) => rest.unwrap_or_default(),
                        Err(failure) => return Poll::Ready(Err(failure)),
                    }
                }
                Some(Err(error)) => {
                    self.ended = true;
                    self.conn = None;
                    return Poll::Ready(Err(Failure::upstream(format!(
                        "the server's answer broke off: {}",
                        describe(&error)
                    ))));
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Err(_trailers) => continue,
                    Ok(data) => match self.accept(data) {
                        Ok(chunk) => chunk,
                        Err(failure) => {
                            self.ended = true;
                            self.conn = None;
                            return Poll::Ready(Err(failure));
                        }
                    },
                },
            };
            if !chunk.is_empty() {
                return Poll::Ready(Ok(Some(chunk)));
            }
        }
    }

    /// Asks the body, moves the connection, asks again: a body that is already in the read buffer arrives in one turn.
    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, hyper::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        if let Some(conn) = &mut self.conn {
            conn.drive(cx);
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn accept(&mut self, data: Bytes) -> Result<Bytes, Failure> {
        self.received = self.received.saturating_add(data.len());
        self.turn.spend(data.len());
        if self.received > self.limit {
            return Err(Failure::too_large(format!(
                "the server's answer is larger than {} bytes",
                self.limit
            )));
        }
        match &mut self.gunzip {
            None => Ok(data),
            Some(gunzip) => gunzip.feed(&data),
        }
    }

    /// The whole body. The connection goes back to the pool.
    pub(crate) async fn whole(mut self) -> Result<Bytes, Failure> {
        let Some(first) = self.chunk().await? else {
            self.release();
            return Ok(Bytes::new());
        };
        if let Some((missing, block)) = self.shared(&first)? {
            return self.diverted(block, missing).await;
        }
        let Some(second) = self.chunk().await? else {
            self.release();
            return Ok(first);
        };
        let expected = usize::try_from(self.body.size_hint().lower())
            .unwrap_or(0)
            .min(self.limit);
        let mut all = BytesMut::with_capacity(first.len() + second.len() + expected);
        all.extend_from_slice(&first);
        all.extend_from_slice(&second);
        self.hold(all.len())?;
        while let Some(chunk) = self.chunk().await? {
            self.hold(all.len() + chunk.len())?;
            all.extend_from_slice(&chunk);
        }
        self.release();
        Ok(all.freeze())
    }

    /// A block that begins with what has arrived and has room for the rest, if that is long and its length is known.
    fn shared(&mut self, first: &[u8]) -> Result<Option<(usize, Block)>, Failure> {
        let Some(missing) = self
            .body
            .size_hint()
            .exact()
            .and_then(|bytes| usize::try_from(bytes).ok())
        else {
            return Ok(None);
        };
        let length = first.len().saturating_add(missing);
        if missing < worker::LONG
            || length > self.limit
            || self.gunzip.is_some()
            || self.conn.is_none()
        {
            return Ok(None);
        }
        let Some(mut block) = self.client.shared(length) else {
            return Ok(None);
        };
        self.hold(length)?;
        Ok(block.push(first).then_some((missing, block)))
    }

    /// The rest of a long body, put together where the gate can read it. The chunks themselves are empty words.
    async fn diverted(mut self, block: Block, missing: usize) -> Result<Bytes, Failure> {
        let Some(diversion) = self.conn.as_ref().map(|conn| conn.diversion.clone()) else {
            return Err(Failure::upstream("the connection was lost"));
        };
        diversion.begin(block, missing);
        let mut counted = 0;
        while let Some(chunk) = self.chunk().await? {
            counted += chunk.len();
        }
        match diversion.finish().filter(|_| counted == missing) {
            Some(block) => {
                self.release();
                Ok(Bytes::from_owner(block))
            }
            None => {
                self.conn = None;
                Err(Failure::upstream(
                    "the server's answer was not as long as it said",
                ))
            }
        }
    }

    /// Gives the connection back, after reading what little may be left of the body.
    pub(crate) fn release(mut self) {
        let now = &mut Context::from_waker(Waker::noop());
        if !self.ended && matches!(self.poll_chunk(now), Poll::Ready(Err(_))) {
            return;
        }
        if self.ended {
            self.keep();
            return;
        }
        tokio::task::spawn_local(async move {
            let mut spare = DRAIN_BYTES;
            let drained = timeout(DRAIN, async {
                while let Ok(Some(chunk)) = self.chunk().await {
                    spare = spare.saturating_sub(chunk.len());
                    if spare == 0 {
                        return;
                    }
                }
            });
            if drained.await.is_ok() && self.ended {
                self.keep();
            }
        });
    }

    fn keep(mut self) {
        if let Some(conn) = self.conn.take() {
            self.client.keep(conn, &self.headers);
        }
    }
}

fn describe(error: &hyper::Error) -> String {
    if error.is_incomplete_message() {
        return "the connection was closed before the answer was complete".to_owned();
    }
    let cause = std::error::Error::source(error)
        .map(|cause| format!(": {cause}"))
        .unwrap_or_default();
    format!("{error}{cause}")
}
