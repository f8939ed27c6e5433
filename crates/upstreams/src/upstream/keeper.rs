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
pub(super) struct Keeper(Option<JoinHandle<Option<LoginState>>>);

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
            keep(&hub, &upstream, &link, generation, login).await
        })))
    }

    /// Resolves when there is no login any more that this connection could use, with what a person must do about it, if anything.
    pub(super) async fn ended(&mut self) -> Option<LoginState> {
        match &mut self.0 {
            Some(task) => task.await.ok().flatten(),
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
) -> Option<LoginState> {
    loop {
        let why = match login.as_ref().and_then(|login| login.due) {
            Some(due) => tokio::select! {
                () = upstream.unauthorized.notified() => Why::Refused,
                () = tokio::time::sleep_until(due) => Why::Due,
            },
            None => {
                upstream.unauthorized.notified().await;
                Why::Refused
            }
        };
        let Some(stale) = login.take() else {
            // It let us in without one so far, and wants one for something: what it gives to everybody goes on.
            *lock(&upstream.login) = Some(LoginState::Required);
            link.tell(method::BEARER, &params(upstream, generation).finish());
            continue;
        };
        match renew(hub, upstream, link, generation, stale, why).await {
            Ok(live) => login = Some(live),
            Err(state) => return state,
        }
    }
}

/// Why a token is renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// Its end is near.
    Due,
    /// The server does not take it.
    Refused,
}

fn params(upstream: &Upstream, generation: u64) -> Object {
    let mut params = Object::new();
    params
        .str("server", upstream.spec().id.as_str())
        .u64("generation", generation);
    params
}

pub(super) fn note_login(hub: &Hub, upstream: &Upstream, state: Option<LoginState>) {
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

/// Gets another token for a connection that lives, and hands it to the worker. `Err`: there is no login any more, and why.
async fn renew(
    hub: &Hub,
    upstream: &Upstream,
    link: &Link,
    generation: u64,
    stale: Live,
    why: Why,
) -> Result<Live, Option<LoginState>> {
    let spec = upstream.spec();
    let Some(address) = spec.login_address() else {
        return Err(None);
    };
    let mut params = params(upstream, generation);
    let holder = (&spec.id).into();
    let renewed = hub.logins().renew(&holder, address, &stale.access).await;
    let outcome = match renewed {
        Ok(live) => {
            // The same again would only be refused again.
            if live.access.expose() != stale.access.expose() {
                hub.hold_login(&holder, live.access.expose());
                params.str("bearer", live.access.expose());
                if let Some(key) = live.key {
                    params.u64("key", key);
                }
            }
            Ok(live)
        }
        Err(none) => kept_on(stale, why, none),
    };
    let state = match &outcome {
        Ok(live) => live.state.clone(),
        Err(state) => state.clone(),
    };
    note_login(hub, upstream, Some(state));
    link.tell(method::BEARER, &params.finish());
    outcome.map_err(Some)
}

/// Without another token, the one there is goes on for as long as the server takes it, unless there is no login at all.
fn kept_on(stale: Live, why: Why, none: NoToken) -> Result<Live, LoginState> {
    match (none, why) {
        // The call that noticed fails now; it is tried again when the authorization server may be asked again.
        (NoToken::Later { pause, .. }, _) => Ok(Live {
            due: Some(tokio::time::Instant::now() + pause),
            ..stale
        }),
        // The authorization server gives no other, so it is not asked again. The server says when this one has ended.
        (NoToken::Person(LoginState::Expired { problem }), Why::Due) => {
            let issuer = match &stale.state {
                LoginState::LoggedIn { issuer, .. }
                | LoginState::RenewalFailing { issuer, .. }
                | LoginState::ScopeRequired { issuer, .. } => issuer.clone(),
                LoginState::Required | LoginState::Expired { .. } => String::new(),
            };
            Ok(Live {
                due: None,
                state: LoginState::RenewalFailing { issuer, problem },
                ..stale
            })
        }
        (NoToken::Person(state), _) => Err(state),
    }
}

#[cfg(test)]
mod tests {
    use secrets::Secret;

    use super::{Live, LoginState, NoToken, Why, kept_on};

    fn live() -> Live {
        Live {
            access: Secret::new("access".to_owned()),
            key: None,
            due: Some(tokio::time::Instant::now()),
            state: LoginState::LoggedIn {
                issuer: "https://id.example".to_owned(),
                until: None,
            },
        }
    }

    fn ended() -> LoginState {
        LoginState::Expired {
            problem: "it was taken back".to_owned(),
        }
    }

    #[tokio::test]
    async fn a_token_that_lives_goes_on_when_its_renewal_is_refused() {
        let kept = kept_on(live(), Why::Due, NoToken::Person(ended())).unwrap();
        assert_eq!((kept.access.expose(), kept.due), ("access", None));
        assert_eq!(
            kept.state,
            LoginState::RenewalFailing {
                issuer: "https://id.example".to_owned(),
                problem: "it was taken back".to_owned(),
            }
        );
    }

    #[tokio::test]
    async fn a_refused_token_that_cannot_be_renewed_says_where_the_login_stands() {
        for state in [ended(), LoginState::Required] {
            let none = NoToken::Person(state.clone());
            assert_eq!(kept_on(live(), Why::Refused, none).unwrap_err(), state);
        }
    }
}
