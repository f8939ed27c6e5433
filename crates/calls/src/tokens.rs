//! Values of upstreams that clients carry for us: request states and task ids, wrapped for the caller they were given to.
//!
//! A client can neither read nor change them, nor use one that was given to another caller, for another server, or for another
//! call. What goes back upstream is the upstream's own value, byte for byte.
//!
//! **Invariant: what one caller holds is worth nothing to another.** Tests `anothers_session_id_is_worth_nothing`,
//! `a_request_state_is_bound_to_its_caller_server_call_and_time`, `a_task_id_belongs_to_one_caller_and_is_stable`,
//! `a_revoked_credential_is_inactive_in_hands_that_hold_it_already`.

use callers::Caller;
use vocab::{Rule, ServerId, Violation};

use crate::{
    Action, Wrapper,
    wrapper::{join, split},
};

const STATE: &str = "request-state";
const TASK: &str = "task-id";
/// How long a client may take to come back with the answers.
const STATE_LIFE_MS: u64 = 60 * 60 * 1000;

/// The call a request state belongs to.
#[derive(Debug, Clone, Copy)]
pub struct Bound<'a> {
    pub caller: &'a Caller,
    pub server: &'a ServerId,
    pub action: Action,
    /// Digest of the target's name and the arguments.
    pub digest: [u8; 32],
}

/// Names a call by what it asks for: the same call has the same digest when it comes back.
pub fn digest(name: &str, arguments: &[u8]) -> [u8; 32] {
    *blake3::hash(&join(&[name.as_bytes(), arguments])).as_bytes()
}

pub fn wrap_state(wrapper: &Wrapper, bound: Bound<'_>, now_ms: u64, inner: &[u8]) -> String {
    let expiry = (now_ms + STATE_LIFE_MS).to_le_bytes();
    let fields = [
        bound.caller.id().as_bytes(),
        bound.server.as_str().as_bytes(),
        bound.action.method().as_bytes(),
        &bound.digest,
        &expiry,
        inner,
    ];
    wrapper.wrap(STATE, &join(&fields))
}

/// An upstream's own state, as its caller brought it back.
#[derive(Debug)]
pub struct OpenState {
    /// Names this very state among all that were ever issued.
    pub digest: [u8; 32],
    pub expires_ms: u64,
    /// The upstream's text.
    pub inner: Vec<u8>,
}

impl OpenState {
    #[cfg(test)]
    pub fn new(digest: [u8; 32], issued_ms: u64, inner: Vec<u8>) -> Self {
        Self {
            digest,
            expires_ms: issued_ms + STATE_LIFE_MS,
            inner,
        }
    }

    pub const fn issued_ms(&self) -> u64 {
        self.expires_ms.saturating_sub(STATE_LIFE_MS)
    }
}

pub fn wrong_state(why: &str) -> Violation {
    Violation::new(Rule::Malformed, format!("requestState {why}"))
        .with_hint("requestState is not valid for this call")
}

pub fn open_state(
    wrapper: &Wrapper,
    bound: Bound<'_>,
    now_ms: u64,
    text: &str,
) -> Result<OpenState, Violation> {
    let wrong = wrong_state;
    let value = wrapper
        .open(STATE, text)
        .ok_or_else(|| wrong("was not issued here, or was changed"))?;
    let [caller, server, method, digest, expiry, inner] =
        split::<6>(&value).ok_or_else(|| wrong("is damaged"))?;
    if caller != bound.caller.id().as_bytes() {
        return Err(wrong("was issued to another caller"));
    }
    if server != bound.server.as_str().as_bytes()
        || method != bound.action.method().as_bytes()
        || digest != bound.digest
    {
        return Err(wrong("was issued for another call"));
    }
    let expires_ms = expiry.try_into().map_or(0, u64::from_le_bytes);
    if now_ms > expires_ms {
        return Err(wrong("has expired"));
    }
    Ok(OpenState {
        digest: *blake3::hash(text.as_bytes()).as_bytes(),
        expires_ms,
        inner: inner.to_vec(),
    })
}

/// A task of an upstream, and the tool whose call it is: what is asked about it is judged as that tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    pub server: ServerId,
    /// The tool, by the server's own name.
    pub tool: String,
    /// The name it was called by, for lists of names.
    pub asked: String,
    /// The upstream's own id.
    pub id: String,
}

/// Equal tasks have equal ids, so a client can compare them.
pub fn wrap_task(wrapper: &Wrapper, caller: &Caller, task: &Task) -> String {
    let fields = [
        caller.id(),
        task.server.as_str(),
        &task.tool,
        &task.asked,
        &task.id,
    ];
    wrapper.wrap(TASK, &join(&fields.map(str::as_bytes)))
}

/// The task, if its id was given to this caller.
pub fn open_task(wrapper: &Wrapper, caller: &Caller, text: &str) -> Option<Task> {
    let value = wrapper.open(TASK, text)?;
    let fields = split::<5>(&value)?.map(std::str::from_utf8);
    let [Ok(owner), Ok(server), Ok(tool), Ok(asked), Ok(id)] = fields else {
        return None;
    };
    if owner != caller.id() {
        return None;
    }
    let server = ServerId::parse(server).ok()?;
    Some(Task {
        server,
        tool: tool.to_owned(),
        asked: asked.to_owned(),
        id: id.to_owned(),
    })
}
