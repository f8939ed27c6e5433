//! Carrying one call of the gate to its end, whatever the transport.
//!
//! [`Call::step`] yields the messages the client should see, in order, and then the answer. It may be dropped and polled again at
//! any point without losing anything, so transports can race it against their own clocks.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use gateway::{Action, Answer as Reaction, Era, Event, Gate, Outcome, Pass, Running};
use tokio::time::Instant;
use wire::{
    Json, Text,
    rpc::{self, Id},
};

use super::{
    answer::Answer,
    asks::{self, Question},
    client::Client,
    peer::{Peer, Pull, Registration},
    progress,
    render::Shape,
    voice::{self, Voice},
};
use crate::parcel::Parcel;

/// What a request leads to.
pub(crate) enum Turn {
    Now(Answer, Pass),
    Call(Box<Call>),
    /// A modern subscription; the transport keeps it open.
    Listen,
}

impl<T: Into<Answer>> From<T> for Turn {
    fn from(answer: T) -> Self {
        Self::Now(answer.into(), Pass::default())
    }
}

/// Something for the client, with the evidence to hold until it has left.
pub(crate) enum Step {
    Message(Parcel),
    Done(Answer, Pass),
}

/// What a request asks of the gate.
pub(crate) struct Errand {
    pub(crate) id: Id,
    pub(crate) action: Action,
    pub(crate) params: Text,
    /// The client's progress token, if it wants to hear of progress.
    pub(crate) progress: Option<Bytes>,
    /// Makes the call reachable for cancellation and answers.
    pub(crate) registration: Option<Registration>,
}

pub(crate) struct Call {
    pub(crate) id: Id,
    /// `None` once the call was parked.
    running: Option<Running>,
    gate: Gate,
    client: Client,
    shape: Shape,
    progress: Option<Bytes>,
    voice: Voice,
    registration: Option<Registration>,
    /// A subscription to undo if the gate does not grant it.
    tentative: Option<(Arc<Peer>, String)>,
    queue: VecDeque<Parcel>,
    cancel_on_drop: bool,
    cancelled: bool,
}

impl Call {
    pub(crate) fn start(gate: &Gate, client: &Client, errand: Errand) -> Self {
        let running = gate.start(client.request(
            errand.action,
            errand.params.clone(),
            errand.progress.is_some(),
        ));
        Self::over(running, gate, client, errand)
    }

    /// Carries on a call that is already running.
    pub(crate) fn over(running: Running, gate: &Gate, client: &Client, errand: Errand) -> Self {
        Self {
            id: errand.id,
            running: Some(running),
            gate: gate.clone(),
            client: client.clone(),
            shape: Shape {
                era: client.era,
                action: errand.action,
                params: errand.params.into_bytes(),
            },
            progress: errand.progress,
            voice: Voice::of(client.era),
            registration: errand.registration,
            tentative: None,
            queue: VecDeque::new(),
            cancel_on_drop: false,
            cancelled: false,
        }
    }

    /// The client will hear no questions during this call; servers that ask are told so.
    pub(crate) fn mute(&mut self) {
        self.voice = Voice::Mute;
    }

    /// Hanging up cancels this call.
    pub(crate) fn cancel_when_dropped(&mut self) {
        self.cancel_on_drop = true;
    }

    /// Forgets the subscription again unless the call succeeds.
    pub(crate) fn on_failure_unsubscribe(&mut self, peer: Arc<Peer>, uri: String) {
        self.tentative = Some((peer, uri));
    }

    pub(crate) fn era(&self) -> Era {
        self.client.era
    }

    pub(crate) fn cancel(&self) {
        if let Some(running) = &self.running {
            running.cancel();
        }
    }

    /// Did the client cancel it? Then it does not expect an answer.
    pub(crate) fn was_cancelled(&self) -> bool {
        self.cancelled
    }

    /// The next thing the client should see.
    pub(crate) async fn step(&mut self) -> Step {
        loop {
            if let Some(message) = self.queue.pop_front() {
                return Step::Message(message);
            }
            match self.next_turn().await {
                Next::Pull(pull) => self.pulled(pull),
                Next::Event(event) => {
                    if let Some((answer, pass)) = self.happened(event) {
                        return Step::Done(answer, pass);
                    }
                }
                Next::Deadline => {
                    if let Some((answer, pass)) = self.waited() {
                        return Step::Done(answer, pass);
                    }
                }
            }
        }
    }

    async fn next_turn(&mut self) -> Next {
        let deadline = self.voice.deadline();
        let reins = self
            .registration
            .as_ref()
            .map(|registration| Arc::clone(&registration.reins));
        let Some(running) = &mut self.running else {
            return std::future::pending().await;
        };
        let pulled = async {
            match &reins {
                Some(reins) => reins.pulled().await,
                None => std::future::pending().await,
            }
        };
        let due = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            event = running.next() => Next::Event(event),
            pull = pulled => Next::Pull(pull),
            () = due => Next::Deadline,
        }
    }

    fn pulled(&mut self, pull: Pull) {
        let Some(running) = &mut self.running else {
            return;
        };
        match pull {
            Pull::Cancel => {
                self.cancelled = true;
                running.cancel();
            }
            Pull::Answer { key, answer } => running.answer(&key, answer),
        }
        if let (Voice::Inline { open }, Some(registration)) = (&mut self.voice, &self.registration)
        {
            open.retain(|(number, _)| registration.peer.is_asked(*number));
        }
    }

    /// Takes an event in; an answer if that was the last.
    fn happened(&mut self, event: Event) -> Option<(Answer, Pass)> {
        match event {
            Event::Progress(params) => {
                if let Some(token) = &self.progress {
                    let (params, pass) = params.into_parts();
                    let params = progress::with_token(token, &params);
                    self.enqueue(
                        rpc::notification("notifications/progress", Some(&params)),
                        pass,
                    );
                }
                None
            }
            Event::Log(params) => {
                if self.wants_log(&params) {
                    let (params, pass) = params.into_parts();
                    self.enqueue(
                        rpc::notification("notifications/message", Some(&params)),
                        pass,
                    );
                }
                None
            }
            Event::Ask {
                key,
                method,
                params,
            } => {
                self.asked(Question::new(key, method, params.into_parts()));
                None
            }
            Event::Done(reply) => {
                let (outcome, pass) = reply.into_parts();
                if let Outcome::Rpc(error) = &outcome {
                    self.note_visits(&pass, asks::visits_in(Json::checked_before(error)));
                }
                let answer = self.answer(outcome);
                if let (Some((peer, uri)), true) = (
                    self.tentative.take(),
                    !matches!(answer, Answer::Result { .. }),
                ) {
                    peer.unsubscribe(&uri);
                }
                self.cancel_on_drop = false;
                Some((answer, pass))
            }
        }
    }

    /// Something for the client before the end; counted, like everything that holds words of a server.
    fn enqueue(&mut self, message: Vec<u8>, pass: Pass) {
        self.queue
            .push_back(Parcel::new(self.client.caller.counted(message), pass));
    }

    /// The end of the call in the client's words. Where that made another text of the result, that one is counted.
    fn answer(&self, outcome: Outcome) -> Answer {
        let before = match &outcome {
            Outcome::Result(text) => Some(text.bytes().clone()),
            _ => None,
        };
        let is_untyped = |tool: &str| self.client.sees_untyped(&self.gate, tool);
        match (self.shape.answer(outcome, is_untyped), before) {
            (Answer::Result { fields, body }, Some(before))
                if !before.as_ptr_range().contains(&body.as_ptr()) =>
            {
                Answer::Result {
                    fields,
                    body: self.client.caller.counted(body),
                }
            }
            (answer, _) => answer,
        }
    }

    /// Modern clients hear only what they asked for; a legacy session that set no level hears everything.
    fn wants_log(&self, params: &[u8]) -> bool {
        match (self.client.log, self.client.era) {
            (Some(level), _) => level.admits(params),
            (None, era) => era == Era::Legacy,
        }
    }

    /// A client that is sent somewhere hears, outside of the call, when that is done.
    fn note_visits(&self, pass: &Pass, visits: impl Iterator<Item = String>) {
        if let (Some(source), Some(registration)) = (pass.source(), &self.registration) {
            visits.for_each(|id| registration.peer.asked_to_visit(source.server(), id));
        }
    }

    fn asked(&mut self, question: Question) {
        self.note_visits(
            &question.pass,
            asks::visit(Json::checked_before(&question.params)).into_iter(),
        );
        let suits = question.suits(&self.client.capabilities);
        match (&mut self.voice, &self.registration) {
            (Voice::Inline { open }, Some(registration)) if suits => {
                let number = registration
                    .peer
                    .open_ask(&registration.reins, question.key);
                open.push((
                    number,
                    Instant::now() + self.gate.settings().question_timeout,
                ));
                let request = rpc::request(&Id::number(number), &question.method, &question.params);
                self.enqueue(request, question.pass);
            }
            (Voice::Parked { asked, until }, _) if suits => {
                if asked.is_empty() {
                    *until = Instant::now() + voice::GATHERING;
                }
                asked.push(question);
            }
            _ => {
                if let Some(running) = &mut self.running {
                    running.answer(&question.key, Reaction::Error(asks::declined()));
                }
            }
        }
    }

    /// A deadline passed: park the call with what was asked, or give up on an answer.
    fn waited(&mut self) -> Option<(Answer, Pass)> {
        match &mut self.voice {
            Voice::Parked { asked, .. } => {
                let asked = std::mem::take(asked);
                let running = self.running.take()?;
                let params = Json::checked_before(&self.shape.params);
                let state = self
                    .gate
                    .park(running, &self.client.caller, self.shape.action, params);
                // All of them are questions of one server in one call.
                let pass = asked.first()?.pass.clone();
                Some((Answer::result(asks::input_required(&asked, &state)), pass))
            }
            Voice::Inline { open } => {
                let (number, _) = open.first().copied()?;
                open.retain(|(other, _)| *other != number);
                if let Some(registration) = &self.registration {
                    registration
                        .peer
                        .answer(&Id::number(number), Reaction::Error(asks::unanswered()));
                }
                None
            }
            Voice::Mute => None,
        }
    }
}

enum Next {
    Event(Event),
    Pull(Pull),
    Deadline,
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.cancel_on_drop {
            self.cancel();
        }
        if let (Voice::Inline { open }, Some(registration)) = (&self.voice, &self.registration) {
            open.iter()
                .for_each(|(number, _)| registration.peer.close_ask(*number));
        }
    }
}
