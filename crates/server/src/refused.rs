//! What a door refuses a caller it knows is on record, whatever the reason: somebody who tries to approve their own call, to use another's
//! session, or to slip a second reading past us is seen even though nothing came of it.
//!
//! Replies are looked at where they leave, so no refusal can be forgotten. What becomes a call is recorded by the call itself.

use gateway::{Caller, DoorRefusal};
use http::{StatusCode, request::Parts};
use vocab::{ErrorCode, Rule};

use crate::{
    door::Door,
    reply::{Reply, Why},
};

/// Notes a reply that refuses.
pub(crate) fn note(door: &Door, kind: &'static str, caller: &Caller, parts: &Parts, reply: &Reply) {
    // Who is not recognised is told so with 401; they are strangers, or their call is on record.
    if !reply.status().is_client_error() || reply.status() == StatusCode::UNAUTHORIZED {
        return;
    }
    let asked = format!("{} {}", parts.method, parts.uri.path());
    let told = reply
        .extensions()
        .get()
        .map_or("", |why: &Why| why.sentence.as_str());
    note_one(door, kind, caller, &asked, rule(reply.status()), told);
}

/// Notes a refusal that is no HTTP reply.
pub(crate) fn note_one(
    door: &Door,
    kind: &'static str,
    caller: &Caller,
    asked: &str,
    rule: &'static str,
    told: &str,
) {
    door.gate.refused_at_door(
        caller,
        DoorRefusal {
            door: kind,
            asked,
            rule,
            told,
        },
    );
}

/// The stable name of what a status says.
pub(crate) fn rule(status: StatusCode) -> &'static str {
    match status {
        StatusCode::FORBIDDEN => Rule::PermissionDenied.code(),
        StatusCode::NOT_FOUND => ErrorCode::NotFound.as_str(),
        StatusCode::TOO_MANY_REQUESTS => Rule::RateLimitExceeded.code(),
        _ => Rule::Malformed.code(),
    }
}
