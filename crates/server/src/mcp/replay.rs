//! What a session has sent and may have to send again. Bounded in events and in bytes; the oldest go first.
//!
//! Each event keeps the sources of its words. Since a reset they are not shown again: the session's label no longer includes them.

use std::collections::VecDeque;

use bytes::{Buf as _, Bytes};
use gateway::{Pass, Source};

use crate::parcel::Parcel;

const MAX_EVENTS: usize = 512;
const MAX_BYTES: usize = 2 << 20;
/// What the frame of an event adds to its message.
const FRAME: usize = 64;

/// Where an event stands: its stream within the session, and its place in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventId {
    pub(crate) stream: u64,
    pub(crate) place: u64,
}

impl EventId {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (stream, place) = text.split_once('-')?;
        let number = |text: &str| {
            text.bytes()
                .all(|byte| byte.is_ascii_digit())
                .then(|| text.parse().ok())
                .flatten()
        };
        Some(Self {
            stream: number(stream)?,
            place: number(place)?,
        })
    }
}

impl std::fmt::Display for EventId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.stream, self.place)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Replay {
    kept: VecDeque<Kept>,
    bytes: usize,
}

/// An encoded event, and whose words are in it.
#[derive(Debug)]
struct Kept {
    id: EventId,
    frame: Bytes,
    sources: Vec<Source>,
}

impl Replay {
    /// Whether a message alone is larger than everything we keep.
    pub(crate) fn is_too_large(message: &Parcel) -> bool {
        message.remaining() + FRAME > MAX_BYTES
    }

    /// Keeps a copy of an encoded event, in place of older ones if `room` gives none for it beside them. An event that finds no room at
    /// all is not kept, and then nothing before it is either: whoever comes back would miss it.
    pub(crate) fn keep(
        &mut self,
        id: EventId,
        frame: &Parcel,
        room: impl Fn(Vec<u8>) -> Option<Bytes>,
    ) {
        let sources: Vec<Source> = frame
            .passes()
            .iter()
            .filter_map(|pass| pass.source().cloned())
            .collect();
        loop {
            if let Some(frame) = room(frame.pieces().concat()) {
                self.bytes += frame.len();
                self.kept.push_back(Kept { id, frame, sources });
                break;
            }
            if !self.forget_oldest() {
                break;
            }
        }
        while self.kept.len() > MAX_EVENTS || self.bytes > MAX_BYTES {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) -> bool {
        let Some(oldest) = self.kept.pop_front() else {
            return false;
        };
        self.bytes = self.bytes.saturating_sub(oldest.frame.len());
        true
    }

    /// What came after `id` on its stream, oldest first, each with the passes that `again` gives. `None`: it gives none for one of them.
    pub(crate) fn after(
        &self,
        id: EventId,
        again: impl Fn(&Source) -> Option<Pass>,
    ) -> Option<Vec<Parcel>> {
        let later = self
            .kept
            .iter()
            .filter(|kept| kept.id.stream == id.stream && kept.id.place > id.place);
        let again = |kept: &Kept| {
            let passes = kept
                .sources
                .iter()
                .map(&again)
                .collect::<Option<Vec<_>>>()?;
            Some(Parcel::holding(kept.frame.clone(), passes))
        };
        later.map(again).collect()
    }

    /// Is the event right after `id` still here, so that nothing is missing?
    pub(crate) fn continues(&self, id: EventId) -> bool {
        self.kept
            .iter()
            .any(|kept| kept.id.stream == id.stream && kept.id.place == id.place + 1)
    }

    pub(crate) fn holds(&self, stream: u64) -> bool {
        self.kept.iter().any(|kept| kept.id.stream == stream)
    }
}

#[cfg(test)]
mod tests;
