//! MCP over HTTP: POST for messages, GET for a stream of what belongs to no call, DELETE for the end of a session.
//!
//! Which of the two eras a POST speaks is decided once it is read; sessions are of the legacy era, [`stateless`] is the modern one.

mod carry;
mod news;
mod stateless;

use std::sync::Arc;

use bytes::Bytes;
use gateway::{Caller, Era, Pass};
use http::{HeaderMap, HeaderValue, Method, StatusCode, request::Parts};
use hyper::body::Incoming as HttpBody;
use vocab::{ErrorCode, ServerId};
use wire::{
    Json, Limits,
    json::{self, JsonError, Outline},
    mcp::{Revision, code, meta as keys},
    rpc::{self, Id, Message},
};

use self::carry::{carry_legacy, legacy_reply};
use super::{
    answer::{Answer, Problem},
    batch,
    calls::Turn,
    client::Client,
    era::{Choice, Signs},
    headers,
    legacy::{self, Handshake, Incoming},
    meta::SPOKEN,
    session::{Beginning, Session},
};
use crate::{
    body,
    door::Door,
    guard,
    inlet::Diversion,
    reply::{self, Body, Refused, Reply, Why, refusal},
};

const SESSION_ID: &str = "mcp-session-id";
const JSON_TYPE: &str = "application/json";
const EVENTS_TYPE: &str = "text/event-stream";

/// One request to one door of the MCP kind.
struct Visit<'a> {
    door: &'a Arc<Door>,
    caller: Caller,
    mount: Option<ServerId>,
    headers: &'a HeaderMap,
    diversion: Option<&'a Diversion>,
}

pub(crate) async fn answer(
    door: &Arc<Door>,
    caller: Caller,
    mount: Option<ServerId>,
    parts: &Parts,
    body: HttpBody,
) -> Reply {
    if mount
        .as_ref()
        .is_some_and(|mount| !door.gate.catalog().shows(mount, &caller))
    {
        return reply::not_found();
    }
    let visit = Visit {
        door,
        caller,
        mount,
        headers: &parts.headers,
        diversion: parts.extensions.get(),
    };
    let handled = match parts.method {
        Method::POST => visit.post(body).await,
        Method::GET => visit.get(),
        Method::DELETE => visit.delete(),
        _ => return reply::wrong_method("GET, POST, DELETE"),
    };
    handled.unwrap_or_else(|refused| *refused)
}

impl Visit<'_> {
    async fn post(&self, body: HttpBody) -> Result<Reply, Refused> {
        guard::sends_json(self.headers)?;
        guard::accepts(self.headers, &[JSON_TYPE, EVENTS_TYPE])?;
        let settings = self.door.gate.settings();
        let body = body::read(
            body,
            settings.max_body_bytes,
            self.diversion,
            Some(&self.caller),
        )
        .await?;
        let limits = Limits::new(settings.max_body_bytes, settings.max_depth);
        let outline = outlined(self.door, &body, limits).await.map_err(|error| {
            errored(
                StatusCode::BAD_REQUEST,
                None,
                &Problem::new(code::PARSE_ERROR, &format!("Parse error: {error}")),
            )
        })?;
        if outline.json.is_array() {
            return self.batch(&body).await;
        }
        let message = rpc::read_fields(outline.json, &outline.fields()).map_err(|error| {
            let problem = Problem::new(
                code::INVALID_REQUEST,
                &format!("Invalid request: {}", error.problem),
            );
            errored(StatusCode::BAD_REQUEST, error.id.as_ref(), &problem)
        })?;
        let signs = Signs {
            meta_version: names_version(&message, &outline),
            header_version: headers::version(self.headers),
            session: self.headers.contains_key(SESSION_ID),
            initialize: matches!(&message, Message::Request { method, .. } if method == "initialize"),
        };
        match (Choice::of(signs), message) {
            (Choice::Modern, message) => self.modern(message, &body, &outline).await,
            (Choice::Handshake, Message::Request { id, params, .. }) => {
                Ok(self.handshake(&id, params))
            }
            (Choice::Session, message) => {
                let session = self.session()?;
                self.in_session(&session, message, &body, &outline).await
            }
            (Choice::UnknownVersion, message) => Err(errored(
                StatusCode::BAD_REQUEST,
                id_of(&message),
                &unknown_version(),
            )),
            (Choice::Handshake | Choice::Nothing, message) => {
                let problem = Problem::new(
                    code::INVALID_REQUEST,
                    "Neither a session (`Mcp-Session-Id`) nor a self-contained request (`_meta`)",
                );
                Err(errored(StatusCode::BAD_REQUEST, id_of(&message), &problem))
            }
        }
    }

    /// The session the headers name, if it is this caller's.
    fn session(&self) -> Result<Arc<Session>, Refused> {
        let invalid = |sentence| {
            Refused::from(refusal(
                StatusCode::BAD_REQUEST,
                ErrorCode::InvalidInput,
                sentence,
            ))
        };
        if !self.headers.contains_key(SESSION_ID) {
            return Err(invalid("`Mcp-Session-Id` is required"));
        }
        let id = guard::single(self.headers, SESSION_ID)
            .ok_or_else(|| invalid("`Mcp-Session-Id` is malformed"))?;
        let spoken = |version: &str| {
            SPOKEN
                .iter()
                .any(|revision| !revision.is_modern() && revision.as_str() == version)
        };
        if let Some(version) = headers::version(self.headers).filter(|version| !spoken(version)) {
            let is_modern = SPOKEN.iter().any(|revision| revision.as_str() == version);
            let problem = if is_modern {
                without_sessions(version)
            } else {
                unknown_version()
            };
            return Err(errored(StatusCode::BAD_REQUEST, None, &problem));
        }
        let session = self
            .door
            .sessions
            .find(id, self.caller.id(), self.mount.as_ref());
        session.ok_or_else(|| {
            refusal(
                StatusCode::NOT_FOUND,
                ErrorCode::NotFound,
                "No such session: initialize again",
            )
            .into()
        })
    }

    fn handshake(&self, id: &Id, params: Option<Json<'_>>) -> Reply {
        let handshake = match Handshake::read(params, false) {
            Ok(handshake) => handshake,
            Err(problem) => return reply::json(StatusCode::OK, Answer::from(problem).body(id)),
        };
        let (answer, pass) = handshake.result(self.door, &self.caller, self.mount.as_ref());
        self.door
            .sessions
            .limit_to(self.door.gate.settings().max_sessions);
        let begun = self.door.sessions.begin(Beginning {
            caller: self.caller.id().to_owned(),
            mount: self.mount.clone(),
            revision: handshake.revision,
            capabilities: handshake.capabilities,
        });
        let Some((session, ended)) = begun else {
            return refusal(
                StatusCode::SERVICE_UNAVAILABLE,
                ErrorCode::Internal,
                "Too many sessions are in use: end one first",
            );
        };
        ended.iter().for_each(|session| self.release(session));
        session.streams.belong_to(&self.caller);
        let mut reply = legacy_reply(&answer, id, pass);
        if let Ok(value) = HeaderValue::from_str(&session.id) {
            reply.headers_mut().insert(SESSION_ID, value);
        }
        reply
    }

    async fn batch(&self, body: &Bytes) -> Result<Reply, Refused> {
        let invalid = |problem: &Problem| errored(StatusCode::BAD_REQUEST, None, problem);
        let session = self.session()?;
        if session.revision != Revision::V2025_03_26 {
            return Err(invalid(&Problem::new(
                code::INVALID_REQUEST,
                "Invalid request: batches exist only in revision 2025-03-26",
            )));
        }
        let joined = batch::run(
            self.door,
            &client_of(&session, &self.caller),
            &session.peer,
            body,
        )
        .await;
        Ok(match joined.map_err(|problem| invalid(&problem))? {
            Some(joined) => reply::json(StatusCode::OK, Body::Whole(joined)),
            None => reply::empty(StatusCode::ACCEPTED),
        })
    }

    fn release(&self, session: &Session) {
        session.streams.close();
        legacy::release(self.door, &client_of(session, &self.caller), &session.peer);
    }

    async fn in_session(
        &self,
        session: &Arc<Session>,
        message: Message<'_>,
        body: &Bytes,
        outline: &Outline<'_>,
    ) -> Result<Reply, Refused> {
        let Message::Request { id, method, params } = message else {
            legacy::hear(&session.peer, &message, body);
            return Ok(reply::empty(StatusCode::ACCEPTED));
        };
        let client = client_of(session, &self.caller);
        let incoming = Incoming {
            id,
            method: &method,
            params,
            body,
            outline: Some(outline),
        };
        match legacy::turn(self.door, &client, &session.peer, &incoming) {
            Turn::Now(answer, pass) => Ok(legacy_reply(&answer, &incoming.id, pass)),
            Turn::Call(call) => Ok(carry_legacy(call, session).await),
            Turn::Listen => Ok(legacy_reply(
                &Problem::no_method(&method).into(),
                &incoming.id,
                Pass::default(),
            )),
        }
    }

    fn delete(&self) -> Result<Reply, Refused> {
        let session = self.session()?;
        if self.door.sessions.end(&session) {
            self.release(&session);
        }
        Ok(reply::empty(StatusCode::NO_CONTENT))
    }
}

fn names_version<'a>(message: &Message<'a>, outline: &Outline<'a>) -> bool {
    let (Message::Request {
        params: Some(params),
        ..
    }
    | Message::Notification {
        params: Some(params),
        ..
    }) = message
    else {
        return false;
    };
    let meta = json::find(&outline.fields_of(*params), "_meta");
    meta.and_then(|meta| meta.get(keys::PROTOCOL_VERSION))
        .is_some()
}

fn id_of<'a>(message: &'a Message<'_>) -> Option<&'a Id> {
    match message {
        Message::Request { id, .. } | Message::Result { id, .. } => Some(id),
        Message::Error { id, .. } => id.as_ref(),
        Message::Notification { .. } => None,
    }
}

fn unknown_version() -> Problem {
    let spoken: Vec<&str> = SPOKEN.iter().map(|revision| revision.as_str()).collect();
    Problem::new(
        code::INVALID_REQUEST,
        &format!(
            "Unsupported `MCP-Protocol-Version`; this door speaks {}",
            spoken.join(", ")
        ),
    )
}

fn without_sessions(version: &str) -> Problem {
    let sentence = format!(
        "{version} has no sessions: name the revision that this session was opened with, or send single messages without `Mcp-Session-Id`"
    );
    Problem::new(code::INVALID_REQUEST, &sentence)
}

fn errored(status: StatusCode, id: Option<&Id>, problem: &Problem) -> Refused {
    let mut reply = reply::json(status, Body::whole(rpc::error(id, &problem.object)));
    let sentence = problem.sentence();
    reply.extensions_mut().insert(Why {
        code: ErrorCode::InvalidInput,
        sentence,
    });
    reply.into()
}

/// Validates a body. A long one is validated where nobody else waits for it.
async fn outlined<'a>(
    door: &Door,
    body: &'a Bytes,
    limits: Limits,
) -> Result<Outline<'a>, JsonError> {
    if !door.gate.is_long(body.len()) {
        return Json::parse_fields(body, limits);
    }
    let text = body.clone();
    let parsed = tokio::task::spawn_blocking(move || {
        Json::parse_fields(&text, limits).map(|outline| outline.places(&text))
    })
    .await;
    match parsed {
        Ok(Ok(places)) => Ok(places.outline(body)),
        Ok(Err(error)) => Err(error),
        // It did not come to its end; then it is done here.
        Err(_) => Json::parse_fields(body, limits),
    }
}

fn client_of(session: &Session, caller: &Caller) -> Client {
    Client {
        caller: caller.clone(),
        door: gateway::Door::McpHttp,
        mount: session.mount.clone(),
        lane: Arc::clone(&session.id),
        era: Era::Legacy,
        capabilities: session.capabilities.clone(),
        log: session.peer.log(),
    }
}
