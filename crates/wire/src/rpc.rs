//! JSON-RPC 2.0 messages as views over validated JSON.

use std::{borrow::Cow, fmt};

use bytes::Bytes;

use crate::{
    Json, Kind,
    json::{RawField, decode_key},
    write,
};

/// The longest id we keep. Ids are echoed and stored, so an endless one is an attack.
const MAX_ID: usize = 256;

/// A request id, kept exactly as written: a string or an integer.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Id(Bytes);

impl Id {
    #[must_use]
    pub fn number(id: u64) -> Self {
        let mut text = Vec::with_capacity(20);
        write::number(&mut text, id);
        Self(text.into())
    }

    #[must_use]
    pub fn string(id: &str) -> Self {
        Self(write::quoted(id).into())
    }

    #[must_use]
    pub fn read(json: Json<'_>) -> Option<Self> {
        let text = json.as_bytes();
        let fits = text.len() <= MAX_ID;
        let integer = json.kind() == Kind::Number
            && text
                .iter()
                .all(|byte| byte.is_ascii_digit() || *byte == b'-');
        (fits && (integer || json.kind() == Kind::String))
            .then(|| Self(Bytes::copy_from_slice(text)))
    }

    /// The id as JSON text.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        std::str::from_utf8(&self.0).ok()?.parse().ok()
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

#[derive(Debug, Clone)]
pub enum Message<'a> {
    Request {
        id: Id,
        method: Cow<'a, str>,
        params: Option<Json<'a>>,
    },
    Notification {
        method: Cow<'a, str>,
        params: Option<Json<'a>>,
    },
    Result {
        id: Id,
        result: Json<'a>,
    },
    Error {
        id: Option<Id>,
        error: Json<'a>,
    },
}

/// The JSON was fine, but it is not a JSON-RPC message. Carries the id when one could be read, so the sender can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapeError {
    pub id: Option<Id>,
    pub problem: &'static str,
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.problem)
    }
}

impl std::error::Error for ShapeError {}

/// Reads one message. Batches are the door's business.
pub fn read(json: Json<'_>) -> Result<Message<'_>, ShapeError> {
    read_fields(json, &json.raw_fields())
}

/// Reads one message whose fields are known already.
pub fn read_fields<'a>(json: Json<'a>, fields: &[RawField<'a>]) -> Result<Message<'a>, ShapeError> {
    if !json.is_object() {
        return Err(ShapeError {
            id: None,
            problem: "a JSON-RPC message is an object",
        });
    }
    let mut parts = Parts::default();
    for &(key, value) in fields {
        match &*decode_key(key) {
            "jsonrpc" => parts.version = Some(value),
            "id" => parts.id = Some(value),
            "method" => parts.method = Some(value),
            "params" => parts.params = Some(value),
            "result" => parts.result = Some(value),
            "error" => parts.error = Some(value),
            _ => {}
        }
    }
    parts.assemble()
}

#[derive(Default)]
struct Parts<'a> {
    version: Option<Json<'a>>,
    id: Option<Json<'a>>,
    method: Option<Json<'a>>,
    params: Option<Json<'a>>,
    result: Option<Json<'a>>,
    error: Option<Json<'a>>,
}

impl<'a> Parts<'a> {
    fn assemble(self) -> Result<Message<'a>, ShapeError> {
        let id = self.id.and_then(Id::read);
        let wrong = |problem| {
            Err(ShapeError {
                id: id.clone(),
                problem,
            })
        };
        if self.version.map(Json::as_bytes) != Some(b"\"2.0\"") {
            return wrong("`jsonrpc` must be \"2.0\"");
        }
        if self.id.is_some()
            && id.is_none()
            && !(self.error.is_some() && self.id.is_some_and(Json::is_null))
        {
            return wrong("`id` must be a string or an integer of reasonable length");
        }
        match (self.method, self.result, self.error) {
            (Some(method), None, None) => {
                let Some(method) = method.as_str() else {
                    return wrong("`method` must be a string");
                };
                if self.params.is_some_and(|params| !params.is_object()) {
                    return wrong("`params` must be an object");
                }
                Ok(match id {
                    Some(id) => Message::Request {
                        id,
                        method,
                        params: self.params,
                    },
                    None => Message::Notification {
                        method,
                        params: self.params,
                    },
                })
            }
            (None, Some(result), None) => match id {
                Some(id) => Ok(Message::Result { id, result }),
                None => wrong("a result needs an `id`"),
            },
            (None, None, Some(error)) => match error.is_object() {
                true => Ok(Message::Error { id, error }),
                false => wrong("`error` must be an object"),
            },
            _ => wrong("a message has exactly one of `method`, `result` and `error`"),
        }
    }
}

/// `{"jsonrpc":"2.0","id":…,"result":…}`
#[must_use]
pub fn result(id: &Id, result: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(result.len() + id.as_bytes().len() + 40);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(b",\"result\":");
    out.extend_from_slice(result);
    out.push(b'}');
    out
}

/// `{"jsonrpc":"2.0","id":…,"error":…}`; a missing id is written as null.
#[must_use]
pub fn error(id: Option<&Id>, error: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(error.len() + 64);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id.map_or(b"null", Id::as_bytes));
    out.extend_from_slice(b",\"error\":");
    out.extend_from_slice(error);
    out.push(b'}');
    out
}

/// An error object.
#[must_use]
pub fn error_object(code: i64, message: &str, data: Option<&[u8]>) -> Vec<u8> {
    let mut out = write::Object::new();
    out.i64("code", code).str("message", message);
    if let Some(data) = data {
        out.raw("data", data);
    }
    out.finish()
}

#[must_use]
pub fn request(id: &Id, method: &str, params: &[u8]) -> Vec<u8> {
    let mut out = write::Object::with_capacity(params.len() + method.len() + 64);
    out.str("jsonrpc", "2.0")
        .raw("id", id.as_bytes())
        .str("method", method)
        .raw("params", params);
    out.finish()
}

#[must_use]
pub fn notification(method: &str, params: Option<&[u8]>) -> Vec<u8> {
    let mut out = write::Object::with_capacity(params.map_or(0, <[u8]>::len) + method.len() + 48);
    out.str("jsonrpc", "2.0").str("method", method);
    if let Some(params) = params {
        out.raw("params", params);
    }
    out.finish()
}
