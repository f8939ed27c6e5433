//! The first guard of every request: how often its address may ask. Paths of health are exempt.
//!
//! Who is told to wait learns for how long, in the words of whatever they speak: an error without an id on the paths of MCP, a problem
//! elsewhere (RFC 9457), and the same headers on both.

use std::{sync::Arc, time::Duration};

use doors::{Admission, Over};
use http::{HeaderValue, StatusCode, header, request::Parts};
use vocab::{ErrorCode, Rule};
use wire::write::Object;

use crate::{
    door::Door,
    guard,
    reply::{self, Body, Reply, refusal},
    route::{Route, route},
};

/// Refusals in a row after which the connection ends too.
const PATIENCE: u32 = 10;
/// How long to wait where nobody can say.
const SOON: Duration = Duration::from_secs(1);

/// What to answer instead, if the address of a request has asked too often.
pub(crate) async fn refused(door: &Arc<Door>, parts: &Parts) -> Option<Reply> {
    let arrival = guard::arrival(parts)?;
    let route = route(parts.uri.path());
    if route.is_health() {
        return None;
    }
    let (client, was_forged) = arrival.client(&parts.headers);
    if was_forged {
        door.gate.strangers("forwarded header");
    }
    match door.limiter.admit(client).await {
        Admission::Pass => None,
        Admission::Over(over) => {
            door.gate.strangers("rate limit");
            if over.is_new {
                let detail = format!(
                    "{client}: more than {} requests in {} s",
                    over.requests,
                    over.window.as_secs()
                );
                if let Err(error) = door.gate.record_change("client.throttled", &detail) {
                    tracing::error!(%error, "cannot record a throttled client");
                }
            }
            Some(too_many(&route, &over))
        }
        Admission::Unavailable => {
            let sentence = "Requests cannot be counted at the moment";
            let mut reply = refusal(
                StatusCode::SERVICE_UNAVAILABLE,
                ErrorCode::UpstreamUnavailable,
                sentence,
            );
            wait(&mut reply, SOON);
            Some(reply)
        }
    }
}

fn too_many(route: &Route, over: &Over) -> Reply {
    let sentence = "Too many requests from this address";
    let mut reply = match route {
        Route::Mcp(_) => {
            let mut envelope = Object::new();
            envelope
                .str("status", "error")
                .str("error_code", ErrorCode::PermissionDenied.as_str())
                .str("error", sentence)
                .str("violation", Rule::RateLimitExceeded.code());
            let mut error = Object::new();
            error
                .raw("code", gateway::REFUSED.to_string().as_bytes())
                .str("message", sentence)
                .raw("data", &envelope.finish());
            let mut message = Object::new();
            message.str("jsonrpc", "2.0").raw("id", b"null");
            message.raw("error", &error.finish());
            reply::json(StatusCode::TOO_MANY_REQUESTS, Body::whole(message.finish()))
        }
        _ => {
            let mut problem = Object::new();
            problem
                .str(
                    "type",
                    "https://iana.org/assignments/http-problem-types#quota-exceeded",
                )
                .str("title", sentence)
                .raw("status", b"429")
                .str("violation", Rule::RateLimitExceeded.code());
            let mut reply =
                reply::json(StatusCode::TOO_MANY_REQUESTS, Body::whole(problem.finish()));
            reply.headers_mut().insert(
                header::CONTENT_TYPE,
                HeaderValue::from_static("application/problem+json"),
            );
            reply
        }
    };
    wait(&mut reply, over.retry);
    let texts = [
        (
            "ratelimit-policy",
            format!("\"ip\";q={};w={}", over.requests, over.window.as_secs()),
        ),
        ("ratelimit", format!("\"ip\";r=0;t={}", seconds(over.retry))),
    ];
    for (name, text) in texts {
        if let Ok(value) = HeaderValue::try_from(text) {
            reply.headers_mut().insert(name, value);
        }
    }
    if over.in_a_row >= PATIENCE {
        reply
            .headers_mut()
            .insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    reply
}

fn seconds(span: Duration) -> u64 {
    span.as_millis()
        .div_ceil(1000)
        .try_into()
        .unwrap_or(u64::MAX)
}

fn wait(reply: &mut Reply, span: Duration) {
    reply
        .headers_mut()
        .insert(header::RETRY_AFTER, seconds(span).into());
}
