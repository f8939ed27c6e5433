//! Server-sent events: decoding a response's body, and the stream that answers one POST.

use std::{collections::VecDeque, rc::Rc, time::Duration};

use tokio::time::sleep;
use wire::sse::{Decoder, Event};

use super::{connection::Connection, http::HttpLink, incoming::Incoming};
use crate::{failure::Failure, fair::Turn, net::Exchange};

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
    /// Bytes of the event that is still arriving.
    unfinished: usize,
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
            unfinished: 0,
            turn: Turn::default(),
        }
    }

    /// The next event; `None` when the stream has ended. Nothing is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Failure> {
        loop {
            self.turn.pass().await;
            if let Some(event) = self.ready.pop_front() {
                self.turn.spend(event.data.len());
                return Ok(Some(event));
            }
            let Some(chunk) = self.exchange.chunk().await? else { return Ok(None) };
            self.unfinished = match last_blank_line(&chunk) {
                Some(end) => chunk.len() - end,
                None => self.unfinished + chunk.len(),
            };
            self.exchange.hold(self.unfinished)?;
            self.decoder.feed(&chunk, &mut self.decoded).map_err(|error| Failure::too_large(error.to_string()))?;
            self.ready.extend(self.decoded.drain(..));
        }
    }

    pub(crate) fn release(self) {
        self.exchange.release();
    }
}

/// Where the last event in this chunk ends, judged by its last line break. What is missed only overstates what is held.
fn last_blank_line(chunk: &[u8]) -> Option<usize> {
    let last = memchr::memrchr(b'\n', chunk)?;
    let before = chunk.get(..last)?;
    (before.ends_with(b"\n") || before.ends_with(b"\n\r")).then_some(last + 1)
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
        Self { link, events: Some(events), resume: Resume::default(), resumable, empty_resumes: 0 }
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
                    if event.data.is_empty() {
                        continue;
                    }
                    self.empty_resumes = 0;
                    return Incoming::parse(event.data.into(), conn.options.max_result);
                }
                Ok(None) => None,
                Err(failure) => Some(failure),
            };
            self.events = None;
            if !self.resumable || self.resume.last_id.is_none() {
                return Err(ended.unwrap_or_else(|| Failure::upstream("the server closed the stream without a reply")));
            }
        }
    }

    async fn reopen(&mut self) -> Result<(), Failure> {
        self.empty_resumes += 1;
        if self.empty_resumes > MAX_EMPTY_RESUMES {
            return Err(Failure::upstream("the server kept closing the stream without a reply"));
        }
        sleep(self.resume.wait()).await;
        self.events = Some(self.link.get(self.resume.last_id.as_deref()).await?);
        Ok(())
    }

    pub(crate) fn finish(self) {
        if let Some(events) = self.events {
            events.release();
        }
    }
}
