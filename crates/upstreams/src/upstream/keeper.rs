//! Renewing the login of a connection while it lives, beside everything else that happens on it.
//!
//! A list or a health check may itself wait for another token, so whoever asks for one cannot be who gets it.

use std::sync::Arc;

use tokio::task::JoinHandle;
use wire::{worker::method, write::Object};

use super::{Hub, Upstream, connect::Connection, lock};
use crate::{
    link::Link,
    logins::{Live, LoginState, NoToken},
};

/// Lives as long as the connection.
#[derive(Debug)]
pub(super) struct Keeper(Option<JoinHandle<()>>);

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

impl Keeper {
    pub(super) fn start(
        hub: &Arc<Hub>,
        upstream: &Arc<Upstream>,
        link: &Arc<Link>,
        connection: &mut Connection,
    ) -> Self {
        let login = connection.login.take();
        if upstream.spec().login_address().is_none() {
            return Self(None);
        }
        let (hub, upstream, link) = (Arc::clone(hub), Arc::clone(upstream), Arc::clone(link));
        let generation = connection.generation;
        Self(Some(tokio::spawn(async move {
            keep(&hub, &upstream, &link, generation, login).await;
        })))
    }

    /// Resolves when there is no login any more that this connection could use.
    pub(super) async fn ended(&mut self) {
        match &mut self.0 {
            Some(task) => drop(task.await),
            None => std::future::pending().await,
        }
    }
}

async fn keep(
    hub: &Hub,
    upstream: &Upstream,
    link: &Link,
    generation: u64,
    mut login: Option<Live>,
) {
    loop {
        match login.as_ref().and_then(|login| login.due) {
            Some(due) => tokio::select! {
                () = upstream.unauthorized.notified() => {}
                () = tokio::time::sleep_until(due) => {}
            },
            None => upstream.unauthorized.notified().await,
        }
        let Some(stale) = login.take() else {
            // It let us in without one so far, and wants one for something: what it gives to everybody goes on.
            *lock(&upstream.login) = Some(LoginState::Required);
            link.tell(method::BEARER, &params(upstream, generation).finish());
            continue;
        };
        login = renew(hub, upstream, link, generation, stale).await;
        if login.is_none() {
            return;
        }
    }
}

fn params(upstream: &Upstream, generation: u64) -> Object {
    let mut params = Object::new();
    params
        .str("server", upstream.spec().id.as_str())
        .u64("generation", generation);
    params
}

pub(super) fn note_login(hub: &Hub, upstream: &Upstream, login: Option<&Live>) {
    let state = login.map(|login| login.state.clone());
    let known = std::mem::replace(&mut *lock(&upstream.login), state.clone());
    if let Some(LoginState::LoggedIn { issuer, .. }) = &state
        && known != state
    {
        let action = match known.is_some_and(|known| !known.needs_person()) {
            true => "server.login_renewed",
            false => "server.logged_in",
        };
        hub.note(action, &upstream.spec().id, issuer);
    }
}

/// Gets another token for a connection that lives, and hands it to the worker. `None`: there is no login any more.
async fn renew(
    hub: &Hub,
    upstream: &Upstream,
    link: &Link,
    generation: u64,
    stale: Live,
) -> Option<Live> {
    let spec = upstream.spec();
    let address = spec.login_address()?;
    let mut params = params(upstream, generation);
    let holder = (&spec.id).into();
    let renewed = hub.logins().renew(&holder, address, &stale.access).await;
    let outcome = match renewed {
        Ok(live) => {
            // The same again would only be refused again.
            if live.access.expose() != stale.access.expose() {
                hub.hold_login(&holder, live.access.expose());
                params.str("bearer", live.access.expose());
            }
            Some(live)
        }
        // The call that noticed fails now; it is tried again when the authorization server may be asked again.
        Err(NoToken::Later { pause, .. }) => Some(Live {
            due: Some(tokio::time::Instant::now() + pause),
            ..stale
        }),
        Err(NoToken::Person(_)) => None,
    };
    link.tell(method::BEARER, &params.finish());
    note_login(hub, upstream, outcome.as_ref());
    outcome
}
