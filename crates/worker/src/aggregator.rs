//! The aggregator: lines from the gate in, a table of methods, answers out.
//!
//! It holds connections and credentials and decides nothing: what may be called, by whom and with what, was settled in the gate
//! before a line arrived here. It must never panic on what an upstream or the gate sends, never hold memory without a bound, and never
//! let one server delay another.

mod call;
mod catalog;
mod connect;
mod connection;
mod delegate;
mod era;
mod fetch;
mod forward;
mod handover;
mod http;
mod hub;
mod inbox;
mod incoming;
mod link;
mod listen;
mod listing;
mod login;
mod methods;
mod outgoing;
mod plan;
mod post_stream;
mod proofs;
mod requests;
mod routing;
mod seed;
mod seed_calls;
mod seed_lists;
mod servers;
mod sse_legacy;
mod standing;
mod stdio;
mod terms;
#[cfg(test)]
mod tests;
mod users;

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    io,
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use sandbox::handover::Receiver;
use tokio::{sync::Notify, task::LocalSet, time::interval};
use wire::{
    Json,
    json::{self, RawField},
    line::Line,
    worker::{self, Assembler, Attached, PartError, Shared},
};

use self::{call::Call, handover::Parked, hub::Hub, requests::Queue, seed::Seed, servers::Servers};
use crate::{
    failure::Failure,
    input::Input,
    net::Net,
    output::{Out, Sink},
};

/// Idle connections are looked over this often.
const SWEEP: Duration = Duration::from_secs(10);
/// How long requests under way may take to finish once no more are read.
const DRAIN: Duration = Duration::from_secs(3);
/// How long those still under way may take to notice that their connection is closed; then they are answered for.
const TELLING: Duration = Duration::from_millis(500);
const SHUTTING_DOWN: &str = "the worker is shutting down";
/// How long the last lines may take to leave.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What the process was started with.
pub(crate) struct Start {
    pub(crate) net: Net,
    pub(crate) total_bytes: usize,
    /// The answer to `confinement`, as JSON text.
    pub(crate) confinement: Vec<u8>,
    pub(crate) receiver: Option<Receiver>,
    pub(crate) input: Input,
    pub(crate) sink: Sink,
}

#[derive(Debug)]
pub(crate) struct Aggregator {
    pub(crate) hub: Rc<Hub>,
    pub(crate) servers: Servers,
    pub(crate) seed: Seed,
    pub(crate) parked: Rc<Parked>,
    pub(crate) confinement: Vec<u8>,
    calls: RefCell<HashMap<u64, Rc<Call>>>,
    /// Parameters in shared memory of requests that have not started.
    attached: RefCell<HashMap<u64, Bytes>>,
    queue: Queue,
    /// Set once the process is to end.
    ending: Cell<bool>,
    changed: Notify,
}

/// Runs until the gate says `shutdown` or closes its end. Everything happens on this one thread.
pub(crate) async fn run(start: Start) -> io::Result<()> {
    LocalSet::new().run_until(serve(start)).await
}

async fn serve(start: Start) -> io::Result<()> {
    let out = Out::new(start.total_bytes, Rc::clone(&start.net.memory));
    let parked = Rc::new(Parked::default());
    let aggregator = Rc::new(Aggregator {
        hub: Hub::new(out.clone(), Rc::new(start.net)),
        servers: Servers::default(),
        seed: Seed::default(),
        parked: Rc::clone(&parked),
        confinement: start.confinement,
        calls: RefCell::default(),
        attached: RefCell::default(),
        queue: Queue::default(),
        ending: Cell::new(false),
        changed: Notify::new(),
    });
    if let Some(receiver) = start.receiver {
        tokio::task::spawn_local(parked.receive(receiver, Rc::clone(&aggregator.hub)));
    }
    let mut writer = tokio::task::spawn_local(out.clone().write_to(start.sink));
    let sweeper = Rc::clone(&aggregator);
    tokio::task::spawn_local(async move {
        let mut ticks = interval(SWEEP);
        loop {
            ticks.tick().await;
            sweeper.servers.sweep();
            sweeper.hub.net.memory.trim();
        }
    });
    let outcome = tokio::select! {
        outcome = aggregator.read(start.input, start.total_bytes) => outcome,
        // The gate no longer reads us: as good as closing our input.
        _ = &mut writer => Ok(()),
    };
    let _ = tokio::time::timeout(DRAIN, aggregator.drained()).await;
    aggregator
        .servers
        .close_all(&Failure::upstream(SHUTTING_DOWN));
    // Who waited for one of these connections learns of it in a turn of its own.
    let _ = tokio::time::timeout(TELLING, aggregator.drained()).await;
    for id in aggregator.queue.give_up() {
        out.error(id, SHUTTING_DOWN);
    }
    aggregator.hub.say_farewell().await;
    let _ = tokio::time::timeout(LAST_WORDS, out.flushed()).await;
    outcome
}

impl Aggregator {
    async fn read(self: &Rc<Self>, mut input: Input, total_bytes: usize) -> io::Result<()> {
        let mut assembler = Assembler::new(total_bytes);
        let mut first = true;
        while !self.ending.get() {
            self.queue.advance(self);
            if self.queue.is_full() {
                self.changed.notified().await;
                continue;
            }
            let line = tokio::select! {
                biased;
                () = self.changed.notified() => continue,
                line = input.next() => line?,
            };
            match line {
                None => return Ok(()),
                Some(Line::Whole(text)) if text.iter().all(u8::is_ascii_whitespace) => {}
                Some(Line::Whole(text)) if std::mem::take(&mut first) => seed::begin(self, &text),
                Some(Line::Whole(text)) => self.take(&mut assembler, text),
                Some(Line::TooLong { prefix, bytes, .. }) => {
                    first = false;
                    let limit = worker::LINE_LIMIT;
                    self.complain(
                        worker::salvage_id(&prefix),
                        &format!("the line has {bytes} bytes; at most {limit} are read"),
                    );
                }
            }
        }
        Ok(())
    }

    /// One line: a request, a part of one, or something about shared memory.
    fn take(self: &Rc<Self>, assembler: &mut Assembler, line: Bytes) {
        match Shared::read(&line) {
            None => {}
            Some(Shared::Returned(offset)) => return self.hub.net.memory.returned(offset),
            Some(Shared::Attached(attached)) => return self.take_attached(&attached),
            Some(Shared::Malformed) => {
                return self.complain(
                    None,
                    "the line begins like one about shared memory and is none",
                );
            }
        }
        let text = match assembler.take(line) {
            Ok(Some(text)) => text,
            Ok(None) => return,
            Err(PartError::TooLarge { id }) => {
                return self.complain(Some(id), "the request is larger than this worker accepts");
            }
            Err(PartError::TooMany { id }) => {
                return self.complain(Some(id), "too many requests are arriving in parts at once");
            }
            Err(PartError::Malformed) => {
                return self.complain(None, "the line begins like a part of a request and is none");
            }
        };
        if is_forward(&text)
            && let Ok(fields) = Json::skim_fields(&text)
        {
            return self.request(&text, &fields);
        }
        match Json::parse_fields(&text, assembler.limits()) {
            Ok(outline) => self.request(&text, &outline.fields()),
            Err(error) => {
                let id = worker::salvage_id(text.get(..text.len().min(256)).unwrap_or_default());
                self.complain(id, &format!("the line is not valid JSON: {error}"));
            }
        }
    }

    /// A call whose parameters are in shared memory.
    fn take_attached(self: &Rc<Self>, attached: &Attached) {
        let fields = Json::skim_fields(&attached.message).unwrap_or_default();
        let id = json::find(&fields, "id").and_then(Json::as_u64);
        let parameters = self
            .hub
            .net
            .memory
            .parameters(attached.offset, attached.length);
        let (Some(id), Some(parameters), true) = (id, parameters, is_forward(&attached.message))
        else {
            return self.complain(
                id,
                "the line names parameters in shared memory that are not there",
            );
        };
        self.attached.borrow_mut().insert(id, parameters);
        self.request(&attached.message, &fields);
    }

    /// The parameters of a request, if they came in shared memory.
    pub(crate) fn attached(&self, id: u64) -> Option<Bytes> {
        self.attached.borrow_mut().remove(&id)
    }

    fn request(self: &Rc<Self>, text: &Bytes, fields: &[RawField<'_>]) {
        let get = |key: &str| json::find(fields, key);
        let Some(id) = get("id").and_then(Json::as_u64) else {
            return self.complain(
                None,
                "the request has no `id`, or one that is not a whole number",
            );
        };
        let Some(name) = get("method").and_then(Json::as_str) else {
            return self.complain(Some(id), "the request has no `method`");
        };
        let Some(method) = methods::find(&name) else {
            return self.complain(
                Some(id),
                &format!("unknown method: {}", crate::failure::clip(&name)),
            );
        };
        let params = get("params").unwrap_or(Json::EMPTY_OBJECT);
        if method.waits_its_turn && !self.queue.has_room(self) {
            return self.queue.park(id, text.clone());
        }
        (method.run)(self, id, text, params);
    }

    /// A line that cannot be served costs that line; whoever waits for it is told.
    pub(crate) fn complain(&self, id: Option<u64>, problem: &str) {
        tracing::warn!(id, "skipped a line: {problem}");
        if let Some(id) = id {
            self.hub.out.error(id, problem);
        }
    }

    /// Waits until everything that was asked has been answered.
    async fn drained(self: &Rc<Self>) {
        self.ending.set(true);
        loop {
            self.queue.advance(self);
            if self.queue.is_idle() {
                return;
            }
            self.changed.notified().await;
        }
    }

    /// Ends the loop after the answers given so far.
    pub(crate) fn end(&self) {
        self.ending.set(true);
        self.changed.notify_one();
    }

    pub(crate) fn began(&self, call: &Rc<Call>) {
        self.queue.began(call.id);
        self.calls.borrow_mut().insert(call.id, Rc::clone(call));
    }

    pub(crate) fn ended(&self, call: &Rc<Call>) {
        self.calls.borrow_mut().remove(&call.id);
        self.finished(call.id);
    }

    /// Room for a request that waits.
    pub(crate) fn finished(&self, id: u64) {
        if self.queue.finished(id) || self.ending.get() {
            self.changed.notify_one();
        }
    }

    pub(crate) fn call(&self, id: u64) -> Option<Rc<Call>> {
        self.calls.borrow().get(&id).cloned()
    }

    /// Calls that wait for a person and so take no room.
    fn waiting_calls(&self) -> usize {
        self.calls
            .borrow()
            .values()
            .filter(|call| call.is_waiting())
            .count()
    }
}

/// A call that the gate passes on, as it writes them. The gate has validated the caller's text, which may be long, so it is not
/// validated a second time; what servers send always is.
fn is_forward(text: &[u8]) -> bool {
    let head = text.get(..64).unwrap_or(text);
    head.starts_with(b"{\"id\":")
        && memchr::memmem::find(head, b",\"method\":\"forward\",\"params\":{").is_some()
}
