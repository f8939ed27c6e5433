//! What changes behind the gate, as one door's clients hear it.

use std::time::Duration;

use bytes::Bytes;
use gateway::{Caller, Change, Gate, ListKind};
use tokio::{
    sync::broadcast::{
        Receiver,
        error::{RecvError, TryRecvError},
    },
    time::Instant,
};
use vocab::ServerId;
use wire::{rpc, write::Object};

use super::peer::Peer;
use crate::parcel::Parcel;

/// The shortest time between two tellings.
const PAUSE: Duration = Duration::from_millis(100);

/// News that arrived together. That a list changed is told once, however often it did.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// Lists that changed: of which server, and whether for everybody.
    lists: Vec<(ListKind, ServerId, bool)>,
    /// Lists of which the client's caller sees another part than before.
    sight: Vec<ListKind>,
    /// Some news was lost: whatever can be looked up should be.
    pub(crate) missed: bool,
    /// Changes that carry an upstream's own words; the gate is asked before they are shown.
    pub(crate) words: Vec<Change>,
}

impl News {
    fn is_empty(&self) -> bool {
        self.lists.is_empty() && self.sight.is_empty() && !self.missed && self.words.is_empty()
    }

    fn take_in(&mut self, change: Change, mount: Option<&ServerId>, caller: &str) {
        let server = match &change {
            Change::Sight { caller: of, list } => {
                if **of == *caller && !self.sight.contains(list) {
                    self.sight.push(*list);
                }
                return;
            }
            Change::List { server, .. }
            | Change::Updated { server, .. }
            | Change::Log { server, .. }
            | Change::ElicitationComplete { server, .. } => server,
        };
        if mount.is_some_and(|mount| mount != server) {
            return;
        }
        match change {
            Change::List {
                list,
                server,
                is_approved,
            } => {
                let known = (list, server, is_approved);
                if !self.lists.contains(&known) {
                    self.lists.push(known);
                }
            }
            Change::Updated { ref exposed, .. } => {
                let known = |other: &Change| matches!(other, Change::Updated { exposed: other, .. } if other == exposed);
                if !self.words.iter().any(known) {
                    self.words.push(change);
                }
            }
            Change::Log { .. } | Change::ElicitationComplete { .. } => self.words.push(change),
            Change::Sight { .. } => {}
        }
    }

    /// Notifications for the lists that changed, of those the client wants (tools, prompts, resources) and whose change it may see.
    pub(crate) fn of_lists(
        &self,
        wanted: [bool; 3],
        meta: Option<&[u8]>,
        hears: impl Fn(&ServerId, bool) -> bool,
    ) -> Vec<Bytes> {
        let changed = |kind: ListKind| {
            self.missed
                || self
                    .lists
                    .iter()
                    .any(|(list, server, is_approved)| *list == kind && hears(server, *is_approved))
        };
        let lists = [
            (ListKind::Tools, "notifications/tools/list_changed"),
            (ListKind::Prompts, "notifications/prompts/list_changed"),
            (ListKind::Resources, "notifications/resources/list_changed"),
        ];
        let told = lists
            .into_iter()
            .zip(wanted)
            .filter(|((list, _), is_wanted)| {
                *is_wanted && (changed(*list) || self.sight.contains(list))
            });
        told.map(|((_, method), _)| notification(method, None, meta))
            .collect()
    }
}

fn notification(method: &str, uri: Option<&str>, meta: Option<&[u8]>) -> Bytes {
    if uri.is_none() && meta.is_none() {
        return rpc::notification(method, None).into();
    }
    let mut params = Object::new();
    if let Some(meta) = meta {
        params.raw("_meta", meta);
    }
    if let Some(uri) = uri {
        params.str("uri", uri);
    }
    rpc::notification(method, Some(&params.finish())).into()
}

pub(crate) fn updated(uri: &str, meta: Option<&[u8]>) -> Bytes {
    notification("notifications/resources/updated", Some(uri), meta)
}

/// That a visit is done, in our own words: its id is all that a client needs, and all that it knows already.
fn completed(visit: &str) -> Bytes {
    let mut params = Object::new();
    params.str("elicitationId", visit);
    rpc::notification("notifications/elicitation/complete", Some(&params.finish())).into()
}

/// The news of one door: of one server alone, or of all.
pub(crate) struct Watch {
    changes: Receiver<Change>,
    mount: Option<ServerId>,
    /// Whose client hears it.
    caller: String,
    /// Heard but not told yet.
    pending: News,
    told: Option<Instant>,
}

impl Watch {
    pub(crate) fn new(changes: Receiver<Change>, mount: Option<ServerId>, caller: &str) -> Self {
        Self {
            changes,
            mount,
            caller: caller.to_owned(),
            pending: News::default(),
            told: None,
        }
    }

    /// Waits for news and takes all there is. The first is told at once; what follows closely is told together, so that a server
    /// that changes all the time does not keep every client busy. `None`: there will be no more. Losing the future loses nothing.
    pub(crate) async fn next(&mut self) -> Option<News> {
        while self.pending.is_empty() {
            match self.changes.recv().await {
                Ok(change) => self
                    .pending
                    .take_in(change, self.mount.as_ref(), &self.caller),
                Err(RecvError::Lagged(_)) => self.pending.missed = true,
                Err(RecvError::Closed) => return None,
            }
        }
        if let Some(told) = self.told {
            tokio::time::sleep_until(told + PAUSE).await;
        }
        loop {
            match self.changes.try_recv() {
                Ok(change) => self
                    .pending
                    .take_in(change, self.mount.as_ref(), &self.caller),
                Err(TryRecvError::Lagged(_)) => self.pending.missed = true,
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        self.told = Some(Instant::now());
        Some(std::mem::take(&mut self.pending))
    }

    /// The URI by which an updated resource was asked for at this door: as the door shows it, or by the server's own address where that
    /// leads to the same server.
    pub(crate) fn shown<'a>(
        &self,
        change: &'a Change,
        is_asked: impl Fn(&str) -> bool,
        leads_to: impl Fn(&str, &ServerId) -> bool,
    ) -> Option<&'a str> {
        let Change::Updated {
            server,
            uri,
            exposed,
        } = change
        else {
            return None;
        };
        match &self.mount {
            Some(_) => Some(&**uri).filter(|uri| is_asked(uri)),
            None if is_asked(exposed) => Some(exposed),
            None => Some(&**uri).filter(|uri| is_asked(uri) && leads_to(uri, server)),
        }
    }

    /// What a legacy peer hears of some news: every changed list, what it subscribed to, visits it was asked for, and logs at the level
    /// it set. Each comes with the evidence that it may be shown, to be held until it is handed over.
    pub(crate) async fn for_legacy(
        &self,
        news: &News,
        gate: &Gate,
        caller: &Caller,
        peer: &Peer,
    ) -> Vec<Parcel> {
        let mut heard = news.of_lists([true; 3], None, |server, is_approved| {
            gate.hears_of_list(caller, server, is_approved)
        });
        if news.missed {
            heard.extend(peer.subscriptions().iter().map(|uri| updated(uri, None)));
        }
        let mut heard: Vec<Parcel> = heard.into_iter().map(Parcel::from).collect();
        for change in &news.words {
            let (message, is_awaited): (Bytes, bool) = match change {
                Change::Log { params, .. }
                    if peer.log().is_some_and(|level| level.admits(params)) =>
                {
                    (
                        rpc::notification("notifications/message", Some(params)).into(),
                        false,
                    )
                }
                Change::ElicitationComplete { server, visit }
                    if peer.has_visited(server, visit) =>
                {
                    (completed(visit), true)
                }
                change => {
                    match self.shown(
                        change,
                        |uri| peer.is_subscribed(uri),
                        |uri, id| gate.catalog().leads_to(uri, id, caller),
                    ) {
                        Some(uri) => (updated(uri, None), true),
                        None => continue,
                    }
                }
            };
            if let Some(pass) = gate.deliver(caller, change, is_awaited).await {
                heard.push(Parcel::new(message, pass));
            }
        }
        heard
    }
}

#[cfg(test)]
mod tests;
