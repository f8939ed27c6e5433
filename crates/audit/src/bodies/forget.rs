//! Bodies of calls whose records retention removes go with them.
//!
//! A pair of files that holds nothing else is removed; in one that does, the keys are destroyed. Both can be done again: an interrupted
//! retention is finished by the next.

use super::slot::{BODIES, KEY_AT, NO_KEY, SLOT_BYTES, bodies_path, keys_path, slots};
use super::{Bodies, parts};
use crate::disk::Disk;
use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::PoisonError;

impl Bodies {
    /// Forgets the bodies of the calls with these tags. Only pairs that were begun before record `first_kept` can hold one.
    pub(crate) fn forget(
        &self,
        disk: &dyn Disk,
        dir: &Path,
        gone: &HashSet<[u8; 16]>,
        first_kept: u64,
    ) -> io::Result<()> {
        let _turn = self
            .destroying
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let open = self
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .map(|part| part.number);
        let mut removed = false;
        for number in parts(disk, dir)?
            .into_iter()
            .filter(|number| *number < first_kept)
        {
            let path = keys_path(dir, number);
            let mut keys = match disk.read(&path) {
                // Removing this pair was interrupted between its two files, or making it was.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
                keys => keys?,
            };
            if Some(number) != open && slots(&keys).all(|slot| gone.contains(&slot.tag)) {
                remove_pair(disk, dir, number)?;
                removed = true;
            } else if destroy(&mut keys, gone) {
                // Only what was read is written, so what is appended meanwhile is safe.
                disk.overwrite(&path, 0, &keys)?;
            }
        }
        if removed {
            disk.sync_dir(&dir.join(BODIES))
        } else {
            Ok(())
        }
    }
}

/// The keys first: without them the bodies are nothing.
fn remove_pair(disk: &dyn Disk, dir: &Path, number: u64) -> io::Result<()> {
    for path in [keys_path(dir, number), bodies_path(dir, number)] {
        match disk.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Blanks the keys of `gone` in the bytes of a key file; whether there were any.
fn destroy(keys: &mut [u8], gone: &HashSet<[u8; 16]>) -> bool {
    let mut destroyed = false;
    for slot in keys.chunks_exact_mut(SLOT_BYTES) {
        let is_gone = slot.first_chunk().is_some_and(|tag| gone.contains(tag));
        let key = slot.get_mut(KEY_AT as usize..).unwrap_or_default();
        if is_gone && *key != NO_KEY {
            key.fill(0);
            destroyed = true;
        }
    }
    destroyed
}
