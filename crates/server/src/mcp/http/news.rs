//! GET: a session's stream of what belongs to no call, new or resumed.

use std::{sync::Arc, time::Duration};

use gateway::Caller;
use http::StatusCode;
use vocab::ErrorCode;

use super::{EVENTS_TYPE, Visit};
use crate::{
    door::Door,
    guard,
    mcp::{
        changes::Watch,
        headers,
        replay::EventId,
        session::Session,
        stream::{Kind, Unopened},
    },
    reply::{self, Refused, Reply, refusal},
};

/// News is kept for a GET stream whose reader went away, for this long.
const ABSENCE: Duration = Duration::from_secs(60);

impl Visit<'_> {
    pub(super) fn get(&self) -> Result<Reply, Refused> {
        if headers::version(self.headers) == Some(wire::mcp::Revision::MODERN.as_str()) {
            return Err(reply::wrong_method("POST").into());
        }
        guard::accepts(self.headers, &[EVENTS_TYPE])?;
        let session = self.session()?;
        let unknown = || {
            let sentence = "This `Last-Event-ID` is not, or no longer, one to resume from";
            Refused::from(refusal(StatusCode::BAD_REQUEST, ErrorCode::NotFound, sentence))
        };
        if self.headers.contains_key("last-event-id") {
            let last = guard::single(self.headers, "last-event-id").and_then(EventId::parse).ok_or_else(unknown)?;
            let frames = session.streams.resume(last).map_err(|_| unknown())?;
            return Ok(reply::events(frames));
        }
        let (_, frames) = session.streams.open(Kind::Standalone, false).map_err(|why| match why {
            Unopened::TooMany => {
                refusal(StatusCode::CONFLICT, ErrorCode::InvalidInput, "This session has enough streams open").into()
            }
            Unopened::Unknown => unknown(),
        })?;
        if !session.peer.is_told() {
            let watch = Watch::new(self.door.gate.changes(), session.mount.clone());
            tokio::spawn(tell(Arc::clone(self.door), self.caller.clone(), Arc::clone(&session), watch));
        }
        Ok(reply::events(frames))
    }
}

/// Carries news to the session's GET stream until nobody has read it for a while.
async fn tell(door: Arc<Door>, caller: Caller, session: Arc<Session>, mut watch: Watch) {
    let closing = door.closing();
    let mut closing = std::pin::pin!(closing);
    let mut absent_since = None;
    loop {
        let Some(writer) = session.streams.standalone() else { break };
        absent_since = match writer.is_read() {
            true => None,
            false => absent_since.or(Some(tokio::time::Instant::now())),
        };
        let patience = absent_since.map(|since| since + ABSENCE);
        let gone = async {
            match patience {
                None => writer.unread().await,
                Some(until) => tokio::time::sleep_until(until).await,
            }
        };
        tokio::select! {
            news = watch.next() => {
                let Some(news) = news.filter(|_| caller.is_active()) else { break };
                for message in watch.for_legacy(&news, &door.gate, &caller, &session.peer) {
                    writer.send(&message).await;
                }
            }
            () = gone => {
                if patience.is_some() && !writer.is_read() {
                    break;
                }
            }
            () = &mut closing => {
                session.streams.close();
                break;
            }
        }
    }
    session.peer.untold();
}
