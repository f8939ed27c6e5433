//! A region in this process's memory, behind bounds checks.
#![expect(unsafe_code, reason = "mapped memory is reached through a pointer")]

use std::{
    io,
    os::fd::BorrowedFd,
    ptr::{self, NonNull},
};

use rustix::{
    fs::fstat,
    mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap},
};

/// Mapped memory. Its size never changes: the region's is sealed.
#[derive(Debug)]
pub(super) struct Map {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread. Within this process nobody writes where another reads: blocks of an arena
// do not overlap, a block is written through `&mut` only, and views are mapped for reading.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    pub(super) fn new(region: BorrowedFd<'_>, writable: bool) -> io::Result<Self> {
        let length = usize::try_from(fstat(region)?.st_size).unwrap_or(0);
        let access = if writable {
            ProtFlags::READ | ProtFlags::WRITE
        } else {
            ProtFlags::READ
        };
        // SAFETY: a new mapping at an address the kernel chooses; it replaces nothing.
        let start = unsafe { mmap(ptr::null_mut(), length, access, MapFlags::SHARED, region, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    fn contains(&self, offset: usize, bytes: usize) -> bool {
        offset
            .checked_add(bytes)
            .is_some_and(|end| end <= self.length)
    }

    pub(super) fn find(&self, bytes: &[u8]) -> Option<usize> {
        let offset = (bytes.as_ptr() as usize).checked_sub(self.start.as_ptr() as usize)?;
        self.contains(offset, bytes.len()).then_some(offset)
    }

    /// Copies `bytes` to where a block is. The caller owns that block, and the map is writable.
    pub(super) fn write(&self, offset: usize, bytes: &[u8]) {
        if self.contains(offset, bytes.len()) {
            // SAFETY: the target is inside the mapping, and inside a block that only the caller uses. The source is borrowed, so it is
            // not that block.
            unsafe {
                ptr::copy_nonoverlapping(
                    bytes.as_ptr(),
                    self.start.as_ptr().add(offset),
                    bytes.len(),
                )
            };
        }
    }

    pub(super) fn copy(&self, offset: usize, bytes: usize, into: &mut Vec<u8>) -> bool {
        if !self.contains(offset, bytes) {
            return false;
        }
        into.reserve(bytes);
        // SAFETY: the source is inside the mapping, the target is room that `into` has just reserved and nobody else knows. The other
        // process may write the source meanwhile; no reference to it exists, every byte is a valid `u8`, and what is read twice is
        // the copy.
        unsafe {
            ptr::copy_nonoverlapping(
                self.start.as_ptr().add(offset),
                into.as_mut_ptr().add(into.len()),
                bytes,
            );
            into.set_len(into.len() + bytes);
        }
        true
    }

    pub(super) fn slice(&self, offset: usize, bytes: usize) -> Option<&[u8]> {
        if !self.contains(offset, bytes) {
            return None;
        }
        // SAFETY: inside the mapping, which lives as long as `self`. Nobody writes there while the slice is used: of a block, its owner
        // holds it borrowed; of a view, the writer keeps its word.
        Some(unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(offset), bytes) })
    }

    /// The same for writing. The caller holds a block that includes it, borrowed for as long as the slice is used, and the map is
    /// writable.
    #[expect(
        clippy::mut_from_ref,
        reason = "blocks do not overlap, so neither do the slices"
    )]
    pub(super) fn slice_mut(&self, offset: usize, bytes: usize) -> Option<&mut [u8]> {
        if !self.contains(offset, bytes) {
            return None;
        }
        // SAFETY: inside the mapping, which lives as long as `self`, and inside a block that only the caller uses.
        Some(unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(offset), bytes) })
    }

    /// Lets the system have the pages; they read as zero afterwards.
    pub(super) fn forget(&self) {
        // SAFETY: the whole mapping, in which the caller holds no block. If the kernel refuses, the memory stays in use.
        let _refused =
            unsafe { madvise(self.start.as_ptr().cast(), self.length, Advice::LinuxRemove) };
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, unmapped once, and every slice of it borrowed `self`.
        let _refused = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}
