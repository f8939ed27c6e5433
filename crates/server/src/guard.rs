//! Who may speak to this door at all: `Host`, `Origin`, bearer or access token, and the headers that say what is sent and what is understood.
//!
//! Host and Origin keep web pages out (a page can make a browser call loopback under a name of its own); the bearer says who
//! calls. A credential is never echoed, and never taken from a URL.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use doors::Arrival;
use gateway::{Caller, Certified};
use http::{HeaderMap, StatusCode, Uri, header, request::Parts};
use vocab::ErrorCode;

use crate::{
    door::Door,
    oauth, query,
    reply::{Refused, Reply, refusal},
};

/// Every check that needs no body, in order. Health paths stop after [`framing`] and [`place`].
pub(crate) async fn caller(door: &Door, parts: &Parts) -> Result<Caller, Refused> {
    let stranger = match credential(door, parts) {
        Ok(Shown::Known(caller)) => return Ok(caller),
        Ok(Shown::Unknown { token, as_bound }) => {
            match oauth::caller(door, parts, token, as_bound).await {
                Ok(caller) => return Ok(caller),
                Err(refused) => refused,
            }
        }
        Err((reason, sentence)) => Stranger {
            reason,
            reply: oauth::unauthenticated(door, parts, sentence),
        },
    };
    door.gate.strangers(stranger.reason);
    Err(stranger.reply.into())
}

/// Somebody who is not let in: why, for the count of strangers, and what they are told.
pub(crate) struct Stranger {
    pub(crate) reason: &'static str,
    pub(crate) reply: Reply,
}

/// A request that says its length twice is how one request is made to look like two.
pub(crate) fn framing(headers: &HeaderMap) -> Result<(), Refused> {
    let ambiguous = headers.contains_key(header::TRANSFER_ENCODING)
        && headers.contains_key(header::CONTENT_LENGTH);
    if ambiguous
        || headers
            .get_all(header::CONTENT_LENGTH)
            .iter()
            .nth(1)
            .is_some()
    {
        return Err(refusal(
            StatusCode::BAD_REQUEST,
            ErrorCode::InvalidInput,
            "The length of the body is ambiguous",
        )
        .into());
    }
    Ok(())
}

/// Is this request meant for us, and does it come from where it may come from?
pub(crate) fn place(door: &Door, parts: &Parts) -> Result<(), Refused> {
    let settings = door.gate.settings();
    let oauth = door.gate.oauth();
    // The name that providers issue tokens for is one of ours.
    let local = arrival(parts).map(|arrival| arrival.local);
    let ours = |authority: &str| {
        is_ours(authority, local, &settings.allowed_hosts)
            || oauth
                .as_ref()
                .is_some_and(|oauth| oauth.authority().eq_ignore_ascii_case(authority))
    };
    // A request line may name a host too, and then it is the one that counts; both must be ours.
    let named = parts
        .uri
        .authority()
        .is_none_or(|authority| ours(authority.as_str()));
    let host = single(&parts.headers, header::HOST).filter(|_| named);
    if !host.is_some_and(ours) {
        door.gate.strangers("host");
        return Err(refusal(
            StatusCode::FORBIDDEN,
            ErrorCode::PermissionDenied,
            "This door does not answer to that Host",
        )
        .into());
    }
    if !parts.headers.contains_key(header::ORIGIN) {
        return Ok(());
    }
    let origin = single(&parts.headers, header::ORIGIN);
    if origin.is_some_and(|origin| is_known(origin, &settings.allowed_origins)) {
        return Ok(());
    }
    door.gate.strangers("origin");
    Err(refusal(
        StatusCode::FORBIDDEN,
        ErrorCode::PermissionDenied,
        "Requests from that Origin are not allowed",
    )
    .into())
}

/// A `Host` is ours if it names loopback or the address we listen on (with our port or none), or if the operator listed it.
fn is_ours(authority: &str, address: Option<SocketAddr>, allowed: &[String]) -> bool {
    let Some((host, port)) = split_authority(authority) else {
        return false;
    };
    let our_port = port.is_none() || port == address.map(|address| address.port());
    let our_address = |address: SocketAddr| {
        host.parse::<IpAddr>()
            .is_ok_and(|given| given == address.ip())
    };
    (our_port && (is_loopback(host) || address.is_some_and(our_address)))
        || allowed
            .iter()
            .any(|name| name.eq_ignore_ascii_case(authority) || name.eq_ignore_ascii_case(host))
}

/// An `Origin` is known if it is a loopback page of any port, or if the operator listed it.
fn is_known(origin: &str, allowed: &[String]) -> bool {
    allowed.iter().any(|name| same_origin(name, origin))
        || origin_authority(origin)
            .and_then(split_authority)
            .is_some_and(|(host, _)| is_loopback(host))
}

/// Does an entry of the operator's list mean this origin?
pub(crate) fn same_origin(listed: &str, origin: &str) -> bool {
    listed.trim_end_matches('/').eq_ignore_ascii_case(origin)
}

/// What a request shows for itself.
enum Shown<'a> {
    Known(Caller),
    /// A text that is no credential of ours; a provider may know it.
    Unknown {
        token: &'a str,
        as_bound: bool,
    },
}

fn credential<'a>(
    door: &Door,
    parts: &'a Parts,
) -> Result<Shown<'a>, (&'static str, &'static str)> {
    if names_credential(&parts.uri) {
        return Err((
            "credential in url",
            "A credential does not belong in a URL: send `Authorization: Bearer …`",
        ));
    }
    if !parts.headers.contains_key(header::AUTHORIZATION) {
        let known = certified(door, parts).or_else(|| door.gate.anonymous());
        return known.map(Shown::Known).ok_or((
            "no credential",
            "Send a credential: `Authorization: Bearer …`",
        ));
    }
    let unknown = ("unknown credential", "Unknown or revoked credential");
    let (scheme, token) = single(&parts.headers, header::AUTHORIZATION)
        .and_then(|value| value.split_once(' '))
        .ok_or(unknown)?;
    let (token, as_bound) = (token.trim(), scheme.eq_ignore_ascii_case("dpop"));
    if !as_bound && !scheme.eq_ignore_ascii_case("bearer") {
        return Err(unknown);
    }
    // Our own tokens are bearers; one that claims to be bound is somebody else's.
    match door.gate.identify(token).filter(|_| !as_bound) {
        Some(caller) => Ok(Shown::Known(caller)),
        None => Ok(Shown::Unknown { token, as_bound }),
    }
}

/// How the connection of a request came.
pub(crate) fn arrival(parts: &Parts) -> Option<&Arrival> {
    parts
        .extensions
        .get::<Arc<Arrival>>()
        .map(|arrival| &**arrival)
}

/// Whom the client certificate of the connection makes, where the door takes it for an identity.
fn certified(door: &Door, parts: &Parts) -> Option<Caller> {
    let known = arrival(parts)?.certificate.as_ref()?;
    let (id, named) = known.caller.as_ref().filter(|_| known.is_identity)?;
    door.gate.certified(&Certified {
        id,
        user: named.user.as_deref(),
        departments: &named.departments,
        agent: named.agent.as_deref(),
        tenant: named.tenant.as_deref(),
        is_operator: named.is_operator,
    })
}

fn names_credential(uri: &Uri) -> bool {
    let names = [
        "access_token",
        "token",
        "bearer",
        "api_key",
        "authorization",
    ];
    let query = uri.query().unwrap_or_default();
    // A name is looked for as it is written too: what is escaped badly elsewhere hides no credential.
    let written = query
        .split('&')
        .map(|pair| pair.split('=').next().unwrap_or_default().to_owned());
    let read = query::pairs(query).unwrap_or_default();
    let mut given = written.chain(read.into_iter().map(|(name, _)| name));
    given.any(|name| names.iter().any(|word| name.eq_ignore_ascii_case(word)))
}

/// The value of a header that may appear once.
pub(crate) fn single(headers: &HeaderMap, name: impl header::AsHeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    value.to_str().ok()
}

/// `Content-Type: application/json`, parameters aside.
pub(crate) fn sends_json(headers: &HeaderMap) -> Result<(), Refused> {
    let kind = single(headers, header::CONTENT_TYPE)
        .and_then(|value| value.split(';').next())
        .map(str::trim);
    if kind.is_some_and(|kind| kind.eq_ignore_ascii_case("application/json")) {
        return Ok(());
    }
    Err(refusal(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ErrorCode::InvalidInput,
        "Send `Content-Type: application/json`",
    )
    .into())
}

/// Does `Accept` allow each of these types? A missing header allows anything.
pub(crate) fn accepts(headers: &HeaderMap, types: &[&str]) -> Result<(), Refused> {
    let given = || {
        headers
            .get_all(header::ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok())
    };
    let allowed = |wanted: &str| {
        let family = wanted.split('/').next().unwrap_or_default();
        given().flat_map(|value| value.split(',')).any(|range| {
            let range = range.split(';').next().unwrap_or_default().trim();
            range == "*/*"
                || range.eq_ignore_ascii_case(wanted)
                || range
                    .strip_suffix("/*")
                    .is_some_and(|f| f.eq_ignore_ascii_case(family))
        })
    };
    if given().all(|value| value.trim().is_empty()) || types.iter().all(|wanted| allowed(wanted)) {
        return Ok(());
    }
    let sentence = format!("Send `Accept: {}`", types.join(", "));
    Err(refusal(
        StatusCode::NOT_ACCEPTABLE,
        ErrorCode::InvalidInput,
        &sentence,
    )
    .into())
}

fn origin_authority(origin: &str) -> Option<&str> {
    let (scheme, authority) = origin.split_once("://")?;
    (matches!(scheme, "http" | "https") && !authority.contains(['/', '@'])).then_some(authority)
}

/// Host and port; an IPv6 host without its brackets.
fn split_authority(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(inner) => inner.split_once(']')?,
        None => authority
            .find(':')
            .map_or((authority, ""), |colon| authority.split_at(colon)),
    };
    if rest.is_empty() {
        return Some((host, None));
    }
    let digits = rest
        .strip_prefix(':')
        .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    Some((host, Some(digits.parse().ok()?)))
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// How often an open stream looks whether its reader's credential still holds.
const LOOK: Duration = Duration::from_secs(1);

/// Resolves once the caller's credential holds no longer.
pub(crate) async fn revoked(caller: &Caller) {
    while caller.is_active() {
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests;
