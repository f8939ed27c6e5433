//! Memory that two processes share, so that long texts need not be pushed through a pipe.
//!
//! A [`Region`] is a file without a name whose size is sealed: nobody can cut it off under a reader. One process writes into it
//! through an [`Arena`], which hands out blocks and never two that overlap; the other reads through a [`View`]. Where a text is, and
//! when its block may be used again, the two tell each other by other means.
//!
//! Trust goes one way. A region that the gate writes is sealed before it is handed over, so that the worker can map it for reading
//! only. A region that the worker writes can change under the gate at any moment, so the gate takes a copy before it looks at anything
//! ([`View::copy`]) and never looks at the original again.

mod blocks;
mod map;

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex},
};

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create,
};

use self::{blocks::Blocks, map::Map};
use crate::lock;

/// A piece of memory with a descriptor, to be handed to another process.
#[derive(Debug)]
pub struct Region(OwnedFd);

impl Region {
    /// Makes one; memory is taken only for the pages that are used.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Kernels before 6.3 do not know the flag that forbids executing it.
        let fd = memfd_create(c"portcullis", flags | MemfdFlags::NOEXEC_SEAL)
            .or_else(|_| memfd_create(c"portcullis", flags))?;
        ftruncate(&fd, u64::try_from(bytes).unwrap_or(u64::MAX))?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW)?;
        Ok(Self(fd))
    }

    /// From now on only the mappings that exist can write; and no seal can be added or taken away.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn seal_for_readers(&self) -> io::Result<()> {
        Ok(fcntl_add_seals(
            &self.0,
            SealFlags::FUTURE_WRITE | SealFlags::SEAL,
        )?)
    }
}

impl AsFd for Region {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The writing side of a region.
#[derive(Debug)]
pub struct Arena {
    map: Map,
    blocks: Mutex<Blocks>,
}

impl Arena {
    /// Maps a region for writing. There must be one writer only: this process, and this arena in it.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn over(region: impl AsFd) -> io::Result<Arc<Self>> {
        let map = Map::new(region.as_fd(), true)?;
        let blocks = Mutex::new(Blocks::new(map.len()));
        Ok(Arc::new(Self { map, blocks }))
    }

    /// A block of this many bytes that is nobody else's; `None` if there is no room.
    #[must_use]
    pub fn block(self: &Arc<Self>, bytes: usize) -> Option<Block> {
        let start = lock(&self.blocks).take(bytes)?;
        Some(Block {
            arena: Arc::clone(self),
            start,
            room: bytes,
            filled: 0,
        })
    }

    /// Where in the region these bytes are, if they are in it.
    #[must_use]
    pub fn find(&self, bytes: &[u8]) -> Option<usize> {
        self.map.find(bytes)
    }

    /// Gives the memory of an arena without blocks back to the system.
    pub fn trim(&self) {
        let blocks = lock(&self.blocks);
        if blocks.is_empty() {
            self.map.forget();
        }
    }
}

/// A part of an arena: filled once, then read. Dropping it makes room.
#[derive(Debug)]
pub struct Block {
    arena: Arc<Arena>,
    start: usize,
    room: usize,
    filled: usize,
}

impl Block {
    /// Where it begins in the region.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.start
    }

    /// Appends, if there is room for all of it.
    #[must_use]
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        let fits = bytes.len() <= self.room - self.filled;
        if fits {
            self.arena.map.write(self.start + self.filled, bytes);
            self.filled += bytes.len();
        }
        fits
    }

    /// Room that is left, to be filled from the front; see [`Block::advance`].
    #[must_use]
    pub fn spare(&mut self) -> &mut [u8] {
        let (start, bytes) = (self.start + self.filled, self.room - self.filled);
        self.arena.map.slice_mut(start, bytes).unwrap_or_default()
    }

    /// Counts bytes of [`Block::spare`] as filled.
    pub fn advance(&mut self, bytes: usize) {
        self.filled = self.room.min(self.filled + bytes);
    }
}

impl AsRef<[u8]> for Block {
    /// What was filled in.
    fn as_ref(&self) -> &[u8] {
        self.arena
            .map
            .slice(self.start, self.filled)
            .unwrap_or_default()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        lock(&self.arena.blocks).give_back(self.start, self.room);
    }
}

/// The reading side of a region.
#[derive(Debug)]
pub struct View(Map);

impl View {
    /// Maps a region for reading. A region that could be cut off while we read is refused.
    ///
    /// # Errors
    /// `InvalidInput` if its size is not sealed; otherwise if the kernel refuses.
    pub fn over(region: impl AsFd) -> io::Result<Arc<Self>> {
        let seals = fcntl_get_seals(&region)?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the size of the region is not sealed",
            ));
        }
        Self::trusting(region)
    }

    /// The same without asking about seals, for a process that may not ask and trusts where the region came from.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn trusting(region: impl AsFd) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self(Map::new(region.as_fd(), false)?)))
    }

    /// Appends a copy of some of it to `into`; false if it is not all inside the region. What is copied can be anything, but it does
    /// not change any more.
    #[must_use]
    pub fn copy(&self, offset: usize, bytes: usize, into: &mut Vec<u8>) -> bool {
        self.0.copy(offset, bytes, into)
    }

    /// Some of it as it is, for a reader that trusts the writer not to touch it until it is told that the reader is done.
    #[must_use]
    pub fn slice(self: &Arc<Self>, offset: usize, bytes: usize) -> Option<Slice> {
        self.0.slice(offset, bytes)?;
        Some(Slice {
            view: Arc::clone(self),
            offset,
            bytes,
        })
    }
}

/// A part of a view.
#[derive(Debug)]
pub struct Slice {
    view: Arc<View>,
    offset: usize,
    bytes: usize,
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        self.view
            .0
            .slice(self.offset, self.bytes)
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
