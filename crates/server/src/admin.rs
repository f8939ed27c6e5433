//! The operator's verbs over HTTP. They are the gate's; here they only get a path.

use gateway::Caller;
use http::{Method, StatusCode};
use vocab::{ErrorCode, ServerId};
use wire::write::Object;

use crate::{
    door::Door,
    reply::{self, Body, Reply},
};

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Status,
    Servers,
    Tools,
    Retry(ServerId),
    Reload,
}

impl Verb {
    /// From what follows `/v1/admin/`.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        match path {
            "status" => Some(Self::Status),
            "servers" => Some(Self::Servers),
            "tools" => Some(Self::Tools),
            "reload" => Some(Self::Reload),
            _ => {
                let server = path.strip_prefix("servers/")?.strip_suffix("/retry")?;
                ServerId::parse(server).ok().map(Self::Retry)
            }
        }
    }

    fn changes(&self) -> bool {
        matches!(self, Self::Retry(_) | Self::Reload)
    }
}

pub(crate) async fn answer(door: &Door, caller: &Caller, verb: Verb, method: &Method) -> Reply {
    if !caller.is_operator() {
        return reply::refusal(StatusCode::FORBIDDEN, ErrorCode::PermissionDenied, "This path needs an operator's credential");
    }
    let (wanted, allow) = if verb.changes() { (Method::POST, "POST") } else { (Method::GET, "GET") };
    if method != wanted {
        return reply::wrong_method(allow);
    }
    match perform(door, verb).await {
        Ok(body) => reply::json(StatusCode::OK, Body::whole(body)),
        Err(problem) => reply::refusal(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::InvalidInput, &problem),
    }
}

/// Performs an operator's verb; the text of an error is meant for the operator.
pub(crate) async fn perform(door: &Door, verb: Verb) -> Result<Vec<u8>, String> {
    let admin = door.gate.admin();
    match verb {
        Verb::Status => Ok(admin.status_json().await),
        Verb::Servers => Ok(admin.servers_json()),
        Verb::Tools => Ok(admin.tools_json()),
        Verb::Retry(server) => admin.retry(&server).map(|()| done("trying again")),
        Verb::Reload => admin.reload().map(|detail| done(&detail)),
    }
}

fn done(detail: &str) -> Vec<u8> {
    let mut out = Object::new();
    out.bool("ok", true).str("detail", detail);
    out.finish()
}
