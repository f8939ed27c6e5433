//! A call under way, as a door sees it: events come out, answers and a cancellation go in.
//!
//! Whoever watches a call also moves it, in the same task, until it has something to say before its end: a long text is then judged and
//! sent on while it is still in the caches, before the next one is read. From its first word on, and when nobody watches any more, the
//! call runs in a task of its own. Dropping a [`Running`] does not cancel it; the call is concluded all the same.

use std::{
    collections::VecDeque,
    fmt,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
};

use audit::{Concluded, Counted};
use bytes::Bytes;
use tokio::{runtime::Handle, sync::mpsc};
use vocab::{Fault, FaultKind, Rule, Stop, Violation};
use wire::Text;

use upstreams::words::{Pass, Words, own_pass};

/// Events that may wait for the door.
const EVENTS: usize = 64;
/// Answers that may wait for the call.
const FROM_CLIENT: usize = 64;

/// Something a call has to say.
#[derive(Debug)]
pub enum Event {
    /// Progress, without its token: that belongs to the door.
    Progress(Words),
    Log(Words),
    /// The server asks the caller's client something; answer it under `key`.
    Ask {
        key: String,
        method: String,
        params: Words,
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

impl Answer {
    /// A JSON object, whichever it is: what a client says when it declines goes to the server too.
    #[must_use]
    pub const fn text(&self) -> &Bytes {
        match self {
            Self::Result(text) | Self::Error(text) => text,
        }
    }
}

#[derive(Debug)]
pub enum Outcome {
    /// The MCP result, verbatim but for what the gate seals in it.
    Result(Text),
    /// The upstream answered with this JSON-RPC error object.
    Rpc(Bytes),
    Stopped(Stop),
}

/// The ledger's proof that it knows how a call ended: by a record of its own, or, for one refusal among very many, in a count.
#[derive(Debug)]
pub struct OnRecord(());

impl From<Concluded> for OnRecord {
    fn from(_proof: Concluded) -> Self {
        Self(())
    }
}

impl From<Counted> for OnRecord {
    fn from(_proof: Counted) -> Self {
        Self(())
    }
}

/// The answer to a call. Only Conclude makes one, and only from the ledger's proof that the outcome is recorded.
#[derive(Debug)]
pub struct Reply {
    outcome: Outcome,
    pass: Pass,
}

impl Reply {
    pub fn new(outcome: Outcome, pass: Pass, _proof: OnRecord) -> Self {
        Self { outcome, pass }
    }

    /// When the ledger cannot record the outcome, the caller learns only that: a result that is not on record is not delivered.
    pub fn unrecorded(detail: String) -> Self {
        Self {
            outcome: Outcome::Stopped(Fault::new(FaultKind::Gate, detail).into()),
            pass: own_pass(),
        }
    }

    /// A call that had no effect and cannot be recorded: its caller may try again, and learns nothing that is on no record.
    pub fn refused_unrecorded(detail: String) -> Self {
        Self {
            outcome: Outcome::Stopped(Violation::new(Rule::LedgerUnavailable, detail).into()),
            pass: own_pass(),
        }
    }

    /// How the call ended, and the evidence that this may be shown: to be held until it has left.
    pub fn into_parts(self) -> (Outcome, Pass) {
        (self.outcome, self.pass)
    }
}

/// What a client says to a call under way.
#[derive(Debug)]
pub enum FromClient {
    Answer { key: String, answer: Answer },
    Cancel,
}

/// The call's end of the two channels.
#[derive(Debug)]
pub struct Wires {
    events: mpsc::Sender<Event>,
    pub from_client: mpsc::Receiver<FromClient>,
    elsewhere: Elsewhere,
}

/// Where the call goes on, once it has asked for other threads than those it began on.
type Elsewhere = Arc<OnceLock<Handle>>;

impl Wires {
    /// Whether something that may be lost would arrive.
    pub fn has_room(&self) -> bool {
        self.events.capacity() > 0
    }

    /// Says something that may be lost if the door is slow.
    pub fn mention(&self, event: Event) {
        let _ = self.events.try_send(event);
    }

    /// Says something that must arrive, if anybody still watches.
    pub async fn say(&self, event: Event) {
        let _ = self.events.send(event).await;
    }

    /// Returns when nobody watches any more. Does not hold on to the wires.
    pub fn unwatched(&self) -> impl Future<Output = ()> + use<> {
        let events = self.events.clone();
        async move { events.closed().await }
    }

    /// From here on the call runs on these threads, whoever watches it.
    pub async fn go_on(&self, threads: Handle) {
        if self.elsewhere.set(threads).is_err() {
            // It is there already.
            return;
        }
        // Who sees that the call waits for nothing and has asked for this moves it.
        let mut asked = false;
        poll_fn(|_| {
            if std::mem::replace(&mut asked, true) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    pub fn is_watched(&self) -> bool {
        !self.events.is_closed()
    }
}

/// The stages of a call, one after the other.
type Stages = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The stages in a task of their own, until they ask to be elsewhere.
struct Parted {
    stages: Option<Stages>,
    elsewhere: Elsewhere,
}

impl Future for Parted {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let Some(mut stages) = this.stages.take() else {
            return Poll::Ready(());
        };
        let was_here = this.elsewhere.get().is_none();
        if stages.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        match this.elsewhere.get().filter(|_| was_here) {
            Some(threads) => {
                drop(threads.spawn(stages));
                Poll::Ready(())
            }
            None => {
                this.stages = Some(stages);
                Poll::Pending
            }
        }
    }
}

pub struct Running {
    /// The call itself, while whoever watches it moves it.
    stages: Option<Stages>,
    elsewhere: Elsewhere,
    events: mpsc::Receiver<Event>,
    to_call: mpsc::Sender<FromClient>,
    /// Questions shown to the door and not answered yet.
    open: Vec<(String, String, Words)>,
    again: VecDeque<Event>,
}

impl Running {
    /// A call that begins when it is first asked for an event, or dropped.
    pub fn new<S>(call: impl FnOnce(Wires) -> S) -> Self
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let (events_in, events) = mpsc::channel(EVENTS);
        let (to_call, from_client) = mpsc::channel(FROM_CLIENT);
        let elsewhere = Elsewhere::default();
        let stages = call(Wires {
            events: events_in,
            from_client,
            elsewhere: Arc::clone(&elsewhere),
        });
        Self {
            stages: Some(Box::pin(stages)),
            elsewhere,
            events,
            to_call,
            open: Vec::new(),
            again: VecDeque::new(),
        }
    }

    /// The next event. After [`Event::Done`] there is none; asking again reports a fault rather than waiting for ever. Nothing is lost
    /// if the future is dropped.
    pub async fn next(&mut self) -> Event {
        if let Some(event) = self.again.pop_front() {
            return event;
        }
        match poll_fn(|cx| self.poll_event(cx)).await {
            Some(Event::Ask {
                key,
                method,
                params,
            }) => {
                self.open
                    .push((key.clone(), method.clone(), params.clone()));
                Event::Ask {
                    key,
                    method,
                    params,
                }
            }
            Some(event) => event,
            None => Event::Done(Reply::unrecorded("the call ended without a reply".into())),
        }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if let Some(mut stages) = self.stages.take() {
            // A call that panics costs that call, and not those that share its connection.
            match catch_unwind(AssertUnwindSafe(|| stages.as_mut().poll(cx))) {
                Ok(Poll::Pending) => match self.elsewhere.get() {
                    Some(threads) => drop(threads.spawn(stages)),
                    None => self.stages = Some(stages),
                },
                Ok(Poll::Ready(())) | Err(_) => {}
            }
        }
        let event = ready!(self.events.poll_recv(cx));
        self.part();
        Poll::Ready(event)
    }

    /// From here on the call moves by itself.
    pub fn part(&mut self) {
        let Some(stages) = self.stages.take() else {
            return;
        };
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(Parted {
                stages: Some(stages),
                elsewhere: Arc::clone(&self.elsewhere),
            })),
            Err(error) => tracing::error!(%error, "a call ended before it was concluded"),
        }
    }

    /// Answers a question. Unknown keys are ignored, and so is a second answer.
    pub fn answer(&mut self, key: &str, answer: Answer) {
        let before = self.open.len();
        self.open.retain(|(open, ..)| open != key);
        if self.open.len() < before {
            let _ = self.to_call.try_send(FromClient::Answer {
                key: key.to_owned(),
                answer,
            });
        }
    }

    /// Asks the upstream to stop. The call still ends with [`Event::Done`].
    pub fn cancel(&self) {
        let _ = self.to_call.try_send(FromClient::Cancel);
    }

    /// Whether a question waits under this key.
    pub fn is_open(&self, key: &str) -> bool {
        self.open.iter().any(|(open, ..)| open == key)
    }

    /// Shows unanswered questions again.
    pub fn ask_again(&mut self) {
        let open = self.open.iter().cloned();
        self.again = open
            .map(|(key, method, params)| Event::Ask {
                key,
                method,
                params,
            })
            .collect();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // First, so that the call sees that nobody will answer what it asks.
        self.events.close();
        self.part();
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
        time::Duration,
    };

    use upstreams::words::own_words;

    use super::*;

    /// Whether a call came to its end, asked often enough for one that can.
    async fn ends(ended: &AtomicBool) -> bool {
        for _ in 0..100 {
            if ended.load(Ordering::Acquire) {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        false
    }

    /// A call that says `words` events, each after a pause, and then notes its end.
    fn talking(words: usize) -> (Running, Arc<AtomicBool>) {
        let ended = Arc::new(AtomicBool::new(false));
        let note = Arc::clone(&ended);
        let running = Running::new(move |wires| async move {
            for _ in 0..words {
                tokio::task::yield_now().await;
                wires.say(Event::Progress(own_words(Bytes::new()))).await;
            }
            tokio::task::yield_now().await;
            note.store(true, Ordering::Release);
        });
        (running, ended)
    }

    #[tokio::test]
    async fn a_call_that_nobody_watches_comes_to_its_end() {
        let (running, ended) = talking(0);
        drop(running);
        assert!(ends(&ended).await);
        let (mut running, ended) = talking(1);
        assert!(matches!(running.next().await, Event::Progress(_)));
        drop(running);
        assert!(ends(&ended).await);
    }

    #[tokio::test]
    async fn a_call_is_moved_by_its_watcher_until_its_first_word_and_then_by_itself() {
        let (mut running, ended) = talking(1);
        assert!(!ends(&ended).await, "nobody has asked yet");
        assert!(matches!(running.next().await, Event::Progress(_)));
        assert!(ends(&ended).await);
        assert!(matches!(running.next().await, Event::Done(_)));
    }

    /// Threads of their own, as long texts have them.
    fn threads() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("elsewhere")
            .enable_time()
            .build()
            .unwrap()
    }

    #[tokio::test]
    async fn a_call_that_asks_for_other_threads_goes_on_there_watched_or_not() {
        for parts_first in [false, true] {
            let elsewhere = threads();
            let handle = elsewhere.handle().clone();
            let mut running = Running::new(move |wires| async move {
                wires.say(Event::Progress(own_words(Bytes::new()))).await;
                let here = || std::thread::current().name().map(str::to_owned);
                assert_ne!(here().as_deref(), Some("elsewhere"));
                wires.go_on(handle.clone()).await;
                assert_eq!(here().as_deref(), Some("elsewhere"));
                // Asking again changes nothing.
                wires.go_on(handle).await;
                tokio::time::sleep(Duration::from_millis(1)).await;
                wires.say(Event::Log(own_words(Bytes::new()))).await;
            });
            if parts_first {
                running.part();
            }
            assert!(matches!(running.next().await, Event::Progress(_)));
            assert!(
                matches!(running.next().await, Event::Log(_)),
                "parted first: {parts_first}"
            );
            elsewhere.shutdown_background();
        }
    }

    #[tokio::test]
    async fn a_call_that_panics_is_answered() {
        let mut running = Running::new(|wires| async move {
            wires.say(Event::Progress(own_words(Bytes::new()))).await;
            assert!(!wires.has_room(), "on purpose");
        });
        assert!(matches!(running.next().await, Event::Progress(_)));
        let Event::Done(reply) = running.next().await else {
            panic!("not the end")
        };
        assert!(matches!(reply.into_parts().0, Outcome::Stopped(_)));
    }
}
