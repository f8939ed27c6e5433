//! Reading a request's body: never more than the limit, never longer than the deadline, copied only if it came in pieces.

use std::time::Duration;

use bytes::Bytes;
use gateway::{Caller, RequestRoom};
use http::{Request, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use vocab::ErrorCode;
use wire::buffers;

use crate::{
    inlet::Diversion,
    reply::{Refused, refusal},
};

/// A client that cannot deliver its body in this time is not going to.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// A client that is still sending does not read our refusal, so a body that is only somewhat too large is read and thrown away.
const DISCARDED: usize = 32 << 20;
const DISCARDING: Duration = Duration::from_secs(2);

/// Bodies from this size on are read to where they belong, instead of being copied there.
const LONG: usize = 64 << 10;

/// Gives a request with a long body the means to read it without a copy.
pub(crate) fn may_divert(request: &mut Request<Incoming>, diversion: &Diversion) {
    if request
        .body()
        .size_hint()
        .exact()
        .is_some_and(|bytes| bytes >= LONG as u64)
    {
        request.extensions_mut().insert(diversion.clone());
    }
}

/// A body that does not come at once is counted to `caller` for as long as it exists; without room it waits, unread, within the deadline.
pub(crate) async fn read(
    mut body: Incoming,
    limit: usize,
    diversion: Option<&Diversion>,
    caller: Option<&Caller>,
) -> Result<Bytes, Refused> {
    let announced = body.size_hint().lower();
    if announced > limit as u64 {
        if announced <= DISCARDED as u64 {
            // Whether it all came does not matter: it is refused either way.
            let _ = tokio::time::timeout(DISCARDING, async {
                while body.frame().await.is_some_and(|frame| frame.is_ok()) {}
            })
            .await;
        }
        return Err(too_large(limit));
    }
    match tokio::time::timeout(DEADLINE, gather(body, limit, diversion, caller)).await {
        Ok(read) => read,
        Err(_) => Err(too_slow()),
    }
}

/// The first part of a body, at least so many bytes unless it ends before: little, so that whoever sends it may be a stranger.
pub(crate) async fn begin(body: &mut Incoming, enough: usize) -> Result<Vec<u8>, Refused> {
    let gathering = async {
        let mut begun = Vec::new();
        while begun.len() < enough
            && let Some(frame) = body.frame().await
        {
            begun.extend_from_slice(
                &frame
                    .map_err(|_| broke_off())?
                    .into_data()
                    .unwrap_or_default(),
            );
        }
        Ok(begun)
    };
    tokio::time::timeout(DEADLINE, gathering)
        .await
        .unwrap_or_else(|_| Err(too_slow()))
}

/// The whole body, of which the first part has come.
pub(crate) async fn read_on(
    mut begun: Vec<u8>,
    mut body: Incoming,
    limit: usize,
    patience: Duration,
) -> Result<Bytes, Refused> {
    let gathering = async {
        while let Some(frame) = body.frame().await {
            let chunk = frame
                .map_err(|_| broke_off())?
                .into_data()
                .unwrap_or_default();
            if begun.len() + chunk.len() > limit {
                return Err(too_large(limit));
            }
            begun.extend_from_slice(&chunk);
        }
        if begun.len() > limit {
            Err(too_large(limit))
        } else {
            Ok(begun.into())
        }
    };
    tokio::time::timeout(patience, gathering)
        .await
        .unwrap_or_else(|_| Err(too_slow()))
}

fn too_slow() -> Refused {
    refusal(
        StatusCode::REQUEST_TIMEOUT,
        ErrorCode::InvalidInput,
        "The body took too long to arrive",
    )
    .into()
}

/// The rest of a long body whose length is known. Its frames are empty words; what they stand for was diverted.
async fn divert(
    mut body: Incoming,
    first: &[u8],
    missing: usize,
    diversion: &Diversion,
) -> Result<Bytes, Refused> {
    let mut buffer = buffers::take(first.len() + missing);
    buffer.extend_from_slice(first);
    let diverting = diversion.begin(buffer, missing);
    let mut counted = 0;
    while let Some(frame) = body.frame().await {
        counted += frame
            .map_err(|_| broke_off())?
            .into_data()
            .map_or(0, |chunk| chunk.len());
    }
    match diverting.finish() {
        Some(buffer) if counted == missing => Ok(buffers::freeze(buffer)),
        _ => Err(broke_off()),
    }
}

async fn gather(
    mut body: Incoming,
    limit: usize,
    diversion: Option<&Diversion>,
    caller: Option<&Caller>,
) -> Result<Bytes, Refused> {
    let mut first = Bytes::new();
    let mut rest: Option<Vec<u8>> = None;
    let mut room: Option<RequestRoom> = None;
    while let Some(frame) = body.frame().await {
        let Ok(chunk) = frame.map_err(|_| broke_off())?.into_data() else {
            continue;
        };
        let so_far = rest.as_ref().map_or(first.len(), Vec::len);
        if so_far + chunk.len() > limit {
            return Err(too_large(limit));
        }
        if first.is_empty() {
            first = chunk;
            let missing = body
                .size_hint()
                .exact()
                .and_then(|bytes| usize::try_from(bytes).ok());
            if let (Some(caller), false) = (caller, body.is_end_stream()) {
                room = Some(
                    caller
                        .room_for_request(first.len() + missing.unwrap_or(0))
                        .await,
                );
            }
            if let (Some(missing @ LONG..), Some(diversion)) = (missing, diversion)
                && missing <= limit - first.len()
            {
                let whole = divert(body, &first, missing, diversion).await?;
                return Ok(match room {
                    Some(room) => room.hold(whole),
                    None => whole,
                });
            }
        } else {
            if let (Some(room), None) = (&mut room, body.size_hint().exact()) {
                room.grow(chunk.len()).await;
            }
            let expected = usize::try_from(body.size_hint().lower())
                .unwrap_or(limit)
                .min(limit);
            let whole = rest.get_or_insert_with(|| {
                let mut whole = buffers::take(first.len() + chunk.len() + expected);
                whole.extend_from_slice(&first);
                whole
            });
            whole.extend_from_slice(&chunk);
        }
    }
    let whole = rest.map_or(first, buffers::freeze);
    Ok(match room {
        Some(room) => room.hold(whole),
        None => whole,
    })
}

fn broke_off() -> Refused {
    refusal(
        StatusCode::BAD_REQUEST,
        ErrorCode::InvalidInput,
        "The body broke off",
    )
    .into()
}

fn too_large(limit: usize) -> Refused {
    let sentence = format!("The body is larger than {limit} bytes");
    refusal(
        StatusCode::PAYLOAD_TOO_LARGE,
        ErrorCode::InvalidInput,
        &sentence,
    )
    .into()
}
