//! The disk as the ledger needs it: a directory of append-only files and one lock.
//!
//! A trait, so that tests can fill it up, tear it and take it away. It must never hide an error or retry one.

use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// The file that is locked while a process has the ledger; it says which one.
pub(crate) const LOCK: &str = "lock";

/// Held for as long as the ledger is open.
pub type Lock = Box<dyn fmt::Debug + Send + Sync>;

pub trait Disk: fmt::Debug + Send + Sync {
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// Takes the directory for this process; `WouldBlock` if another one has it.
    fn lock(&self, dir: &Path) -> io::Result<Lock>;
    /// The file names in `dir`, in any order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// Opens for appending, creating the file if it is not there.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn SegmentFile>>;
    /// Writes over bytes in the middle of a file and syncs it.
    fn overwrite(&self, path: &Path, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// Puts a file with these bytes in the place of what was there, as a whole and durably. Only its owner may read it.
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// How many bytes a file has.
    fn size(&self, path: &Path) -> io::Result<u64>;
    /// Removes a file. Its absence is durable when the directory was synced.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes created and removed names durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

pub trait SegmentFile: fmt::Debug + Send + Sync {
    /// One write at the end of the file; may take less than all of `bytes`.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;
    fn sync(&self) -> io::Result<()>;
    fn truncate(&self, len: u64) -> io::Result<()>;
}

/// The operating system's files.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)
    }

    fn lock(&self, dir: &Path) -> io::Result<Lock> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(dir.join(LOCK))?;
        match file.try_lock() {
            Ok(()) => {
                // For whoever finds it taken. The lock holds without it, so a full disk does not matter here.
                let _ = file
                    .set_len(0)
                    .and_then(|()| file.write_all_at(std::process::id().to_string().as_bytes(), 0));
                Ok(Box::new(Held(file)))
            }
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        std::fs::read_dir(dir)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn SegmentFile>> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(path)?;
        Ok(Arc::new(RealFile(file)))
    }

    fn overwrite(&self, path: &Path, at: u64, bytes: &[u8]) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(path)?;
        file.write_all_at(bytes, at)?;
        file.sync_data()
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let new = path.with_added_extension("new");
        let mut file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        std::fs::rename(&new, path)?;
        path.parent().map_or(Ok(()), |dir| self.sync_dir(dir))
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        Ok(std::fs::metadata(path)?.len())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }
}

/// Unlocks when dropped. Closing alone does that only when the last copy of the descriptor is closed, and a process that is
/// being started just then holds one until it becomes its program.
#[derive(Debug)]
struct Held(File);

impl Drop for Held {
    fn drop(&mut self) {
        // Closing follows, so there is nothing to do about an error.
        let _ = self.0.set_len(0);
        let _ = self.0.unlock();
    }
}

#[derive(Debug)]
struct RealFile(File);

impl SegmentFile for RealFile {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        (&self.0).write(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
}
