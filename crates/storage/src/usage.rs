//! How much of a volume is used, against what it may hold. Counted when the volume is attached, then kept along with every change.
//!
//! **Invariant: what is deleted is given back, and what failed was never taken.** Test `quotas_stay_true_whatever_is_written_and_deleted`.

use std::sync::{Mutex, PoisonError};

use crate::{ErrorKind, FileError, Stat};

/// Bytes on the disk, and files and directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Used {
    pub bytes: u64,
    pub files: u64,
}

impl Used {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            bytes: stat.allocated,
            files: 1,
        }
    }

    /// What a file of this length will take.
    pub(crate) fn expected(length: u64) -> Self {
        const BLOCK: u64 = 4096;
        Self {
            bytes: length.div_ceil(BLOCK).saturating_mul(BLOCK),
            files: 1,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Usage {
    used: Mutex<Used>,
    max_bytes: u64,
    max_files: u64,
}

/// Room that was taken before a change. Given back unless the change happened.
#[derive(Debug)]
#[must_use]
pub(crate) struct Reserved<'a> {
    usage: &'a Usage,
    taken: Used,
}

impl Usage {
    pub(crate) fn new(max_bytes: Option<u64>, max_files: Option<u64>) -> Self {
        Self {
            used: Mutex::default(),
            max_bytes: max_bytes.unwrap_or(u64::MAX),
            max_files: max_files.unwrap_or(u64::MAX),
        }
    }

    pub(crate) fn used(&self) -> Used {
        self.change(|used| *used)
    }

    pub(crate) fn set(&self, counted: Used) {
        self.change(|used| *used = counted);
    }

    /// Takes room for `wanted` in place of `instead`.
    pub(crate) fn reserve(&self, wanted: Used, instead: Used) -> Result<Reserved<'_>, FileError> {
        self.change(|used| {
            let bytes = used.bytes.saturating_sub(instead.bytes);
            let files = used.files.saturating_sub(instead.files);
            if bytes.saturating_add(wanted.bytes) > self.max_bytes {
                let available_bytes = self.max_bytes.saturating_sub(bytes);
                let kind = ErrorKind::QuotaExceeded {
                    requested_bytes: wanted.bytes,
                    available_bytes,
                };
                let says = format!(
                    "that takes {} bytes, and the volume has {available_bytes} left; delete something first",
                    wanted.bytes
                );
                return Err(FileError::new(kind, says));
            }
            if files.saturating_add(wanted.files) > self.max_files {
                let kind = ErrorKind::QuotaExceeded {
                    requested_bytes: wanted.bytes,
                    available_bytes: self.max_bytes.saturating_sub(bytes),
                };
                let says = format!("the volume may hold no more than {} files", self.max_files);
                return Err(FileError::new(kind, says));
            }
            used.bytes = used.bytes.saturating_add(wanted.bytes);
            used.files = used.files.saturating_add(wanted.files);
            Ok(Reserved {
                usage: self,
                taken: wanted,
            })
        })
    }

    pub(crate) fn release(&self, gone: Used) {
        self.change(|used| {
            used.bytes = used.bytes.saturating_sub(gone.bytes);
            used.files = used.files.saturating_sub(gone.files);
        });
    }

    fn change<T>(&self, change: impl FnOnce(&mut Used) -> T) -> T {
        change(&mut self.used.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Reserved<'_> {
    /// It happened, and takes this much.
    pub(crate) fn settle(mut self, now: Used) {
        let taken = std::mem::take(&mut self.taken);
        self.usage.release(taken);
        self.usage.change(|used| {
            used.bytes = used.bytes.saturating_add(now.bytes);
            used.files = used.files.saturating_add(now.files);
        });
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.usage.release(self.taken);
    }
}
