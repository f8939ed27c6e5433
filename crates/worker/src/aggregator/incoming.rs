//! One message from an upstream, checked and cut into slices of its own bytes.

use bytes::Bytes;
use wire::{
    Json, Limits,
    rpc::{self, Id, Message},
};

use crate::failure::Failure;

/// Nesting allowed in what an upstream sends.
const DEPTH: usize = 64;

#[derive(Debug, Clone)]
pub(crate) enum Incoming {
    /// `id` is `None` when it cannot be one of ours: those are all numbers.
    Result {
        id: Option<u64>,
        result: Bytes,
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
    /// Everything is validated here, once. The text is put on one line on the way, since it will travel in lines.
    pub(crate) fn parse(text: Bytes, limit: usize) -> Result<Self, Failure> {
        let outline = Json::parse_fields(&text, Limits::new(limit, DEPTH))
            .map_err(|error| Failure::invalid(format!("the server sent something that is not acceptable JSON: {error}")))?;
        if !outline.one_line {
            return Self::parse(on_one_line(&text), limit);
        }
        let message = rpc::read_fields(outline.json, &outline.fields())
            .map_err(|error| Failure::invalid(format!("the server sent no JSON-RPC message: {error}")))?;
        let cut = |json: Json<'_>| text.slice_ref(json.as_bytes());
        Ok(match message {
            Message::Result { id, result } => Self::Result { id: id.as_u64(), result: cut(result) },
            Message::Error { id, error } => Self::Error { id: id.and_then(|id| id.as_u64()), error: cut(error) },
            Message::Request { id, method, params } => Self::Request { id, method: method.into_owned(), params: params.map(cut) },
            Message::Notification { method, params } => {
                Self::Notification { method: method.into_owned(), params: params.map(cut) }
            }
        })
    }
}

/// In valid JSON a line break can only stand between tokens, where a space means the same.
fn on_one_line(text: &[u8]) -> Bytes {
    text.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect()
}

/// Reads a slice that was validated before.
pub(crate) fn known(text: &Bytes) -> Json<'_> {
    Json::checked_before(text)
}
