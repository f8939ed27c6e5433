//! Server-sent events: decoding a response's body, and the stream that answers one POST.

use std::{collections::VecDeque, rc::Rc, time::Duration};

use tokio::time::sleep;
use wire::{
    Skim,
    sse::{Decoder, Event},
};

use super::{connection::Connection, http::HttpLink, incoming::Incoming};
use crate::{
    failure::{Failure, Kind},
    fair::Turn,
    net::Exchange,
};

/// How long to wait before resuming a stream, unless the server says.
const RETRY: Duration = Duration::from_secs(1);
/// The longest wait a server can impose.
const MAX_RETRY: Duration = Duration::from_secs(60);
/// How often one request's stream is resumed without anything new on it.
const MAX_EMPTY_RESUMES: u32 = 8;
/// The longest event id that is remembered and echoed.
const MAX_EVENT_ID: usize = 1024;

/// Events out of a response body.
pub(crate) struct Events {
    exchange: Exchange,
    decoder: Decoder,
    ready: VecDeque<Event>,
    decoded: Vec<Event>,
    turn: Turn,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Events")
    }
}

impl Events {
    pub(crate) fn new(exchange: Exchange, max_event: usize) -> Self {
        Self {
            exchange,
            decoder: Decoder::new(max_event),
            ready: VecDeque::new(),
            decoded: Vec::new(),
            turn: Turn::default(),
        }
    }

    /// The next event; `None` when the stream has ended. Nothing is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Failure> {
        loop {
            self.turn.pass().await;
            if let Some(skim) = self
                .decoder
                .lagging()
                .or_else(|| self.ready.front_mut().and_then(lagging))
            {
                self.turn.spend(skim.step());
                continue;
            }
            if let Some(event) = self.ready.pop_front() {
                self.turn.spend(event.data.len());
                return Ok(Some(event));
            }
            let Some(chunk) = self.exchange.chunk().await? else {
                return Ok(None);
            };
            self.decoder.feed(&chunk, &mut self.decoded);
            self.exchange.hold(self.decoder.held())?;
            self.ready.extend(self.decoded.drain(..));
        }
    }

    pub(crate) fn release(self) {
        self.exchange.release();
    }
}

fn lagging(event: &mut Event) -> Option<&mut Skim> {
    event.too_large.as_deref_mut().filter(|skim| skim.lags())
}

/// What is said of an event above the cap.
pub(crate) fn too_large(limit: usize) -> Failure {
    Failure::too_large(format!(
        "the server sent an event that is larger than {limit} bytes"
    ))
}

/// What a server told us about resuming a stream.
#[derive(Debug, Default)]
pub(crate) struct Resume {
    pub(crate) last_id: Option<String>,
    retry: Option<Duration>,
}

impl Resume {
    pub(crate) fn note(&mut self, event: &mut Event) {
        if let Some(id) = event.id.take().filter(|id| id.len() <= MAX_EVENT_ID) {
            self.last_id = Some(id).filter(|id| !id.is_empty());
        }
        if let Some(milliseconds) = event.retry {
            self.retry = Some(Duration::from_millis(milliseconds).min(MAX_RETRY));
        }
    }

    pub(crate) fn wait(&self) -> Duration {
        self.retry.unwrap_or(RETRY)
    }
}

/// The server took the request before it closed the stream, so its word about the rest is no word about the request: it was not refused,
/// and what became of it is not known.
fn unresumed(failure: Failure) -> Failure {
    let is_refusal = match failure.kind {
        Kind::Login | Kind::Unauthorized | Kind::Refused => true,
        Kind::Upstream => failure.status.is_some() || failure.rpc.is_some(),
        _ => false,
    };
    if !is_refusal {
        return failure;
    }
    Failure::upstream(format!(
        "the server took the request, and does not give the rest of its answer: {}",
        failure.text
    ))
}

/// The stream that answers one POST. A legacy server may close it early and let us fetch the rest.
#[derive(Debug)]
pub(crate) struct PostStream {
    link: Rc<HttpLink>,
    events: Option<Events>,
    resume: Resume,
    resumable: bool,
    empty_resumes: u32,
}

impl PostStream {
    pub(crate) fn new(link: Rc<HttpLink>, events: Events, resumable: bool) -> Self {
        Self {
            link,
            events: Some(events),
            resume: Resume::default(),
            resumable,
            empty_resumes: 0,
        }
    }

    pub(crate) async fn next(&mut self, conn: &Rc<Connection>) -> Result<Incoming, Failure> {
        loop {
            let Some(events) = &mut self.events else {
                Box::pin(self.reopen()).await?;
                continue;
            };
            let ended = match events.next().await {
                Ok(Some(mut event)) => {
                    self.resume.note(&mut event);
                    if let Some(skim) = event.too_large {
                        let failure = too_large(conn.options.max_result);
                        conn.unread(&skim, &failure);
                        if skim.has_method() {
                            continue;
                        }
                        // What is no word of the server's own is the answer to the one request of this stream.
                        return Err(failure);
                    }
                    if event.data.is_empty() {
                        continue;
                    }
                    self.empty_resumes = 0;
                    return Incoming::read(event.data.into(), conn.options.max_result).await;
                }
                Ok(None) => None,
                Err(failure) => Some(failure),
            };
            self.events = None;
            // Fetched again, what is too large would be so again.
            let is_final = ended
                .as_ref()
                .is_some_and(|failure| failure.kind == Kind::TooLarge);
            if is_final || !self.resumable || self.resume.last_id.is_none() {
                return Err(ended.unwrap_or_else(|| {
                    Failure::upstream("the server closed the stream without a reply")
                }));
            }
        }
    }

    async fn reopen(&mut self) -> Result<(), Failure> {
        self.empty_resumes += 1;
        if self.empty_resumes > MAX_EMPTY_RESUMES {
            return Err(Failure::upstream(
                "the server kept closing the stream without a reply",
            ));
        }
        sleep(self.resume.wait()).await;
        let reopened = self.link.get(self.resume.last_id.as_deref()).await;
        self.events = Some(reopened.map_err(unresumed)?);
        Ok(())
    }

    pub(crate) fn finish(self) {
        if let Some(events) = self.events {
            events.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::{Failure, Kind, unresumed};

    #[test]
    fn a_stream_that_is_not_resumed_is_no_refusal_of_the_request() {
        let refusals = [
            Failure::new(Kind::Login, "wants a login").status(401),
            Failure::upstream("forbidden").status(403),
            Failure::rpc(Bytes::from_static(b"{\"code\":-32001,\"message\":\"no\"}")).status(401),
        ];
        for refusal in refusals {
            let failure = unresumed(refusal).of_user("up", "alice");
            assert_eq!(failure.kind, Kind::Upstream, "{failure}");
            assert!(failure.status.is_none() && failure.rpc.is_none());
        }
        assert!(unresumed(Failure::unreachable("no route")).unreachable);
        let late = unresumed(Failure::timeout("late"));
        assert_eq!(late.kind, Kind::Timeout);
    }
}
