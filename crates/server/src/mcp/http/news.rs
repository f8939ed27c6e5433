//! GET: a session's stream of what belongs to no call, new or resumed.

use std::{sync::Arc, time::Duration};

use gateway::{Caller, Source};
use http::StatusCode;
use tokio::time::Instant;
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
            Refused::from(refusal(
                StatusCode::BAD_REQUEST,
                ErrorCode::NotFound,
                sentence,
            ))
        };
        if self.headers.contains_key("last-event-id") {
            let last = guard::single(self.headers, "last-event-id")
                .and_then(EventId::parse)
                .ok_or_else(unknown)?;
            let again = |source: &Source| self.door.gate.pass_kept(&self.caller, source);
            let frames = session.streams.resume(last, again).map_err(|_| unknown())?;
            return Ok(reply::events(frames));
        }
        let (_, frames) = session
            .streams
            .open(Kind::Standalone, session.is_primed())
            .map_err(|why| match why {
                Unopened::TooMany => refusal(
                    StatusCode::CONFLICT,
                    ErrorCode::InvalidInput,
                    "This session has enough streams open",
                )
                .into(),
                Unopened::Unknown => unknown(),
            })?;
        if !session.peer.is_told() {
            let watch = Watch::new(
                self.door.gate.changes(),
                session.mount.clone(),
                self.caller.id(),
            );
            tokio::spawn(tell(
                Arc::clone(self.door),
                self.caller.clone(),
                Arc::clone(&session),
                watch,
            ));
        }
        Ok(reply::events(frames))
    }
}

/// Carries news to the session's GET stream until nobody has read it for a while.
async fn tell(door: Arc<Door>, caller: Caller, session: Arc<Session>, mut watch: Watch) {
    loop {
        let over = carry_news(&door, &caller, &session, &mut watch).await;
        session.peer.untold();
        // A reader that came just now believed that we were still here.
        if over || !session.streams.is_read() || session.peer.is_told() {
            return;
        }
    }
}

/// Returns `true` if there is nothing more to tell, `false` if there is only nobody to tell it to.
async fn carry_news(door: &Door, caller: &Caller, session: &Session, watch: &mut Watch) -> bool {
    let closing = door.closing();
    let mut closing = std::pin::pin!(closing);
    let mut revoked = std::pin::pin!(guard::revoked(caller));
    let mut absent_since = None;
    loop {
        let Some(writer) = session.streams.standalone() else {
            return false;
        };
        absent_since = match writer.is_read() {
            true => None,
            false => absent_since.or(Some(Instant::now())),
        };
        let gone = async {
            match absent_since {
                None => writer.unread().await,
                Some(since) => tokio::time::sleep_until(since + ABSENCE).await,
            }
        };
        tokio::select! {
            news = watch.next() => {
                let Some(news) = news else { return true };
                if !caller.is_active() {
                    session.streams.close();
                    return true;
                }
                // The newest stream may be another one than when we began to wait.
                let Some(writer) = session.streams.standalone() else { return false };
                for message in watch.for_legacy(&news, &door.gate, caller, &session.peer).await {
                    writer.send(message).await;
                }
            }
            () = gone => {
                if absent_since.is_some() && !session.streams.is_read() {
                    return false;
                }
            }
            () = &mut revoked => {
                session.streams.close();
                return true;
            }
            () = &mut closing => {
                session.streams.close();
                return true;
            }
        }
    }
}
