//! What goes back over HTTP: a whole body in up to three pieces, or a stream of events.

use std::{
    convert::Infallible,
    future::Future as _,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Buf, Bytes};
use http::{HeaderValue, Response, StatusCode, header};
use http_body::{Frame, SizeHint};
use tokio::{
    sync::mpsc,
    time::{Instant, Sleep},
};
use vocab::ErrorCode;
use wire::write::Object;

use crate::parcel::Parcel;

pub(crate) type Reply = Response<Body>;
/// A reply that ends a request early; boxed, since most requests have none.
pub(crate) type Refused = Box<Reply>;

/// A silent stream says something this often, so that neither side nor a proxy between takes it for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const KEEP_ALIVE_COMMENT: &[u8] = b": still here\n\n";

#[derive(Debug)]
pub(crate) enum Body {
    /// What is left to send. Large results travel uncopied between their envelope's two ends.
    Whole(Parcel),
    Events {
        frames: mpsc::Receiver<Parcel>,
        idle: Pin<Box<Sleep>>,
    },
}

impl Body {
    pub(crate) fn empty() -> Self {
        Self::Whole(Parcel::default())
    }

    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Parcel::from(bytes))
    }
}

impl http_body::Body for Body {
    type Data = Parcel;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Parcel>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(text) => {
                let all = std::mem::take(text);
                Poll::Ready(all.has_remaining().then(|| Ok(Frame::data(all))))
            }
            Self::Events { frames, idle } => {
                if let Poll::Ready(frame) = frames.poll_recv(context) {
                    idle.as_mut().reset(Instant::now() + KEEP_ALIVE);
                    return Poll::Ready(frame.map(|frame| Ok(Frame::data(frame))));
                }
                if idle.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                idle.as_mut().reset(Instant::now() + KEEP_ALIVE);
                // The timer must be asked again, or nothing would wake us for the next silence.
                let _ = idle.as_mut().poll(context);
                Poll::Ready(Some(Ok(Frame::data(
                    Bytes::from_static(KEEP_ALIVE_COMMENT).into(),
                ))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(text) if !text.has_remaining())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(text) => SizeHint::with_exact(text.remaining() as u64),
            Self::Events { .. } => SizeHint::default(),
        }
    }
}

/// A body of JSON text.
pub(crate) fn json(status: StatusCode, body: Body) -> Reply {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    reply.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    reply
}

pub(crate) fn empty(status: StatusCode) -> Reply {
    let mut reply = Response::new(Body::empty());
    *reply.status_mut() = status;
    reply
}

/// A stream of server-sent events that ends when the sender goes away.
pub(crate) fn events(frames: mpsc::Receiver<Parcel>) -> Reply {
    let idle = Box::pin(tokio::time::sleep(KEEP_ALIVE));
    let mut reply = Response::new(Body::Events { frames, idle });
    let headers = reply.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    reply
}

/// Why a request was refused before it was a message of any door; kept beside the reply, for doors that say it in another form.
#[derive(Debug, Clone)]
pub(crate) struct Why {
    pub(crate) code: ErrorCode,
    pub(crate) sentence: String,
}

/// The error envelope for what is refused before it is a JSON-RPC message.
pub(crate) fn refusal(status: StatusCode, code: ErrorCode, sentence: &str) -> Reply {
    let mut envelope = Object::new();
    envelope
        .str("status", "error")
        .str("error_code", code.as_str())
        .str("error", sentence);
    let mut reply = json(status, Body::whole(envelope.finish()));
    reply.extensions_mut().insert(Why {
        code,
        sentence: sentence.to_owned(),
    });
    reply
}

pub(crate) fn not_found() -> Reply {
    refusal(
        StatusCode::NOT_FOUND,
        ErrorCode::NotFound,
        "There is nothing at this path",
    )
}

/// The client must present a credential we know.
pub(crate) fn unauthenticated(sentence: &str) -> Reply {
    let mut reply = refusal(
        StatusCode::UNAUTHORIZED,
        ErrorCode::PermissionDenied,
        sentence,
    );
    reply
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    reply
}

pub(crate) fn wrong_method(allow: &'static str) -> Reply {
    let mut reply = refusal(
        StatusCode::METHOD_NOT_ALLOWED,
        ErrorCode::InvalidInput,
        "This path does not take that method",
    );
    reply
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static(allow));
    reply
}

#[cfg(test)]
mod tests;
