//! Dispatch: the only effect. Spends the permit and the intent, sends exactly the bytes that were judged, and listens until the
//! upstream has answered, the budget is spent, or the worker is gone.

use std::{sync::Arc, time::Duration};

use audit::Intent;
use bytes::Bytes;
use policy::Permit;
use tokio::{sync::mpsc, time::Instant};
use vocab::{Fault, FaultKind, Label, Mark, Rule, Stop, Violation};
use wire::{Json, Text, mcp, rpc, worker::method, write::Object};

use super::{
    Case, Target, abilities, answers,
    consent::{self, Decide},
    shape::Args,
    show,
    slots::Slots,
    turn, worker_lost,
};
use crate::{
    Action, Answer, Ask, Era,
    finish::{Phase, reached},
    gate::Inner,
    link::{ErrorKind, EventName, Link, Waits, Word},
    room::Room,
    running::{Event, Order, Wires},
    upstream::{Status, Upstream},
    words::{self, Pass},
};

/// The worker keeps the time; this much later the gate stops waiting for the worker.
const GRACE: Duration = Duration::from_secs(2);
/// How long a call to a server that is reconnecting waits for it.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// What came back, before anyone looked at it.
#[derive(Debug)]
pub(super) enum Raw {
    Result(Text),
    /// A result that nobody has looked at, and the room for it.
    Unread(Waits, Room),
    Rpc(Bytes),
    /// The call was sent and brought no answer. When and how, the server can choose.
    Stopped(Stop),
}

impl Raw {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Result(text) => text.len(),
            Self::Unread(result, _) => result.len(),
            Self::Rpc(error) => error.len(),
            Self::Stopped(_) => 0,
        }
    }
}

/// What came back, and what it carries.
#[derive(Debug)]
pub(super) struct Carried {
    pub(super) raw: Raw,
    pub(super) label: Label,
}

/// `Err`: nothing was sent, and the server had no say in it.
pub(super) async fn dispatch(
    case: Case<'_>,
    target: &Target,
    (permit, intent, args): (Permit, Intent, Args),
    slots: &mut Slots,
    (decide, wires): (Decide, &mut Wires),
) -> Result<Carried, Stop> {
    let Case { gate, ask, .. } = case;
    let label = words::label_of(&target.spec, target.is_open_world);
    if permit.digest() != &args.digest {
        return Err(Fault::new(
            FaultKind::Gate,
            "the bytes to send are not the bytes that were judged",
        )
        .into());
    }
    if target.is_absent {
        return Err(unavailable(
            "it was approved, and the server does not list it now",
        ));
    }
    let upstream = gate
        .hub
        .upstream(&target.spec.id)
        .ok_or_else(|| unavailable("no server has this tool, or it was removed"))?;
    let budget = permit.budget();
    let link = connected(
        gate,
        &upstream,
        CONNECT_PATIENCE.min(left(case, budget.time)?),
    )
    .await?;
    if matches!(ask.action, Action::Subscribe | Action::Unsubscribe) {
        let raw = subscribe(ask, target, &upstream, &link).await;
        let raw = raw.unwrap_or_else(Raw::Stopped);
        return Ok(Carried { raw, label });
    }
    listen_for_logs(ask, target, &upstream, &link).await;
    let time = left(case, budget.time)?;
    let (id, words) = link.forward(about(case, target, time)?, &args.text, ask.caller.room());
    drop((permit, intent, args));
    let mut exchange = Exchange {
        case,
        target,
        link: &link,
        id,
        wires,
        slots,
        decide,
        label: &label,
        pass: None,
        asked: Vec::new(),
        is_cancelled: false,
    };
    let raw = exchange.run(words, time).await;
    link.forget(id);
    if matches!(
        &raw,
        Err(Stop::Failed(Fault {
            kind: FaultKind::Upstream,
            ..
        }))
    ) {
        upstream.doubt();
    }
    let raw = raw.unwrap_or_else(Raw::Stopped);
    Ok(Carried { raw, label })
}

/// What is left of a call's time. It runs from when its target was found, or a person's answer came.
pub(super) fn left(case: Case<'_>, time: Duration) -> Result<Duration, Stop> {
    let left = time.saturating_sub(case.begun.elapsed());
    if left.is_zero() {
        return Err(Fault::new(
            FaultKind::Timeout,
            "the call's time was over before it could be sent",
        )
        .into());
    }
    Ok(left)
}

/// Servers of the older kind log at one level for everybody: the most talkative that anyone asked for. Doors show each session only
/// what it asked for.
async fn listen_for_logs(ask: &Ask, target: &Target, upstream: &Upstream, link: &Link) {
    let Some(level) = ask
        .client
        .log
        .as_deref()
        .filter(|_| target.era == Some(Era::Legacy))
    else {
        return;
    };
    if upstream.must_say_more(level) {
        let mut params = Object::new();
        params
            .str("server", target.spec.id.as_str())
            .str("level", level);
        // A server that cannot log says so; the call goes on without.
        let _ = link
            .ask_within(method::LOG_LEVEL, &params.finish(), GRACE)
            .await;
    }
}

/// The gate ends before the call could be sent.
fn stopping() -> Stop {
    Fault::new(FaultKind::Cancelled, "the gate is stopping").into()
}

fn unavailable(detail: impl Into<String>) -> Stop {
    Fault::new(FaultKind::Upstream, detail).into()
}

/// A worker with this server connected. A server that is connecting is waited for; one that waits to retry is not.
async fn connected(
    gate: &Inner,
    upstream: &Upstream,
    patience: Duration,
) -> Result<Arc<Link>, Stop> {
    if let (Some(link), Status::Connected) = (gate.hub.workers().link(), &*upstream.status.borrow())
    {
        return Ok(link);
    }
    let mut status = upstream.status.subscribe();
    let settled = tokio::time::timeout(
        patience,
        status.wait_for(|status| !matches!(status, Status::Connecting { .. })),
    );
    let settled = tokio::select! {
        settled = settled => settled,
        () = gate.flights.reached(Phase::Over) => return Err(stopping()),
    };
    let problem = match settled {
        Ok(Ok(status)) => match &*status {
            Status::Connected => None,
            Status::Disconnected { error, .. } | Status::Failed { error } => Some(error.clone()),
            other => Some(format!("the server is {}", other.as_str())),
        },
        _ => Some("the server did not connect in time".to_owned()),
    };
    match (problem, gate.hub.workers().link()) {
        (None, Some(link)) => Ok(link),
        // Nothing was sent.
        (None, None) => Err(unavailable("the worker is being replaced")),
        (Some(problem), _) => Err(unavailable(problem)),
    }
}

/// What the worker must know of a call besides its parameters.
fn about(case: Case<'_>, target: &Target, time: Duration) -> Result<Object, Stop> {
    let ask = case.ask;
    let mut out = Object::with_capacity(384);
    out.str("server", target.spec.id.as_str())
        .str("method", ask.action.method())
        .str("era", ask.client.era.as_str());
    out.str("lane", &ask.session)
        .raw("caps", &abilities::plain(&ask.client.capabilities));
    if let Some(level) = &ask.client.log {
        out.str("log", level);
    }
    out.bool("progress", ask.client.progress).u64(
        "timeout_ms",
        u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
    );
    out.bool("mrtr", ask.client.era == Era::Modern);
    if ask.action.is_of_tool() && target.spec.rule(&target.name).requires_user_auth {
        // Admit saw the account; should it be gone since, the call fails rather than go out under the gate's own name.
        let account = ask
            .caller
            .user()
            .and_then(|user| Some((user, case.gate.account(&target.spec.id, user)?)));
        let (user, token) =
            account.ok_or_else(|| unavailable("the user's account was disconnected"))?;
        out.object("as", |out| {
            out.str("user", user).str("bearer", token.expose());
        });
    }
    Ok(out)
}

/// One call's conversation with its upstream.
struct Exchange<'a> {
    case: Case<'a>,
    target: &'a Target,
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

impl Exchange<'_> {
    async fn run(&mut self, mut words: mpsc::Receiver<Word>, time: Duration) -> Result<Raw, Stop> {
        let mut deadline = Instant::now() + time + GRACE;
        let mut standstill = Standstill::new(self.case.gate.terms().door.question_timeout + GRACE);
        let mut orders_open = true;
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
                order = self.wires.orders.recv(), if orders_open => match order {
                    // An answer to our own question that came too late.
                    Some(Order::Answer { key, .. }) if key == consent::KEY => {}
                    Some(Order::Answer { key, answer }) => self.answer(&key, &answer)?,
                    Some(Order::Cancel) => self.cancel(&mut deadline)?,
                    None => {
                        orders_open = false;
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
        let account = self.case.ask.caller.room();
        let room = tokio::select! {
            room = account.take_until(result.len(), deadline) => room,
            () = self.case.gate.flights.reached(Phase::Over) => None,
        };
        let Some(room) = room else {
            return Err(dropped(&format!(
                "{} bytes; {} of this caller wait to be read",
                result.len(),
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
        let params = self
            .case
            .gate
            .words(&self.case.ask.caller, &self.target.spec, params, pass);
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
        if let Err(violation) = answers::judge(self.case, self.target, self.decide, key, answer) {
            tracing::warn!(server = %self.target.spec.id, rule = violation.rule.code(), "an answer was withheld");
            if self.may_tell().is_ok() {
                self.tell_cancel();
            }
            return Err(violation.into());
        }
        answers::record(self.case, self.target, key, answer)?;
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
        let ceiling = self.target.spec.classification.unwrap_or_default();
        let weighed = self
            .case
            .ask
            .caller
            .session()
            .weigh_step(ceiling, self.case.step);
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

fn last_word(word: Word) -> Result<Raw, Stop> {
    match word {
        Word::Result(result) => Ok(Raw::Result(result)),
        Word::Error { text, kind: ErrorKind::Unauthorized, .. } => Err(Violation::new(Rule::PermissionDenied, text)
            .with_hint("the server did not accept the user's account; connect it again with `portcullis connect-account`")
            .into()),
        Word::Error { rpc: Some(error), .. } => Ok(Raw::Rpc(error)),
        Word::Error { text, kind, .. } => Err(match kind {
            ErrorKind::Timeout => Fault::new(FaultKind::Timeout, text).into(),
            ErrorKind::Cancelled => Fault::new(FaultKind::Cancelled, text).into(),
            ErrorKind::NoRoom => dropped(&text),
            ErrorKind::TooLarge => Violation::new(Rule::ResultTooLarge, text).into(),
            ErrorKind::Invalid => Violation::new(Rule::InvalidResult, text).into(),
            ErrorKind::Upstream | ErrorKind::NotFound | ErrorKind::Refused | ErrorKind::Unauthorized => unavailable(text),
        }),
        Word::Done => Ok(Raw::Result("{}".into())),
        Word::Lost | Word::Waits(_) | Word::Event { .. } => Err(worker_lost()),
    }
}

/// Upstreams are told of the first subscriber of a resource and of the last one's leaving.
async fn subscribe(
    ask: &Ask,
    target: &Target,
    upstream: &Upstream,
    link: &Link,
) -> Result<Raw, Stop> {
    let (verb, matters) = match ask.action {
        Action::Subscribe => (method::SUBSCRIBE, upstream.add_subscription(&target.name)),
        _ => (
            method::UNSUBSCRIBE,
            upstream.remove_subscription(&target.name),
        ),
    };
    if !matters {
        return Ok(Raw::Result("{}".into()));
    }
    let mut params = Object::new();
    params
        .str("server", target.spec.id.as_str())
        .str("uri", &target.name);
    let raw = last_word(
        link.ask_within(verb, &params.finish(), target.spec.budget.time)
            .await,
    );
    if raw.is_err() && ask.action == Action::Subscribe {
        upstream.remove_subscription(&target.name);
    }
    raw
}
