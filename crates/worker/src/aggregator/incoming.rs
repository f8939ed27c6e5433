//! One message from an upstream, checked and cut into slices of its own bytes.

use bytes::Bytes;
use tokio::task::yield_now;
use wire::{
    Json, Limits,
    json::{FieldSearch, SearchStep, decode_key},
    rpc::{self, Id, Message},
};

use crate::failure::Failure;

/// Nesting allowed in what an upstream sends.
const DEPTH: usize = 64;
/// Only a result may be longer than this; the rest of such a message may be as long as [`MAX_REST`].
const LONG: usize = 4 << 20;
const MAX_REST: usize = 64 << 10;
/// What is looked at before others get their turn.
const PIECE: usize = 256 << 10;

#[derive(Debug, Clone)]
pub(crate) enum Incoming {
    /// `id` is `None` when it cannot be one of ours: those are all numbers.
    Result {
        id: Option<u64>,
        result: Bytes,
        /// Whether it is known to be JSON. The gate validates every result itself; who uses one here must, too.
        is_checked: bool,
    },
    Error {
        id: Option<u64>,
        error: Bytes,
    },
    Request {
        id: Id,
        method: String,
        params: Option<Bytes>,
    },
    Notification {
        method: String,
        params: Option<Bytes>,
    },
}

impl Incoming {
    /// Reads a message. Validating a long one would keep every other server's answers waiting, so of a long result only where it begins
    /// and ends is found out, in pieces. Nothing else that a server says may be so long.
    pub(crate) async fn read(text: Bytes, limit: usize) -> Result<Self, Failure> {
        if text.len() < LONG || text.len() > limit {
            return Self::parse(text, limit);
        }
        let mut search = FieldSearch::new(&text);
        loop {
            match search.go_on(PIECE) {
                SearchStep::More => yield_now().await,
                SearchStep::Done => break,
                SearchStep::Failed => {
                    return Err(Failure::invalid(
                        "the server sent something that is not acceptable JSON",
                    ));
                }
            }
        }
        if !search.one_line {
            return Box::pin(Self::read(on_one_line_in_pieces(&text).await, limit)).await;
        }
        let fields = search.fields();
        let is_result = |key: &[u8]| decode_key(key) == "result";
        let rest = || fields.iter().filter(|(key, _)| !is_result(key));
        let known = Limits::new(MAX_REST, DEPTH);
        if fields.len() != 1 + rest().count()
            || !rest().all(|(_, value)| Json::parse(value.as_bytes(), known).is_ok())
        {
            return Err(Failure::too_large(format!(
                "the server sent a message of {} bytes that is no result",
                text.len()
            )));
        }
        match rpc::read_fields(Json::checked_before(text.trim_ascii()), &fields) {
            Ok(Message::Result { id, result }) => Ok(Self::Result {
                id: id.as_u64(),
                result: text.slice_ref(result.as_bytes()),
                is_checked: false,
            }),
            _ => Err(Failure::invalid("the server sent no JSON-RPC message")),
        }
    }

    /// Everything is validated here, once. The text is put on one line on the way, since it will travel in lines.
    pub(crate) fn parse(text: Bytes, limit: usize) -> Result<Self, Failure> {
        let outline = Json::parse_fields(&text, Limits::new(limit, DEPTH)).map_err(|error| {
            Failure::invalid(format!(
                "the server sent something that is not acceptable JSON: {error}"
            ))
        })?;
        if !outline.one_line {
            return Self::parse(on_one_line(&text), limit);
        }
        let message = rpc::read_fields(outline.json, &outline.fields()).map_err(|error| {
            Failure::invalid(format!("the server sent no JSON-RPC message: {error}"))
        })?;
        let cut = |json: Json<'_>| text.slice_ref(json.as_bytes());
        Ok(match message {
            Message::Result { id, result } => Self::Result {
                id: id.as_u64(),
                result: cut(result),
                is_checked: true,
            },
            Message::Error { id, error } => Self::Error {
                id: id.and_then(|id| id.as_u64()),
                error: cut(error),
            },
            Message::Request { id, method, params } => Self::Request {
                id,
                method: method.into_owned(),
                params: params.map(cut),
            },
            Message::Notification { method, params } => Self::Notification {
                method: method.into_owned(),
                params: params.map(cut),
            },
        })
    }
}

async fn on_one_line_in_pieces(text: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(text.len());
    for piece in text.chunks(PIECE) {
        out.extend(piece.iter().map(|byte| {
            if matches!(byte, b'\n' | b'\r') {
                b' '
            } else {
                *byte
            }
        }));
        yield_now().await;
    }
    out.into()
}

/// In valid JSON a line break can only stand between tokens, where a space means the same.
fn on_one_line(text: &[u8]) -> Bytes {
    text.iter()
        .map(|byte| {
            if matches!(byte, b'\n' | b'\r') {
                b' '
            } else {
                *byte
            }
        })
        .collect()
}

/// Reads a slice that was validated before.
pub(crate) fn known(text: &Bytes) -> Json<'_> {
    Json::checked_before(text)
}
