//! A second look at what a server offers, shortly before it is called.
//!
//! A server that means harm changes a definition after it was approved, and need not say so. So a call to a server whose list is
//! older than its entry allows asks for the list again first. The worker compares; an unchanged list costs one short answer.

use std::{sync::Arc, time::Duration, time::Instant};

use vocab::{Fault, FaultKind, Stop};
use wire::{Json, worker::method, write::Object};

use super::{Hub, Listing, Status, Upstream, lock, tend};
use crate::{
    catalog::reparse,
    link::{ErrorKind, Word},
    logins::login_required,
    settings::ServerSpec,
};

const PATIENCE: Duration = Duration::from_secs(10);

impl Hub {
    /// Makes sure that the catalog shows what the server offers now. `true`: it was asked, and something may have changed.
    pub async fn recheck(self: &Arc<Self>, spec: &ServerSpec) -> Result<bool, Stop> {
        self.look_again(spec, spec.recheck).await
    }

    /// The same, for a list that must not be older than this.
    pub async fn look_again(
        self: &Arc<Self>,
        spec: &ServerSpec,
        max_age: Duration,
    ) -> Result<bool, Stop> {
        let gone = || {
            Stop::from(Fault::new(
                FaultKind::Upstream,
                format!("`{}` was removed", spec.id),
            ))
        };
        let upstream = self.upstream(&spec.id).ok_or_else(gone)?;
        let is_fresh = |listing: &Option<Listing>| {
            listing
                .as_ref()
                .is_some_and(|listing| listing.at.elapsed() < max_age)
        };
        if is_fresh(&lock(&upstream.listed)) {
            return Ok(false);
        }
        let _turn = upstream.rechecking.lock().await;
        let Some(listing) = lock(&upstream.listed).clone() else {
            // Not connected. What it shows when it is back is what counts, so that is waited for here and not in Dispatch.
            let mut status = upstream.status.subscribe();
            let settled = status.wait_for(|status| !matches!(status, Status::Connecting { .. }));
            let _ = tokio::time::timeout(PATIENCE, settled).await;
            let is_connected = matches!(&*upstream.status.borrow(), Status::Connected);
            return if is_connected {
                Ok(true)
            } else {
                Err(unreachable(&upstream))
            };
        };
        if is_fresh(&Some(listing.clone())) {
            return Ok(true);
        }
        let Some(link) = self.workers().link() else {
            return Err(
                Fault::new(FaultKind::Worker, "the worker was lost before the call").into(),
            );
        };
        let asked_at = Instant::now();
        let mut params = Object::new();
        params
            .str("server", spec.id.as_str())
            .raw("only", br#"["tools"]"#);
        params.u64(
            "timeout_ms",
            u64::try_from(PATIENCE.as_millis()).unwrap_or(u64::MAX),
        );
        params.object("if_changed", |out| {
            out.str("tools", &listing.tag);
        });
        let lists = match link
            .ask_within(
                method::CATALOG,
                &params.finish(),
                PATIENCE + Duration::from_secs(1),
            )
            .await
        {
            Word::Result(lists) => lists,
            Word::Error {
                text,
                kind: ErrorKind::Login,
                ..
            } => return Err(login_required(text)),
            Word::Error { text, kind, .. } => {
                if kind == ErrorKind::Upstream {
                    upstream.doubt();
                }
                return Err(unshown(spec, &text));
            }
            _ => {
                return Err(
                    Fault::new(FaultKind::Worker, "the worker was lost before the call").into(),
                );
            }
        };
        if reparse(&lists).get("unchanged").and_then(Json::as_bool) == Some(true) {
            if let Some(listing) = lock(&upstream.listed)
                .as_mut()
                .filter(|now| now.generation == listing.generation)
            {
                listing.at = asked_at;
            }
            return Ok(false);
        }
        let listed = tend::list(self, &upstream, &link, &listing.hello, listing.generation).await;
        listed.map_err(|unlisted| unshown(spec, &unlisted.error))?;
        if reparse(&lists).path(&["failed", "tools"]).is_some() {
            return Err(unshown(
                spec,
                "it answers the question for them with an error",
            ));
        }
        Ok(true)
    }
}

fn unshown(spec: &ServerSpec, why: &str) -> Stop {
    let detail = format!(
        "`{}` could not show its definitions again before the call: {why}",
        spec.id
    );
    Fault::new(FaultKind::Upstream, detail).into()
}

fn unreachable(upstream: &Upstream) -> Stop {
    let problem = upstream
        .last_error()
        .unwrap_or_else(|| "it did not connect in time".into());
    if upstream.login().is_some_and(|login| login.needs_person()) {
        return login_required(problem);
    }
    Fault::new(FaultKind::Upstream, problem).into()
}
