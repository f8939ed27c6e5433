//! Requests of the revisions that open with `initialize` (2025-03-26 to 2025-11-25), inside a session.

use std::sync::Arc;

use bytes::Bytes;
use gateway::{Action, Answer as Reaction, Caller, Era, Pass};
use vocab::ServerId;
use wire::{
    Json, Text,
    json::{self, Outline},
    mcp::Revision,
    rpc::{Id, Message},
    write::Object,
};

use super::{
    answer::{Answer, Problem},
    calls::{Call, Errand, Turn},
    client::Client,
    era, lists,
    log::Severity,
    peer::{Peer, Registration},
    progress, tasks,
};
use crate::door::Door;

/// One request as it came: its own text is a part of `body`.
pub(crate) struct Incoming<'a> {
    pub(crate) id: Id,
    pub(crate) method: &'a str,
    pub(crate) params: Option<Json<'a>>,
    pub(crate) body: &'a Bytes,
    /// What was met when `body` was validated, if that was all of it.
    pub(crate) outline: Option<&'a Outline<'a>>,
}

impl<'a> Incoming<'a> {
    /// The parameters' text, sharing the body's memory.
    pub(crate) fn params_text(&self) -> Text {
        match (self.params, self.outline) {
            (Some(params), Some(outline)) => Text::inside(self.body, outline, params),
            (Some(params), None) => self.body.slice_ref(params.as_bytes()).into(),
            (None, _) => "{}".into(),
        }
    }

    pub(crate) fn errand(
        &self,
        action: Action,
        progress: Option<Bytes>,
        registration: Option<Registration>,
    ) -> Errand {
        Errand {
            id: self.id.clone(),
            action,
            params: self.params_text(),
            progress,
            registration,
        }
    }

    pub(crate) fn param(&self, key: &str) -> Option<Json<'a>> {
        let params = self.params?;
        self.outline.map_or_else(
            || params.get(key),
            |outline| json::find(&outline.fields_of(params), key),
        )
    }
}

/// What a handshake settles.
pub(crate) struct Handshake {
    pub(crate) revision: Revision,
    pub(crate) capabilities: Bytes,
}

impl Handshake {
    pub(crate) fn read(params: Option<Json<'_>>, lines: bool) -> Result<Self, Problem> {
        let field = |key: &str| params.and_then(|params| params.get(key));
        let asked = field("protocolVersion").and_then(Json::as_str);
        let asked =
            asked.ok_or_else(|| Problem::invalid_params("`protocolVersion` must be a string"))?;
        let capabilities = field("capabilities").filter(|value| value.is_object());
        let capabilities = capabilities
            .ok_or_else(|| Problem::invalid_params("`capabilities` must be an object"))?;
        Ok(Self {
            revision: era::negotiate(&asked, lines),
            capabilities: Bytes::copy_from_slice(capabilities.as_bytes()),
        })
    }

    pub(crate) fn result(
        &self,
        door: &Door,
        caller: &Caller,
        mount: Option<&ServerId>,
    ) -> (Answer, Pass) {
        let settings = door.gate.settings();
        let (catalog, sight) = (door.gate.catalog(), door.gate.sight(caller));
        let mut result = Object::with_capacity(512);
        result
            .str("protocolVersion", self.revision.as_str())
            .raw(
                "capabilities",
                &catalog.capabilities(mount, Era::Legacy, &sight),
            )
            .object("serverInfo", |info| {
                info.str("name", settings.name)
                    .str("version", settings.version);
            });
        if let Some(instructions) = door.gate.instructions(&sight, mount) {
            result.str("instructions", &instructions);
        }
        (Answer::result(result.finish()), sight.pass())
    }
}

/// Answers a request, or starts the call it asks for.
pub(crate) fn turn(
    door: &Door,
    client: &Client,
    peer: &Arc<Peer>,
    incoming: &Incoming<'_>,
) -> Turn {
    if let Some(kind) = lists::Kind::from_method(incoming.method) {
        let shown = (client.mount.as_ref(), Era::Legacy);
        let (answer, pass) =
            door.lists
                .answer(&door.gate, kind, &client.caller, shown, incoming.params);
        return Turn::Now(answer, pass);
    }
    match incoming.method {
        "ping" => return Answer::empty().into(),
        "logging/setLevel" => return set_level(peer, incoming).into(),
        "initialize" => {
            return Problem::new(
                wire::mcp::code::INVALID_REQUEST,
                "This session is already initialized",
            )
            .into();
        }
        _ => {}
    }
    match Action::from_method(incoming.method) {
        Some(action @ (Action::Subscribe | Action::Unsubscribe)) => {
            subscription(door, client, peer, action, incoming)
        }
        Some(action) if !tasks::is_task(action) || tasks::legacy(action) => {
            call(door, client, peer, action, incoming)
        }
        _ => Problem::no_method(incoming.method).into(),
    }
}

fn set_level(peer: &Peer, incoming: &Incoming<'_>) -> Answer {
    match incoming
        .param("level")
        .and_then(Json::as_str)
        .and_then(|level| Severity::parse(&level))
    {
        Some(level) => {
            peer.set_log(level);
            Answer::empty()
        }
        None => Problem::invalid_params("`level` must be one of the eight log levels").into(),
    }
}

fn call(
    door: &Door,
    client: &Client,
    peer: &Arc<Peer>,
    action: Action,
    incoming: &Incoming<'_>,
) -> Turn {
    let registration = match peer.register_lasting(&incoming.id) {
        Ok(registration) => registration,
        Err(problem) => return problem.into(),
    };
    let errand = incoming.errand(
        action,
        progress::token(incoming.param("_meta"), incoming.body),
        Some(registration),
    );
    Turn::Call(Box::new(Call::start(&door.gate, client, errand)))
}

/// The gate hears of each URI once per session, however often the client says it.
fn subscription(
    door: &Door,
    client: &Client,
    peer: &Arc<Peer>,
    action: Action,
    incoming: &Incoming<'_>,
) -> Turn {
    let Some(uri) = incoming.param("uri").and_then(Json::as_str) else {
        return Problem::invalid_params("`uri` must be a string").into();
    };
    let news = match action {
        Action::Subscribe => peer.subscribe(&uri),
        _ => Ok(peer.unsubscribe(&uri)),
    };
    match news {
        Ok(true) => {
            let mut turn = call(door, client, peer, action, incoming);
            match &mut turn {
                Turn::Call(call) if action == Action::Subscribe => {
                    call.on_failure_unsubscribe(Arc::clone(peer), uri.into_owned())
                }
                Turn::Now(..) if action == Action::Subscribe => {
                    peer.unsubscribe(&uri);
                }
                _ => {}
            }
            turn
        }
        Ok(false) => Answer::empty().into(),
        Err(problem) => problem.into(),
    }
}

/// Takes in what needs no answer: a notification, or the client's answer to a question.
pub(crate) fn hear(peer: &Peer, message: &Message<'_>, body: &Bytes) {
    match message {
        Message::Notification { method, params } if method == "notifications/cancelled" => {
            if let Some(id) = params
                .and_then(|params| params.get("requestId"))
                .and_then(Id::read)
            {
                peer.cancel(&id);
            }
        }
        Message::Result { id, result } if result.is_object() => {
            peer.answer(id, Reaction::Result(body.slice_ref(result.as_bytes())));
        }
        Message::Error {
            id: Some(id),
            error,
        } => {
            peer.answer(id, Reaction::Error(body.slice_ref(error.as_bytes())));
        }
        _ => {}
    }
}

/// Gives back to the gate what a session held of it, and ends its calls.
pub(crate) fn release(door: &Door, client: &Client, peer: &Peer) {
    peer.cancel_all();
    unsubscribe_all(door, client, peer);
}

/// Gives back to the gate what a session subscribed to.
pub(crate) fn unsubscribe_all(door: &Door, client: &Client, peer: &Peer) {
    for uri in peer.take_subscriptions() {
        let mut params = Object::new();
        params.str("uri", &uri);
        // The call goes on by itself; nobody waits for its outcome.
        drop(
            door.gate
                .start(client.request(Action::Unsubscribe, params.finish(), false)),
        );
    }
}
