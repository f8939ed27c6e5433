//! What a file is: its kind, its identity, its version.

use std::{fmt, os::fd::AsFd};

use rustix::fs::{AtFlags, FileType, Statx, StatxFlags, StatxTimestamp, statx};

use crate::FileError;

/// Which file it is, whatever it is called. Systems give the number of a deleted file to the next one at once, so the moment of birth
/// belongs to it; zero on disks that do not keep that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    pub inode: u64,
    pub birth: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    Link,
    /// A pipe, a socket or a device: shown, and never opened.
    Special(&'static str),
}

impl Kind {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Link => "link",
            Self::Special(what) => what,
        }
    }

    fn of(mode: u16) -> Self {
        match FileType::from_raw_mode(mode.into()) {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Link,
            FileType::Fifo => Self::Special("pipe"),
            FileType::Socket => Self::Special("socket"),
            FileType::BlockDevice | FileType::CharacterDevice => Self::Special("device"),
            FileType::Unknown => Self::Special("unknown"),
        }
    }
}

/// A state of a file. Whoever bases a change on one learns when it is no longer the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version(u64);

impl Version {
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == 16)
            .then(|| u64::from_str_radix(text, 16).ok())
            .flatten()
            .map(Self)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What the system says of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    pub id: FileId,
    pub kind: Kind,
    pub size: u64,
    /// What it takes up on the disk.
    pub allocated: u64,
    pub names: u32,
    pub mode: u16,
    pub modified_ns: u64,
    pub changed_ns: u64,
    pub(crate) device: u64,
}

impl Stat {
    /// The file of a handle, if it has no name any more. One that has a second name, or that another hand moved before its name was
    /// taken, is still there and keeps its label.
    pub(crate) fn gone(handle: impl AsFd) -> Option<FileId> {
        let now = Self::of(handle).ok()?;
        (now.names == 0).then_some(now.id)
    }

    pub(crate) fn of(handle: impl AsFd) -> Result<Self, FileError> {
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let found = statx(handle, "", AtFlags::EMPTY_PATH, wanted)
            .map_err(|error| FileError::broken("a file could not be looked at", error))?;
        Ok(Self::new(&found))
    }

    fn new(found: &Statx) -> Self {
        let has_birth = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
        let birth = if has_birth { nanos(found.stx_btime) } else { 0 };
        Self {
            id: FileId {
                inode: found.stx_ino,
                birth,
            },
            kind: Kind::of(found.stx_mode),
            size: found.stx_size,
            allocated: found.stx_blocks.saturating_mul(512),
            names: found.stx_nlink,
            mode: found.stx_mode & 0o7777,
            modified_ns: nanos(found.stx_mtime),
            changed_ns: nanos(found.stx_ctime),
            device: u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor),
        }
    }

    /// The state it is in.
    #[must_use]
    pub fn version(&self) -> Version {
        let mut hasher = blake3::Hasher::new();
        for part in [
            self.id.inode,
            self.id.birth,
            self.size,
            self.modified_ns,
            self.changed_ns,
        ] {
            hasher.update(&part.to_le_bytes());
        }
        let mut first = [0; 8];
        hasher.finalize_xof().fill(&mut first);
        Version(u64::from_le_bytes(first))
    }

    /// Whether it is the same file with the same content, as far as the system says. Giving a file another name changes its version and
    /// not this.
    pub(crate) fn has_content_of(&self, other: &Self) -> bool {
        (self.id, self.size, self.modified_ns) == (other.id, other.size, other.modified_ns)
    }

    pub(crate) const fn is_directory(&self) -> bool {
        matches!(self.kind, Kind::Directory)
    }
}

/// Nanoseconds since 1970; before that, zero.
fn nanos(time: StatxTimestamp) -> u64 {
    u64::try_from(time.tv_sec)
        .unwrap_or(0)
        .saturating_mul(1_000_000_000)
        .saturating_add(time.tv_nsec.into())
}
