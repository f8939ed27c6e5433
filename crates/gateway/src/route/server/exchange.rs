//! One call's conversation with its server, through the worker: what the server says before it answers, what the client answers, and
//! how long that may take.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use callers::ForGate;
use calls::{
    finish::{Phase, reached},
    running::{Event, FromClient, Wires},
};
use tokio::{sync::mpsc, time::Instant};
use upstreams::{
    catalog::Target,
    link::{ErrorKind, EventName, Link, Waits, Word},
    logins::login_required,
    words::Pass,
};
use vocab::{Fault, FaultKind, Label, Mark, Rule, Stop, Violation};
use wire::{Json, mcp, rpc, worker::method, write::Object};

use super::{GRACE, unavailable};
use crate::{
    Answer,
    call::{
        APPROVAL_KEY, Case, Decide, Slots, judge_answer, record_answer, show, turn, worker_lost,
    },
    route::{CallerSide, Raw},
};

/// One call's conversation with its upstream.
pub(super) struct Exchange<'a> {
    case: Case<'a>,
    target: &'a Arc<Target>,
    link: &'a Link,
    id: u64,
    wires: &'a mut Wires,
    /// Admit to Judge, for the answers.
    decide: Decide,
    /// What everything carries that the server says.
    label: &'a Label,
    /// Evidence that words of this server may be shown. Held as long as the call goes on, so that a reset in between does not wash
    /// their label off.
    pass: Option<Pass>,
    /// Given back while questions wait for an answer.
    slots: &'a mut Slots,
    /// Questions waiting for an answer; the call's own time stands still meanwhile, for a while.
    asked: Vec<String>,
    /// It was told to end; nothing gives it more time.
    is_cancelled: bool,
}

impl<'a> Exchange<'a> {
    pub(super) fn new(
        side: CallerSide<'a>,
        target: &'a Arc<Target>,
        label: &'a Label,
        link: &'a Link,
        id: u64,
    ) -> Self {
        let CallerSide {
            case,
            wires,
            slots,
            decide,
        } = side;
        Self {
            case,
            target,
            link,
            id,
            wires,
            slots,
            decide,
            label,
            pass: None,
            asked: Vec::new(),
            is_cancelled: false,
        }
    }

    pub(super) async fn run(
        &mut self,
        mut words: mpsc::Receiver<Word>,
        time: Duration,
    ) -> Result<Raw, Stop> {
        let mut deadline = Instant::now() + time + GRACE;
        let mut standstill = Standstill::new(self.case.now.terms.door.question_timeout + GRACE);
        let mut is_watched = true;
        let mut phases = self.case.gate.flights.phases();
        let mut is_over = false;
        loop {
            // Who has asked something waits for an answer that cannot come in any more.
            let last = if self.asked.is_empty() {
                Phase::Over
            } else {
                Phase::Closing
            };
            let asks_end = standstill.ends();
            tokio::select! {
                biased;
                word = words.recv() => match word.unwrap_or(Word::Lost) {
                    Word::Event { name, message } => self.show(name, &message).await?,
                    Word::Waits(result) => return self.await_room(result, deadline).await,
                    Word::Error { kind: ErrorKind::Cancelled, .. } if standstill.is_over => return Err(unanswered()),
                    word => return last_word(word),
                },
                said = self.wires.from_client.recv(), if is_watched => match said {
                    // An answer to our own question that came too late.
                    Some(FromClient::Answer { key, .. }) if key == APPROVAL_KEY => {}
                    Some(FromClient::Answer { key, answer }) => {
                        self.case.gate.read_session(&self.case.request.caller).await?;
                        self.answer(&key, &answer)?;
                    }
                    Some(FromClient::Cancel) => {
                        self.case.gate.read_session(&self.case.request.caller).await?;
                        self.cancel(&mut deadline)?;
                    }
                    None => {
                        is_watched = false;
                        self.abandon_questions()?;
                    }
                },
                () = reached(&mut phases, last), if !is_over => {
                    is_over = true;
                    self.cancel(&mut deadline)?;
                }
                () = tokio::time::sleep_until(asks_end), if !self.asked.is_empty() => {
                    standstill.is_over = true;
                    self.cancel(&mut deadline)?;
                }
                () = tokio::time::sleep_until(deadline), if self.asked.is_empty() => {
                    if standstill.is_over {
                        return Err(unanswered());
                    }
                    return Err(Fault::new(FaultKind::Timeout, "the worker did not report the timeout itself").into());
                }
            }
            let stood = standstill.note(!self.asked.is_empty());
            if !self.is_cancelled {
                deadline += stood;
            }
        }
    }

    /// A result waits until there is room for it, within the call's own time. Its place is taken meanwhile, so that no more
    /// calls begin than answers can be held.
    async fn await_room(&self, result: Waits, deadline: Instant) -> Result<Raw, Stop> {
        let account = self.case.request.caller.room();
        let room = tokio::select! {
            room = account.take_until(result.bytes(), deadline) => room,
            () = self.case.gate.flights.reached(Phase::Over) => None,
        };
        let Some(room) = room else {
            return Err(dropped(&format!(
                "{} bytes; {} of this caller wait to be read",
                result.bytes(),
                account.held()
            )));
        };
        Ok(Raw::Unread(result, room))
    }

    /// Shows one event to the door, after raising the label: an event is part of the result.
    async fn show(&mut self, name: EventName, message: &Bytes) -> Result<(), Stop> {
        if matches!(name, EventName::Progress | EventName::Log) && !self.wires.has_room() {
            // It would be lost on the way to the door; a flood of these is not worth looking at.
            return Ok(());
        }
        let pass = match &self.pass {
            Some(pass) => pass.clone(),
            None => self
                .pass
                .insert(show(self.case, self.target, self.label.clone()).await?)
                .clone(),
        };
        let its_turn = turn(self.case, message.len(), self.wires).await;
        let json = Json::checked_before(message);
        let params = json.get("params").map_or_else(
            || Bytes::from_static(b"{}"),
            |params| message.slice_ref(params.as_bytes()),
        );
        let params =
            self.case
                .gate
                .hub
                .words(&self.case.request.caller, &self.target.spec, params, pass);
        drop(its_turn);
        match name {
            EventName::Progress => self.wires.mention(Event::Progress(params)),
            EventName::Log => self.wires.mention(Event::Log(params)),
            EventName::Ask => {
                let text = |key: &str| {
                    json.get(key)
                        .and_then(Json::as_str)
                        .unwrap_or_default()
                        .into_owned()
                };
                let (key, method) = (text("key"), text("method"));
                self.asked.push(key.clone());
                if self.is_cancelled || !self.wires.is_watched() {
                    self.abandon(&key, "the client is gone")?;
                } else if !self.slots.step_aside(self.case) {
                    self.abandon(&key, "the client has too many questions to answer")?;
                } else {
                    self.wires
                        .say(Event::Ask {
                            key,
                            method,
                            params,
                        })
                        .await;
                }
            }
            EventName::Closed
            | EventName::Changed
            | EventName::Updated
            | EventName::Unauthorized
            | EventName::Proof
            | EventName::ElicitationComplete => {}
        }
        Ok(())
    }

    /// Nobody will answer this question.
    fn abandon(&mut self, key: &str, why: &str) -> Result<(), Stop> {
        let nobody = rpc::error_object(mcp::code::INTERNAL_ERROR, why, None);
        self.answer(key, &Answer::Error(nobody.into()))
    }

    fn abandon_questions(&mut self) -> Result<(), Stop> {
        let open = std::mem::take(&mut self.asked);
        open.iter()
            .try_for_each(|key| self.abandon(key, "the client is gone"))
    }

    fn answered(&mut self, key: Option<&str>) {
        self.asked.retain(|open| key.is_some_and(|key| open != key));
        if self.asked.is_empty() {
            self.slots.come_back(self.case);
        }
    }

    /// An answer is data sent to the server: it is judged as the call would be that brought it along, and is on record before it leaves.
    /// One that may not be sent ends the call.
    fn answer(&mut self, key: &str, answer: &Answer) -> Result<(), Stop> {
        self.answered(Some(key));
        if let Err(violation) = judge_answer(self.case, self.target, self.decide, key, answer) {
            tracing::warn!(server = %self.target.spec.id, rule = violation.rule.code(), "an answer was withheld");
            if self.may_tell().is_ok() {
                self.tell_cancel();
            }
            return Err(violation.into());
        }
        record_answer(self.case, self.target, key, answer)?;
        let mut out = Object::new();
        out.u64("call", self.id).str("key", key);
        match answer {
            Answer::Result(result) => out.raw("result", result),
            Answer::Error(error) => out.raw("error", error),
        };
        self.link.tell(method::ANSWER, &out.finish());
        Ok(())
    }

    /// A cancel tells the server something too, if only a bit. A session that has seen more than the server takes gives its call up
    /// without a word: the server then hears and does what it would have if the client had done nothing.
    fn cancel(&mut self, deadline: &mut Instant) -> Result<(), Stop> {
        if let Err(label) = self.may_tell() {
            let detail = format!(
                "given up; the session's label is {label}, so `{}` was not told",
                self.target.spec.id
            );
            return Err(Fault::new(FaultKind::Cancelled, detail).into());
        }
        self.tell_cancel();
        self.answered(None);
        self.is_cancelled = true;
        *deadline = Instant::now() + GRACE;
        Ok(())
    }

    fn may_tell(&self) -> Result<(), Mark> {
        let ceiling = self.target.spec.ceiling();
        let weighed = self.case.request.caller.session().weigh_with(
            ceiling,
            self.case.step,
            self.case.carried().mark,
        );
        weighed.map(drop).map_err(|refused| refused.session)
    }

    fn tell_cancel(&self) {
        let mut out = Object::new();
        out.u64("call", self.id);
        self.link.tell(method::CANCEL, &out.finish());
    }
}

/// How long a call stands still because somebody outside has been asked something. It has an end: of one wait, and of all together.
struct Standstill {
    patience: Duration,
    since: Option<Instant>,
    stood: Duration,
    /// Nobody answered in time.
    is_over: bool,
}

impl Standstill {
    /// All waits of one call together may take so many times as long as one.
    const WAITS: u32 = 3;

    const fn new(patience: Duration) -> Self {
        Self {
            patience,
            since: None,
            stood: Duration::ZERO,
            is_over: false,
        }
    }

    /// When the wait of this moment, or one that began now, is over.
    fn ends(&self) -> Instant {
        let left = (self.patience * Self::WAITS).saturating_sub(self.stood);
        self.since.unwrap_or_else(Instant::now) + self.patience.min(left)
    }

    /// Says whether somebody is waited for. How long the wait took that has just ended.
    fn note(&mut self, waits: bool) -> Duration {
        match (waits, self.since) {
            (true, None) => self.since = Some(Instant::now()),
            (false, Some(since)) => {
                self.since = None;
                self.stood += since.elapsed();
                return since.elapsed();
            }
            _ => {}
        }
        Duration::ZERO
    }
}

fn dropped(detail: &str) -> Stop {
    Violation::new(Rule::ResultDropped, detail).into()
}

fn unanswered() -> Stop {
    Fault::new(
        FaultKind::Timeout,
        "nobody answered the server's question in time",
    )
    .into()
}

pub(super) fn last_word(word: Word) -> Result<Raw, Stop> {
    match word {
        Word::Result(result) => Ok(Raw::Result(result)),
        Word::Error { text, kind: ErrorKind::Unauthorized, .. } => Err(Violation::new(Rule::PermissionDenied, text)
            .with_hint("the server did not accept the user's account; connect it again with `portcullis connect-account`")
            .into()),
        Word::Error { text, kind: ErrorKind::Login, .. } => Err(login_required(text)),
        Word::Error { rpc: Some(error), .. } => Ok(Raw::Rpc(error)),
        Word::Error { text, kind, .. } => Err(match kind {
            ErrorKind::Timeout => Fault::new(FaultKind::Timeout, text).into(),
            ErrorKind::Cancelled => Fault::new(FaultKind::Cancelled, text).into(),
            ErrorKind::NoRoom => dropped(&text),
            ErrorKind::TooLarge => Violation::new(Rule::ResultTooLarge, text).into(),
            ErrorKind::Invalid => Violation::new(Rule::InvalidResult, text).into(),
            ErrorKind::Upstream | ErrorKind::NotFound | ErrorKind::Refused | ErrorKind::Unauthorized | ErrorKind::Login => {
                unavailable(text)
            }
        }),
        Word::Done => Ok(Raw::Result("{}".into())),
        Word::Lost | Word::Waits(_) | Word::Event { .. } => Err(worker_lost()),
    }
}
