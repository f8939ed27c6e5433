//! Redacted argument bodies, kept apart from the chain so that one can be erased while its record stands.
//!
//! Each body is sealed under a key of its own. Sealed bodies and keys are in different files: whoever copies the bodies
//! without the keys has nothing, and erasing a body is overwriting 32 bytes. The chained record holds the digest of the
//! *sealed* bytes, which says nothing about the arguments once the key is gone.
//!
//! INVARIANT: [`Bodies::flush`] runs before the records that name the bodies are written, by the one thread that writes; a file that
//! an earlier process or a failed write has touched is never appended to.

mod check;
mod find;
mod forget;
mod slot;

pub use check::{BodyReport, verify_bodies};
pub use find::{Bodies as BodyReader, Body, body};
pub(crate) use slot::tag;

use crate::chain::Hash;
use crate::disk::{Disk, SegmentFile};
use crate::entropy::Keys;
use crate::error::LedgerUnavailable;
use crate::write::append_all;
use slot::{BODIES, Slot, bodies_path, keys_path, part_number, seal};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A longer body is cut here.
pub const BODY_LIMIT: usize = 64 << 10;
/// Sealed bytes that may wait in memory for the next write.
const PENDING_LIMIT: usize = 8 << 20;
/// A buffer that grew beyond this is given back.
const SPARE_LIMIT: usize = 256 << 10;

#[derive(Debug)]
pub(crate) struct Bodies {
    part_bytes: u64,
    keys: Keys,
    pending: Mutex<Pending>,
    /// The buffers of the last flush, kept for their capacity.
    spare: Mutex<Pending>,
    open: Mutex<Option<Part>>,
    /// Held while keys are destroyed: who destroys some must not write back those that another has destroyed.
    destroying: Mutex<()>,
}

/// Sealed and not yet written; the slots' places count from the start of `sealed`.
#[derive(Debug, Default)]
struct Pending {
    sealed: Vec<u8>,
    slots: Vec<Slot>,
}

/// The pair of files being appended to.
#[derive(Debug)]
struct Part {
    number: u64,
    size: u64,
    bodies: Arc<dyn SegmentFile>,
    keys: Arc<dyn SegmentFile>,
    unsynced: bool,
}

impl Bodies {
    pub(crate) fn new(part_bytes: u64) -> Bodies {
        Bodies {
            part_bytes,
            keys: Keys::default(),
            pending: Mutex::default(),
            spare: Mutex::default(),
            open: Mutex::default(),
            destroying: Mutex::default(),
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seals a body; it is written together with the next record. Returns the digest that its record must name.
    pub(crate) fn keep(&self, call: &str, redacted: &[u8]) -> Result<Hash, LedgerUnavailable> {
        let unavailable = |reason: String| LedgerUnavailable {
            reason: reason.into(),
        };
        let key = self
            .keys
            .fresh()
            .map_err(|error| unavailable(format!("no key for the arguments: {error}")))?;
        let sealed = seal(&key, call, redacted)
            .ok_or_else(|| unavailable("the arguments could not be sealed".to_owned()))?;
        let digest = Hash::of(&sealed);
        let mut pending = self.pending();
        if pending.sealed.len() + sealed.len() > PENDING_LIMIT {
            return Err(unavailable(
                "too many arguments wait to be written".to_owned(),
            ));
        }
        let slot = Slot::new(call, pending.sealed.len() as u64, sealed.len(), key);
        pending.sealed.extend_from_slice(&sealed);
        pending.slots.push(slot);
        Ok(digest)
    }

    /// Writes what is pending. After a failure it is pending again, and the next flush starts a new pair of files.
    pub(crate) fn flush(&self, disk: &dyn Disk, dir: &Path, next_seq: u64) -> io::Result<()> {
        let taken = {
            let mut pending = self.pending();
            if pending.slots.is_empty() {
                return Ok(());
            }
            let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *pending, std::mem::take(&mut *spare))
        };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.write(&mut open, &taken, disk, dir, next_seq) {
            *open = None;
            self.put_back(taken);
            return Err(error);
        }
        self.keep_buffers(taken);
        Ok(())
    }

    fn write(
        &self,
        open: &mut Option<Part>,
        taken: &Pending,
        disk: &dyn Disk,
        dir: &Path,
        next_seq: u64,
    ) -> io::Result<()> {
        if let Some(full) = open.take_if(|part| part.size >= self.part_bytes) {
            full.sync()?;
        }
        let part = match open {
            Some(part) => part,
            None => open.insert(Part::create(disk, dir, next_seq)?),
        };
        append_all(&*part.bodies, &taken.sealed)?;
        let mut keys = Vec::with_capacity(taken.slots.len() * slot::SLOT_BYTES);
        for slot in &taken.slots {
            slot.moved_by(part.size).write(&mut keys);
        }
        append_all(&*part.keys, &keys)?;
        part.size += taken.sealed.len() as u64;
        part.unsynced = true;
        Ok(())
    }

    fn keep_buffers(&self, mut written: Pending) {
        if written.sealed.capacity() <= SPARE_LIMIT {
            written.sealed.clear();
            written.slots.clear();
            *self.spare.lock().unwrap_or_else(PoisonError::into_inner) = written;
        }
    }

    fn put_back(&self, mut taken: Pending) {
        let mut pending = self.pending();
        let by = taken.sealed.len() as u64;
        taken.sealed.extend_from_slice(&pending.sealed);
        taken
            .slots
            .extend(pending.slots.iter().map(|slot| slot.moved_by(by)));
        *pending = taken;
    }

    /// Makes what was flushed survive a power cut. After a failure the files are not appended to again.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(part) = open.as_mut().filter(|part| part.unsynced) else {
            return Ok(());
        };
        part.unsynced = false;
        let result = part.sync();
        if result.is_err() {
            *open = None;
        }
        result
    }

    /// Destroys the keys of every body kept for `call`; returns how many there were.
    pub(crate) fn erase(&self, disk: &dyn Disk, dir: &Path, call: &str) -> io::Result<u64> {
        let mut erased = 0;
        let _turn = self
            .destroying
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for number in parts(disk, dir)? {
            let path = keys_path(dir, number);
            let keys = disk.read(&path)?;
            for at in slot::places_of(&keys, call) {
                disk.overwrite(&path, at + slot::KEY_AT, &slot::NO_KEY)?;
                erased += 1;
            }
        }
        Ok(erased)
    }
}

impl Part {
    /// A new pair, named after the record the ledger had reached, or one above the last pair.
    fn create(disk: &dyn Disk, dir: &Path, next_seq: u64) -> io::Result<Part> {
        disk.create_dir(&dir.join(BODIES))?;
        let above = parts(disk, dir)?
            .into_iter()
            .max()
            .map_or(0, |last| last + 1);
        let number = next_seq.max(above);
        let bodies = disk.open(&bodies_path(dir, number))?;
        let keys = disk.open(&keys_path(dir, number))?;
        disk.sync_dir(&dir.join(BODIES))?;
        Ok(Part {
            number,
            size: 0,
            bodies,
            keys,
            unsynced: false,
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.bodies.sync()?;
        self.keys.sync()
    }
}

/// The numbers of all pairs, in any order. One whose creation was interrupted counts too: its name is taken.
fn parts(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<u64>> {
    match disk.list(&dir.join(BODIES)) {
        Ok(names) => {
            let mut numbers: Vec<u64> = names.iter().filter_map(|name| part_number(name)).collect();
            numbers.sort_unstable();
            numbers.dedup();
            Ok(numbers)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Every pair by its number, in order, and what it takes on the disk.
pub(crate) fn sizes(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<(u64, u64)>> {
    let mut sizes = Vec::new();
    for number in parts(disk, dir)? {
        let mut total = 0;
        for path in [bodies_path(dir, number), keys_path(dir, number)] {
            total += match disk.size(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
                size => size?,
            };
        }
        sizes.push((number, total));
    }
    Ok(sizes)
}
