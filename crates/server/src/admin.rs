//! The operator's verbs. They are the gate's; here they get a path, and their parameters are read.
//!
//! Whoever reaches [`perform`] is an operator: it asks again, so that no door can let an agent answer its own approval.

use std::sync::Arc;

use bytes::Bytes;
use gateway::Caller;
use http::{Method, StatusCode, request::Parts};
use hyper::body::Incoming;
use vocab::{ErrorCode, ServerId};
use wire::{Json, Limits, write::Object};

use crate::{
    body,
    door::Door,
    reply::{self, Body, Reply},
};

pub(crate) mod events;
mod params;
#[cfg(test)]
mod tests;

use params::Params;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verb {
    Status,
    Servers,
    Tools,
    Retry(ServerId),
    Reload,
    Classify(ServerId),
    Block(ServerId),
    Unblock(ServerId),
    Definitions(ServerId),
    ApproveDefinitions(ServerId),
    Sessions,
    /// A caller's id or name.
    ResetSession(String),
    Approvals,
    Answer {
        approval: String,
        approve: bool,
    },
    Explain,
    /// A stream; not for lines.
    Events,
    Sinks,
}

impl Verb {
    /// From what follows `/v1/admin/`, or `portcullis/` on a line.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        Some(match path {
            "status" => Self::Status,
            "servers" => Self::Servers,
            "tools" => Self::Tools,
            "reload" => Self::Reload,
            "sessions" => Self::Sessions,
            "approvals" => Self::Approvals,
            "policy/explain" => Self::Explain,
            "events" => Self::Events,
            "sinks" => Self::Sinks,
            _ => {
                let (kind, rest) = path.split_once('/')?;
                let (name, verb) = rest.rsplit_once('/')?;
                match kind {
                    "servers" => Self::of_server(ServerId::parse(name).ok()?, verb)?,
                    "sessions" if verb == "reset" && !name.is_empty() => {
                        Self::ResetSession(name.to_owned())
                    }
                    "approvals" if matches!(verb, "approve" | "deny") && is_approval(name) => {
                        Self::Answer {
                            approval: name.to_owned(),
                            approve: verb == "approve",
                        }
                    }
                    _ => return None,
                }
            }
        })
    }

    fn of_server(id: ServerId, verb: &str) -> Option<Self> {
        Some(match verb {
            "retry" => Self::Retry(id),
            "classify" => Self::Classify(id),
            "block" => Self::Block(id),
            "unblock" => Self::Unblock(id),
            "definitions" => Self::Definitions(id),
            "approve" => Self::ApproveDefinitions(id),
            _ => return None,
        })
    }

    /// Looking takes a GET, everything else a POST. Explaining takes a call with it, so it is one of those.
    fn only_looks(&self) -> bool {
        matches!(
            self,
            Self::Status
                | Self::Servers
                | Self::Tools
                | Self::Definitions(_)
                | Self::Sessions
                | Self::Approvals
                | Self::Sinks
                | Self::Events
        )
    }
}

/// Whether this could be the id of an approval.
fn is_approval(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

pub(crate) async fn answer(
    door: &Arc<Door>,
    caller: &Caller,
    verb: Verb,
    parts: &Parts,
    body: Incoming,
) -> Reply {
    if verb == Verb::Events {
        return events::answer(door, caller, parts);
    }
    if !caller.is_operator() || caller.tenant().is_some() {
        // An operator of one tenant steers that tenant's sessions, not the gate.
        return reply::refusal(
            StatusCode::FORBIDDEN,
            ErrorCode::PermissionDenied,
            "This path needs an operator's credential",
        );
    }
    let (wanted, allow) = if verb.only_looks() {
        (Method::GET, "GET")
    } else {
        (Method::POST, "POST")
    };
    if parts.method != wanted {
        return reply::wrong_method(allow);
    }
    let given = match verb.only_looks() {
        true => params_of_query(parts.uri.query().unwrap_or_default()),
        false => match body::read(
            body,
            door.gate.settings().max_body_bytes,
            None,
            Some(caller),
        )
        .await
        {
            Ok(body) => body,
            Err(refused) => return *refused,
        },
    };
    match perform(door, caller, verb, given).await {
        Ok(body) => reply::json(StatusCode::OK, Body::whole(body)),
        Err(problem) => reply::refusal(
            StatusCode::UNPROCESSABLE_ENTITY,
            ErrorCode::InvalidInput,
            &problem,
        ),
    }
}

/// A GET has no body. `?all` is the only thing one can ask for.
fn params_of_query(query: &str) -> Bytes {
    let all = query
        .split('&')
        .any(|pair| matches!(pair, "all" | "all=" | "all=1" | "all=true"));
    Bytes::from_static(if all { b"{\"all\":true}" } else { b"{}" })
}

/// Performs an operator's verb; the text of an error is meant for the operator.
pub(crate) async fn perform(
    door: &Door,
    caller: &Caller,
    verb: Verb,
    given: Bytes,
) -> Result<Vec<u8>, String> {
    if !caller.is_operator() || caller.tenant().is_some() || !caller.is_active() {
        return Err("this needs an operator's credential".to_owned());
    }
    let given = if given.is_empty() {
        Bytes::from_static(b"{}")
    } else {
        given
    };
    let limits = Limits::new(
        door.gate.settings().max_body_bytes,
        door.gate.settings().max_depth,
    );
    let given = Json::parse(&given, limits)
        .map_err(|error| format!("the parameters are not JSON: {error}"))?;
    let params = Params::read(given)?;
    let admin = door.gate.admin();
    match verb {
        Verb::Status => Ok(admin.status_json().await),
        Verb::Servers => Ok(admin.servers_json()),
        Verb::Tools => Ok(admin.tools_json()),
        Verb::Retry(server) => admin.retry(&server).map(|()| done("trying again")),
        Verb::Reload => admin.reload().map(|detail| done(&detail)),
        Verb::Classify(server) => {
            admin
                .classify(
                    caller,
                    &server,
                    params.level()?,
                    params.seen()?,
                    &params.reason()?,
                )
                .await
        }
        Verb::Block(server) => {
            admin
                .block(caller, &server, &params.required_reason()?)
                .await
        }
        Verb::Unblock(server) => admin.unblock(caller, &server, &params.reason()?).await,
        Verb::Definitions(server) => admin.definitions_json(&server),
        Verb::ApproveDefinitions(server) => {
            let chosen = gateway::Chosen {
                names: params.names()?,
                seen: params.seen()?,
            };
            admin
                .approve_definitions(caller, &server, chosen, &params.reason()?)
                .await
        }
        Verb::Sessions => Ok(admin.sessions_json()),
        Verb::ResetSession(whose) => {
            admin
                .reset_session(caller, &whose, &params.required_reason()?)
                .await
        }
        Verb::Approvals => admin.approvals_json(params.flag("all")?).await,
        Verb::Answer { approval, approve } => {
            admin
                .answer_approval(caller, &approval, approve, &params.reason()?)
                .await
        }
        Verb::Explain => admin.explain(given).await,
        Verb::Sinks => Ok(admin.sinks_json()),
        Verb::Events => Err(
            "events are a stream: GET /v1/admin/events, or `portcullis audit tail --events -f`"
                .to_owned(),
        ),
    }
}

fn done(detail: &str) -> Vec<u8> {
    let mut out = Object::new();
    out.bool("ok", true).str("detail", detail);
    out.finish()
}
