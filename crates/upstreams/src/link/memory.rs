//! The gate's half of the memory it shares with a worker: parameters go out in one region, results come back in another.
//!
//! The worker can read the first and nothing more, and what is there was permitted to leave: a block is filled by Dispatch, never
//! earlier. The second is the worker's to write at any time, so a result is copied out of it before anybody looks. A worker that lies
//! about places gets the wrong bytes of its own back; it cannot make the gate read or write anything else.

use std::{
    collections::HashMap,
    io,
    os::fd::AsFd,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use callers::room::Room;
use sandbox::{
    handover::Sender,
    shared::{Arena, Block, Region, View},
};
use wire::{Json, Limits, Text, buffers, worker, write::Pieces};

use super::lock;

/// A result that lies where the worker put it. The worker has the memory back when this is dropped, whether it was read or not.
#[derive(Debug)]
pub struct Left {
    memory: Arc<Memory>,
    unsent: Arc<Mutex<Vec<u8>>>,
    offset: usize,
    length: usize,
}

impl Left {
    pub(super) fn new(
        memory: &Arc<Memory>,
        unsent: &Arc<Mutex<Vec<u8>>>,
        offset: usize,
        length: usize,
    ) -> Self {
        Self {
            memory: Arc::clone(memory),
            unsent: Arc::clone(unsent),
            offset,
            length,
        }
    }

    pub const fn len(&self) -> usize {
        self.length
    }

    /// A copy that belongs to nobody in particular.
    pub(super) fn read(&self) -> Option<Text> {
        self.memory.take(self.offset, self.length, |text| text)
    }

    /// A copy that holds this room.
    pub fn fetch(&self, room: Room) -> Option<Text> {
        self.memory
            .take(self.offset, self.length, |text| room.hold(text))
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        // Not worth waking anybody: it goes with the next message.
        worker::push_returned(&mut lock(&self.unsent), self.offset);
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory")
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

/// What is copied before it is digested.
const HOT: usize = 64 << 10;

pub(super) struct Memory {
    parameters: Arc<Arena>,
    /// Parameters that the worker has not given back, by where they are.
    lent: Mutex<HashMap<usize, Block>>,
    results: Arc<View>,
    /// The worker has said that it sees both regions.
    shared: AtomicBool,
}

impl Memory {
    /// Makes the two regions and hands them to the worker.
    pub(super) fn new(handover: &Sender) -> io::Result<Self> {
        let (ours, theirs) = (
            Region::new(worker::SHARED_BYTES)?,
            Region::new(worker::SHARED_BYTES)?,
        );
        let parameters = Arena::over(&ours)?;
        ours.seal_for_readers()?;
        let results = View::over(&theirs)?;
        handover.send(
            worker::MEMORY_TAG,
            b"memory",
            &[ours.as_fd(), theirs.as_fd()],
        )?;
        Ok(Self {
            parameters,
            lent: Mutex::default(),
            results,
            shared: AtomicBool::new(false),
        })
    }

    /// The worker has answered.
    pub(super) fn settle(&self, shared: bool) {
        self.shared.store(shared, Ordering::Relaxed);
    }

    /// Puts long parameters where the worker can read them. `None`: they are short, or there is no room.
    pub(super) fn lend(&self, text: &Pieces) -> Option<usize> {
        if text.len() < worker::LONG || !self.shared.load(Ordering::Relaxed) {
            return None;
        }
        let mut block = self.parameters.block(text.len())?;
        let offset = block.offset();
        text.all()
            .into_iter()
            .all(|piece| block.push(piece))
            .then(|| {
                lock(&self.lent).insert(offset, block);
                offset
            })
    }

    /// The worker is done with the parameters that begin here. Anything else it might say has no effect.
    pub(super) fn returned(&self, offset: usize) {
        lock(&self.lent).remove(&offset);
    }

    /// A copy of a result, if it is one JSON text on one line. The worker has checked that before; it is checked again, because this is
    /// what reaches the client between our own words.
    fn take(
        &self,
        offset: usize,
        length: usize,
        hold: impl FnOnce(Bytes) -> Bytes,
    ) -> Option<Text> {
        if length > worker::SHARED_BYTES {
            return None;
        }
        let (text, digest) = self.copied(offset, length)?;
        let text = hold(text);
        let outline = Json::parse_fields(&text, Limits::new(length, worker::DEPTH)).ok()?;
        // The digest is of all that was copied, and the outline of what is not white space: they must be the same.
        (outline.one_line && outline.json.as_bytes().len() == length)
            .then(|| Text::of(&text, &outline).with_digest(digest))
    }

    /// Copies block by block, so that each is still in the caches when it is digested.
    fn copied(&self, offset: usize, length: usize) -> Option<(Bytes, [u8; 32])> {
        let mut copy = buffers::take(length);
        let mut hasher = blake3::Hasher::new();
        while copy.len() < length {
            let done = copy.len();
            if !self
                .results
                .copy(offset.checked_add(done)?, HOT.min(length - done), &mut copy)
            {
                return None;
            }
            hasher.update(copy.get(done..)?);
        }
        Some((buffers::freeze(copy), *hasher.finalize().as_bytes()))
    }
}
