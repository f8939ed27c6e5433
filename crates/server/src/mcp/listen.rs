//! `subscriptions/listen`: a modern client's one long request for news.
//!
//! The acknowledgement goes first, and only when we already watch, so nothing that happens after it is missed. Every notification
//! carries the client's own request id. Closing the stream ends the subscription.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use gateway::{Action, Caller, Era, Event, Outcome};
use tokio::sync::mpsc;
use vocab::ServerId;
use wire::{
    Json, Kind,
    mcp::meta as keys,
    rpc::{self, Id},
    write::{Object, quote},
};

use super::{
    answer::{Answer, Problem},
    changes::{self, News, Watch},
    client::Client,
    peer::{Pull, Registration, lock},
    render,
};
use crate::{door::Door, guard, parcel::Parcel};

const MAX_LISTENERS: usize = 1024;
const MAX_PER_CALLER: usize = 64;
const MAX_URIS: usize = 256;
/// How long the acknowledgement waits for servers to confirm resource subscriptions; the rest are left out of it.
const CONFIRMATION: Duration = Duration::from_secs(3);

/// Where messages go: each as a server-sent event, or each as a line.
#[derive(Clone)]
pub(crate) enum Outlet {
    Events(mpsc::Sender<Parcel>),
    Lines(mpsc::Sender<Parcel>),
}

impl Outlet {
    /// `false` if nobody reads any more.
    pub(crate) async fn send(&self, message: Parcel) -> bool {
        match self {
            Self::Lines(lines) => lines.send(message).await.is_ok(),
            // Without an id: modern streams are not resumed.
            Self::Events(events) => events.send(message.into_event(None)).await.is_ok(),
        }
    }

    pub(crate) async fn closed(&self) {
        match self {
            Self::Lines(sender) | Self::Events(sender) => sender.closed().await,
        }
    }
}

/// What a client wants to hear of.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Filter {
    tools: bool,
    prompts: bool,
    resources: bool,
    uris: BTreeSet<String>,
}

impl Filter {
    pub(crate) fn read(params: Option<Json<'_>>) -> Result<Self, Problem> {
        let wrong = |what: &str| {
            Problem::invalid_params(&format!("`notifications.{what}` has the wrong type"))
        };
        let wanted = params
            .and_then(|params| params.get("notifications"))
            .filter(|wanted| wanted.is_object());
        let wanted =
            wanted.ok_or_else(|| Problem::invalid_params("`notifications` must be an object"))?;
        let flag = |key: &str| match wanted.get(key) {
            None => Ok(false),
            Some(value) => value.as_bool().ok_or_else(|| wrong(key)),
        };
        let mut uris = BTreeSet::new();
        if let Some(list) = wanted.get("resourceSubscriptions") {
            if list.kind() != Kind::Array {
                return Err(wrong("resourceSubscriptions"));
            }
            for uri in list.items() {
                uris.insert(
                    uri.as_str()
                        .ok_or_else(|| wrong("resourceSubscriptions"))?
                        .into_owned(),
                );
                if uris.len() > MAX_URIS {
                    return Err(Problem::new(
                        render::REFUSED,
                        "Too many resources in one subscription",
                    ));
                }
            }
        }
        Ok(Self {
            tools: flag("toolsListChanged")?,
            prompts: flag("promptsListChanged")?,
            resources: flag("resourcesListChanged")?,
            uris,
        })
    }

    /// Leaves only what the door offers.
    fn narrow(&mut self, capabilities: &[u8]) {
        let offers = |path: &[&str]| {
            Json::checked_before(capabilities)
                .path(path)
                .and_then(Json::as_bool)
                == Some(true)
        };
        self.tools &= offers(&["tools", "listChanged"]);
        self.prompts &= offers(&["prompts", "listChanged"]);
        self.resources &= offers(&["resources", "listChanged"]);
        if !offers(&["resources", "subscribe"]) {
            self.uris.clear();
        }
    }

    /// What of some news this client asked for, ready to send.
    async fn pick(
        &self,
        news: &News,
        watch: &Watch,
        door: &Door,
        caller: &Caller,
        meta: &[u8],
    ) -> Vec<Parcel> {
        let hears =
            |server: &ServerId, is_approved| door.gate.hears_of_list(caller, server, is_approved);
        let mut told = news.of_lists(
            [self.tools, self.prompts, self.resources],
            Some(meta),
            hears,
        );
        if news.missed {
            told.extend(
                self.uris
                    .iter()
                    .map(|uri| changes::updated(uri, Some(meta))),
            );
        }
        let mut told: Vec<Parcel> = told.into_iter().map(Parcel::from).collect();
        for change in &news.words {
            let Some(uri) = watch.shown(
                change,
                |uri| self.uris.contains(uri),
                |uri, id| door.gate.catalog().leads_to(uri, id, caller),
            ) else {
                continue;
            };
            if let Some(pass) = door.gate.deliver(caller, change, true).await {
                told.push(Parcel::new(changes::updated(uri, Some(meta)), pass));
            }
        }
        told
    }

    fn json(&self) -> Vec<u8> {
        let mut out = Object::new();
        for (wanted, key) in [
            (self.tools, "toolsListChanged"),
            (self.prompts, "promptsListChanged"),
            (self.resources, "resourcesListChanged"),
        ] {
            if wanted {
                out.bool(key, true);
            }
        }
        if !self.uris.is_empty() {
            let mut list = vec![b'['];
            for (index, uri) in self.uris.iter().enumerate() {
                if index > 0 {
                    list.push(b',');
                }
                quote(&mut list, uri);
            }
            list.push(b']');
            out.raw("resourceSubscriptions", &list);
        }
        out.finish()
    }
}

/// How many listen, in all and per caller.
#[derive(Default)]
pub(crate) struct Listeners(Mutex<HashMap<String, usize>>);

/// A place among the listeners.
pub(crate) struct Seat {
    listeners: Arc<Listeners>,
    caller: String,
}

impl Listeners {
    pub(crate) fn enter(self: &Arc<Self>, caller: &str) -> Result<Seat, Problem> {
        let mut seats = lock(&self.0);
        let total: usize = seats.values().sum();
        let own = seats.entry(caller.to_owned()).or_default();
        if total >= MAX_LISTENERS || *own >= MAX_PER_CALLER {
            return Err(Problem::new(
                render::REFUSED,
                "Too many subscriptions are open: close one first",
            ));
        }
        *own += 1;
        Ok(Seat {
            listeners: Arc::clone(self),
            caller: caller.to_owned(),
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seats = lock(&self.listeners.0);
        if let Some(own) = seats.get_mut(&self.caller) {
            *own -= 1;
            if *own == 0 {
                seats.remove(&self.caller);
            }
        }
    }
}

/// One open subscription.
pub(crate) struct Listener {
    pub(crate) client: Client,
    pub(crate) id: Id,
    pub(crate) filter: Filter,
    pub(crate) seat: Seat,
    /// On lines a notification cancels; over HTTP hanging up does.
    pub(crate) registration: Option<Registration>,
}

impl Listener {
    /// Tells the news until the client goes, cancels, or the door closes.
    pub(crate) async fn run(mut self, door: Arc<Door>, outlet: Outlet) {
        let mut watch = Watch::new(
            door.gate.changes(),
            self.client.mount.clone(),
            self.client.caller.id(),
        );
        let sight = door.gate.sight(&self.client.caller);
        self.filter.narrow(&door.gate.catalog().capabilities(
            self.client.mount.as_ref(),
            Era::Modern,
            &sight,
        ));
        drop(sight);
        self.subscribe(&door).await;
        let meta = self.meta();
        let mut acknowledged = Object::new();
        acknowledged
            .raw("_meta", &meta)
            .raw("notifications", &self.filter.json());
        let ack = rpc::notification(
            "notifications/subscriptions/acknowledged",
            Some(&acknowledged.finish()),
        );
        if outlet.send(ack.into()).await && self.tell(&door, &mut watch, &outlet, &meta).await {
            let mut result = Object::new();
            result.str("resultType", "complete").raw("_meta", &meta);
            outlet
                .send(Answer::result(result.finish()).message(&self.id).into())
                .await;
        }
        for uri in &self.filter.uris {
            drop(
                door.gate.start(
                    self.client
                        .request(Action::Unsubscribe, uri_params(uri), false),
                ),
            );
        }
        drop(self.seat);
    }

    /// `true` if we ended it ourselves and the client should be told.
    async fn tell(&self, door: &Door, watch: &mut Watch, outlet: &Outlet, meta: &[u8]) -> bool {
        let closing = door.closing();
        let mut closing = std::pin::pin!(closing);
        let mut revoked = std::pin::pin!(guard::revoked(&self.client.caller));
        loop {
            let news = tokio::select! {
                news = watch.next() => news,
                () = outlet.closed() => return false,
                () = self.cancelled() => return false,
                () = &mut closing => return true,
                () = &mut revoked => return true,
            };
            let Some(news) = news else { return true };
            if !self.client.caller.is_active() {
                return true;
            }
            for notification in self
                .filter
                .pick(&news, watch, door, &self.client.caller, meta)
                .await
            {
                if !outlet.send(notification).await {
                    return false;
                }
            }
        }
    }

    async fn cancelled(&self) {
        let Some(registration) = &self.registration else {
            return std::future::pending().await;
        };
        while !matches!(registration.reins.pulled().await, Pull::Cancel) {}
    }

    fn meta(&self) -> Vec<u8> {
        let mut meta = Object::new();
        meta.raw(keys::SUBSCRIPTION_ID, self.id.as_bytes());
        meta.finish()
    }

    /// Asks the servers to watch each resource, all at once; those that do not agree in time are dropped from the filter.
    async fn subscribe(&mut self, door: &Door) {
        let deadline = tokio::time::Instant::now() + CONFIRMATION;
        let ask = |uri: &String| {
            let mut running = door.gate.start(self.client.request(
                Action::Subscribe,
                uri_params(uri),
                false,
            ));
            running.part();
            (uri.clone(), running)
        };
        let asked: Vec<_> = self.filter.uris.iter().map(ask).collect();
        for (uri, mut running) in asked {
            let outcome = async {
                loop {
                    if let Event::Done(reply) = running.next().await {
                        return reply.into_parts().0;
                    }
                }
            };
            if !matches!(
                tokio::time::timeout_at(deadline, outcome).await,
                Ok(Outcome::Result(_))
            ) {
                // It may still be granted later, and then nobody would end it.
                drop(
                    door.gate.start(self.client.request(
                        Action::Unsubscribe,
                        uri_params(&uri),
                        false,
                    )),
                );
                self.filter.uris.remove(&uri);
            }
        }
    }
}

fn uri_params(uri: &str) -> Bytes {
    let mut params = Object::new();
    params.str("uri", uri);
    params.finish().into()
}

#[cfg(test)]
mod tests;
