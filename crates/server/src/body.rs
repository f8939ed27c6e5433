//! Reading a request's body: never more than the limit, never longer than the deadline, copied only if it came in pieces.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use vocab::ErrorCode;

use crate::reply::{Refused, refusal};

/// A client that cannot deliver its body in this time is not going to.
const DEADLINE: Duration = Duration::from_secs(30);

/// A client that is still sending does not read our refusal, so a body that is only somewhat too large is read and thrown away.
const DISCARDED: usize = 32 << 20;
const DISCARDING: Duration = Duration::from_secs(2);

pub(crate) async fn read(mut body: Incoming, limit: usize) -> Result<Bytes, Refused> {
    let announced = body.size_hint().lower();
    if announced > limit as u64 {
        if announced <= DISCARDED as u64 {
            // Whether it all came does not matter: it is refused either way.
            let _ =
                tokio::time::timeout(DISCARDING, async { while body.frame().await.is_some_and(|frame| frame.is_ok()) {} }).await;
        }
        return Err(too_large(limit));
    }
    match tokio::time::timeout(DEADLINE, gather(body, limit)).await {
        Ok(read) => read,
        Err(_) => Err(refusal(StatusCode::REQUEST_TIMEOUT, ErrorCode::InvalidInput, "The body took too long to arrive").into()),
    }
}

async fn gather(mut body: Incoming, limit: usize) -> Result<Bytes, Refused> {
    let mut first = Bytes::new();
    let mut rest: Option<BytesMut> = None;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            return Err(refusal(StatusCode::BAD_REQUEST, ErrorCode::InvalidInput, "The body broke off").into());
        };
        let Ok(chunk) = frame.into_data() else { continue };
        let so_far = rest.as_ref().map_or(first.len(), BytesMut::len);
        if so_far + chunk.len() > limit {
            return Err(too_large(limit));
        }
        if first.is_empty() {
            first = chunk;
        } else {
            let expected = usize::try_from(body.size_hint().lower()).unwrap_or(limit).min(limit);
            let whole = rest.get_or_insert_with(|| {
                let mut whole = BytesMut::with_capacity(first.len() + chunk.len() + expected);
                whole.extend_from_slice(&first);
                whole
            });
            whole.extend_from_slice(&chunk);
        }
    }
    Ok(rest.map_or(first, BytesMut::freeze))
}

fn too_large(limit: usize) -> Refused {
    let sentence = format!("The body is larger than {limit} bytes");
    refusal(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::InvalidInput, &sentence).into()
}
