//! What an operator's own program asks on a line, besides MCP.

use api::{Found, Kind, Operation, Role};
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

/// Carries out the operation that `path` names. For whoever has no such role the method does not exist.
pub(super) async fn answer(
    door: &Door,
    caller: &Caller,
    path: &str,
    incoming: &Incoming<'_>,
) -> Answer {
    if !caller.may(Role::Viewer) {
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
    let found = match path {
        // The older spelling, with the server among the parameters.
        "retry" => {
            let server = incoming.param("server").and_then(Json::as_str);
            let server = server.and_then(|id| ServerId::parse(&id).ok());
            let Some(server) = server else {
                return Problem::invalid_params("`server` must be a server's id").into();
            };
            Found {
                operation: Operation::RetryServer,
                name: server.as_str().to_owned(),
            }
        }
        other => match api::find_unescaped(other) {
            Some(found) => found,
            None => return Problem::no_method(incoming.method).into(),
        },
    };
    match admin::perform(door, caller, found, incoming.params_text().into_bytes()).await {
        Ok(body) => Answer::result(body),
        Err(problem) => {
            let rule = match problem.kind {
                Kind::NotAllowed => Rule::PermissionDenied,
                _ => Rule::Malformed,
            };
            let told = problem.to_string();
            refused::note_one(door, "admin", caller, incoming.method, rule.code(), &told);
            Problem::with_data(gateway::REFUSED, &told, &api::text(&problem.document())).into()
        }
    }
}
