//! Keeping one server connected: try, stay, and try again with growing pauses.
//!
//! **Invariant: the gate is ready before its servers, and none delays another.** Tests
//! `the_gate_is_ready_before_its_servers`, `a_dead_or_slow_server_delays_nobody`,
//! `a_late_servers_tools_appear_with_list_changed`, `giving_up_is_visible_and_retry_brings_it_back`.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use bytes::Bytes;
use vocab::Backoff;
use wire::{Json, worker::method, write::Object};

use super::{
    Hub, Listing, QUIET, Status, Upstream,
    connect::{self, Connection, Unconnected, Unlisted},
    keeper::{Keeper, note_login},
    lock,
    presence::Presence,
    start,
};
use crate::{
    catalog::{Face, reparse},
    link::{Link, Word},
    logins::LoginState,
    settings::{Health, HealthMethod},
};

/// A connection that lasted this long was a good one: losing it starts the count of attempts anew.
const SETTLED: Duration = Duration::from_secs(5);
/// A server that says its lists changed without end is listed no more often than this.
const LIST_PAUSE: Duration = Duration::from_millis(100);

/// Pauses between attempts: 2, 4, 8, 16, then 30 seconds.
const PAUSES: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(30));

enum Left {
    /// A person asked for another try.
    Asked,
    /// A person must log in first.
    Login(LoginState),
    /// The worker is gone; this says nothing about the server.
    WorkerLost,
    Lost(String),
}

/// Tends one server until the task is dropped.
pub(super) async fn tend(hub: Arc<Hub>, upstream: Arc<Upstream>) {
    let mut attempt = 0;
    loop {
        let link = hub.link().await;
        upstream.status.send_replace(Status::Connecting { attempt });
        let error = match connect::connect(&hub, &upstream, &link).await {
            Ok(connection) => {
                let since = Instant::now();
                match stay(&hub, &upstream, &link, connection).await {
                    Left::WorkerLost | Left::Asked => continue,
                    Left::Login(state) => {
                        ask_for_login(&hub, &upstream, state).await;
                        attempt = 0;
                        continue;
                    }
                    Left::Lost(_) if since.elapsed() >= SETTLED => {
                        attempt = 0;
                        continue;
                    }
                    Left::Lost(error) => error,
                }
            }
            Err(_) if link.is_severed() => continue,
            Err(Unconnected::Login(state)) => {
                ask_for_login(&hub, &upstream, state).await;
                attempt = 0;
                continue;
            }
            Err(Unconnected::Failed(error)) => {
                if attempt == 0 {
                    hub.note("server.failed", &upstream.spec().id, &error);
                }
                error
            }
        };
        attempt += 1;
        wait(&hub, &upstream, &link, &mut attempt, error).await;
    }
}

/// Nothing is tried until a person has logged in: trying would not help, and nothing opens by itself.
async fn ask_for_login(hub: &Hub, upstream: &Upstream, state: LoginState) {
    let spec = upstream.spec();
    let why = match &state {
        LoginState::Expired { problem } => format!("the login has ended ({problem})"),
        LoginState::ScopeRequired { scopes, .. } => {
            format!("the server wants more rights than the login has ({scopes})")
        }
        _ => "login required".to_owned(),
    };
    let error = format!("{why}; run `portcullis servers login {}`", spec.id);
    tracing::warn!(server = %spec.id, error, "not connected");
    hub.note("server.login_required", &spec.id, &why);
    *lock(&upstream.login) = Some(state);
    *lock(&upstream.last_error) = Some(error.clone());
    upstream.status.send_replace(Status::Failed { error });
    upstream.retry.notified().await;
}

async fn wait(hub: &Hub, upstream: &Upstream, link: &Link, attempt: &mut u32, error: String) {
    let spec = upstream.spec();
    tracing::warn!(server = %spec.id, attempt, error, "not connected");
    *lock(&upstream.last_error) = Some(error.clone());
    if *attempt >= hub.attempts() {
        hub.note(
            "server.failed",
            &spec.id,
            &format!("given up after {attempt} attempts: {error}"),
        );
        upstream.status.send_replace(Status::Failed { error });
        upstream.retry.notified().await;
        *attempt = 0;
        return;
    }
    let pause = PAUSES.doubled(attempt.saturating_sub(1));
    upstream.status.send_replace(Status::Disconnected {
        error,
        attempt: *attempt,
        retry_at: Instant::now() + pause,
    });
    tokio::select! {
        () = tokio::time::sleep(pause) => {}
        () = upstream.retry.notified() => *attempt = 0,
        // The attempt may have failed because the worker was dying; the next worker gets one of its own.
        () = link.severed() => *attempt -= 1,
    }
}

/// Serves a connection until it is lost.
async fn stay(
    hub: &Arc<Hub>,
    upstream: &Arc<Upstream>,
    link: &Arc<Link>,
    mut connection: Connection,
) -> Left {
    let has_login = connection.login.is_some();
    let state = connection.login.as_ref().map(|login| login.state.clone());
    note_login(hub, upstream, state);
    *lock(&upstream.generation) = Some(connection.generation);
    let mut keeper = Keeper::start(hub, upstream, link, &mut connection);
    upstream.log_rank.store(QUIET, Ordering::Release);
    let left = match list(
        hub,
        upstream,
        link,
        &connection.hello,
        connection.generation,
    )
    .await
    {
        Ok(()) => {
            *lock(&upstream.last_error) = None;
            upstream.status.send_replace(Status::Connected);
            announce(upstream);
            resubscribe(upstream, link);
            let presence = Presence::begin(
                hub,
                &upstream.spec().id,
                &connection,
                &upstream.walls().confined,
            );
            let left = watch(hub, upstream, link, &connection, &mut keeper, &presence).await;
            if let Left::Lost(error) = &left {
                presence.failed(error);
            }
            left
        }
        Err(_) if link.is_severed() => Left::WorkerLost,
        Err(unlisted) if unlisted.wants_login => match upstream.login() {
            Some(state) if state.keeps_out() => Left::Login(state),
            // Some servers greet everybody and ask for a login afterwards.
            _ if !has_login => Left::Login(LoginState::Required),
            _ => Left::Lost(unlisted.error),
        },
        Err(unlisted) => Left::Lost(unlisted.error),
    };
    *lock(&upstream.generation) = None;
    *lock(&upstream.listed) = None;
    drop(connection);
    left
}

/// The last line about a server should not be that it did not connect.
fn announce(upstream: &Upstream) {
    let (spec, face) = (upstream.spec(), upstream.face());
    let (tools, prompts) = face.map_or((0, 0), |face| (face.tools.len(), face.prompts.len()));
    tracing::info!(target: "portcullis::servers", server = %spec.id, tools, prompts, "connected");
}

async fn watch(
    hub: &Arc<Hub>,
    upstream: &Arc<Upstream>,
    link: &Arc<Link>,
    connection: &Connection,
    keeper: &mut Keeper,
    presence: &Presence<'_>,
) -> Left {
    let health = upstream.spec().health;
    let period = health.map_or(Duration::from_secs(3600), |health| health.interval);
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut listed = tokio::time::Instant::now();
    let mut is_stale = false;
    let mut overflows = std::pin::pin!(start::overflows(hub, upstream));
    loop {
        tokio::select! {
            () = link.severed() => return Left::WorkerLost,
            () = upstream.closed.notified() => {
                return Left::Lost(upstream.last_error().unwrap_or_else(|| "the server closed the connection".into()));
            }
            () = upstream.stale.notified() => is_stale = true,
            why = &mut overflows => return Left::Lost(why),
            // Somebody logged in anew, or out.
            () = upstream.retry.notified(), if upstream.spec().login_address().is_some() => {
                return Left::Asked;
            }
            state = keeper.ended() => {
                return state.map_or_else(|| Left::Lost("the login has ended".into()), Left::Login);
            }
            () = tokio::time::sleep_until(listed + LIST_PAUSE), if is_stale => {
                is_stale = false;
                let done = list(hub, upstream, link, &connection.hello, connection.generation).await;
                listed = tokio::time::Instant::now();
                if let Err(Unlisted { error, is_lost, .. }) = done {
                    if is_lost && !link.is_severed() {
                        return Left::Lost(error);
                    }
                    tracing::warn!(server = %upstream.spec().id, error, "cannot refresh the catalog");
                }
            }
            _ = ticks.tick(), if health.is_some() => {
                let Some(health) = health else { continue };
                if let Err(error) = check_health(upstream, link, health).await {
                    if link.is_severed() {
                        return Left::WorkerLost;
                    }
                    presence.unhealthy(&error);
                    return Left::Lost(format!("health check failed: {error}"));
                }
            }
        }
    }
}

async fn check_health(upstream: &Upstream, link: &Link, health: Health) -> Result<(), String> {
    let mut params = Object::new();
    params.str("server", upstream.spec().id.as_str());
    params.u64(
        "timeout_ms",
        u64::try_from(health.timeout.as_millis()).unwrap_or(u64::MAX),
    );
    if health.method == HealthMethod::ListTools {
        params.str("method", "tools/list");
    }
    match link
        .ask_within(method::HEALTH, &params.finish(), health.timeout)
        .await
    {
        Word::Done | Word::Result(_) => Ok(()),
        Word::Error { text, .. } => Err(text),
        Word::Lost | Word::Waits(_) | Word::Event { .. } => Err("the worker was lost".into()),
    }
}

/// Fetches the lists and puts them into the catalog. Only a list that the server gave replaces the one before: what a server that
/// cannot be reached offered stays, and calling it says that the server is not available. Others' tools stay where they are meanwhile,
/// and so does the thread that serves calls: a long list is read and entered on another one.
pub(super) async fn list(
    hub: &Arc<Hub>,
    upstream: &Arc<Upstream>,
    link: &Link,
    hello: &Bytes,
    generation: u64,
) -> Result<(), Unlisted> {
    let spec = upstream.spec();
    let at = Instant::now();
    let lists = connect::catalog(link, &spec).await?;
    let (hub, upstream, hello) = (Arc::clone(hub), Arc::clone(upstream), hello.clone());
    let entered = tokio::task::spawn_blocking(move || {
        // Before anything is read from them: a credential that a server reflects is neither shown, pinned nor kept.
        let (hello, lists) = (hub.cleaned(&spec.id, hello), hub.cleaned(&spec.id, lists));
        let unread = "the worker's description of the server could not be read";
        let face = Face::read(&hello, &lists, upstream.face().as_deref()).ok_or(unread)?;
        let is_whole = face.is_whole;
        for remark in &face.remarks {
            tracing::warn!(server = %spec.id, remark, "catalog");
        }
        let before = upstream.face.swap(Some(Arc::new(face)));
        hub.face_changed(&spec.id, before.as_deref(), upstream.face().as_deref());
        let tag = reparse(&lists)
            .path(&["tags", "tools"])
            .and_then(Json::as_str)
            .unwrap_or_default()
            .into_owned();
        *lock(&upstream.listed) = Some(Listing {
            at,
            generation,
            hello: hello.clone(),
            tag,
        });
        if is_whole {
            // Nobody waits for the snapshot.
            tokio::task::spawn_blocking(move || hub.snapshots().save(&spec, &hello, &lists));
        }
        Ok::<_, String>(())
    });
    let entered = entered
        .await
        .map_err(|error| error.to_string())
        .and_then(|entered| entered);
    entered.map_err(|error| Unlisted {
        error,
        is_lost: false,
        wants_login: false,
    })
}

fn resubscribe(upstream: &Upstream, link: &Link) {
    let spec = upstream.spec();
    for uri in upstream.subscribed() {
        let mut params = Object::new();
        params.str("server", spec.id.as_str()).str("uri", &uri);
        link.tell(method::SUBSCRIBE, &params.finish());
    }
}
