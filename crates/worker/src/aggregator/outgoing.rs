//! Requests towards an upstream, spliced from the gate's own bytes.
//!
//! Params travel verbatim, except `_meta`: there the worker adds what the upstream's revision wants (its progress token; for a modern
//! upstream also protocol version, client and capabilities) and removes anything that pretends to be one of these.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, header::InvalidHeaderValue};
use wire::{
    Json, header, json,
    mcp::{Revision, meta},
    worker, write,
};

use super::{connection::Connection, incoming::known};
use crate::{failure::Failure, net::Payload};

/// `_meta` keys only the worker may set.
const OURS: [&str; 5] = [
    meta::PROTOCOL_VERSION,
    meta::CLIENT_INFO,
    meta::CLIENT_CAPABILITIES,
    meta::LOG_LEVEL,
    meta::PROGRESS_TOKEN,
];

/// A request ready to leave.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) id: u64,
    pub(crate) body: Payload,
    /// Headers a modern upstream checks against the body.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// It opens a session, so no session can be behind a 404.
    pub(crate) opening: bool,
    /// Its stream is meant to last, so its size is not capped.
    pub(crate) endless: bool,
    /// Its log messages may come on a stream of their own, and are waited for.
    pub(crate) awaits_logs: bool,
}

/// What a request says about itself besides method and params.
#[derive(Debug, Clone, Copy)]
pub(crate) struct About<'a> {
    /// The client's capabilities as JSON text, already reduced to what is allowed.
    pub(crate) capabilities: &'a [u8],
    pub(crate) log_level: Option<&'a str>,
    pub(crate) progress: bool,
}

impl About<'_> {
    pub(crate) const NOTHING: About<'static> = About {
        capabilities: b"{}",
        log_level: None,
        progress: false,
    };
}

/// The parameters of a request, and the text they are part of: long ones are then not copied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Params<'a> {
    json: Option<Json<'a>>,
    owner: Option<&'a Bytes>,
}

impl<'a> Params<'a> {
    pub(crate) fn of(json: Option<Json<'a>>) -> Self {
        Self { json, owner: None }
    }

    /// A text that was validated before, all of it parameters.
    pub(crate) fn owned(text: Option<&'a Bytes>) -> Self {
        Self {
            json: text.map(known),
            owner: text,
        }
    }

    pub(crate) fn get(self, key: &str) -> Option<Json<'a>> {
        self.json?.get(key)
    }

    /// The text as it is, if it is worth not copying.
    fn long(self) -> Option<Bytes> {
        let text = self.json?.as_bytes();
        self.owner
            .filter(|_| text.len() >= worker::LONG)
            .map(|owner| owner.slice_ref(text))
    }
}

const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
const MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");

impl Outgoing {
    pub(crate) fn new(
        conn: &Connection,
        method: &str,
        params: Params<'_>,
        about: &About<'_>,
    ) -> Result<Self, Failure> {
        let id = conn.hub.next_id();
        let modern = conn.is_modern();
        let mut headers = Vec::new();
        if modern && conn.is_http() {
            mirror(&mut headers, method, params)?;
        }
        let stamped = modern || about.progress;
        let body = match params.json {
            None if !stamped => envelope(id, method, None).into(),
            Some(json) if !stamped => match params.long() {
                Some(text) => Payload::new(opened(id, method, 0), text, b"}"),
                None => envelope(id, method, Some(json.as_bytes())).into(),
            },
            json => {
                let fields = json.unwrap_or(Json::EMPTY_OBJECT).raw_fields();
                let meta = meta_of(conn, json::find(&fields, "_meta"), about, modern, id);
                let stamped = write::splice_fields(&fields, &["_meta"], |out| {
                    out.raw("_meta", &meta);
                });
                Payload::new(opened(id, method, 0), stamped.into(), b"}")
            }
        };
        Ok(Self {
            id,
            body,
            headers,
            opening: method == "initialize",
            endless: false,
            awaits_logs: false,
        })
    }
}

fn envelope(id: u64, method: &str, params: Option<&[u8]>) -> Vec<u8> {
    let mut out = match params {
        Some(params) => opened(id, method, params.len()),
        None => called(id, method, 0),
    };
    out.extend_from_slice(params.unwrap_or_default());
    out.push(b'}');
    out
}

/// The beginning of a request, up to its parameters.
fn opened(id: u64, method: &str, room: usize) -> Vec<u8> {
    let mut out = called(id, method, room);
    out.extend_from_slice(b",\"params\":");
    out
}

fn called(id: u64, method: &str, room: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(room + method.len() + 72);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    write::number(&mut out, id);
    out.extend_from_slice(b",\"method\":");
    write::quote(&mut out, method);
    out
}

fn meta_of(
    conn: &Connection,
    given: Option<Json<'_>>,
    about: &About<'_>,
    modern: bool,
    id: u64,
) -> Vec<u8> {
    let given = given
        .filter(|given| given.is_object())
        .unwrap_or(Json::EMPTY_OBJECT);
    write::replace_fields(given, &OURS, |out| {
        if modern {
            out.str(meta::PROTOCOL_VERSION, Revision::MODERN.as_str());
            out.raw(meta::CLIENT_INFO, &conn.options.client);
            out.raw(meta::CLIENT_CAPABILITIES, about.capabilities);
            if let Some(level) = about.log_level {
                out.str(meta::LOG_LEVEL, level);
            }
        }
        if about.progress {
            out.u64(meta::PROGRESS_TOKEN, id);
        }
    })
}

/// `Mcp-Method` and `Mcp-Name`, computed from what is sent and never taken from anyone.
fn mirror(
    headers: &mut Vec<(HeaderName, HeaderValue)>,
    method: &str,
    params: Params<'_>,
) -> Result<(), Failure> {
    headers.push((MCP_METHOD, value(method)?));
    let key = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        method if method.starts_with("tasks/") => "taskId",
        _ => return Ok(()),
    };
    if let Some(name) = params.get(key).and_then(Json::as_str) {
        headers.push((MCP_NAME, value(&name)?));
    }
    Ok(())
}

/// A header value for any text; an empty one stays empty.
pub(crate) fn value(text: &str) -> Result<HeaderValue, Failure> {
    let encoded = if text.is_empty() {
        text.into()
    } else {
        header::encode(text)
    };
    HeaderValue::try_from(&*encoded)
        .map_err(|_: InvalidHeaderValue| Failure::invalid("a value cannot be carried in a header"))
}
