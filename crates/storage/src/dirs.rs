//! Directories by their handles: what is in them, counting it, and removing it.

use std::{
    ffi::{OsStr, OsString},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
};

use rustix::{
    fs::{AtFlags, Dir, Mode, OFlags, RenameFlags, renameat_with, unlinkat},
    io::Errno,
};

use crate::{
    ErrorKind, FileError, FileId, Stat, Volume, VolumePath,
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
    /// Directories that were too deep, and wait at the top for their turn.
    deep: Vec<OsString>,
}

/// What was counted.
#[derive(Debug, Default)]
struct Counted {
    used: Used,
    /// Why something was not looked at.
    unseen: Option<FileError>,
}

impl Removed {
    fn note(&mut self, handle: &OwnedFd, stat: &Stat) {
        let used = Used::of(stat);
        self.used.bytes = self.used.bytes.saturating_add(used.bytes);
        self.used.files = self.used.files.saturating_add(used.files);
        self.ids.extend(Stat::gone(handle));
    }
}

impl Volume {
    pub(crate) fn find_root(&self) -> Result<Found, FileError> {
        self.root.find(&VolumePath::default(), true, &mut |_| ())
    }

    /// Counts everything anew. Fails where something cannot be looked at, and then what was counted before stands.
    pub(crate) fn recount(&self) -> Result<(), FileError> {
        let counted = self.counted(false)?;
        match counted.unseen {
            Some(error) => Err(error),
            None => {
                self.usage.set(counted.used);
                Ok(())
            }
        }
    }

    /// Counts what can be looked at, for the first time. What bears a name of the gate's own was left by one that was killed, and goes if
    /// `sweeps`.
    pub(crate) fn count_first(&self, sweeps: bool) -> Result<(), FileError> {
        self.usage.set(self.counted(sweeps)?.used);
        Ok(())
    }

    fn counted(&self, sweeps: bool) -> Result<Counted, FileError> {
        let found = self.find_root()?;
        let top = found.parent().handle.as_fd();
        let mut counted = Counted::default();
        let inner = names(&self.root, top)?;
        self.count(top, inner, sweeps, 0, &mut counted);
        Ok(counted)
    }

    fn count(
        &self,
        directory: BorrowedFd<'_>,
        inner: Vec<OsString>,
        sweeps: bool,
        depth: usize,
        counted: &mut Counted,
    ) {
        for name in inner {
            // What cannot be removed counts, and is tried again at the next attach.
            let is_left = is_own(name.as_bytes()) && sweeps;
            if is_left
                && self
                    .remove(directory, &name, &mut Removed::default())
                    .is_ok()
            {
                continue;
            }
            let (handle, stat) = match self.root.look(directory, &name) {
                Ok(Some(found)) => found,
                // What is mounted there, or went meanwhile, is not the volume's.
                Ok(None) => continue,
                Err(error) if error.kind == ErrorKind::Traversal => continue,
                Err(error) => {
                    counted.unseen = Some(error);
                    continue;
                }
            };
            let own = Used::of(&stat);
            counted.used.bytes = counted.used.bytes.saturating_add(own.bytes);
            counted.used.files = counted.used.files.saturating_add(own.files);
            if !stat.is_directory() {
                continue;
            }
            if depth >= MAX_DEPTH {
                let says = "directories lie too deep in one another to be counted";
                counted.unseen = Some(FileError::new(ErrorKind::TooLarge, says));
                continue;
            }
            match names(&self.root, handle.as_fd()) {
                Ok(inner) => self.count(handle.as_fd(), inner, sweeps, depth + 1, counted),
                // Whoever removes directories meanwhile hides nothing.
                Err(_) if matches!(self.root.look(directory, &name), Ok(None)) => {}
                Err(error) => counted.unseen = Some(error),
            }
        }
    }

    /// Removes a name and everything beneath it, however deep. Links are removed, never followed.
    pub(crate) fn remove(
        &self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        removed: &mut Removed,
    ) -> Result<(), FileError> {
        self.remove_one(directory, (directory, name), 0, removed)?;
        while let Some(name) = removed.deep.pop() {
            self.remove_one(directory, (directory, name.as_os_str()), 0, removed)?;
        }
        Ok(())
    }

    fn remove_one(
        &self,
        top: BorrowedFd<'_>,
        (directory, name): (BorrowedFd<'_>, &OsStr),
        depth: usize,
        removed: &mut Removed,
    ) -> Result<(), FileError> {
        let failed = |error| FileError::broken("something could not be deleted", error);
        let Some((handle, stat)) = self.root.look(directory, name)? else {
            return Ok(());
        };
        let flags = if stat.is_directory() {
            if depth >= MAX_DEPTH {
                let own = self.own_name();
                renameat_with(directory, name, top, &own, RenameFlags::NOREPLACE)
                    .map_err(failed)?;
                removed.deep.push(own.into());
                return Ok(());
            }
            for inner in names(&self.root, handle.as_fd())? {
                self.remove_one(top, (handle.as_fd(), inner.as_os_str()), depth + 1, removed)?;
            }
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        match unlinkat(directory, name, flags) {
            Ok(()) => removed.note(&handle, &stat),
            Err(Errno::NOENT) => {}
            Err(error) => return Err(failed(error)),
        }
        Ok(())
    }
}
