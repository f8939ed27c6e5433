//! Directories by their handles: what is in them, counting it, and removing it.

use std::{
    ffi::{OsStr, OsString},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
};

use rustix::{
    fs::{AtFlags, Dir, Mode, OFlags, unlinkat},
    io::Errno,
};

use crate::{
    FileError, FileId, Stat, Volume, VolumePath,
    beneath::{Found, Root},
    path::is_own,
    usage::Used,
};

/// Deeper than this nobody meant to go.
pub(crate) const MAX_DEPTH: usize = 128;

/// The names in a directory, the gate's own included, in no order.
pub(crate) fn names(root: &Root, directory: BorrowedFd<'_>) -> Result<Vec<OsString>, FileError> {
    let failed = |error| FileError::broken("a directory could not be read", error);
    let open = readable(root, directory).map_err(failed)?;
    let mut names = Vec::new();
    for entry in Dir::new(open).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name.to_vec()));
        }
    }
    Ok(names)
}

/// The same directory, open for reading and syncing.
pub(crate) fn readable(root: &Root, directory: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    root.open_name(directory, OsStr::new("."), flags, Mode::empty())
}

/// What was removed.
#[derive(Debug, Default)]
pub(crate) struct Removed {
    pub(crate) used: Used,
    pub(crate) ids: Vec<FileId>,
}

impl Removed {
    fn note(&mut self, stat: &Stat) {
        let used = Used::of(stat);
        self.used.bytes = self.used.bytes.saturating_add(used.bytes);
        self.used.files = self.used.files.saturating_add(used.files);
        self.ids.extend(stat.gone());
    }
}

impl Volume {
    pub(crate) fn find_root(&self) -> Result<Found, FileError> {
        self.root.find(&VolumePath::default(), true, &mut |_| ())
    }

    /// Counts everything anew. What bears a name of the gate's own was left by one that was killed, and goes if `sweeps`.
    pub(crate) fn recount(&self, sweeps: bool) -> Result<(), FileError> {
        let found = self.find_root()?;
        let mut used = Used::default();
        self.count(found.parent().handle.as_fd(), sweeps, 0, &mut used)?;
        self.usage.set(used);
        Ok(())
    }

    fn count(
        &self,
        directory: BorrowedFd<'_>,
        sweeps: bool,
        depth: usize,
        used: &mut Used,
    ) -> Result<(), FileError> {
        for name in names(&self.root, directory)? {
            if is_own(name.as_bytes()) && sweeps {
                self.remove(directory, &name, 0, &mut Removed::default())?;
                continue;
            }
            // What is mounted there, or went meanwhile, is not the volume's.
            let Ok(Some((handle, stat))) = self.root.look(directory, &name) else {
                continue;
            };
            let own = Used::of(&stat);
            used.bytes = used.bytes.saturating_add(own.bytes);
            used.files = used.files.saturating_add(own.files);
            if stat.is_directory() && depth < MAX_DEPTH {
                self.count(handle.as_fd(), sweeps, depth + 1, used)?;
            }
        }
        Ok(())
    }

    /// Removes a name and everything beneath it. Links are removed, never followed.
    pub(crate) fn remove(
        &self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        depth: usize,
        removed: &mut Removed,
    ) -> Result<(), FileError> {
        let failed = |error| FileError::broken("something could not be deleted", error);
        let Some((handle, stat)) = self.root.look(directory, name)? else {
            return Ok(());
        };
        let flags = if stat.is_directory() {
            if depth >= MAX_DEPTH {
                return Err(failed(Errno::NAMETOOLONG));
            }
            for inner in names(&self.root, handle.as_fd())? {
                self.remove(handle.as_fd(), &inner, depth + 1, removed)?;
            }
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        match unlinkat(directory, name, flags) {
            Ok(()) => removed.note(&stat),
            Err(Errno::NOENT) => {}
            Err(error) => return Err(failed(error)),
        }
        Ok(())
    }
}
