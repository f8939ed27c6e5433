//! A conversation in lines. Both eras share the connection; which one a message speaks, it says itself.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use gateway::{Caller, Era};
use tokio::{sync::mpsc, task::JoinSet};
use vocab::{Rule, ServerId};
use wire::{
    Json, Limits, Skim,
    json::JsonError,
    line::Line,
    mcp::{Revision, code, meta as keys},
    rpc::{self, Id, Message},
};

use super::{Reader, operator, seal};
use crate::{
    door::Door,
    mcp::{
        answer::{Answer, Problem},
        batch,
        calls::{Call, Step, Turn},
        changes::Watch,
        client::Client,
        legacy::{self, Handshake, Incoming},
        listen::{Filter, Listener, Outlet},
        meta::Meta,
        modern,
        peer::Peer,
    },
    parcel::Parcel,
    refused,
};

/// What an operator's own program asks, besides MCP.
const OPERATOR_PREFIX: &str = "portcullis/";
const SEAL_PREFIX: &str = "portcullis/seal/";
/// How long calls that hanging up cancels may still take when the client has closed its side.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// Why a conversation is over.
enum Ending {
    /// The client has closed its side, or reads no more.
    HungUp,
    /// The credential holds no longer.
    Revoked,
    /// The gate was told to stop.
    Stopping,
}

pub(super) struct Talk {
    door: Arc<Door>,
    caller: Caller,
    mount: Option<ServerId>,
    peer: Arc<Peer>,
    lane: Arc<str>,
    /// Set by `initialize`.
    handshake: Option<Handshake>,
    out: mpsc::Sender<Parcel>,
    /// Calls under way, each in a task.
    calls: JoinSet<()>,
    /// Ends with the conversation.
    news: JoinSet<()>,
}

impl Talk {
    pub(super) fn new(
        door: Arc<Door>,
        caller: Caller,
        mount: Option<ServerId>,
        out: mpsc::Sender<Parcel>,
    ) -> Self {
        let lane = format!("line:{}:{}", caller.id(), door.serial()).into();
        Self {
            door,
            caller,
            mount,
            peer: Arc::default(),
            lane,
            handshake: None,
            out,
            calls: JoinSet::new(),
            news: JoinSet::new(),
        }
    }

    pub(super) async fn run(mut self, mut reader: Reader) {
        let door = Arc::clone(&self.door);
        let closing = door.closing();
        let mut closing = std::pin::pin!(closing);
        self.send(Bytes::from_static(b"{\"ok\":true}").into()).await;
        let ending = loop {
            let line = tokio::select! {
                line = reader.next() => line,
                Some(_) = self.calls.join_next() => continue,
                () = self.out.closed() => None,
                () = &mut closing => break Ending::Stopping,
            };
            let Some(line) = line else {
                break Ending::HungUp;
            };
            if !self.caller.is_active() {
                let skim = match line {
                    Line::Whole(text) => Skim::of(&text),
                    Line::TooLong { mut skim, .. } => {
                        skim.finish();
                        *skim
                    }
                };
                self.complain(
                    skim.id().cloned(),
                    &Problem::new(gateway::REFUSED, "Unknown or revoked credential"),
                )
                .await;
                break Ending::Revoked;
            }
            match line {
                Line::Whole(line) => self.line(line).await,
                Line::TooLong {
                    mut skim, bytes, ..
                } => {
                    while skim.lags() {
                        skim.step();
                        tokio::task::yield_now().await;
                    }
                    let limit = self.door.gate.settings().max_body_bytes;
                    let problem = Problem::new(
                        code::INVALID_REQUEST,
                        &format!("Invalid request: a line of {bytes} bytes; the limit is {limit}"),
                    );
                    self.complain(skim.id().cloned(), &problem).await;
                }
            }
        };
        self.end(ending).await;
    }

    /// A client that has said all it had to say may still wait for answers. Calls of the legacy era are finished, whether it does or not;
    /// those of the modern one end with the conversation, after a short while.
    async fn end(mut self, ending: Ending) {
        self.news.shutdown().await;
        let client = self.client(Era::Legacy, Bytes::from_static(b"{}"));
        match ending {
            // The gate gives them time, and then cancels them: either way they are answered.
            Ending::Stopping => self.finish(None).await,
            Ending::Revoked => self.peer.cancel_all(),
            Ending::HungUp => {
                self.finish(Some(LAST_ANSWERS)).await;
                self.peer.hang_up();
                legacy::unsubscribe_all(&self.door, &client, &self.peer);
                self.finish(None).await;
            }
        }
        legacy::unsubscribe_all(&self.door, &client, &self.peer);
        // What goes on does so in the gate, which records how it ends.
        self.calls.detach_all();
    }

    /// Waits for the calls under way, for as long as anybody reads their answers.
    async fn finish(&mut self, within: Option<Duration>) {
        let out = self.out.clone();
        let finished = async { while self.calls.join_next().await.is_some() {} };
        let late = async {
            match within {
                Some(within) => tokio::time::sleep(within).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = finished => {}
            () = late => {}
            () = out.closed() => {}
        }
    }

    async fn send(&self, message: Parcel) {
        // If nobody reads any more, the loop notices by itself.
        let _ = self.out.send(message).await;
    }

    /// Refuses what is no message, or none that this conversation can take.
    async fn complain(&self, id: Option<Id>, problem: &Problem) {
        refused::note_one(
            &self.door,
            "mcp-stdio",
            &self.caller,
            "line",
            Rule::Malformed.code(),
            &problem.sentence(),
        );
        self.send(rpc::error(id.as_ref(), &problem.object).into())
            .await;
    }

    async fn line(&mut self, line: Bytes) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        self.door.gate.turn(&self.caller).await;
        let settings = self.door.gate.settings();
        let json = match validated(
            &self.door,
            &line,
            Limits::new(settings.max_body_bytes, settings.max_depth),
        )
        .await
        {
            Ok(json) => json,
            Err(error) => {
                let problem = Problem::new(code::PARSE_ERROR, &format!("Parse error: {error}"));
                return self.complain(Skim::of(&line).id().cloned(), &problem).await;
            }
        };
        if json.is_array() {
            return self.batch(line.clone()).await;
        }
        match rpc::read(json) {
            Ok(Message::Request { id, method, params }) => {
                self.request(&Incoming {
                    id,
                    method: &method,
                    params,
                    body: &line,
                    outline: None,
                })
                .await;
            }
            Ok(message) => {
                legacy::hear(&self.peer, &message, &line);
                if matches!(&message, Message::Notification { method, .. } if method == "notifications/initialized")
                {
                    self.tell_news();
                }
            }
            Err(error) => {
                let problem = Problem::new(
                    code::INVALID_REQUEST,
                    &format!("Invalid request: {}", error.problem),
                );
                self.complain(error.id, &problem).await;
            }
        }
    }

    async fn request(&mut self, incoming: &Incoming<'_>) {
        if let Some(verb) = incoming.method.strip_prefix(SEAL_PREFIX) {
            let (answer, pass) = seal::answer(&self.door, &self.caller, verb, incoming).await;
            return self.send(answer.parcel(&incoming.id, pass)).await;
        }
        if let Some(verb) = incoming.method.strip_prefix(OPERATOR_PREFIX) {
            let answer = operator::answer(&self.door, &self.caller, verb, incoming).await;
            return self.send(answer.message(&incoming.id).into()).await;
        }
        let turn = match incoming
            .params
            .and_then(|params| params.path(&["_meta", keys::PROTOCOL_VERSION]))
        {
            Some(_) => self.modern(incoming),
            None => self.legacy(incoming),
        };
        match turn {
            Turn::Now(answer, pass) => {
                self.send(Parcel::new(answer.message(&incoming.id), pass))
                    .await
            }
            Turn::Call(call) => {
                self.calls.spawn(carry(call, self.out.clone()));
            }
            Turn::Listen => {
                if let Err(problem) = self.listen(incoming) {
                    self.complain(Some(incoming.id.clone()), &problem).await;
                }
            }
        }
    }

    fn client(&self, era: Era, capabilities: Bytes) -> Client {
        Client {
            caller: self.caller.clone(),
            door: gateway::Door::McpStdio,
            mount: self.mount.clone(),
            lane: Arc::clone(&self.lane),
            era,
            capabilities,
            log: self.peer.log(),
        }
    }

    fn modern(&self, incoming: &Incoming<'_>) -> Turn {
        let meta = match Meta::read(incoming.params, incoming.body)
            .and_then(|meta| meta.spoken().map(|()| meta))
        {
            Ok(meta) => meta,
            Err(problem) => return problem.into(),
        };
        let client = Client {
            log: meta.log,
            ..self.client(Era::Modern, meta.capabilities.clone())
        };
        modern::turn(&self.door, &client, meta, incoming, Some(&self.peer))
    }

    fn legacy(&mut self, incoming: &Incoming<'_>) -> Turn {
        match (&self.handshake, incoming.method) {
            (Some(handshake), _) => {
                let client = self.client(Era::Legacy, handshake.capabilities.clone());
                legacy::turn(&self.door, &client, &self.peer, incoming)
            }
            (None, "initialize") => match Handshake::read(incoming.params, true) {
                Ok(handshake) => {
                    let (answer, pass) =
                        handshake.result(&self.door, &self.caller, self.mount.as_ref());
                    self.handshake = Some(handshake);
                    Turn::Now(answer, pass)
                }
                Err(problem) => problem.into(),
            },
            (None, "ping") => Answer::empty().into(),
            (None, method) if modern::knows_only(method) => {
                Problem::invalid_params("`params._meta` must name the protocol version").into()
            }
            (None, _) => {
                let sentence = "Initialize first, or name the protocol version in `_meta`";
                Problem::new(code::INVALID_REQUEST, sentence).into()
            }
        }
    }

    fn listen(&self, incoming: &Incoming<'_>) -> Result<(), Problem> {
        let filter = Filter::read(incoming.params)?;
        let seat = self.door.listeners.enter(self.caller.id())?;
        let registration = Some(self.peer.register(&incoming.id)?);
        let client = self.client(Era::Modern, Bytes::from_static(b"{}"));
        let listener = Listener {
            client,
            id: incoming.id.clone(),
            filter,
            seat,
            registration,
        };
        tokio::spawn(listener.run(Arc::clone(&self.door), Outlet::Lines(self.out.clone())));
        Ok(())
    }

    async fn batch(&mut self, line: Bytes) {
        let Some(handshake) = self
            .handshake
            .as_ref()
            .filter(|handshake| handshake.revision == Revision::V2025_03_26)
        else {
            let problem = Problem::new(
                code::INVALID_REQUEST,
                "Invalid request: batches exist only in revision 2025-03-26",
            );
            return self.complain(None, &problem).await;
        };
        let client = self.client(Era::Legacy, handshake.capabilities.clone());
        let (door, peer, out) = (
            Arc::clone(&self.door),
            Arc::clone(&self.peer),
            self.out.clone(),
        );
        self.calls.spawn(async move {
            let reply = match batch::run(&door, &client, &peer, &line).await {
                Ok(reply) => reply,
                Err(problem) => Some(rpc::error(None, &problem.object).into()),
            };
            if let Some(reply) = reply {
                let _ = out.send(reply).await;
            }
        });
    }

    /// Legacy clients hear of changes without asking, once they said they are ready.
    fn tell_news(&mut self) {
        let mut watch = Watch::new(
            self.door.gate.changes(),
            self.mount.clone(),
            self.caller.id(),
        );
        let (gate, caller) = (self.door.gate.clone(), self.caller.clone());
        let (peer, out) = (Arc::clone(&self.peer), self.out.clone());
        if self.handshake.is_none() || peer.is_told() {
            return;
        }
        self.news.spawn(async move {
            while let Some(news) = watch.next().await {
                if !caller.is_active() {
                    return;
                }
                for message in watch.for_legacy(&news, &gate, &caller, &peer).await {
                    if out.send(message).await.is_err() {
                        return;
                    }
                }
            }
        });
    }
}

/// Validates a line. A long one is validated where nobody else waits for it.
async fn validated<'a>(
    door: &Door,
    line: &'a Bytes,
    limits: Limits,
) -> Result<Json<'a>, JsonError> {
    if !door.gate.is_long(line.len()) {
        return Json::parse(line, limits);
    }
    let text = line.clone();
    match tokio::task::spawn_blocking(move || Json::parse(&text, limits).map(drop)).await {
        Ok(Ok(())) => Ok(Json::checked_before(line.trim_ascii())),
        Ok(Err(error)) => Err(error),
        // It did not come to its end; then it is done here.
        Err(_) => Json::parse(line, limits),
    }
}

async fn carry(mut call: Box<Call>, out: mpsc::Sender<Parcel>) {
    if call.era() == Era::Modern {
        call.cancel_when_dropped();
    }
    loop {
        match call.step().await {
            Step::Message(message) => {
                // A reader that is gone has cancelled its calls; this one goes on to its end.
                let _ = out.send(message).await;
            }
            Step::Done(answer, pass) => {
                if !call.was_cancelled() {
                    let _ = out.send(answer.parcel(&call.id, pass)).await;
                }
                return;
            }
        }
    }
}
