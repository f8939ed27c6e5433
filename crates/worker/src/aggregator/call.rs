//! One call the gate asked for: its clock, what it asked the client, how it is stopped.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::{Notify, oneshot},
    time::{Instant, sleep_until},
};
use wire::{Json, rpc::Id};

use crate::failure::Failure;

/// Questions one call may have open at a time.
const MAX_OPEN_ASKS: usize = 16;

/// How long the clock may stand still for a question. Longer than the longest `question_timeout`, so that it is the gate that gives up; a
/// call that the gate gave up without a word to the server ends by it.
const MAX_PAUSE: Duration = Duration::from_secs(65 * 60);

/// Progress notes and log lines of one call that are passed on in one stretch of time.
const MAX_TOLD: u32 = 200;
const STRETCH: Duration = Duration::from_millis(200);

/// What the client behind a call can be asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Abilities {
    pub(crate) sampling: bool,
    pub(crate) roots: bool,
    pub(crate) form: bool,
    pub(crate) url: bool,
}

impl Abilities {
    /// Reads a client's capabilities. A bare `elicitation: {}` means forms.
    pub(crate) fn read(caps: Json<'_>) -> Self {
        let elicitation = caps.get("elicitation").filter(|value| value.is_object());
        let url = elicitation.is_some_and(|value| value.get("url").is_some());
        let form = elicitation
            .is_some_and(|value| value.get("form").is_some() || value.get("url").is_none());
        Self {
            sampling: caps.get("sampling").is_some(),
            roots: caps.get("roots").is_some(),
            form,
            url,
        }
    }

    pub(crate) fn allows(self, method: &str, params: Option<Json<'_>>) -> bool {
        match method {
            "sampling/createMessage" => self.sampling,
            "roots/list" => self.roots,
            "elicitation/create" => match params
                .and_then(|params| params.get("mode"))
                .and_then(Json::as_str)
                .as_deref()
            {
                Some("url") => self.url,
                Some("form") | None => self.form,
                Some(_) => false,
            },
            _ => false,
        }
    }
}

/// What the gate said to a question.
#[derive(Debug)]
pub(crate) enum Answer {
    Result(Bytes),
    Error(Bytes),
}

/// Why a call ends before its reply.
#[derive(Debug, Clone)]
pub(crate) enum Stop {
    Cancelled,
    TimedOut,
    Closed(Failure),
}

#[derive(Debug)]
struct Ask {
    answer: oneshot::Sender<Answer>,
    /// The upstream's own request id, where the question came as a request.
    upstream: Option<Id>,
}

#[derive(Debug)]
pub(crate) struct Call {
    /// The gate's id.
    pub(crate) id: u64,
    /// Names the client session. Calls of different lanes never see each other's questions.
    pub(crate) lane: String,
    pub(crate) abilities: Abilities,
    pub(crate) progress: bool,
    /// The upstream request currently standing for this call.
    pub(crate) upstream: Cell<u64>,
    budget: Duration,
    deadline: Cell<Instant>,
    paused: Cell<Option<Instant>>,
    stop: RefCell<Option<Stop>>,
    changed: Notify,
    asks: RefCell<HashMap<String, Ask>>,
    next_key: Cell<u64>,
    /// The current stretch of time, and what was told in it.
    told: Cell<(Instant, u32)>,
}

impl Call {
    pub(crate) fn new(
        id: u64,
        lane: String,
        abilities: Abilities,
        progress: bool,
        budget: Duration,
    ) -> Self {
        Self {
            id,
            lane,
            abilities,
            progress,
            upstream: Cell::new(0),
            budget,
            deadline: Cell::new(Instant::now() + budget),
            paused: Cell::new(None),
            stop: RefCell::new(None),
            changed: Notify::new(),
            asks: RefCell::default(),
            next_key: Cell::new(1),
            told: Cell::new((Instant::now(), 0)),
        }
    }

    pub(crate) fn stop(&self, stop: Stop) {
        self.stop.borrow_mut().get_or_insert(stop);
        self.changed.notify_one();
    }

    /// Returns once the call must end: cancelled, out of time, or its connection gone. The clock stands still while a question is open.
    pub(crate) async fn interrupted(&self) -> Stop {
        loop {
            if let Some(stop) = self.stop.borrow_mut().take() {
                return stop;
            }
            tokio::select! {
                () = self.changed.notified() => {}
                () = sleep_until(self.ends()) => {
                    if Instant::now() >= self.ends() {
                        return Stop::TimedOut;
                    }
                }
            }
        }
    }

    /// When it is out of time, as things stand.
    fn ends(&self) -> Instant {
        self.paused
            .get()
            .map_or(self.deadline.get(), |since| since + MAX_PAUSE)
    }

    pub(crate) const fn budget(&self) -> Duration {
        self.budget
    }

    /// Opens a question and returns its key and where the answer will arrive; `None` if too many are open.
    pub(crate) fn open_ask(
        &self,
        upstream: Option<Id>,
    ) -> Option<(String, oneshot::Receiver<Answer>)> {
        let mut asks = self.asks.borrow_mut();
        if asks.len() >= MAX_OPEN_ASKS {
            return None;
        }
        let number = self.next_key.get();
        self.next_key.set(number + 1);
        let (answer, receiver) = oneshot::channel();
        let key = format!("a{number}");
        asks.insert(key.clone(), Ask { answer, upstream });
        if self.paused.get().is_none() {
            self.paused.set(Some(Instant::now()));
            self.changed.notify_one();
        }
        Some((key, receiver))
    }

    /// Hands the gate's answer to whoever asked. False if no such question is open.
    pub(crate) fn answer(&self, key: &str, answer: Answer) -> bool {
        let ask = self.asks.borrow_mut().remove(key);
        self.resume_if_idle();
        ask.is_some_and(|ask| ask.answer.send(answer).is_ok())
    }

    /// The upstream took its question back.
    pub(crate) fn withdraw(&self, upstream: &Id) -> bool {
        let mut asks = self.asks.borrow_mut();
        let before = asks.len();
        asks.retain(|_, ask| ask.upstream.as_ref() != Some(upstream));
        let found = asks.len() < before;
        drop(asks);
        self.resume_if_idle();
        found
    }

    /// Nobody will answer any more.
    pub(crate) fn drop_asks(&self) {
        self.asks.borrow_mut().clear();
    }

    fn resume_if_idle(&self) {
        if !self.asks.borrow().is_empty() {
            return;
        }
        if let Some(since) = self.paused.take() {
            self.deadline.set(self.deadline.get() + since.elapsed());
            self.changed.notify_one();
        }
    }

    /// May another progress note or log line be passed on? A flood is thinned out.
    pub(crate) fn may_tell(&self) -> bool {
        let (since, count) = self.told.get();
        let fresh = since.elapsed() > STRETCH;
        let (since, count) = if fresh {
            (Instant::now(), 0)
        } else {
            (since, count)
        };
        self.told.set((since, count + 1));
        count < MAX_TOLD
    }

    /// Waiting for people is not work: such a call does not count against the bound.
    pub(crate) fn is_waiting(&self) -> bool {
        self.paused.get().is_some()
    }
}
