//! The event streams of one legacy session: one per long POST, and those opened by GET.
//!
//! An event is written once, kept for replay with its source, and handed to whoever reads the stream at that moment. A reader that goes away or
//! is too slow loses its connection, never the events: it comes back with the last id it saw and goes on from there.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use gateway::{Caller, Pass, Source};
use tokio::sync::mpsc;
use wire::sse;

use super::{
    peer::lock,
    replay::{EventId, Replay},
};
use crate::parcel::Parcel;

/// Events a reader may lag behind before the writer waits for it.
const QUEUE: usize = 64;
/// How long a writer waits for a slow reader before it lets the connection go.
const SLOW: Duration = Duration::from_secs(5);
/// What we suggest a client waits before it reconnects.
const RETRY_MS: u64 = 1000;
const MAX_STREAMS: usize = 64;
/// Streams opened by GET that may be read at once.
const MAX_STANDALONE: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Carries one call.
    Call,
    /// Opened by GET; carries what belongs to no call.
    Standalone,
}

#[derive(Debug)]
struct Stream {
    kind: Kind,
    last: u64,
    ended: bool,
    reader: Option<mpsc::Sender<Parcel>>,
}

impl Stream {
    fn is_read(&self) -> bool {
        self.reader
            .as_ref()
            .is_some_and(|reader| !reader.is_closed())
    }
}

#[derive(Debug, Default)]
struct State {
    streams: BTreeMap<u64, Stream>,
    opened: u64,
    replay: Replay,
    closed: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Streams {
    state: Mutex<State>,
    /// Whom what is kept is counted to.
    owner: OnceLock<Caller>,
}

/// Why a stream was not opened or resumed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unopened {
    TooMany,
    /// The event id is not of this session, or too old.
    Unknown,
}

/// A stream being written.
#[derive(Clone)]
pub(crate) struct Writer {
    streams: Arc<Streams>,
    number: u64,
}

impl Streams {
    /// Opens a stream; its first event, if `prime`, carries only an id to resume from.
    pub(crate) fn open(
        self: &Arc<Self>,
        kind: Kind,
        prime: bool,
    ) -> Result<(Writer, mpsc::Receiver<Parcel>), Unopened> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let mut state = lock(&self.state);
        state.make_room(kind)?;
        state.opened += 1;
        let number = state.opened;
        let mut stream = Stream {
            kind,
            last: 0,
            ended: state.closed,
            reader: None,
        };
        if prime {
            stream.last = 1;
            let mut frame = Vec::with_capacity(48);
            sse::encode(
                &mut frame,
                Some(
                    &EventId {
                        stream: number,
                        place: 1,
                    }
                    .to_string(),
                ),
                Some(RETRY_MS),
                b"",
            );
            // The queue is new and empty.
            let _ = sender.try_send(frame.into());
        }
        stream.reader = (!stream.ended).then_some(sender);
        state.streams.insert(number, stream);
        Ok((
            Writer {
                streams: Arc::clone(self),
                number,
            },
            receiver,
        ))
    }

    /// Reads a stream on from the event after `last`. An earlier reader of it, if any, is let go. What `again` gives no pass for may not
    /// be shown any more: all that is kept is forgotten then.
    pub(crate) fn resume(
        &self,
        last: EventId,
        again: impl Fn(&Source) -> Option<Pass>,
    ) -> Result<mpsc::Receiver<Parcel>, Unopened> {
        let mut state = lock(&self.state);
        let Some(missed) = state.replay.after(last, again) else {
            state.replay = Replay::default();
            return Err(Unopened::Unknown);
        };
        let complete = state.replay.continues(last);
        let stream = state
            .streams
            .get_mut(&last.stream)
            .ok_or(Unopened::Unknown)?;
        if last.place > stream.last || (last.place < stream.last && !complete) {
            return Err(Unopened::Unknown);
        }
        let (sender, receiver) = mpsc::channel(QUEUE + missed.len());
        for frame in missed {
            // Room for all of them was made above.
            let _ = sender.try_send(frame);
        }
        stream.reader = (!stream.ended).then_some(sender);
        Ok(receiver)
    }

    /// The newest stream opened by GET, if somebody reads it or may still come back for it.
    pub(crate) fn standalone(self: &Arc<Self>) -> Option<Writer> {
        let state = lock(&self.state);
        let (number, _) = state
            .streams
            .iter()
            .rev()
            .find(|(_, stream)| stream.kind == Kind::Standalone && !stream.ended)?;
        Some(Writer {
            streams: Arc::clone(self),
            number: *number,
        })
    }

    /// Is anybody connected to any stream?
    pub(crate) fn is_read(&self) -> bool {
        lock(&self.state).streams.values().any(Stream::is_read)
    }

    /// Says whose streams these are.
    pub(crate) fn belong_to(&self, caller: &Caller) {
        let _ = self.owner.set(caller.clone());
    }

    /// Ends every stream; later ones are born ended.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        for stream in state.streams.values_mut() {
            stream.ended = true;
            stream.reader = None;
        }
    }
}

impl State {
    /// Forgets streams nobody can resume any more; refuses if too many are in use.
    fn make_room(&mut self, kind: Kind) -> Result<(), Unopened> {
        let standalone = self
            .streams
            .values()
            .filter(|stream| stream.kind == Kind::Standalone && stream.is_read())
            .count();
        if kind == Kind::Standalone && standalone >= MAX_STANDALONE {
            return Err(Unopened::TooMany);
        }
        if self.streams.len() < MAX_STREAMS {
            return Ok(());
        }
        let replay = &self.replay;
        self.streams
            .retain(|number, stream| stream.is_read() || !stream.ended || replay.holds(*number));
        let spent = self.streams.iter().find(|(_, stream)| {
            !stream.is_read() && (stream.ended || stream.kind == Kind::Standalone)
        });
        if let (Some(number), true) = (
            spent.map(|(number, _)| *number),
            self.streams.len() >= MAX_STREAMS,
        ) {
            self.streams.remove(&number);
        }
        // Calls under way are bounded elsewhere; twice the room is for those.
        if self.streams.len() < 2 * MAX_STREAMS + 256 {
            Ok(())
        } else {
            Err(Unopened::TooMany)
        }
    }
}

impl Writer {
    /// Writes one message.
    pub(crate) async fn send(&self, message: Parcel) {
        let Some((reader, frame)) = self.record(message) else {
            return;
        };
        let Some(reader) = reader else { return };
        let delivered = tokio::time::timeout(SLOW, reader.send(frame)).await;
        if !matches!(delivered, Ok(Ok(()))) {
            self.let_go(&reader);
        }
    }

    fn record(&self, message: Parcel) -> Option<(Option<mpsc::Sender<Parcel>>, Parcel)> {
        let mut state = lock(&self.streams.state);
        let stream = state
            .streams
            .get_mut(&self.number)
            .filter(|stream| !stream.ended)?;
        stream.last += 1;
        let id = EventId {
            stream: self.number,
            place: stream.last,
        };
        let reader = stream.reader.clone();
        let name = id.to_string();
        let instead = Replay::is_too_large(&message)
            .then(|| Parcel::from(too_large(&message)).into_event(Some(&name)));
        let frame = message.into_event(Some(&name));
        let owner = self.streams.owner.get();
        state
            .replay
            .keep(id, instead.as_ref().unwrap_or(&frame), |text| match owner {
                Some(caller) => caller.kept(text),
                None => Some(text.into()),
            });
        Some((reader, frame))
    }

    /// Drops this reader unless another has taken its place.
    fn let_go(&self, reader: &mpsc::Sender<Parcel>) {
        let mut state = lock(&self.streams.state);
        let stream = state.streams.get_mut(&self.number);
        if let Some(stream) = stream.filter(|stream| {
            stream
                .reader
                .as_ref()
                .is_some_and(|current| current.same_channel(reader))
        }) {
            stream.reader = None;
        }
    }

    /// Resolves when the reader of this moment is gone.
    pub(crate) async fn unread(&self) {
        let reader = lock(&self.streams.state)
            .streams
            .get(&self.number)
            .and_then(|stream| stream.reader.clone());
        if let Some(reader) = reader {
            reader.closed().await;
        }
    }

    pub(crate) fn is_read(&self) -> bool {
        lock(&self.streams.state)
            .streams
            .get(&self.number)
            .is_some_and(Stream::is_read)
    }

    /// No more events: the reader's connection ends after what it has been sent.
    pub(crate) fn end(&self) {
        if let Some(stream) = lock(&self.streams.state).streams.get_mut(&self.number) {
            stream.ended = true;
            stream.reader = None;
        }
    }
}

/// What a client that reconnects reads in place of a message we could not keep.
fn too_large(message: &Parcel) -> Vec<u8> {
    // The id stands before what is large.
    let [first, ..] = message.pieces();
    let id = wire::Json::checked_before(first)
        .get("id")
        .and_then(wire::rpc::Id::read);
    let error = wire::rpc::error_object(
        super::render::REFUSED,
        "The message was too large to be kept for a second delivery",
        None,
    );
    match id {
        Some(id) => wire::rpc::error(Some(&id), &error),
        None => b"".to_vec(),
    }
}

#[cfg(test)]
mod tests;
