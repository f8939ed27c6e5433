//! Values of upstreams that clients carry for us: request states and task ids, sealed to the caller they were given to.
//!
//! A client can neither read nor change them, nor use one that was given to another caller, for another server, or for another
//! call. What goes back upstream is the upstream's own value, byte for byte.

use vocab::{Rule, ServerId, Violation};

use crate::{
    Action, Caller, Seal,
    seal::{join, split},
};

const STATE: &str = "request-state";
const TASK: &str = "task-id";
/// How long a client may take to come back with the answers.
const STATE_LIFE_MS: u64 = 60 * 60 * 1000;

/// The call a request state belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) server: &'a ServerId,
    pub(crate) action: Action,
    /// Digest of the target's name and the arguments.
    pub(crate) digest: [u8; 32],
}

/// Names a call by what it asks for: the same call has the same digest when it comes back.
pub(crate) fn digest(name: &str, arguments: &[u8]) -> [u8; 32] {
    *blake3::hash(&join(&[name.as_bytes(), arguments])).as_bytes()
}

pub(crate) fn seal_state(seal: &Seal, bound: Bound<'_>, now_ms: u64, inner: &[u8]) -> String {
    let expiry = (now_ms + STATE_LIFE_MS).to_le_bytes();
    let fields = [
        bound.caller.id().as_bytes(),
        bound.server.as_str().as_bytes(),
        bound.action.method().as_bytes(),
        &bound.digest,
        &expiry,
        inner,
    ];
    seal.seal(STATE, &join(&fields))
}

pub(crate) fn open_state(seal: &Seal, bound: Bound<'_>, now_ms: u64, text: &str) -> Result<Vec<u8>, Violation> {
    let wrong = |why: &str| {
        Violation::new(Rule::Malformed, format!("requestState {why}")).with_hint("requestState is not valid for this call")
    };
    let value = seal.open(STATE, text).ok_or_else(|| wrong("was not issued here, or was changed"))?;
    let [caller, server, method, digest, expiry, inner] = split::<6>(&value).ok_or_else(|| wrong("is damaged"))?;
    if caller != bound.caller.id().as_bytes() {
        return Err(wrong("was issued to another caller"));
    }
    if server != bound.server.as_str().as_bytes() || method != bound.action.method().as_bytes() || digest != bound.digest {
        return Err(wrong("was issued for another call"));
    }
    let expiry = expiry.try_into().map_or(0, u64::from_le_bytes);
    if now_ms > expiry { Err(wrong("has expired")) } else { Ok(inner.to_vec()) }
}

/// Equal tasks seal to equal ids, so a client can compare them.
pub(crate) fn seal_task(seal: &Seal, caller: &Caller, server: &ServerId, task: &str) -> String {
    seal.seal(TASK, &join(&[caller.id().as_bytes(), server.as_str().as_bytes(), task.as_bytes()]))
}

/// The server and the upstream's own id, if this id was given to this caller.
pub(crate) fn open_task(seal: &Seal, caller: &Caller, text: &str) -> Option<(ServerId, String)> {
    let value = seal.open(TASK, text)?;
    let [owner, server, task] = split::<3>(&value)?;
    if owner != caller.id().as_bytes() {
        return None;
    }
    let server = ServerId::parse(std::str::from_utf8(server).ok()?).ok()?;
    Some((server, String::from_utf8(task.to_vec()).ok()?))
}
