//! A connection to one server: requests go out, replies are matched, everything else is routed or refused.
//!
//! Invariants: a reply reaches the request whose id it bears, once, or nobody. A question from the server reaches a client only
//! through a call of that client. A closed connection fails everything that still waits on it, at once.
//! A connection carries one credential: the system's, or one user's.

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::{BTreeSet, HashMap},
    hash::RandomState,
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use tokio::{sync::Notify, task::AbortHandle, time::timeout};
use wire::{Json, Limits, mcp::Revision, rpc, write};

use super::{
    call::{Call, Stop},
    hub::Hub,
    inbox::Inbox,
    incoming::{Incoming, known},
    link::Link,
    outgoing::{About, Outgoing, Params},
    routing::Announced,
    terms::{Options, Owner, Peer, Plans},
};
use crate::{failure::Failure, net::Payload};

/// How long a result is kept for log messages on another stream: until none came for this long, and never longer than that.
const QUIET: Duration = Duration::from_millis(40);
const LAST_WORDS: Duration = Duration::from_millis(400);
/// Messages under way to one server that nobody waits for, and how long each may take.
const MAX_POSTING: usize = 64;
const POSTING: Duration = Duration::from_secs(10);

/// A request that waits for its reply, and the call behind it if there is one.
pub(super) struct Pending {
    pub(super) inbox: Rc<Inbox>,
    pub(super) call: Option<Rc<Call>>,
}

pub(crate) struct Connection {
    pub(crate) hub: Rc<Hub>,
    pub(crate) server: Rc<str>,
    pub(crate) generation: u64,
    pub(crate) options: Options,
    pub(crate) link: Link,
    pub(crate) owner: Owner,
    pub(crate) plans: RefCell<Rc<Plans>>,
    /// The tag of the list of tools that the plans were made from.
    pub(crate) planned: RefCell<Option<String>>,
    /// Makes the tags of lists. Its key is random, so that no server can make two lists that have the same.
    pub(crate) tagger: RandomState,
    /// The level of log messages a legacy server was told.
    pub(crate) log_level: RefCell<Option<Rc<str>>>,
    /// Resources somebody wants to hear about.
    pub(crate) subscriptions: RefCell<BTreeSet<String>>,
    pub(crate) listener: RefCell<Option<AbortHandle>>,
    pub(crate) standing: RefCell<Option<AbortHandle>>,
    pub(crate) acknowledged: Notify,
    pub(crate) acks: Cell<u64>,
    modern: Cell<bool>,
    peer: OnceCell<Peer>,
    pub(super) pending: RefCell<HashMap<u64, Pending>>,
    tasks: RefCell<Vec<AbortHandle>>,
    /// Messages being delivered that nobody waits for.
    posting: Cell<usize>,
    /// For each list: whether its last change was announced a moment ago, and whether it changed again since.
    pub(super) announced: [Cell<Announced>; 3],
    closed: RefCell<Option<Failure>>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("server", &self.server)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

impl Connection {
    pub(crate) fn new(
        hub: Rc<Hub>,
        server: Rc<str>,
        generation: u64,
        options: Options,
        link: Link,
        owner: Owner,
    ) -> Rc<Self> {
        Rc::new(Self {
            hub,
            server,
            generation,
            options,
            link,
            owner,
            plans: RefCell::default(),
            planned: RefCell::default(),
            tagger: RandomState::new(),
            log_level: RefCell::default(),
            subscriptions: RefCell::default(),
            listener: RefCell::default(),
            standing: RefCell::default(),
            acknowledged: Notify::new(),
            acks: Cell::new(0),
            modern: Cell::new(false),
            peer: OnceCell::new(),
            pending: RefCell::default(),
            tasks: RefCell::default(),
            posting: Cell::new(0),
            announced: Default::default(),
            closed: RefCell::default(),
        })
    }

    pub(crate) fn is_modern(&self) -> bool {
        self.modern.get()
    }

    pub(crate) fn is_http(&self) -> bool {
        matches!(self.link, Link::Http(_))
    }

    /// It carries a user's credential.
    pub(crate) fn is_users(&self) -> bool {
        matches!(self.owner, Owner::User)
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
        let Some(peer) = self.peer() else {
            return false;
        };
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
    pub(crate) async fn request(
        self: &Rc<Self>,
        method: &str,
        params: Option<Json<'_>>,
    ) -> Result<Bytes, Failure> {
        let outgoing = Outgoing::new(self, method, Params::of(params), &About::NOTHING)?;
        self.exchange(&outgoing, None).await
    }

    /// Sends a request and returns its result. What arrives before that is shown to `call`.
    pub(crate) async fn exchange(
        self: &Rc<Self>,
        outgoing: &Outgoing,
        call: Option<&Rc<Call>>,
    ) -> Result<Bytes, Failure> {
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
                Incoming::Result {
                    id,
                    result,
                    is_checked,
                } if id == Some(outgoing.id) => {
                    // What a call gets goes to the gate, which validates it. What we use ourselves is validated here.
                    if call.is_none() && !is_checked {
                        let limits = Limits::new(result.len(), wire::worker::DEPTH);
                        Json::parse_line(&result, limits).map_err(|error| {
                            Failure::invalid(format!("the server sent no acceptable JSON: {error}"))
                        })?;
                    }
                    replies.finish();
                    if outgoing.awaits_logs {
                        self.last_words(&inbox, outgoing.id, call).await;
                    }
                    return Ok(result);
                }
                Incoming::Error { id, error }
                    if id == Some(outgoing.id) || (id.is_none() && self.is_http()) =>
                {
                    replies.finish();
                    return Err(Failure::rpc(error));
                }
                other => self.interim(other, outgoing.id, call),
            }
            self.hub.out.room().await;
        }
    }

    /// An older HTTP server logs on a stream that belongs to no request. What it said during this one is on its way, or waits to be
    /// read by another task; it is let in until nothing has come for a moment.
    async fn last_words(self: &Rc<Self>, inbox: &Inbox, id: u64, call: Option<&Rc<Call>>) {
        let until = tokio::time::Instant::now() + LAST_WORDS;
        while let Ok(Ok(message)) = timeout(QUIET, inbox.next()).await {
            self.interim(message, id, call);
            if tokio::time::Instant::now() >= until {
                return;
            }
        }
    }

    /// Sends a notification or a reply; nothing comes back.
    pub(crate) async fn post(self: &Rc<Self>, body: Payload) -> Result<(), Failure> {
        if let Some(failure) = &*self.closed.borrow() {
            return Err(failure.clone());
        }
        self.link.post(self, body).await
    }

    /// The same, without waiting for it. A server that keeps too many of these waiting gets no more.
    pub(crate) fn post_later(self: &Rc<Self>, body: Vec<u8>) {
        if self.posting.get() >= MAX_POSTING {
            return self
                .hub
                .stray(&self.server, "it asks faster than it takes answers");
        }
        self.posting.set(self.posting.get() + 1);
        let conn = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let outcome = timeout(POSTING, conn.post(body.into())).await;
            conn.posting.set(conn.posting.get() - 1);
            if let Ok(Err(failure)) = outcome {
                tracing::debug!(
                    server = &*conn.server,
                    "a message to the server was not delivered: {failure}"
                );
            }
        });
    }

    fn enlist(self: &Rc<Self>, id: u64, inbox: &Rc<Inbox>, call: Option<&Rc<Call>>) -> Enlisted {
        if let Some(call) = call {
            call.upstream.set(id);
        }
        self.pending.borrow_mut().insert(
            id,
            Pending {
                inbox: Rc::clone(inbox),
                call: call.cloned(),
            },
        );
        Enlisted {
            conn: Rc::clone(self),
            id,
        }
    }

    /// Tells the server that nobody waits for this request any more. On modern HTTP the closed stream has said so already.
    pub(crate) fn cancel_upstream(self: &Rc<Self>, id: u64, reason: &str) {
        if id == 0 || (self.is_modern() && self.is_http()) {
            return;
        }
        let mut params = write::Object::new();
        params.u64("requestId", id).str("reason", reason);
        self.post_later(rpc::notification(
            "notifications/cancelled",
            Some(&params.finish()),
        ));
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
        match &self.owner {
            Owner::System(users) => {
                if lost && self.peer().is_some() {
                    self.hub
                        .tell("closed", &self.server, self.generation, |line| {
                            line.str("error", &failure.text);
                        });
                }
                users.close(&failure);
            }
            Owner::User => {}
        }
        for task in self
            .tasks
            .take()
            .into_iter()
            .chain(self.listener.take())
            .chain(self.standing.take())
        {
            task.abort();
        }
        if let Some(farewell) = self.link.close() {
            self.hub.farewell(farewell);
        }
    }

    /// Lets go of what nobody has used for a while.
    pub(crate) fn sweep(&self) {
        self.link.sweep();
        if let Owner::System(users) = &self.owner {
            users.sweep();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.borrow().is_some()
    }
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
