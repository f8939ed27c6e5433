//! What a session has sent and may have to send again. Bounded in events and in bytes; the oldest go first.

use std::collections::VecDeque;

use bytes::Bytes;

const MAX_EVENTS: usize = 512;
const MAX_BYTES: usize = 2 << 20;

/// Where an event stands: its stream within the session, and its place in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventId {
    pub(crate) stream: u64,
    pub(crate) place: u64,
}

impl EventId {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (stream, place) = text.split_once('-')?;
        let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        Some(Self { stream: number(stream)?, place: number(place)? })
    }
}

impl std::fmt::Display for EventId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.stream, self.place)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Replay {
    kept: VecDeque<(EventId, Bytes)>,
    bytes: usize,
}

impl Replay {
    /// Keeps an encoded event. `false`: it alone is larger than everything we keep, so it was not kept.
    pub(crate) fn keep(&mut self, id: EventId, frame: Bytes) -> bool {
        if frame.len() > MAX_BYTES {
            return false;
        }
        self.bytes += frame.len();
        self.kept.push_back((id, frame));
        while self.kept.len() > MAX_EVENTS || self.bytes > MAX_BYTES {
            let Some((_, oldest)) = self.kept.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(oldest.len());
        }
        true
    }

    /// What came after `id` on its stream, oldest first.
    pub(crate) fn after(&self, id: EventId) -> Vec<Bytes> {
        let later = self.kept.iter().filter(|(kept, _)| kept.stream == id.stream && kept.place > id.place);
        later.map(|(_, frame)| frame.clone()).collect()
    }

    /// Is the event right after `id` still here, so that nothing is missing?
    pub(crate) fn continues(&self, id: EventId) -> bool {
        self.kept.iter().any(|(kept, _)| kept.stream == id.stream && kept.place == id.place + 1)
    }

    pub(crate) fn holds(&self, stream: u64) -> bool {
        self.kept.iter().any(|(kept, _)| kept.stream == stream)
    }
}

#[cfg(test)]
mod tests;
