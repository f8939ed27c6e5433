//! `GET /v1/admin/events`: what happens, as a stream.
//!
//! `from` is the position to begin at; without it the stream begins now. `Last-Event-ID` goes on behind the event it names. The other
//! parameters are conditions (`event`, `family`, `caller`, `tool`, `server`, `verdict`, `tenant`, `session`). What a reader is too
//! slow for stays in the ledger: it is told how many records it missed and where to ask for them, and the gate holds no more than a
//! few batches for it.

use std::{sync::Arc, time::Duration};

use api::{Kind, Problem};
use bytes::Bytes;
use gateway::{Caller, Filter, Missed, News, Place, Subscription};
use http::{HeaderMap, request::Parts};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::{
    door::Door,
    guard,
    parcel::Parcel,
    query,
    reply::{self, Refused, Reply},
};

/// Streams that may be open at once.
pub(crate) const MAX_STREAMS: usize = 16;
/// Frames a reader may lag behind before the writer waits for it.
const QUEUE: usize = 64;
/// A reader that takes nothing for this long is let go; it can come back with the last id it saw.
const PATIENCE: Duration = Duration::from_secs(60);
const MAX_QUERY: usize = 4096;

pub(crate) fn answer(door: &Arc<Door>, caller: &Caller, parts: &Parts) -> Reply {
    open(door, caller, parts).unwrap_or_else(|refused| *refused)
}

fn open(door: &Arc<Door>, caller: &Caller, parts: &Parts) -> Result<Reply, Refused> {
    let wrong = |sentence: String| {
        let problem = Problem::new(Kind::Malformed, "invalid_condition", sentence);
        Refused::from(super::refuse(&problem))
    };
    let (asked, mut filter) = wanted(parts.uri.query().unwrap_or_default()).map_err(wrong)?;
    if let Some(tenant) = caller.tenant() {
        // Whatever was asked for: an operator of one tenant sees that tenant's.
        filter.set("tenant", tenant);
    }
    let from = resumed(&parts.headers).map_err(wrong)?.or(asked);
    let slot = Arc::clone(&door.event_streams)
        .try_acquire_owned()
        .map_err(|_| {
            let text = format!("{MAX_STREAMS} streams of events are open already; close one first");
            let problem = Problem::new(Kind::Busy, "too_many_streams", text);
            Refused::from(super::refuse(&problem))
        })?;
    let (sender, frames) = mpsc::channel(QUEUE);
    let subscription = door.gate.subscribe(from, filter);
    tokio::spawn(tell(
        Arc::clone(door),
        caller.clone(),
        subscription,
        sender,
        slot,
    ));
    Ok(reply::events(frames))
}

/// The place behind the event that the reader saw last.
fn resumed(headers: &HeaderMap) -> Result<Option<Place>, String> {
    if !headers.contains_key("last-event-id") {
        return Ok(None);
    }
    let last = guard::single(headers, "last-event-id").and_then(|text| text.parse::<Place>().ok());
    last.map(|last| Some(last.next()))
        .ok_or_else(|| "`Last-Event-ID` is no position of an event".to_owned())
}

fn wanted(query: &str) -> Result<(Option<Place>, Filter), String> {
    let (mut from, mut filter) = (None, Filter::default());
    if query.len() > MAX_QUERY {
        return Err(format!("the parameters are longer than {MAX_QUERY} bytes"));
    }
    let pairs = query::pairs(query).map_err(|key| format!("`{key}` is not escaped properly"))?;
    for (key, value) in pairs {
        if key == "from" {
            from = Some(
                value
                    .parse::<Place>()
                    .map_err(|error| format!("`from`: {error}"))?,
            );
        } else if !filter.set(&key, &value) {
            return Err(format!(
                "there is no condition `{key}`; there are from, {}",
                Filter::KEYS.join(", ")
            ));
        }
    }
    Ok((from, filter))
}

/// Carries events to the reader until it goes away, its credential is revoked, or the door closes.
async fn tell(
    door: Arc<Door>,
    caller: Caller,
    mut subscription: Subscription,
    sender: mpsc::Sender<Parcel>,
    _slot: OwnedSemaphorePermit,
) {
    let telling = async {
        // So that the reader knows at once that it is listening.
        let _ = sender.send(Parcel::from(&b": listening\n\n"[..])).await;
        loop {
            let news = match subscription.next().await {
                Ok(Some(news)) => news,
                Ok(None) => return,
                Err(error) => {
                    tracing::error!(%error, "the ledger could not be read for a stream of events");
                    return;
                }
            };
            for frame in frames(&news) {
                if !matches!(
                    tokio::time::timeout(PATIENCE, sender.send(frame.into())).await,
                    Ok(Ok(()))
                ) {
                    return;
                }
            }
        }
    };
    tokio::select! {
        () = telling => {}
        () = guard::revoked(&caller) => {}
        () = sender.closed() => {}
        () = door.closing() => {}
    }
}

fn frames(news: &News) -> impl Iterator<Item = Bytes> {
    let missed = news.missed.map(told_missed);
    let events = news
        .events
        .iter()
        .map(|event| frame(&event.position.to_string(), "", event.line.as_bytes()));
    missed.into_iter().chain(events)
}

/// Has no id: whoever resumes goes on behind the last event it really saw.
fn told_missed(missed: Missed) -> Bytes {
    let data = format!(
        "{{\"records\":{},\"from\":\"{}\"}}",
        missed.records, missed.from
    );
    frame("", "missed", data.as_bytes())
}

/// Event lines hold no line end, so one `data` line is enough.
fn frame(id: &str, name: &str, data: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(data.len() + 64);
    for (key, value) in [
        ("id: ", id.as_bytes()),
        ("event: ", name.as_bytes()),
        ("data: ", data),
    ] {
        if !value.is_empty() {
            out.extend_from_slice(key.as_bytes());
            out.extend_from_slice(value);
            out.push(b'\n');
        }
    }
    out.push(b'\n');
    out.into()
}

#[cfg(test)]
mod tests {
    use gateway::{Missed, Place};

    use super::{told_missed, wanted};

    #[test]
    fn a_query_is_a_place_and_conditions() {
        let (from, filter) =
            wanted("from=12.1&family=approval&caller=a%20b&event=ToolPolicyViolation").unwrap();
        assert_eq!(from, Some(Place { seq: 12, index: 1 }));
        assert_eq!(
            (filter.family.as_str(), filter.caller.as_str()),
            ("approval", "a b")
        );
        assert_eq!(wanted("").unwrap(), (None, gateway::Filter::default()));
        for wrong in ["from=x", "colour=red", "caller=%zz", "from"] {
            assert!(wanted(wrong).is_err(), "{wrong}");
        }
        assert!(wanted(&format!("caller={}", "a".repeat(5000))).is_err());
    }

    #[test]
    fn what_was_missed_is_an_event_of_its_own() {
        let frame = told_missed(Missed {
            records: 7,
            from: Place::start_of(3),
        });
        assert_eq!(
            frame,
            "event: missed\ndata: {\"records\":7,\"from\":\"3.0\"}\n\n"
        );
    }
}
