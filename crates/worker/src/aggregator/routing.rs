//! Who a message from a server is for: a call, the watchers, or nobody.

use std::{rc::Rc, time::Duration};

use bytes::Bytes;
use tokio::time::sleep;
use wire::{
    Json, Skim,
    mcp::{code, meta},
    rpc::{self, Id},
    sse::Event,
    write,
};

use super::{
    call::{Answer, Call},
    connection::{Connection, Pending},
    inbox::Inbox,
    incoming::{Incoming, known},
    post_stream::too_large,
};
use crate::failure::Failure;

/// The lists a server may announce changes of.
const LISTS: [(&str, &str); 3] = [
    ("tools", "notifications/tools/list_changed"),
    ("resources", "notifications/resources/list_changed"),
    ("prompts", "notifications/prompts/list_changed"),
];
/// Between two announcements of the same list.
const QUIET: Duration = Duration::from_millis(100);

/// Whether watchers know that a list changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Announced {
    #[default]
    No,
    JustNow,
    /// It changed again after that.
    Stale,
}

impl Connection {
    /// A message on the stream of one request that is not its reply.
    pub(super) fn interim(self: &Rc<Self>, message: Incoming, id: u64, call: Option<&Rc<Call>>) {
        match message {
            Incoming::Result { .. } | Incoming::Error { .. } => self
                .hub
                .stray(&self.server, "a reply to no request of ours"),
            Incoming::Request { id, method, params } => self.asked(call, id, &method, params),
            Incoming::Notification { method, params } => match (&*method, call) {
                ("notifications/progress", Some(call)) => {
                    self.progressed(params.as_ref(), id, call)
                }
                ("notifications/progress", None) => {}
                ("notifications/message", Some(call)) => self.logged(params.as_ref(), call),
                _ => self.notice(&method, params.as_ref()),
            },
        }
    }

    fn progressed(&self, params: Option<&Bytes>, id: u64, call: &Call) {
        let Some(params) = params.map(known) else {
            return;
        };
        if !call.progress || token(params) != Some(id) {
            return self.hub.stray(&self.server, "progress for no call of ours");
        }
        if !call.may_tell() {
            return self
                .hub
                .stray(&self.server, "progress faster than anybody can follow");
        }
        let bare = write::replace_fields(params, &[meta::PROGRESS_TOKEN], |_| {});
        self.hub.out.event(call.id, "progress", |line| {
            line.raw("params", &bare);
        });
    }

    fn logged(&self, params: Option<&Bytes>, call: &Call) {
        let Some(params) = params else { return };
        if !call.may_tell() {
            return self
                .hub
                .stray(&self.server, "log lines faster than anybody can follow");
        }
        self.hub.out.event(call.id, "log", |line| {
            line.raw("params", params);
        });
    }

    /// A message on a stream that serves the whole connection.
    pub(crate) async fn route(self: &Rc<Self>, message: Incoming) {
        let to = match &message {
            Incoming::Result { id, .. } | Incoming::Error { id, .. } => {
                match id.and_then(|id| self.inbox_of(id)) {
                    Some(inbox) => Some(inbox),
                    None => {
                        return self
                            .hub
                            .stray(&self.server, "a reply to no request of ours");
                    }
                }
            }
            Incoming::Request { .. } => self.inbox_of_only_lane(),
            Incoming::Notification { method, params } => match &**method {
                "notifications/progress" => match params
                    .as_ref()
                    .map(known)
                    .and_then(token)
                    .and_then(|id| self.inbox_of(id))
                {
                    Some(inbox) => Some(inbox),
                    None => return self.hub.stray(&self.server, "progress for no call of ours"),
                },
                "notifications/message" => self.inbox_of_only_lane(),
                _ => None,
            },
        };
        match (to, message) {
            (Some(inbox), message) => {
                inbox.push(message);
                inbox.room().await;
            }
            (None, Incoming::Request { id, method, params }) => {
                self.asked(None, id, &method, params)
            }
            (None, Incoming::Notification { method, params }) => {
                self.notice(&method, params.as_ref())
            }
            (None, _) => {}
        }
        self.hub.out.room().await;
    }

    /// A message that cannot be read, because it is too long or broken. Whom it claims to answer has its answer: a broken one. A server
    /// that asks something is told. False if it is nobody's.
    pub(crate) fn unread(self: &Rc<Self>, skim: &Skim, failure: &Failure) -> bool {
        if let Some(id) = skim.asks() {
            let error = rpc::error_object(code::INVALID_REQUEST, &failure.text, None);
            self.post_later(rpc::error(Some(id), &error));
        }
        skim.answers()
            .filter_map(Id::as_u64)
            .fold(false, |known, id| self.fail(id, failure) | known)
    }

    /// Takes in an event of a stream that belongs to no request.
    pub(crate) async fn take(self: &Rc<Self>, event: Event) {
        let limit = self.options.max_result;
        if let Some(skim) = event.too_large {
            let failure = too_large(limit);
            if !self.unread(&skim, &failure) {
                self.hub.stray(&self.server, &failure.text);
            }
            return;
        }
        if event.data.is_empty() {
            return;
        }
        let data = Bytes::from(event.data);
        match Incoming::read(data.clone(), limit).await {
            Ok(message) => self.route(message).await,
            Err(failure) if self.unread(&Skim::of(&data), &failure) => {}
            Err(failure) => self.hub.stray(&self.server, &failure.text),
        }
    }

    /// Fails one request. False if nobody waits for it.
    fn fail(&self, id: u64, failure: &Failure) -> bool {
        let inbox = self.inbox_of(id);
        if let Some(inbox) = &inbox {
            inbox.close(failure.clone());
        }
        inbox.is_some()
    }

    fn inbox_of(&self, id: u64) -> Option<Rc<Inbox>> {
        self.pending
            .borrow()
            .get(&id)
            .map(|pending| Rc::clone(&pending.inbox))
    }

    /// The newest call, if every call under way belongs to the same lane: only then is it certain whose it is.
    fn inbox_of_only_lane(&self) -> Option<Rc<Inbox>> {
        let pending = self.pending.borrow();
        let mut newest: Option<(u64, &Pending, &Call)> = None;
        for (id, entry) in pending.iter() {
            let Some(call) = &entry.call else { continue };
            match newest {
                Some((_, _, other)) if other.lane != call.lane => return None,
                Some((newer, ..)) if newer > *id => {}
                _ => newest = Some((*id, entry, call)),
            }
        }
        newest.map(|(_, entry, _)| Rc::clone(&entry.inbox))
    }

    /// The server wants something from a client.
    fn asked(
        self: &Rc<Self>,
        call: Option<&Rc<Call>>,
        id: Id,
        method: &str,
        params: Option<Bytes>,
    ) {
        if method == "ping" {
            return self.post_later(rpc::result(&id, b"{}"));
        }
        let asked = call.filter(|call| {
            self.options.allow.permits(method)
                && call.abilities.allows(method, params.as_ref().map(known))
        });
        let Some(call) = asked else {
            return self.refuse(&id, method);
        };
        let Some((key, answer)) = call.open_ask(Some(id.clone())) else {
            return self.refuse(&id, method);
        };
        self.hub.out.event(call.id, "ask", |line| {
            line.str("key", &key)
                .str("method", method)
                .raw("params", params.as_deref().unwrap_or(b"{}"));
        });
        let conn = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let Ok(answer) = answer.await else { return };
            let body = match answer {
                Answer::Result(result) => rpc::result(&id, &result),
                Answer::Error(error) => rpc::error(Some(&id), &error),
            };
            if let Err(failure) = conn.post(body.into()).await {
                tracing::warn!(
                    server = &*conn.server,
                    "an answer to the server was not delivered: {failure}"
                );
            }
        });
    }

    fn refuse(self: &Rc<Self>, id: &Id, method: &str) {
        tracing::debug!(
            server = &*self.server,
            method,
            "refused a request of the server"
        );
        let error = rpc::error_object(code::METHOD_NOT_FOUND, "not supported by this client", None);
        self.post_later(rpc::error(Some(id), &error));
    }

    /// A notification that concerns the whole connection.
    pub(crate) fn notice(self: &Rc<Self>, method: &str, params: Option<&Bytes>) {
        match LISTS.iter().position(|(_, name)| *name == method) {
            Some(list) => self.announce(list),
            None => self.other_notice(method, params),
        }
    }

    /// Tells that a list changed: at once the first time, then at most once in a while however often it changes.
    fn announce(self: &Rc<Self>, list: usize) {
        let (Some((what, _)), Some(state)) = (LISTS.get(list), self.announced.get(list)) else {
            return;
        };
        if state.get() != Announced::No {
            return state.set(Announced::Stale);
        }
        state.set(Announced::JustNow);
        self.hub
            .tell("changed", &self.server, self.generation, |line| {
                line.str("what", what);
            });
        let conn = Rc::downgrade(self);
        tokio::task::spawn_local(async move {
            sleep(QUIET).await;
            let Some(conn) = conn.upgrade() else { return };
            let again = conn
                .announced
                .get(list)
                .is_some_and(|state| state.replace(Announced::No) == Announced::Stale);
            if again && !conn.is_closed() {
                conn.announce(list);
            }
        });
    }

    /// What belongs to no call is told to everybody, so of a user's connection only what says nothing about the user.
    fn other_notice(&self, method: &str, params: Option<&Bytes>) {
        let tell = |event: &str, key: &str, value: &[u8]| {
            self.hub.tell(event, &self.server, self.generation, |line| {
                line.raw(key, value);
            });
        };
        let params_text = params.map_or(&b"{}"[..], |params| params);
        match method {
            "notifications/resources/updated" | "notifications/message" if self.is_users() => {}
            "notifications/resources/updated" => {
                if let Some(uri) = params
                    .map(known)
                    .and_then(|params| params.get("uri"))
                    .filter(|uri| uri.as_str().is_some())
                {
                    tell("updated", "uri", uri.as_bytes());
                }
            }
            "notifications/message" => tell("log", "params", params_text),
            "notifications/elicitation/complete" => {
                tell("elicitation_complete", "params", params_text)
            }
            "notifications/subscriptions/acknowledged" => {
                self.acks.set(self.acks.get() + 1);
                self.acknowledged.notify_waiters();
            }
            "notifications/cancelled" => {
                let asked = params
                    .map(known)
                    .and_then(|params| params.get("requestId"))
                    .and_then(Id::read);
                if let Some(asked) = asked {
                    let pending = self.pending.borrow();
                    let _ = pending
                        .values()
                        .filter_map(|entry| entry.call.as_ref())
                        .any(|call| call.withdraw(&asked));
                }
            }
            _ => {}
        }
    }
}

/// The progress token, if it can be one of ours.
fn token(params: Json<'_>) -> Option<u64> {
    params.get(meta::PROGRESS_TOKEN)?.as_u64()
}
