//! Letting pages of origins the operator listed use the door from a browser. Loopback pages are not listed by being loopback: they
//! pass the Origin check, but a browser will not show them our answers.

use http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts};

use crate::{
    guard,
    reply::{self, Reply},
};

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");
const EXPOSED: HeaderValue = HeaderValue::from_static("Mcp-Session-Id, WWW-Authenticate");
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");
/// Request headers a page may send, besides `Mcp-Param-*`.
const SENDABLE: [&str; 10] = [
    "accept",
    "authorization",
    "content-type",
    "dpop",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "traceparent",
];

/// The request's origin, if the operator listed it.
pub(crate) fn listed_origin(headers: &HeaderMap, allowed: &[String]) -> Option<HeaderValue> {
    let origin = guard::single(headers, header::ORIGIN)?;
    allowed
        .iter()
        .any(|name| guard::same_origin(name, origin))
        .then(|| headers.get(header::ORIGIN).cloned())
        .flatten()
}

/// A browser asks before it sends; the question carries no credential, so it is answered before one is asked for.
pub(crate) fn preflight(parts: &Parts) -> Option<Reply> {
    if parts.method != Method::OPTIONS
        || !parts
            .headers
            .contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
    {
        return None;
    }
    let mut reply = reply::empty(StatusCode::NO_CONTENT);
    let headers = reply.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    let asked =
        guard::single(&parts.headers, header::ACCESS_CONTROL_REQUEST_HEADERS).unwrap_or_default();
    let granted: Vec<&str> = asked
        .split(',')
        .map(str::trim)
        .filter(|name| is_sendable(name))
        .collect();
    if let Ok(granted) = HeaderValue::from_str(&granted.join(", ")) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, granted);
    }
    Some(reply)
}

fn is_sendable(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    SENDABLE.contains(&lower.as_str()) || lower.starts_with("mcp-param-")
}

/// Lets the page read the answer.
pub(crate) fn show(reply: &mut Reply, origin: HeaderValue) {
    let headers = reply.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
}
