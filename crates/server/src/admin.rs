//! The operator's paths, drawn from the table of operations. The gate carries operations out; here they get their role and their input.
//!
//! Whoever reaches [`perform`] is asked for their role again, so that no door can let an agent answer its own approval.

use std::sync::Arc;

use api::{Found, Kind, Method, Operation, Problem};
use bytes::Bytes;
use gateway::Caller;
use http::{HeaderValue, StatusCode, header, request::Parts};
use hyper::body::Incoming;
use vocab::ServerId;
use wire::{Json, Limits};

use crate::{
    body,
    door::Door,
    query,
    reply::{self, Body, Reply, Why},
};

pub(crate) mod events;
#[cfg(test)]
mod tests;

/// Where host programs add and remove servers.
pub(crate) const CONNECTORS: &str = "/mcp/connectors";

/// How a problem is served, as RFC 9457 says.
const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");

pub(crate) async fn answer(
    door: &Arc<Door>,
    caller: &Caller,
    found: Found,
    parts: &Parts,
    body: Incoming,
) -> Reply {
    let (found, method, status) = of_host(found, parts);
    let row = found.operation.row();
    if let Err(problem) = entitled(caller, found.operation) {
        return refuse(&problem);
    }
    if parts.method.as_str() != method {
        return reply::wrong_method(method);
    }
    if found.operation == Operation::Events {
        return events::answer(door, caller, parts);
    }
    if found.operation == Operation::ConsoleCode {
        // What comes over HTTP may come from a browser; a code is for who sits at the machine.
        let text = "a code for the console is asked for on the gate's own socket; run `portcullis console`";
        return refuse(&Problem::new(Kind::NotAllowed, "only_on_the_socket", text));
    }
    let given = match row.method {
        Method::Get => of_query(parts),
        Method::Post => {
            let most = door.gate.settings().max_body_bytes;
            match body::read(body, most, None, Some(caller)).await {
                Ok(body) => Ok(body),
                Err(refused) => return *refused,
            }
        }
    };
    let answered = match given {
        Ok(given) => perform(door, caller, found, given).await,
        Err(problem) => Err(problem),
    };
    match answered {
        Ok(body) => reply::json(status, Body::whole(body)),
        Err(problem) => refuse(&problem),
    }
}

/// Where host programs have one path for several operations, the method says which; and what they expect to be told.
fn of_host(found: Found, parts: &Parts) -> (Found, &'static str, StatusCode) {
    if !parts.uri.path().starts_with(CONNECTORS) {
        let method = found.operation.row().method.as_str();
        return (found, method, StatusCode::OK);
    }
    match found.operation {
        Operation::Connectors if parts.method == http::Method::POST => {
            let operation = Operation::AddConnector;
            (Found { operation, ..found }, "POST", StatusCode::CREATED)
        }
        Operation::RemoveConnector => (found, "DELETE", StatusCode::OK),
        _ => (found, "GET", StatusCode::OK),
    }
}

/// A GET has no body: what comes with it stands in the query.
fn of_query(parts: &Parts) -> Result<Bytes, Problem> {
    let pairs = query::pairs(parts.uri.query().unwrap_or_default());
    let pairs = pairs.map_err(|key| {
        let text = format!("`{key}` is not escaped properly");
        Problem::new(Kind::Malformed, "invalid_query", text)
    })?;
    api::of_pairs(pairs).map(Bytes::from)
}

/// May this caller ask for this? An operator of one tenant steers that tenant's sessions, not the gate.
fn entitled(caller: &Caller, operation: Operation) -> Result<(), Problem> {
    let role = operation.row().role;
    if !caller.may(role) || !caller.is_active() {
        return Err(Problem::needs_role(role));
    }
    // Both look for themselves at what belongs to the tenant.
    let is_for_tenants = matches!(operation, Operation::Events | Operation::BeginTask);
    if caller.tenant().is_some() && !is_for_tenants {
        return Err(Problem::new(
            Kind::NotAllowed,
            "needs_whole_gate",
            "a credential of one tenant sees that tenant's events and begins its tasks, and does not steer the gate; use one that belongs to no tenant",
        ));
    }
    Ok(())
}

/// The reply that says why it was not done.
pub(crate) fn refuse(problem: &Problem) -> Reply {
    let status = StatusCode::from_u16(problem.kind.status());
    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut reply = reply::json(status, Body::whole(api::text(&problem.document())));
    reply.headers_mut().insert(header::CONTENT_TYPE, PROBLEM);
    reply.extensions_mut().insert(Why {
        code: vocab::ErrorCode::InvalidInput,
        sentence: problem.to_string(),
    });
    reply
}

/// Says as a problem what was refused before an operation was asked for. What is said, and that it is refused, stays as it is.
pub(crate) fn reword(reply: &mut Reply) {
    if reply.headers().get(header::CONTENT_TYPE) == Some(&PROBLEM) {
        return;
    }
    let Some(why) = reply.extensions().get::<Why>() else {
        return;
    };
    let kind = Kind::of_status(reply.status().as_u16());
    let mut document = Problem::new(kind, kind.code(), why.sentence.clone()).document();
    document.status = reply.status().as_u16();
    *reply.body_mut() = Body::whole(api::text(&document));
    reply.headers_mut().insert(header::CONTENT_TYPE, PROBLEM);
}

/// Carries an operation out; a problem is meant for the operator.
pub(crate) async fn perform(
    door: &Door,
    caller: &Caller,
    found: Found,
    given: Bytes,
) -> Result<Vec<u8>, Problem> {
    entitled(caller, found.operation)?;
    let given = if given.is_empty() {
        Bytes::from_static(b"{}")
    } else {
        given
    };
    let settings = door.gate.settings();
    let limits = Limits::new(settings.max_body_bytes, settings.max_depth);
    let json = Json::parse(&given, limits).map_err(|error| {
        let text = format!("the parameters are not JSON: {error}");
        Problem::new(Kind::Malformed, "not_json", text)
    })?;
    if !json.is_object() {
        return Err(Problem::invalid("the parameters must be a JSON object"));
    }
    let Found { operation, name } = found;
    let admin = door.gate.admin();
    match operation {
        Operation::Status => text(admin.status().await),
        Operation::Servers => text(admin.servers()),
        Operation::Tools => text(admin.tools()),
        Operation::RetryServer => {
            admin.retry(&server(&name)?)?;
            done("trying again".to_owned())
        }
        Operation::ReinstallServer => {
            let input: api::Reasoned = api::read(&given)?;
            done(admin.reinstall(caller, &server(&name)?, input.reason())?)
        }
        Operation::Reload => done(admin.reload().await?),
        Operation::ReloadConfig => text(admin.reload_config().await?),
        Operation::AddConnector | Operation::RemoveConnector => {
            admin.change_connector(caller, operation, name, given).await
        }
        Operation::ClassifyServer => {
            let input: api::Classify = api::read(&given)?;
            let (level, reason) = (input.level()?, input.reason());
            let id = server(&name)?;
            text(
                admin
                    .classify(caller, &id, level, input.seen.clone(), reason)
                    .await?,
            )
        }
        Operation::BlockServer => {
            let input: api::MustReason = api::read(&given)?;
            text(admin.block(caller, &server(&name)?, input.reason()).await?)
        }
        Operation::UnblockServer => {
            let input: api::Reasoned = api::read(&given)?;
            text(
                admin
                    .unblock(caller, &server(&name)?, input.reason())
                    .await?,
            )
        }
        Operation::Definitions => text(admin.definitions(&server(&name)?)?),
        Operation::ApproveDefinitions => {
            let input: api::ApproveDefinitions = api::read(&given)?;
            let chosen = gateway::Chosen {
                names: input.names.clone().unwrap_or_default(),
                seen: input.seen.clone(),
            };
            let id = server(&name)?;
            text(
                admin
                    .approve_definitions(caller, &id, chosen, input.reason())
                    .await?,
            )
        }
        Operation::Sessions => text(admin.sessions()),
        Operation::ResetSession => {
            let input: api::MustReason = api::read(&given)?;
            text(admin.reset_session(caller, &name, input.reason()).await?)
        }
        Operation::BeginTask => {
            let input: api::Task = api::read(&given)?;
            text(admin.begin_task(caller, &input).await?)
        }
        Operation::Approvals => {
            let input: api::AllOrOpen = api::read(&given)?;
            text(admin.approvals(input.all).await?)
        }
        Operation::ShowApproval => text(admin.show_approval(&name).await?),
        Operation::ConsoleCode => {
            let input: api::ConsoleCodeWanted = api::read(&given)?;
            text(admin.console_code(caller, input.role)?)
        }
        Operation::Visits => text(admin.visits()),
        Operation::EndVisit => {
            let input: api::Reasoned = api::read(&given)?;
            done(admin.end_visit(caller, &name, input.reason())?)
        }
        Operation::Approve => {
            let input: api::Yes = api::read(&given)?;
            let said = (input.reason(), input.lasts);
            text(admin.answer_approval(caller, &name, true, said).await?)
        }
        Operation::Deny => {
            let input: api::Reasoned = api::read(&given)?;
            let said = (input.reason(), false);
            text(admin.answer_approval(caller, &name, false, said).await?)
        }
        Operation::Lasting => text(admin.lasting()),
        Operation::Revoke => {
            let input: api::Reasoned = api::read(&given)?;
            done(admin.revoke_lasting(caller, &name, input.reason())?)
        }
        Operation::Explain => text(admin.explain(json).await?),
        Operation::Sinks => text(admin.sinks()),
        Operation::Jails => text(admin.jails()),
        Operation::EndJail => {
            let input: api::Reasoned = api::read(&given)?;
            done(admin.end_jail(caller, &name, input.reason())?)
        }
        Operation::Volumes => text(admin.volumes().await?),
        Operation::VolumeEntries => text(admin.volume_entries(&name, &api::read(&given)?).await?),
        Operation::VolumeContent => {
            let place = api::read(&given)?;
            text(admin.volume_content(caller, &name, &place).await?)
        }
        Operation::PutOnVolume => {
            let file = api::read(&given)?;
            done(admin.put_on_volume(caller, &name, &file).await?)
        }
        Operation::RemoveFromVolume => {
            let removal = api::read(&given)?;
            done(admin.remove_from_volume(caller, &name, &removal).await?)
        }
        Operation::LabelOnVolume => {
            let label = api::read(&given)?;
            done(admin.label_on_volume(caller, &name, &label).await?)
        }
        Operation::AttachVolume => {
            let asked = api::read(&given)?;
            text(admin.attach_volume(caller, &name, &asked).await?)
        }
        Operation::DetachVolume => {
            let asked = api::read(&given)?;
            done(admin.detach_volume(caller, &name, &asked)?)
        }
        Operation::Executions => text(admin.executions()),
        Operation::BeginExecution => {
            let input: api::BeginExecution = api::read(&given)?;
            text(admin.begin_execution(caller, &input).await?)
        }
        Operation::EndExecution => {
            let input: api::Reasoned = api::read(&given)?;
            done(admin.end_execution(caller, &name, input.reason()).await?)
        }
        Operation::Events => Err(Problem::new(
            Kind::Conflict,
            "only_a_stream",
            "events are a stream; GET /v1/admin/events, or `portcullis audit tail --events -f`",
        )),
        Operation::Records
        | Operation::Report
        | Operation::Lineage
        | Operation::Connectors
        | Operation::CheckConfig
        | Operation::ExplainConfig
        | Operation::CheckPolicy
        | Operation::DiffPolicy
        | Operation::SuggestPolicy => {
            // Whoever reads a whole ledger again and again takes no more than these places.
            let place = door.file_readers.try_acquire();
            let _place = place.map_err(|_| {
                let text = "reports and queries are being made already; ask again in a moment";
                Problem::new(Kind::Busy, "too_many_readers", text)
            })?;
            admin.answer_from_files(operation, name, given).await
        }
    }
}

/// The path was matched with an id in its place.
fn server(name: &str) -> Result<ServerId, Problem> {
    ServerId::parse(name).map_err(|_| Problem::no_server(name))
}

fn text(answer: impl api::Serialize) -> Result<Vec<u8>, Problem> {
    Ok(api::text(&answer))
}

fn done(detail: String) -> Result<Vec<u8>, Problem> {
    text(api::Done { ok: true, detail })
}
