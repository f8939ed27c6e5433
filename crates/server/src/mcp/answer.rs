//! The end of a request: a result or an error, and how it becomes one message.

use bytes::Bytes;
use gateway::Pass;
use wire::{
    Enclosed, Json,
    mcp::code,
    rpc::{self, Id},
};

use crate::{parcel::Parcel, reply::Body};

/// Above this a result travels beside its envelope instead of being copied into it.
const COPY_LIMIT: usize = 16 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A result object; `fields` (such as `"resultType":"complete"`) are written before its own.
    Result {
        fields: &'static str,
        body: Bytes,
    },
    Error(Problem),
    /// The credential was revoked while the request was under way.
    Unauthenticated,
}

/// A JSON-RPC error: its code decides the HTTP status, its object is what travels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) code: i64,
    pub(crate) object: Bytes,
}

impl Problem {
    /// What the client is told.
    pub(crate) fn sentence(&self) -> String {
        Json::checked_before(&self.object)
            .get("message")
            .and_then(Json::as_str)
            .unwrap_or_default()
            .into_owned()
    }

    pub(crate) fn new(code: i64, message: &str) -> Self {
        Self {
            code,
            object: rpc::error_object(code, message, None).into(),
        }
    }

    pub(crate) fn with_data(code: i64, message: &str, data: &[u8]) -> Self {
        Self {
            code,
            object: rpc::error_object(code, message, Some(data)).into(),
        }
    }

    pub(crate) fn invalid_params(message: &str) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    pub(crate) fn no_method(method: &str) -> Self {
        let shown: String = method.chars().take(64).collect();
        Self::new(
            code::METHOD_NOT_FOUND,
            &format!("Method not found: {shown}"),
        )
    }
}

impl From<Problem> for Answer {
    fn from(problem: Problem) -> Self {
        Self::Error(problem)
    }
}

impl Answer {
    pub(crate) fn result(body: impl Into<Bytes>) -> Self {
        Self::Result {
            fields: "",
            body: body.into(),
        }
    }

    pub(crate) fn empty() -> Self {
        Self::result(Bytes::from_static(b"{}"))
    }

    /// The message as one piece.
    pub(crate) fn message(&self, id: &Id) -> Bytes {
        let (mut head, body) = self.split(id);
        head.reserve(body.len() + 1);
        head.extend_from_slice(&body);
        head.push(b'}');
        head.into()
    }

    /// The message with what it holds until it has left; a large result is not copied.
    pub(crate) fn parcel(&self, id: &Id, pass: Pass) -> Parcel {
        match self {
            Self::Result { body, .. } if body.len() > COPY_LIMIT => {
                let (head, body) = self.split(id);
                Parcel::new(Enclosed::new(head, body, b"}"), pass)
            }
            _ => Parcel::new(self.message(id), pass),
        }
    }

    /// The message as an HTTP body, for an answer of the gate's own.
    pub(crate) fn body(&self, id: &Id) -> Body {
        Body::Whole(self.parcel(id, Pass::default()))
    }

    /// What comes before the result or error, and that itself; a closing brace ends the message.
    fn split(&self, id: &Id) -> (Vec<u8>, Bytes) {
        let mut head = Vec::with_capacity(128);
        head.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
        head.extend_from_slice(id.as_bytes());
        let body = match self {
            Self::Result { fields, body } => {
                head.extend_from_slice(b",\"result\":");
                put_first(&mut head, fields, body)
            }
            Self::Error(problem) => {
                head.extend_from_slice(b",\"error\":");
                problem.object.clone()
            }
            Self::Unauthenticated => {
                head.extend_from_slice(b",\"error\":");
                Problem::new(super::render::REFUSED, "Unknown or revoked credential").object
            }
        };
        (head, body)
    }
}

/// Writes `{` and `fields` to `head` and returns what is left of `object` to write after them.
fn put_first(head: &mut Vec<u8>, fields: &str, object: &Bytes) -> Bytes {
    let inside = object
        .iter()
        .skip(1)
        .position(|byte| !byte.is_ascii_whitespace())
        .map(|at| at + 1);
    let Some(inside) = inside.filter(|_| !fields.is_empty() && object.first() == Some(&b'{'))
    else {
        return object.clone();
    };
    head.push(b'{');
    head.extend_from_slice(fields.as_bytes());
    if object.get(inside) != Some(&b'}') {
        head.push(b',');
    }
    object.slice(inside..)
}

#[cfg(test)]
mod tests;
