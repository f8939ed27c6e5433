//! A call under way, as a door sees it: events come out, answers and a cancellation go in.
//!
//! The call runs in a task of the gate's. Dropping a [`Running`] stops watching it; it does not cancel it, and the call is concluded
//! all the same.

use std::collections::VecDeque;

use audit::Sealed;
use bytes::Bytes;
use tokio::sync::mpsc;
use vocab::{Fault, FaultKind, Rule, Stop, Violation};
use wire::Text;

/// Events that may wait for the door.
const EVENTS: usize = 64;
/// Answers that may wait for the call.
const ORDERS: usize = 64;

/// Something a call has to say.
#[derive(Debug)]
pub enum Event {
    /// Progress, without its token: that belongs to the door.
    Progress(Bytes),
    Log(Bytes),
    /// The server asks the caller's client something; answer it under `key`.
    Ask {
        key: String,
        method: String,
        params: Bytes,
    },
    /// The last event.
    Done(Reply),
}

#[derive(Debug)]
pub enum Answer {
    /// A JSON object.
    Result(Bytes),
    /// A JSON-RPC error object.
    Error(Bytes),
}

#[derive(Debug)]
pub enum Outcome {
    /// The MCP result, verbatim but for what the gate seals in it.
    Result(Text),
    /// The upstream answered with this JSON-RPC error object.
    Rpc(Bytes),
    Stopped(Stop),
}

/// The answer to a call. Only Conclude makes one, and only from the ledger's proof that the outcome is recorded.
#[derive(Debug)]
pub struct Reply {
    outcome: Outcome,
}

impl Reply {
    pub(crate) fn new(outcome: Outcome, _proof: Sealed) -> Self {
        Self { outcome }
    }

    /// When the ledger cannot record the outcome, the caller learns only that: a result that is not on record is not delivered.
    pub(crate) fn unrecorded(detail: String) -> Self {
        Self { outcome: Outcome::Stopped(Fault::new(FaultKind::Gate, detail).into()) }
    }

    /// A call that had no effect and cannot be recorded: its caller may try again, and learns nothing that is on no record.
    pub(crate) fn refused_unrecorded(detail: String) -> Self {
        Self { outcome: Outcome::Stopped(Violation::new(Rule::LedgerUnavailable, detail).into()) }
    }

    #[must_use]
    pub fn into_outcome(self) -> Outcome {
        self.outcome
    }
}

#[derive(Debug)]
pub(crate) enum Order {
    Answer { key: String, answer: Answer },
    Cancel,
}

/// The call's end of the two channels.
#[derive(Debug)]
pub(crate) struct Wires {
    events: mpsc::Sender<Event>,
    pub(crate) orders: mpsc::Receiver<Order>,
}

impl Wires {
    /// Whether something that may be lost would arrive.
    pub(crate) fn has_room(&self) -> bool {
        self.events.capacity() > 0
    }

    /// Says something that may be lost if the door is slow.
    pub(crate) fn mention(&self, event: Event) {
        let _ = self.events.try_send(event);
    }

    /// Says something that must arrive, if anybody still watches.
    pub(crate) async fn say(&self, event: Event) {
        let _ = self.events.send(event).await;
    }

    /// Returns when nobody watches any more. Does not hold on to the wires.
    pub(crate) fn unwatched(&self) -> impl Future<Output = ()> + use<> {
        let events = self.events.clone();
        async move { events.closed().await }
    }

    pub(crate) fn is_watched(&self) -> bool {
        !self.events.is_closed()
    }
}

#[derive(Debug)]
pub struct Running {
    events: mpsc::Receiver<Event>,
    orders: mpsc::Sender<Order>,
    /// Questions shown to the door and not answered yet.
    open: Vec<(String, String, Bytes)>,
    again: VecDeque<Event>,
}

impl Running {
    pub(crate) fn pair() -> (Self, Wires) {
        let (events_in, events) = mpsc::channel(EVENTS);
        let (orders, orders_out) = mpsc::channel(ORDERS);
        (Self { events, orders, open: Vec::new(), again: VecDeque::new() }, Wires { events: events_in, orders: orders_out })
    }

    /// The next event. After [`Event::Done`] there is none; asking again reports a fault rather than waiting for ever.
    pub async fn next(&mut self) -> Event {
        if let Some(event) = self.again.pop_front() {
            return event;
        }
        match self.events.recv().await {
            Some(Event::Ask { key, method, params }) => {
                self.open.push((key.clone(), method.clone(), params.clone()));
                Event::Ask { key, method, params }
            }
            Some(event) => event,
            None => Event::Done(Reply::unrecorded("the call's task ended without a reply".into())),
        }
    }

    /// Answers a question. Unknown keys are ignored, and so is a second answer.
    pub fn answer(&mut self, key: &str, answer: Answer) {
        let before = self.open.len();
        self.open.retain(|(open, ..)| open != key);
        if self.open.len() < before {
            let _ = self.orders.try_send(Order::Answer { key: key.to_owned(), answer });
        }
    }

    /// Asks the upstream to stop. The call still ends with [`Event::Done`].
    pub fn cancel(&self) {
        let _ = self.orders.try_send(Order::Cancel);
    }

    /// Whether a question waits under this key.
    pub(crate) fn is_open(&self, key: &str) -> bool {
        self.open.iter().any(|(open, ..)| open == key)
    }

    /// Shows unanswered questions again.
    pub(crate) fn ask_again(&mut self) {
        let open = self.open.iter().cloned();
        self.again = open.map(|(key, method, params)| Event::Ask { key, method, params }).collect();
    }
}
