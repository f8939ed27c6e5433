//! What an operator's own program asks on a line, besides MCP.

use gateway::Caller;
use vocab::{Rule, ServerId};
use wire::Json;

use crate::{
    admin,
    door::Door,
    mcp::{
        answer::{Answer, Problem},
        legacy::Incoming,
    },
    refused,
};

/// Performs a verb. For anyone else the method does not exist.
pub(super) async fn answer(
    door: &Door,
    caller: &Caller,
    verb: &str,
    incoming: &Incoming<'_>,
) -> Answer {
    if !caller.is_operator() {
        refused::note_one(
            door,
            "admin",
            caller,
            incoming.method,
            Rule::PermissionDenied.code(),
            "for operators only",
        );
        return Problem::no_method(incoming.method).into();
    }
    let verb = match verb {
        // The older spelling, with the server among the parameters.
        "retry" => {
            let server = incoming.param("server").and_then(Json::as_str);
            let server = server.and_then(|id| ServerId::parse(&id).ok());
            match server {
                Some(server) => admin::Verb::Retry(server),
                None => return Problem::invalid_params("`server` must be a server's id").into(),
            }
        }
        other => match admin::Verb::parse(other) {
            Some(verb) => verb,
            None => return Problem::no_method(incoming.method).into(),
        },
    };
    match admin::perform(door, caller, verb, incoming.params_text().into_bytes()).await {
        Ok(body) => Answer::result(body),
        Err(problem) => {
            refused::note_one(
                door,
                "admin",
                caller,
                incoming.method,
                Rule::Malformed.code(),
                &problem,
            );
            Problem::new(gateway::REFUSED, &problem).into()
        }
    }
}
