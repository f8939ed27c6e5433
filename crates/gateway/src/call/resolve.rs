//! Resolve: which server, and what it calls the thing. One lookup in the catalog; names of a server that has not shown its catalog
//! yet wait for it, briefly.

use std::{sync::Arc, time::Duration};

use audit::Opened;
use callers::{ForGate, signed::ExecutionSlot};
use calls::{
    finish::Phase,
    receive::{Address, Received},
    tokens,
};
use upstreams::{
    Route,
    catalog::{Found, Names, Target, builtin},
    executions::Execution,
    logins::login_required,
    names::counted_as,
    upstream::Status,
    words,
};
use vocab::{Fault, FaultKind, Rule, Stop, Violation};
use wire::builtin::Family;

use super::{Case, record};
use crate::{
    Action, CallRequest, Caller,
    gate::{InForce, Inner},
};

/// How long the first call to a server that is still connecting waits for it.
const PATIENCE: Duration = Duration::from_secs(15);

/// The configuration under which a target was found, and the call as that configuration has it where it is another than the call began with.
pub(super) struct Under {
    pub(super) now: Arc<InForce>,
    pub(super) request: Option<CallRequest>,
}

impl Under {
    /// What is in force now, for a call that began under `case.now`.
    pub(super) fn now(case: Case<'_>) -> Result<Self, Violation> {
        let now = case.gate.now();
        // Every reload brings rules of its own.
        if Arc::ptr_eq(&now.rules, &case.now.rules) {
            return Ok(Self { now, request: None });
        }
        now.admits(&case.request.caller, case.gate.now_ms())?;
        let caller = now.caller(&case.request.caller);
        let request = caller.map(|caller| CallRequest {
            caller,
            ..case.request.clone()
        });
        Ok(Self { now, request })
    }
}

/// The target, on record, and the call's slot among those of its execution.
pub(super) async fn resolve(
    case: Case<'_>,
    opened: &mut Opened,
    received: &Received<'_>,
) -> Result<(Under, Arc<Target>, ExecutionSlot), Stop> {
    let (under, target) = target(case, received)
        .await
        .inspect_err(|_| record::unresolved(opened, received))?;
    let request = under.request.as_ref().unwrap_or(case.request);
    let case = Case {
        now: &under.now,
        request,
        ..case
    };
    if under.request.is_some() {
        record::renewed(case, opened);
    }
    record::name(case, opened, received, &target);
    let slot = ExecutionSlot::take(&case.request.caller, counted_as(&target));
    Ok((under, target, slot))
}

/// What a call leads to, by the configuration it began with; where it has to wait, by the one that is in force then.
pub(super) async fn target(
    case: Case<'_>,
    received: &Received<'_>,
) -> Result<(Under, Arc<Target>), Stop> {
    let Case { gate, request, .. } = case;
    let begun = || Under {
        now: Arc::clone(case.now),
        request: None,
    };
    let spec = match look_up(gate, case.now, request, received)? {
        Found::Target(target) => return Ok((begun(), target)),
        Found::Nothing => return Err(unknown(request, received).into()),
        Found::NotYet(spec) => spec,
    };
    if request.origin.is_signed() && spec.approved().is_some() {
        // Routed to what runs, and never queued for what might.
        return Err(Fault::new(
            FaultKind::Upstream,
            format!("server `{}` is not running", spec.id),
        )
        .into());
    }
    if spec.approved().is_none() {
        // Waiting would change nothing: the answer is a refusal whatever the server shows.
        let target = Target::unseen(spec, received.address.text());
        return Ok((begun(), Arc::new(target)));
    }
    let mut versions = gate.hub.catalog_versions();
    let waited = tokio::time::timeout(PATIENCE, async {
        loop {
            let under = Under::now(case)?;
            let request = under.request.as_ref().unwrap_or(request);
            match look_up(gate, &under.now, request, received)? {
                Found::Target(target) => return Ok((under, target)),
                Found::Nothing => return Err(unknown(request, received).into()),
                Found::NotYet(_) => give_up_if_hopeless(gate, &spec.id)?,
            }
            let mut status = gate
                .hub
                .upstream(&spec.id)
                .map(|upstream| upstream.status.subscribe());
            tokio::select! {
                _ = versions.changed() => {}
                _ = async { match &mut status { Some(status) => drop(status.changed().await), None => std::future::pending().await } } => {}
            }
        }
    });
    let waited = tokio::select! {
        waited = waited => waited,
        () = gate.flights.reached(Phase::Over) => return Err(Fault::new(FaultKind::Cancelled, "the gate is stopping").into()),
    };
    waited.unwrap_or_else(|_| {
        Err(Fault::new(
            FaultKind::Upstream,
            format!("`{}` did not connect in time", spec.id),
        )
        .into())
    })
}

pub(crate) fn look_up(
    gate: &Inner,
    now: &InForce,
    request: &CallRequest,
    received: &Received<'_>,
) -> Result<Found, Violation> {
    let found = find(gate, now, request, received)?;
    let spec = match &found {
        Found::Target(target) => &target.spec,
        Found::NotYet(server) => &server.target,
        Found::Nothing => return Ok(Found::Nothing),
    };
    // Another tenant's server does not exist for this caller.
    Ok(if request.caller.sees(spec.tenant.as_deref()) {
        found
    } else {
        Found::Nothing
    })
}

fn find(
    gate: &Inner,
    now: &InForce,
    request: &CallRequest,
    received: &Received<'_>,
) -> Result<Found, Violation> {
    let catalog = now.catalog();
    let names = Names {
        mount: request.mount.as_ref(),
        view: request.caller.view(),
        tenant: request.caller.tenant(),
    };
    Ok(match &received.address {
        Address::Tool(name) => {
            // No server is called as the gate is, so its own tools can also be named as a server's are.
            let own_name = name
                .strip_prefix("portcullis__")
                .map(|tool| format!("{}.{tool}", Family::Own.word()));
            let name = own_name.as_deref().unwrap_or(name);
            // Behind a door that shows one server there are only that server's tools.
            let on_web = || now.web.as_ref()?.target(&request.caller, name, received);
            let on_volume = || now.volumes.target(&request.caller, name, received);
            // What an executor runs, it runs wherever it is.
            let by_executor = || {
                let is_command =
                    |target: &Arc<Target>| matches!(target.route, Some(Route::Command));
                builtin::find(name).filter(is_command)?;
                builtin::at(&execution(gate, &request.caller)?, name)
            };
            let built_in = || {
                let found = by_executor()
                    .or_else(on_volume)
                    .or_else(on_web)
                    .or_else(|| builtin::find(name));
                found.filter(|_| request.mount.is_none())
            };
            // Only those who sign their calls know what nothing here executes.
            let is_known = |target: &Arc<Target>| match target.route {
                // Commands are for those whose context says which.
                Some(Route::Command | Route::Execution(_)) => request.caller.context().is_some(),
                Some(_) => true,
                None => request.caller.signed().is_some(),
            };
            let own = || built_in().filter(is_known).map(Found::Target);
            match (Family::of(name), catalog.tool(names, name)) {
                // The gate's own names are nobody else's, whatever a server declares.
                (Some(Family::Own), _) if request.mount.is_none() => {
                    own().unwrap_or(Found::Nothing)
                }
                (_, Found::Nothing) => own().unwrap_or(Found::Nothing),
                (_, found) => found,
            }
        }
        Address::Prompt(name) => catalog.prompt(names, name),
        Address::Resource(uri) => {
            let label = request.caller.session().mark();
            let is_known = |target: &Target| {
                let mark = words::mark_of(&target.spec, target.is_open_world);
                words::is_for(&request.caller, &target.spec) && words::covers(label, mark)
            };
            catalog.resource(names.mount, uri, is_known)
        }
        Address::Task(id) => {
            let task = tokens::open_task(&gate.wrapper, &request.caller, id)
                .ok_or_else(|| unknown(request, received))?;
            let changes = matches!(request.action, Action::TaskUpdate | Action::TaskCancel);
            catalog.task(&task.server, &task.tool, changes)
        }
    })
}

/// Where the commands of this caller run, if not in a jail.
fn execution(gate: &Inner, caller: &Caller) -> Option<Arc<Execution>> {
    let signed = caller.signed().map(|session| session.execution.as_str());
    gate.executions.of(caller.id(), signed)
}

fn give_up_if_hopeless(gate: &Inner, id: &vocab::ServerId) -> Result<(), Stop> {
    let upstream = gate.hub.upstream(id);
    let login = upstream.as_ref().and_then(|upstream| upstream.login());
    let needs_login = login.is_some_and(|login| login.keeps_out());
    let status = upstream.map(|upstream| upstream.status.borrow().clone());
    match status {
        Some(Status::Connecting { .. } | Status::Connected) => Ok(()),
        Some(Status::Failed { error }) if needs_login => Err(login_required(error)),
        Some(Status::Disconnected { error, .. } | Status::Failed { error }) => Err(Fault::new(
            FaultKind::Upstream,
            format!("`{id}` is not connected: {error}"),
        )
        .into()),
        Some(status @ (Status::Disabled | Status::Blocked | Status::Skipped { .. })) => {
            Err(Fault::new(
                FaultKind::Upstream,
                format!("`{id}` is {}", status.as_str()),
            )
            .into())
        }
        None => Err(Fault::new(FaultKind::Upstream, format!("`{id}` was removed")).into()),
    }
}

fn unknown(request: &CallRequest, received: &Received<'_>) -> Violation {
    let shown: String = audit::printable(received.address.text())
        .chars()
        .take(200)
        .collect();
    Violation::new(
        Rule::ToolNotFound,
        format!(
            "{} names `{shown}`, which is not in the catalog",
            request.action.method()
        ),
    )
    .with_hint(shown)
}
