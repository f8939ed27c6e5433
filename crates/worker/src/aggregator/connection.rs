//! A connection to one server: requests go out, replies are matched, everything else is routed or refused.
//!
//! Invariants: a reply reaches the request whose id it bears, once, or nobody. A question from the server reaches a client only
//! through a call of that client. A closed connection fails everything that still waits on it, at once.

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::{BTreeSet, HashMap},
    rc::Rc,
};

use bytes::Bytes;
use tokio::{sync::Notify, task::AbortHandle};
use wire::{
    Json,
    mcp::{Revision, code, meta},
    rpc::{self, Id},
    write,
};

use super::{
    call::{Call, Stop},
    hub::Hub,
    inbox::Inbox,
    incoming::{Incoming, known},
    link::Link,
    outgoing::{About, Outgoing},
    plan::Plan,
};
use crate::failure::Failure;

/// Who the server turned out to be.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) revision: Revision,
    pub(crate) capabilities: Bytes,
    pub(crate) info: Bytes,
    pub(crate) instructions: Option<Bytes>,
}

/// Which questions the server may ask at all.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Allow {
    pub(crate) sampling: bool,
    pub(crate) roots: bool,
    pub(crate) elicitation: bool,
}

impl Allow {
    pub(crate) fn permits(self, method: &str) -> bool {
        match method {
            "sampling/createMessage" => self.sampling,
            "roots/list" => self.roots,
            "elicitation/create" => self.elicitation,
            _ => false,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) allow: Allow,
    /// `{"name":…,"version":…}` as JSON text.
    pub(crate) client: Bytes,
    pub(crate) max_result: usize,
}

struct Pending {
    inbox: Rc<Inbox>,
    call: Option<Rc<Call>>,
}

pub(crate) struct Connection {
    pub(crate) hub: Rc<Hub>,
    pub(crate) server: Rc<str>,
    pub(crate) generation: u64,
    pub(crate) options: Options,
    pub(crate) link: Link,
    pub(crate) plans: RefCell<HashMap<String, Rc<Plan>>>,
    /// Resources somebody wants to hear about.
    pub(crate) subscriptions: RefCell<BTreeSet<String>>,
    pub(crate) listener: RefCell<Option<AbortHandle>>,
    pub(crate) standing: RefCell<Option<AbortHandle>>,
    pub(crate) acknowledged: Notify,
    pub(crate) acks: Cell<u64>,
    modern: Cell<bool>,
    peer: OnceCell<Peer>,
    pending: RefCell<HashMap<u64, Pending>>,
    tasks: RefCell<Vec<AbortHandle>>,
    closed: RefCell<Option<Failure>>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("server", &self.server).field("generation", &self.generation).finish_non_exhaustive()
    }
}

impl Connection {
    pub(crate) fn new(hub: Rc<Hub>, server: Rc<str>, generation: u64, options: Options, link: Link) -> Rc<Self> {
        Rc::new(Self {
            hub,
            server,
            generation,
            options,
            link,
            plans: RefCell::default(),
            subscriptions: RefCell::default(),
            listener: RefCell::default(),
            standing: RefCell::default(),
            acknowledged: Notify::new(),
            acks: Cell::new(0),
            modern: Cell::new(false),
            peer: OnceCell::new(),
            pending: RefCell::default(),
            tasks: RefCell::default(),
            closed: RefCell::default(),
        })
    }

    pub(crate) fn is_modern(&self) -> bool {
        self.modern.get()
    }

    pub(crate) fn is_http(&self) -> bool {
        matches!(self.link, Link::Http(_))
    }

    pub(crate) fn set_modern(&self, modern: bool) {
        self.modern.set(modern);
        if let Link::Http(link) = &self.link {
            link.set_revision(if modern { Some(Revision::MODERN) } else { None });
        }
    }

    /// Fixes who the server is. A session that had to be opened anew keeps the first answer.
    pub(crate) fn introduce(&self, peer: Peer) {
        if let Link::Http(link) = &self.link {
            link.set_revision(Some(peer.revision));
        }
        self.peer.get_or_init(|| peer);
    }

    pub(crate) fn peer(&self) -> Option<&Peer> {
        self.peer.get()
    }

    /// Does the server declare this capability (a path like `resources`, `subscribe`)?
    pub(crate) fn declares(&self, path: &[&str]) -> bool {
        let Some(peer) = self.peer() else { return false };
        let found = known(&peer.capabilities).path(path);
        found.is_some_and(|value| !value.is_null() && value.as_bool() != Some(false))
    }

    /// Remembers a task that must not outlive the connection.
    pub(crate) fn own(&self, task: AbortHandle) {
        if self.closed.borrow().is_some() {
            task.abort();
        } else {
            self.tasks.borrow_mut().push(task);
        }
    }

    /// A request of the worker itself: no client behind it, nobody to ask.
    pub(crate) async fn request(self: &Rc<Self>, method: &str, params: Option<Json<'_>>) -> Result<Bytes, Failure> {
        let outgoing = Outgoing::new(self, method, params, &About::NOTHING)?;
        self.exchange(&outgoing, None).await
    }

    /// Sends a request and returns its result. What arrives before that is shown to `call`.
    pub(crate) async fn exchange(self: &Rc<Self>, outgoing: &Outgoing, call: Option<&Rc<Call>>) -> Result<Bytes, Failure> {
        if let Some(failure) = &*self.closed.borrow() {
            return Err(failure.clone());
        }
        let inbox = Rc::new(Inbox::default());
        let _enlisted = self.enlist(outgoing.id, &inbox, call);
        let mut replies = tokio::select! {
            biased;
            opened = self.link.open(self, outgoing) => opened?,
            failure = inbox.closed() => return Err(failure),
        };
        loop {
            match replies.next(self, &inbox).await? {
                Incoming::Result { id, result } if id == Some(outgoing.id) => {
                    replies.finish();
                    return Ok(result);
                }
                Incoming::Error { id, error } if id == Some(outgoing.id) || (id.is_none() && self.is_http()) => {
                    replies.finish();
                    return Err(Failure::rpc(error));
                }
                other => self.interim(other, outgoing.id, call),
            }
            self.hub.out.room().await;
        }
    }

    /// Sends a notification or a reply; nothing comes back.
    pub(crate) async fn post(self: &Rc<Self>, body: Bytes) -> Result<(), Failure> {
        if let Some(failure) = &*self.closed.borrow() {
            return Err(failure.clone());
        }
        self.link.post(body).await
    }

    /// The same, without waiting for it.
    pub(crate) fn post_later(self: &Rc<Self>, body: Vec<u8>) {
        let conn = Rc::clone(self);
        tokio::task::spawn_local(async move {
            if let Err(failure) = conn.post(body.into()).await {
                tracing::debug!(server = &*conn.server, "a message to the server was not delivered: {failure}");
            }
        });
    }

    fn enlist(self: &Rc<Self>, id: u64, inbox: &Rc<Inbox>, call: Option<&Rc<Call>>) -> Enlisted {
        if let Some(call) = call {
            call.upstream.set(id);
        }
        self.pending.borrow_mut().insert(id, Pending { inbox: Rc::clone(inbox), call: call.cloned() });
        Enlisted { conn: Rc::clone(self), id }
    }

    /// A message on the stream of one request that is not its reply.
    fn interim(self: &Rc<Self>, message: Incoming, id: u64, call: Option<&Rc<Call>>) {
        match message {
            Incoming::Result { .. } | Incoming::Error { .. } => self.hub.stray(&self.server, "a reply to no request of ours"),
            Incoming::Request { id, method, params } => self.asked(call, id, &method, params),
            Incoming::Notification { method, params } => match (&*method, call) {
                ("notifications/progress", Some(call)) => self.progressed(params.as_ref(), id, call),
                ("notifications/progress", None) => {}
                ("notifications/message", Some(call)) => self.logged(params.as_ref(), call),
                _ => self.notice(&method, params.as_ref()),
            },
        }
    }

    fn progressed(&self, params: Option<&Bytes>, id: u64, call: &Call) {
        let Some(params) = params.map(known) else { return };
        if !call.progress || token(params) != Some(id) {
            return self.hub.stray(&self.server, "progress for no call of ours");
        }
        let bare = write::replace_fields(params, &[meta::PROGRESS_TOKEN], |_| {});
        self.hub.out.event(call.id, "progress", |line| {
            line.raw("params", &bare);
        });
    }

    fn logged(&self, params: Option<&Bytes>, call: &Call) {
        let Some(params) = params else { return };
        self.hub.out.event(call.id, "log", |line| {
            line.raw("params", params);
        });
    }

    /// A message on a stream that serves the whole connection.
    pub(crate) async fn route(self: &Rc<Self>, message: Incoming) {
        let to = match &message {
            Incoming::Result { id, .. } | Incoming::Error { id, .. } => match id.and_then(|id| self.inbox_of(id)) {
                Some(inbox) => Some(inbox),
                None => return self.hub.stray(&self.server, "a reply to no request of ours"),
            },
            Incoming::Request { .. } => self.inbox_of_only_lane(),
            Incoming::Notification { method, params } => match &**method {
                "notifications/progress" => match params.as_ref().map(known).and_then(token).and_then(|id| self.inbox_of(id)) {
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
            (None, Incoming::Request { id, method, params }) => self.asked(None, id, &method, params),
            (None, Incoming::Notification { method, params }) => self.notice(&method, params.as_ref()),
            (None, _) => {}
        }
        self.hub.out.room().await;
    }

    /// Fails one request. False if nobody waits for it.
    pub(crate) fn fail(&self, id: u64, failure: &Failure) -> bool {
        let inbox = self.inbox_of(id);
        if let Some(inbox) = &inbox {
            inbox.close(failure.clone());
        }
        inbox.is_some()
    }

    fn inbox_of(&self, id: u64) -> Option<Rc<Inbox>> {
        self.pending.borrow().get(&id).map(|pending| Rc::clone(&pending.inbox))
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
    fn asked(self: &Rc<Self>, call: Option<&Rc<Call>>, id: Id, method: &str, params: Option<Bytes>) {
        if method == "ping" {
            return self.post_later(rpc::result(&id, b"{}"));
        }
        let asked =
            call.filter(|call| self.options.allow.permits(method) && call.abilities.allows(method, params.as_ref().map(known)));
        let Some(call) = asked else { return self.refuse(&id, method) };
        let Some((key, answer)) = call.open_ask(Some(id.clone())) else { return self.refuse(&id, method) };
        self.hub.out.event(call.id, "ask", |line| {
            line.str("key", &key).str("method", method).raw("params", params.as_deref().unwrap_or(b"{}"));
        });
        let conn = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let Ok(answer) = answer.await else { return };
            let body = match answer {
                super::call::Answer::Result(result) => rpc::result(&id, &result),
                super::call::Answer::Error(error) => rpc::error(Some(&id), &error),
            };
            if let Err(failure) = conn.post(body.into()).await {
                tracing::warn!(server = &*conn.server, "an answer to the server was not delivered: {failure}");
            }
        });
    }

    fn refuse(self: &Rc<Self>, id: &Id, method: &str) {
        tracing::debug!(server = &*self.server, method, "refused a request of the server");
        let error = rpc::error_object(code::METHOD_NOT_FOUND, "not supported by this client", None);
        self.post_later(rpc::error(Some(id), &error));
    }

    /// A notification that concerns the whole connection.
    pub(crate) fn notice(&self, method: &str, params: Option<&Bytes>) {
        let what = match method {
            "notifications/tools/list_changed" => "tools",
            "notifications/resources/list_changed" => "resources",
            "notifications/prompts/list_changed" => "prompts",
            _ => return self.other_notice(method, params),
        };
        self.hub.tell("changed", &self.server, self.generation, |line| {
            line.str("what", what);
        });
    }

    fn other_notice(&self, method: &str, params: Option<&Bytes>) {
        let tell = |event: &str, key: &str, value: &[u8]| {
            self.hub.tell(event, &self.server, self.generation, |line| {
                line.raw(key, value);
            });
        };
        let params_text = params.map_or(&b"{}"[..], |params| params);
        match method {
            "notifications/resources/updated" => {
                if let Some(uri) = params.map(known).and_then(|params| params.get("uri")).filter(|uri| uri.as_str().is_some()) {
                    tell("updated", "uri", uri.as_bytes());
                }
            }
            "notifications/message" => tell("log", "params", params_text),
            "notifications/elicitation/complete" => tell("elicitation_complete", "params", params_text),
            "notifications/subscriptions/acknowledged" => {
                self.acks.set(self.acks.get() + 1);
                self.acknowledged.notify_waiters();
            }
            "notifications/cancelled" => {
                let asked = params.map(known).and_then(|params| params.get("requestId")).and_then(Id::read);
                if let Some(asked) = asked {
                    let pending = self.pending.borrow();
                    let _ = pending.values().filter_map(|entry| entry.call.as_ref()).any(|call| call.withdraw(&asked));
                }
            }
            _ => {}
        }
    }

    /// Tells the server that nobody waits for this request any more. On modern HTTP the closed stream has said so already.
    pub(crate) fn cancel_upstream(self: &Rc<Self>, id: u64, reason: &str) {
        if id == 0 || (self.is_modern() && self.is_http()) {
            return;
        }
        let mut params = write::Object::new();
        params.u64("requestId", id).str("reason", reason);
        self.post_later(rpc::notification("notifications/cancelled", Some(&params.finish())));
    }

    /// Ends the connection. With `lost`, watchers hear that it went away by itself.
    pub(crate) fn close(&self, failure: Failure, lost: bool) {
        if self.closed.borrow().is_some() {
            return;
        }
        *self.closed.borrow_mut() = Some(failure.clone());
        for entry in self.pending.borrow().values() {
            if let Some(call) = &entry.call {
                call.stop(Stop::Closed(failure.clone()));
            }
            entry.inbox.close(failure.clone());
        }
        if lost && self.peer().is_some() {
            self.hub.tell("closed", &self.server, self.generation, |line| {
                line.str("error", &failure.text);
            });
        }
        for task in self.tasks.take().into_iter().chain(self.listener.take()).chain(self.standing.take()) {
            task.abort();
        }
        if let Some(farewell) = self.link.close() {
            self.hub.farewell(farewell);
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.borrow().is_some()
    }
}

/// The progress token, if it can be one of ours.
fn token(params: Json<'_>) -> Option<u64> {
    params.get(meta::PROGRESS_TOKEN)?.as_u64()
}

/// Takes a request off the list whatever way its task ends.
struct Enlisted {
    conn: Rc<Connection>,
    id: u64,
}

impl Drop for Enlisted {
    fn drop(&mut self) {
        self.conn.pending.borrow_mut().remove(&self.id);
    }
}
