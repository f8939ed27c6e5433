//! What live pages are told: frames of calls that ended and how many wait, a few a second at most.

use std::{sync::Arc, time::Duration};

use api::{Kind, Problem, ask};
use console::Row;
use gateway::{Filter, Subscription, Visitor};
use http::request::Parts;
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    time::Instant,
};

use super::Desk;
use crate::{
    door::Door,
    parcel::Parcel,
    query,
    reply::{self, Reply},
};

/// Between two frames.
const PACE: Duration = Duration::from_millis(400);
/// How often a stream looks whether its visit still lasts, and how many calls wait.
const LOOK: Duration = Duration::from_secs(1);
/// Rows that are kept for one frame; more are only counted.
const MOST: usize = 2_000;
/// Frames a page may lag behind.
const QUEUE: usize = 4;

pub(super) fn answer(door: &Arc<Door>, visitor: &Visitor, parts: &Parts) -> Result<Reply, Problem> {
    let mut filter = Filter::default();
    let pairs = query::pairs(parts.uri.query().unwrap_or_default());
    let pairs = pairs.map_err(|key| {
        let text = format!("`{key}` is not escaped properly");
        Problem::new(Kind::Malformed, "invalid_query", text)
    })?;
    for (key, value) in pairs {
        if !filter.set(&key, &value) {
            let text = format!("there is no condition `{key}` for what is live");
            return Err(Problem::new(Kind::Malformed, "invalid_condition", text));
        }
    }
    if let Some(tenant) = visitor.caller.tenant() {
        filter.set("tenant", tenant);
    }
    let slot = Arc::clone(&door.event_streams).try_acquire_owned();
    let slot = slot.map_err(|_| {
        let text = "too many pages are live already; close one first";
        Problem::new(Kind::Busy, "too_many_streams", text)
    })?;
    let (sender, frames) = mpsc::channel(QUEUE);
    let subscription = door.gate.subscribe(None, filter);
    let stream = Stream {
        door: Arc::clone(door),
        visitor: visitor.clone(),
        parts: parts.clone(),
        sender,
        _slot: slot,
    };
    tokio::spawn(stream.tell(subscription));
    Ok(reply::events(frames))
}

struct Stream {
    door: Arc<Door>,
    visitor: Visitor,
    parts: Parts,
    sender: mpsc::Sender<Parcel>,
    _slot: OwnedSemaphorePermit,
}

impl Stream {
    /// Tells until the page goes away, the visit ends or the door closes.
    async fn tell(self, mut subscription: Subscription) {
        let mut rows: Vec<Row> = Vec::new();
        let mut waiting = None;
        let mut told_waiting = None;
        let mut next = Instant::now();
        let mut look = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                biased;
                () = self.door.closing() => return self.bye("the gate stops").await,
                () = self.sender.closed() => return,
                _ = look.tick() => {
                    if !self.door.gate.visit_lasts(&self.visitor) {
                        return self.bye("this visit has ended").await;
                    }
                    waiting = self.waiting().await;
                }
                news = subscription.next(), if rows.len() < MOST => {
                    let Ok(Some(news)) = news else { return };
                    let name = |id: &str| self.name(id);
                    rows.extend(news.events.iter().filter_map(|event| console::row_of_event(&event.line, name)));
                }
                () = tokio::time::sleep_until(next), if !rows.is_empty() || waiting != told_waiting => {
                    let frame = format!("data: {}\n\n", console::frame(&rows, waiting));
                    rows.clear();
                    told_waiting = waiting;
                    next = Instant::now() + PACE;
                    // A page that does not read misses frames, and loads what it missed when it is looked at again.
                    if let Err(mpsc::error::TrySendError::Closed(_)) = self.sender.try_send(frame.into_bytes().into()) {
                        return;
                    }
                }
            }
        }
    }

    async fn bye(&self, why: &str) {
        let _ = self
            .sender
            .send(format!("event: bye\ndata: {why}\n\n").into_bytes().into())
            .await;
    }

    async fn waiting(&self) -> Option<u64> {
        let desk = Desk {
            door: &self.door,
            visitor: &self.visitor,
            parts: &self.parts,
        };
        let input = api::AllOrOpen::default();
        let open = desk.ask(ask::Approvals, "", &input);
        let open = open.await.ok()?;
        let open = open.iter().filter(|approval| approval.state == "pending");
        Some(open.count() as u64)
    }

    fn name(&self, id: &str) -> String {
        self.door
            .gate
            .caller_name(id)
            .unwrap_or_else(|| id.to_owned())
    }
}
