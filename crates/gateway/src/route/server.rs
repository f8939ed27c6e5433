//! The route to a server behind the worker: sends exactly the bytes that were judged, and listens until the server has answered, the
//! budget is spent, or the worker is gone.

mod abilities;
mod exchange;

use std::{sync::Arc, time::Duration};

use callers::ForGate;
use calls::finish::Phase;
use upstreams::{
    catalog::Target,
    link::Link,
    logins::{Holder, login_required},
    upstream::{Status, Upstream},
    words,
};
use vocab::{Fault, FaultKind, Redacted, Stop};
use wire::{worker::method, write::Object};

use super::{CallerSide, Carried, Raw};
use crate::{
    Action, CallRequest, Era,
    call::{Case, Order, left},
    gate::Inner,
    settings::Account,
};
use exchange::{Exchange, last_word};

/// The worker keeps the time; this much later the gate stops waiting for the worker.
const GRACE: Duration = Duration::from_secs(2);
/// The worker knows servers by their ids, so what was permitted for one must not go to another that a reload put in its place.
fn still_there(gate: &Inner, upstream: &Arc<Upstream>) -> Result<(), Stop> {
    let live = gate.hub.upstream(&upstream.spec().id);
    if live.is_some_and(|live| Arc::ptr_eq(&live, upstream)) {
        return Ok(());
    }
    Err(unavailable(
        "the server was replaced while the call was on its way; nothing was sent",
    ))
}

/// How long a call to a server that is reconnecting waits for it.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// `Err`: nothing was sent, and the server had no say in it.
pub(super) async fn carry(order: Order, side: CallerSide<'_>) -> Result<Carried, Stop> {
    let case = side.case;
    let Case { gate, request, .. } = case;
    let (target, budget) = (Arc::clone(order.target()), order.budget());
    let label = words::label_of(&target.spec, target.is_open_world).join(&case.carried());
    if target.is_absent {
        return Err(unlisted());
    }
    // Of the configuration that permitted it: another server of the same id was not what was judged.
    let upstream = case
        .now
        .servers
        .upstream(&target.spec.id)
        .ok_or_else(|| unavailable("no server has this tool, or it was removed"))?;
    let patience = CONNECT_PATIENCE.min(left(case, budget.time)?);
    let link = connected(gate, upstream, patience).await?;
    still_there(gate, upstream)?;
    if matches!(request.action, Action::Subscribe | Action::Unsubscribe) {
        let raw = subscribe(request, &target, upstream, &link).await;
        let raw = raw.unwrap_or_else(Raw::Stopped);
        return Ok(Carried { raw, label });
    }
    listen_for_logs(request, &target, upstream, &link).await;
    let own = own_account(case, &target, upstream, left(case, budget.time)?).await?;
    let time = left(case, budget.time)?;
    let about = about(case, &target, time, own.as_ref());
    still_there(gate, upstream)?;
    let (id, words) = link.forward(about, order.bytes(), request.caller.room());
    drop(order);
    let mut exchange = Exchange::new(side, &target, &label, &link, id);
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

/// It was approved, and its server offers it no more.
pub(crate) fn unlisted() -> Stop {
    unavailable("it was approved, and the server does not list it now")
}

/// Servers of the older kind log at one level for everybody: the most talkative that anyone asked for. Doors show each session only
/// what it asked for.
async fn listen_for_logs(request: &CallRequest, target: &Target, upstream: &Upstream, link: &Link) {
    let client = request.origin.client();
    let Some(level) = client
        .and_then(|client| client.log.as_deref())
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
        (Some(problem), _) if upstream.login().is_some_and(|login| login.needs_person()) => {
            Err(login_required(problem))
        }
        (Some(problem), _) => Err(unavailable(problem)),
    }
}

/// What the worker must know of a call besides its parameters.
fn about(case: Case<'_>, target: &Target, time: Duration, own: Option<&Own>) -> Object {
    let request = case.request;
    let client = request.origin.client();
    let is_modern = request.origin.answers_anew();
    let era = if is_modern { Era::Modern } else { Era::Legacy };
    let mut out = Object::with_capacity(384);
    out.str("server", target.spec.id.as_str())
        .str("method", request.action.method())
        .str("era", era.as_str());
    match client {
        Some(client) => {
            out.str("lane", &request.lane)
                .raw("caps", &abilities::plain(&client.capabilities));
        }
        None => {
            out.str("lane", &request.lane).raw("caps", b"{}");
        }
    }
    if let Some(level) = client.and_then(|client| client.log.as_ref()) {
        out.str("log", level);
    }
    let progress = client.is_some_and(|client| client.progress);
    out.bool("progress", progress).u64(
        "timeout_ms",
        u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
    );
    out.bool("mrtr", is_modern);
    if let Some(own) = own {
        out.object("as", |out| {
            out.str("user", &own.user).str("bearer", own.token.expose());
            if let Some(key) = own.key {
                out.u64("key", key);
            }
        });
    }
    out
}

/// A user and what lets them in at the server.
struct Own {
    user: String,
    token: Redacted<String>,
    /// The number of the key that the token is bound to.
    key: Option<u64>,
}

/// The caller's user with the token of their own account, where the tool must be called with it. The worker knows users by this name, so
/// a user of a tenant is named with it.
///
/// Admit saw the account; should it be gone since, the call fails rather than go out under the gate's own name.
async fn own_account(
    case: Case<'_>,
    target: &Target,
    upstream: &Upstream,
    time: Duration,
) -> Result<Option<Own>, Stop> {
    let request = case.request;
    let needs_own = target.spec.rule(&target.name).requires_user_auth;
    if !request.action.is_of_tool() || !needs_own {
        return Ok(None);
    }
    let gone = || unavailable("the user's account was disconnected");
    let user = request.caller.user().ok_or_else(gone)?;
    let tenant = request.caller.tenant();
    let account = case.gate.account(&target.spec.id, tenant, user);
    let (token, key) = match account.ok_or_else(gone)? {
        Account::Token(token) => (token, None),
        Account::Login => {
            let shown = token_of_login(case.gate, upstream, tenant, user);
            let shown = tokio::time::timeout(time, shown).await;
            let late = |_| Fault::new(FaultKind::Timeout, "timeout: the login is still renewed");
            shown.map_err(late)??.ok_or_else(gone)?
        }
    };
    let user = tenant.map_or_else(|| user.to_owned(), |tenant| format!("{tenant}/{user}"));
    Ok(Some(Own { user, token, key }))
}

async fn token_of_login(
    gate: &Inner,
    upstream: &Upstream,
    tenant: Option<&str>,
    user: &str,
) -> Result<Option<(Redacted<String>, Option<u64>)>, Stop> {
    let spec = upstream.spec();
    let Some(url) = spec.url() else {
        return Ok(None);
    };
    let holder = Holder {
        server: spec.id.clone(),
        tenant: tenant.map(str::to_owned),
        user: Some(user.to_owned()),
    };
    let shown = gate.hub.logins().of_user(&holder, url).await?;
    Ok(shown.map(|shown| {
        gate.hub.hold_login(&holder, shown.token.expose());
        (Redacted::new(shown.token.expose().to_owned()), shown.key)
    }))
}

/// Upstreams are told of the first subscriber of a resource and of the last one's leaving.
async fn subscribe(
    request: &CallRequest,
    target: &Target,
    upstream: &Upstream,
    link: &Link,
) -> Result<Raw, Stop> {
    let (verb, matters) = match request.action {
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
    if raw.is_err() && request.action == Action::Subscribe {
        upstream.remove_subscription(&target.name);
    }
    raw
}
