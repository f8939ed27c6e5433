//! The SEAL door: signed calls. `attest` begins a session, `invoke` takes envelopes, `sessions` and `workloads` are for operators,
//! `tools` lists what a session may call.
//!
//! Nothing is decided here. An envelope becomes an [`gateway::Ask`] with its signature as proof, and the one path of a call says
//! the rest; this door only reads and writes the dialect.

mod attest;
mod envelope;
mod render;
mod sessions;
#[cfg(test)]
mod tests;
mod tools;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use gateway::Caller;
use http::{HeaderMap, Method, StatusCode, header, request::Parts};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::sync::{Semaphore, SemaphorePermit};
use vocab::ErrorCode;

use crate::{
    body,
    crowd::{self, Guest},
    door::Door,
    guard, oauth,
    parcel::Parcel,
    refused,
    reply::{self, Body, Refused, Reply, Why},
};
use render::Said;

/// A body that anyone may send.
const SHORT: usize = 64 << 10;
/// Longer ones of people who have shown nothing yet that may be read at once, and how long each may take.
pub(crate) const LONG_ENVELOPES: usize = 32;
const PATIENCE: Duration = Duration::from_secs(10);
/// Longer ones of sessions in force that may be read at once.
pub(crate) const KNOWN_ENVELOPES: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verb {
    Attest,
    Invoke,
    Tools,
    Sessions,
    /// Of one execution.
    Session(String),
    Workloads,
}

impl Verb {
    /// From what follows `/v1/seal/`, or `seal/` on a line.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        Some(match path {
            "attest" => Self::Attest,
            "invoke" => Self::Invoke,
            "tools" => Self::Tools,
            "sessions" => Self::Sessions,
            "workloads" => Self::Workloads,
            _ => Self::Session(
                path.strip_prefix("sessions/")
                    .filter(|id| !id.is_empty() && !id.contains('/'))?
                    .to_owned(),
            ),
        })
    }

    /// Whether what is refused here is on record already: attestations and calls record themselves.
    pub(crate) const fn is_noted(&self) -> bool {
        matches!(self, Self::Attest | Self::Invoke)
    }

    const fn is_for_operators(&self) -> bool {
        matches!(self, Self::Sessions | Self::Session(_) | Self::Workloads)
    }

    fn methods(&self) -> (&'static [Method], &'static str) {
        match self {
            Self::Attest | Self::Invoke | Self::Workloads => (&[Method::POST], "POST"),
            Self::Tools => (&[Method::GET], "GET"),
            Self::Sessions => (&[Method::GET, Method::POST], "GET, POST"),
            Self::Session(_) => (&[Method::GET, Method::DELETE], "GET, DELETE"),
        }
    }
}

/// One request of this door, however it came.
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) verb: Verb,
    /// The bearer that came with it, if one did and is known.
    pub(crate) caller: Option<Caller>,
    /// The bearer's text, where it may be a session's token.
    pub(crate) bearer: Option<String>,
    pub(crate) query: String,
    pub(crate) body: Bytes,
    /// The connection it came on, if that is not known to be a caller's already.
    pub(crate) guest: Option<Arc<Guest>>,
}

pub(crate) async fn answer(door: &Door, verb: Verb, parts: &Parts, body: Incoming) -> Reply {
    let is_noted = verb.is_noted();
    let known = bearer(&parts.headers).and_then(|token| door.gate.identify(&token));
    let reply = admitted(door, verb, parts, body).await;
    if let Some(caller) = known.filter(|_| !is_noted) {
        refused::note(door, "seal", &caller, parts, &reply);
    }
    reply
}

async fn admitted(door: &Door, verb: Verb, parts: &Parts, body: Incoming) -> Reply {
    let (methods, allow) = verb.methods();
    if !methods.contains(&parts.method) {
        return reply::wrong_method(allow);
    }
    let posts = parts.method == Method::POST;
    if posts && let Err(refused) = guard::sends_json(&parts.headers) {
        return *refused;
    }
    let bearer = bearer(&parts.headers);
    let caller = match verb {
        // A session's token, or a credential; who it is, is found out there.
        Verb::Invoke | Verb::Tools => bearer
            .as_deref()
            .and_then(|token| door.gate.identify(token)),
        Verb::Attest if !parts.headers.contains_key(header::AUTHORIZATION) => door.gate.anonymous(),
        _ => match guard::caller(door, parts).await {
            Ok(caller) => Some(caller),
            Err(refused) => return *refused,
        },
    };
    if let Some(caller) = &caller {
        crowd::recognise(parts, caller);
    }
    let body = match posts {
        false => Bytes::new(),
        true => match read(door, &verb, parts, body).await {
            Ok(body) => body,
            Err(refused) => return *refused,
        },
    };
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let operator = caller.clone().filter(|_| verb.is_for_operators());
    // Whoever signs needs no credential, so none is asked for there.
    let takes_credential = verb != Verb::Invoke;
    let guest = parts.extensions.get().cloned();
    let request = Request {
        method: parts.method.clone(),
        verb,
        caller,
        bearer,
        query,
        body,
        guest,
    };
    let mut reply = write(perform(door, request).await);
    // What a client of an identity provider must bring that it did not: a token, or another scope.
    if takes_credential
        && reply.status() == StatusCode::UNAUTHORIZED
        && !parts.headers.contains_key(header::AUTHORIZATION)
    {
        oauth::ask_for_token(door, parts, &mut reply);
    }
    if let Some(caller) = operator {
        oauth::ask_for_operator_scope(door, &caller, parts, &mut reply);
    }
    reply
}

/// Says in this door's form what was refused before this door was asked. What is said, and that it is refused, stays as it is.
pub(crate) fn reword(reply: &mut Reply) {
    let Some(why) = reply.extensions_mut().remove::<Why>() else {
        return;
    };
    let body = render::told(reply.status(), &why.sentence, |out| {
        out.str("error_code", why.code.as_str());
    });
    *reply.body_mut() = Body::whole(body);
}

/// Reads a body. Long ones are read a few at a time. Whose token is in force, in a header or at the beginning of the envelope, does not wait
/// for those who have shown nothing: they cannot take the places of the known by sending slowly.
async fn read(
    door: &Door,
    verb: &Verb,
    parts: &Parts,
    mut body: Incoming,
) -> Result<Bytes, Refused> {
    let most = door.gate.settings().max_body_bytes;
    let is_short = body
        .size_hint()
        .upper()
        .is_some_and(|bytes| bytes <= SHORT as u64);
    if *verb != Verb::Invoke || is_short {
        return body::read(body, most.min(SHORT), None, None).await;
    }
    let is_known = |token: &str| {
        door.gate
            .recognise(token)
            .is_ok_and(|caller| door.gate.in_force(&caller).is_ok())
    };
    if bearer(&parts.headers).is_some_and(|token| is_known(&token)) {
        let _place = place(&door.known_envelopes)?;
        return body::read(body, most, parts.extensions.get(), None).await;
    }
    let begun = body::begin(&mut body, SHORT.min(most)).await?;
    if token_in(&begun).is_some_and(is_known) {
        let _place = place(&door.known_envelopes)?;
        return body::read_on(begun, body, most, body::DEADLINE).await;
    }
    let _place = place(&door.long_envelopes)?;
    body::read_on(begun, body, most, PATIENCE).await
}

fn place(places: &Semaphore) -> Result<SemaphorePermit<'_>, Refused> {
    places.try_acquire().map_err(|_| {
        let sentence = "Too many long envelopes at once; try again";
        reply::refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            ErrorCode::UpstreamUnavailable,
            sentence,
        )
        .into()
    })
}

/// The token at the beginning of an envelope that has not come in full. Whether it is the envelope's own is found out when it has; here it
/// only says in which line its sender waits.
fn token_in(begun: &[u8]) -> Option<&str> {
    let key = b"\"security_token\"";
    let rest = begun
        .get(begun.windows(key.len()).position(|part| part == key)? + key.len()..)?
        .trim_ascii_start();
    let text = rest
        .strip_prefix(b":")?
        .trim_ascii_start()
        .strip_prefix(b"\"")?;
    std::str::from_utf8(text.get(..text.iter().position(|byte| *byte == b'"')?)?).ok()
}

/// Answers a request of this door.
pub(crate) async fn perform(door: &Door, request: Request) -> Said {
    match &request.verb {
        Verb::Attest => attest::answer(door, &request).await,
        Verb::Invoke => envelope::answer(door, &request).await,
        Verb::Tools => tools::answer(door, &request),
        Verb::Sessions | Verb::Session(_) | Verb::Workloads => match &request.caller {
            Some(operator) if operator.is_operator() && operator.is_active() => {
                sessions::answer(door, operator, &request).await
            }
            _ => Said::refused(
                StatusCode::FORBIDDEN,
                "This path needs an operator's credential",
            ),
        },
    }
}

pub(crate) fn bearer(headers: &HeaderMap) -> Option<String> {
    let (scheme, token) = guard::single(headers, header::AUTHORIZATION)?.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim().to_owned())
}

fn write(said: Said) -> Reply {
    let mut reply = reply::json(said.status, Body::Whole(Parcel::new(said.body, said.pass)));
    reply.headers_mut().insert(
        header::CACHE_CONTROL,
        header::HeaderValue::from_static("no-store"),
    );
    if said.status == StatusCode::UNAUTHORIZED {
        reply.headers_mut().insert(
            header::WWW_AUTHENTICATE,
            header::HeaderValue::from_static("Bearer"),
        );
    }
    if let Some(wait) = said.retry_after {
        reply
            .headers_mut()
            .insert(header::RETRY_AFTER, render::whole_seconds(wait).into());
    }
    reply
}
