//! The worker's half of the memory it shares with the gate.
//!
//! The gate makes two regions and hands them over when it starts us: one that it fills with the parameters of long calls, and that we
//! can only read; and one that we fill with long results. Without them, or when there is no room, long texts go through the pipes.

use std::{
    cell::{OnceCell, RefCell},
    collections::HashMap,
    io,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use sandbox::shared::{Arena, Block, Slice, View};
use tokio::sync::Notify;

/// An answer longer than this is not given room before it has arrived: its server only says that it will be so long.
const MOST_IN_ADVANCE: usize = 8 << 20;

#[derive(Debug, Default)]
pub(crate) struct Memory {
    regions: OnceCell<Regions>,
    /// Results that the gate has not copied yet, by where they are.
    lent: RefCell<HashMap<usize, Bytes>>,
}

#[derive(Debug)]
struct Regions {
    requests: Arc<View>,
    results: Arc<Arena>,
    done: Arc<Done>,
}

/// Where parameters are that we are done with.
#[derive(Debug, Default)]
struct Done {
    offsets: Mutex<Vec<usize>>,
    fresh: Notify,
}

impl Done {
    fn offsets(&self) -> MutexGuard<'_, Vec<usize>> {
        self.offsets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    /// Takes the two regions.
    pub(crate) fn share(&self, requests: OwnedFd, results: OwnedFd) -> io::Result<()> {
        let regions = Regions {
            requests: View::trusting(requests)?,
            results: Arena::over(results)?,
            done: Arc::default(),
        };
        let again = |_| io::Error::new(io::ErrorKind::AlreadyExists, "memory is shared already");
        self.regions.set(regions).map_err(again)
    }

    /// Parameters to give back to the gate, each once.
    pub(crate) fn done(&self) -> Vec<usize> {
        let offsets = |regions: &Regions| std::mem::take(&mut *regions.done.offsets());
        self.regions.get().map(offsets).unwrap_or_default()
    }

    /// Returns when there are parameters to give back.
    pub(crate) async fn some_done(&self) {
        match self.regions.get() {
            Some(regions) => regions.done.fresh.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Room to put a long answer together.
    pub(crate) fn block(&self, bytes: usize) -> Option<Block> {
        self.regions
            .get()
            .filter(|_| bytes <= MOST_IN_ADVANCE)?
            .results
            .block(bytes)
    }

    /// Parameters that the gate has put there. They are given back when the last slice of them is dropped.
    pub(crate) fn parameters(&self, offset: usize, length: usize) -> Option<Bytes> {
        let regions = self.regions.get()?;
        let slice = regions.requests.slice(offset, length)?;
        Some(Bytes::from_owner(Borrowed {
            slice,
            offset,
            done: Arc::clone(&regions.done),
        }))
    }

    /// Makes sure that a result is where the gate can read it, and keeps it there until the gate gives it back.
    pub(crate) fn lend(&self, result: &Bytes) -> Option<usize> {
        let results = &self.regions.get()?.results;
        let mut lent = self.lent.borrow_mut();
        let (offset, kept) = match results
            .find(result)
            .filter(|offset| !lent.contains_key(offset))
        {
            Some(offset) => (offset, result.clone()),
            None => {
                let mut block = results.block(result.len())?;
                let offset = block.offset();
                block
                    .push(result)
                    .then(|| (offset, Bytes::from_owner(block)))?
            }
        };
        lent.insert(offset, kept);
        Some(offset)
    }

    /// The gate has its copy.
    pub(crate) fn returned(&self, offset: usize) {
        self.lent.borrow_mut().remove(&offset);
    }

    /// Lets the system have memory that nobody needs now.
    pub(crate) fn trim(&self) {
        if let Some(regions) = self.regions.get() {
            regions.results.trim();
        }
    }
}

/// Parameters in the gate's memory.
struct Borrowed {
    slice: Slice,
    offset: usize,
    done: Arc<Done>,
}

impl AsRef<[u8]> for Borrowed {
    fn as_ref(&self) -> &[u8] {
        self.slice.as_ref()
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        self.done.offsets().push(self.offset);
        self.done.fresh.notify_one();
    }
}
