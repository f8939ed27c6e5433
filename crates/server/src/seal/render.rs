//! How a signed call ends, in the words of this door: the status table, and one body that every client of the protocol can read.
//! The only file that turns a [`Stop`] into SEAL.

use std::time::Duration;

use bytes::Bytes;
use gateway::{Outcome, Pass};
use http::StatusCode;
use vocab::{Fault, FaultKind, Rule, Stop, Violation};
use wire::{Json, mcp::code, write::Object};

pub(super) const PROTOCOL: &str = "seal/v1";
/// Refused by a rule, or not recognised.
const REFUSED: i64 = -32000;
/// When to try a server again that is not there.
const SOON: Duration = Duration::from_secs(5);

/// An answer, before it is HTTP or a line.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: StatusCode,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body: Bytes,
    /// What the words of a server in it hold until they have left.
    pub(crate) pass: Pass,
}

impl Said {
    pub(super) fn new(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self {
            status,
            retry_after: None,
            body: body.into(),
            pass: Pass::default(),
        }
    }

    /// Refused before it was a call.
    pub(super) fn refused(status: StatusCode, sentence: &str) -> Self {
        Self::new(status, told(status, sentence, |_| ()))
    }

    /// Refused with one of the protocol's numbers for what is no call.
    pub(super) fn refused_as(status: StatusCode, number: u64, sentence: &str) -> Self {
        let body = told(status, sentence, |out| {
            out.u64("error_code", number);
        });
        Self::new(status, body)
    }

    fn after(mut self, wait: Option<Duration>) -> Self {
        self.retry_after = wait;
        self
    }
}

/// As `Retry-After` and every body have it: rounded up, so that whoever waits that long has waited long enough.
pub(super) fn whole_seconds(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis().div_ceil(1000))
        .unwrap_or(u64::MAX)
        .max(1)
}

/// The end of a call. `id` is the JSON-RPC id of its payload, as it was written.
pub(super) fn outcome(id: Option<Json<'_>>, outcome: Outcome) -> Said {
    match outcome {
        Outcome::Result(text) => success(id, &text.into_bytes()),
        Outcome::Rpc(object) => upstream_error(id, &object),
        Outcome::Stopped(Stop::Refused(violation)) => refusal(id, &violation),
        Outcome::Stopped(Stop::Failed(fault)) => failure(id, &fault),
    }
}

/// Some clients read `payload.result`, others `result`.
pub(super) fn success(id: Option<Json<'_>>, result: &[u8]) -> Said {
    let id = id.map_or(&b"null"[..], Json::as_bytes);
    let mut payload = Object::with_capacity(result.len() + 64);
    payload
        .str("jsonrpc", "2.0")
        .raw("id", id)
        .raw("result", result);
    let mut out = Object::with_capacity(2 * result.len() + 256);
    out.str("protocol", PROTOCOL)
        .str("status", "success")
        .str("jsonrpc", "2.0")
        .raw("id", id);
    out.raw("result", result).raw("payload", &payload.finish());
    Said::new(StatusCode::OK, out.finish())
}

pub(super) fn refusal(id: Option<Json<'_>>, violation: &Violation) -> Said {
    let (status, code) = status(violation.rule);
    // The one body that the documents spell out has no data.
    let data = (violation.rule != Rule::InvalidArguments).then(|| {
        let mut data = Object::new();
        data.u64("seal_code", seal_code(violation.rule))
            .str("violation", violation.rule.code());
        if let Some(payload) = &violation.payload {
            data.raw("payload", payload.as_bytes());
        }
        if let Some(wait) = violation.retry_after {
            data.u64("retry_after_seconds", whole_seconds(wait));
        }
        data.finish()
    });
    error(status, id, code, &violation.public(), data.as_deref()).after(violation.retry_after)
}

fn failure(id: Option<Json<'_>>, fault: &Fault) -> Said {
    let (status, wait) = match fault.kind {
        FaultKind::Timeout | FaultKind::DispatchTimeout => (StatusCode::GATEWAY_TIMEOUT, None),
        FaultKind::Upstream | FaultKind::Worker => (StatusCode::SERVICE_UNAVAILABLE, Some(SOON)),
        FaultKind::Cancelled | FaultKind::Gate => (StatusCode::INTERNAL_SERVER_ERROR, None),
    };
    let mut data = Object::new();
    data.str("error_code", fault.error_code().as_str());
    error(
        status,
        id,
        code::INTERNAL_ERROR,
        fault.public(),
        Some(&data.finish()),
    )
    .after(wait)
}

/// What the server itself answered, in its own words.
fn upstream_error(id: Option<Json<'_>>, object: &[u8]) -> Said {
    let given = Json::checked_before(object);
    let number = given
        .get("code")
        .and_then(Json::as_i64)
        .unwrap_or(code::INTERNAL_ERROR);
    let message = given
        .get("message")
        .and_then(Json::as_str)
        .unwrap_or_default();
    let status = if number == code::INVALID_PARAMS {
        StatusCode::UNPROCESSABLE_ENTITY
    } else {
        StatusCode::BAD_GATEWAY
    };
    error(
        status,
        id,
        number,
        &message,
        given.get("data").map(Json::as_bytes),
    )
}

pub(super) fn error(
    status: StatusCode,
    id: Option<Json<'_>>,
    code: i64,
    message: &str,
    data: Option<&[u8]>,
) -> Said {
    let id = id.map_or(&b"null"[..], Json::as_bytes);
    let mut error = Object::new();
    error
        .i64("code", code)
        .str("message", message)
        .raw("data", data.unwrap_or(b"null"));
    let mut out = Object::new();
    out.str("protocol", PROTOCOL)
        .str("status", "error")
        .str("jsonrpc", "2.0")
        .raw("id", id)
        .raw("request_id", id);
    out.raw("error", &error.finish());
    Said::new(status, out.finish())
}

/// The body for what is refused before it is a call: some clients read `error.message`, others `message`.
pub(super) fn told(status: StatusCode, sentence: &str, more: impl FnOnce(&mut Object)) -> Vec<u8> {
    let number = match status.as_u16() {
        401 | 403 | 404 | 429 => REFUSED,
        500.. => code::INTERNAL_ERROR,
        _ => code::INVALID_REQUEST,
    };
    let mut error = Object::new();
    error
        .i64("code", number)
        .str("message", sentence)
        .raw("data", b"null");
    let mut out = Object::new();
    out.str("protocol", PROTOCOL)
        .str("status", "error")
        .str("jsonrpc", "2.0")
        .raw("id", b"null")
        .raw("request_id", b"null");
    more(&mut out);
    out.str("message", sentence).raw("error", &error.finish());
    out.finish()
}

/// The status table.
fn status(rule: Rule) -> (StatusCode, i64) {
    match rule {
        Rule::Malformed => (StatusCode::BAD_REQUEST, code::INVALID_REQUEST),
        Rule::InvalidArguments | Rule::InvalidParameters | Rule::PotentialInjection => {
            (StatusCode::UNPROCESSABLE_ENTITY, code::INVALID_PARAMS)
        }
        Rule::Unauthenticated
        | Rule::SignatureVerificationFailed
        | Rule::TokenExpired
        | Rule::EnvelopeExpired
        | Rule::EnvelopeReplayed => (StatusCode::UNAUTHORIZED, REFUSED),
        Rule::ToolNotServed => (StatusCode::NOT_IMPLEMENTED, REFUSED),
        Rule::LedgerUnavailable => (StatusCode::INTERNAL_SERVER_ERROR, code::INTERNAL_ERROR),
        Rule::InvalidResult | Rule::ResultDropped | Rule::ResultTooLarge => {
            (StatusCode::BAD_GATEWAY, code::INTERNAL_ERROR)
        }
        _ => (StatusCode::FORBIDDEN, REFUSED),
    }
}

/// The protocol's own number for a refusal.
const fn seal_code(rule: Rule) -> u64 {
    match rule {
        Rule::Malformed | Rule::InvalidParameters | Rule::PotentialInjection => 1000,
        Rule::SignatureVerificationFailed | Rule::EnvelopeReplayed => 1002,
        Rule::TokenExpired | Rule::EnvelopeExpired => 1003,
        Rule::Unauthenticated => 1005,
        Rule::SessionInactive => 1006,
        Rule::ToolNotAllowed | Rule::ToolNotFound | Rule::ToolNotServed => 2000,
        Rule::ToolExplicitlyDenied => 2001,
        Rule::PathTraversalAttempt | Rule::PathOutsideBoundary | Rule::UnauthorizedVolumeAccess => {
            2002
        }
        Rule::CommandNotAllowed | Rule::SubcommandNotAllowed => 2003,
        Rule::DomainNotAllowed => 2004,
        Rule::RateLimitExceeded | Rule::ConcurrentExecLimitExceeded => 2005,
        _ => 2006,
    }
}
