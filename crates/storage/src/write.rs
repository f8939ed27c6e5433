//! Operations that change a volume: write, create, create a directory, delete, move, copy.

use std::{ffi::OsStr, io::Read, os::fd::AsFd};

use rustix::{
    fs::{AtFlags, Mode, RenameFlags, mkdirat, renameat_with, unlinkat},
    io::Errno,
};
use vocab::Label;

use crate::{
    Access, ErrorKind, FileError, Labelled, RowId, Stat, Version, Volume, VolumePath,
    beneath::{Found, Last},
    dirs::{self, Removed},
    path::{check_depth, is_own},
    replace::{Base, Change, Replaced, changed, io},
    survey::{Survey, beneath},
    usage::Used,
};

/// The longest content that is held in memory: what is written, edited or copied.
pub const MAX_HELD: u64 = 32 << 20;

/// How a file is written.
#[derive(Debug, Clone, Copy, Default)]
pub struct WriteOptions {
    /// Only if the file is still in this state.
    pub if_version: Option<Version>,
    /// Only if there is no file.
    pub create_only: bool,
    pub executable: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    pub bytes_written: u64,
    pub created: bool,
    pub version: Version,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct DeleteOptions {
    pub recursive: bool,
    pub if_version: Option<Version>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deleted {
    /// Files and directories that are gone.
    pub entries: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct MoveOptions {
    pub overwrite: bool,
    pub if_version: Option<Version>,
}

impl Volume {
    /// Writes a whole file, and makes the directories above it that are missing.
    pub fn write(
        &self,
        access: Access<'_>,
        path: &VolumePath,
        content: &[u8],
        options: WriteOptions,
    ) -> Labelled<Written> {
        self.labelled(|seen| {
            self.check_writable()?;
            check_length(content.len())?;
            let _lock = self.lock(path);
            let found = self.find(access, path, true, seen)?;
            let old = match (&found.last, options.create_only) {
                (Last::Entry { .. }, false) => Some(*found.file(path)?.1),
                _ => None,
            };
            if let Some(wanted) = options.if_version {
                let now = old.as_ref().ok_or_else(|| changed(path, None))?;
                check_version(path, now, wanted)?;
            }
            let base = match (&old, options.create_only) {
                (_, true) => Base::Nothing,
                (Some(old), _) if options.if_version.is_some() => Base::State(old),
                _ => Base::Anything,
            };
            let change = Change {
                content,
                label: access.label,
                base,
                executable: options.executable,
            };
            let found = self.with_parents(access, path, found)?;
            let Replaced { stat, created } = match (&found.last, options.create_only) {
                (Last::Entry { .. } | Last::Directory, true) => return Err(is_there(path)),
                _ => self.put(path, &found, change)?,
            };
            Ok(Written {
                bytes_written: stat.size,
                created,
                version: stat.version(),
            })
        })
    }

    /// Makes a directory and those above it that are missing. Whether it was made; one that is there already is fine.
    pub fn create_dir(&self, access: Access<'_>, path: &VolumePath) -> Labelled<bool> {
        self.labelled(|seen| {
            self.check_writable()?;
            let found = self.find(access, path, true, seen)?;
            match &found.last {
                Last::Directory => Ok(false),
                Last::Entry { stat, .. } => {
                    let says = format!("`{path}` is there already and is a {}", stat.kind.as_str());
                    Err(FileError::new(ErrorKind::AlreadyExists, says))
                }
                Last::Missing(names) => {
                    let names = names.clone();
                    self.make_dirs(access, path, found, &names)?;
                    Ok(true)
                }
            }
        })
    }

    /// Deletes a file, a link or a directory. A directory with something in it only if `recursive`.
    pub fn delete(
        &self,
        access: Access<'_>,
        path: &VolumePath,
        options: DeleteOptions,
    ) -> Labelled<Deleted> {
        self.labelled(|seen| {
            self.check_writable()?;
            self.check_ceiling(access.label)?;
            let _lock = self.lock(path);
            let found = self.find(access, path, false, seen)?;
            let (parent, name, stat) = match &found.last {
                Last::Missing(_) => return Err(FileError::not_found(path)),
                Last::Entry { name, stat } => (found.parent(), name.as_str(), *stat),
                Last::Directory => {
                    let here = found.parent();
                    let Some(above) = found.above() else {
                        let says = "a volume's root cannot be deleted".to_owned();
                        return Err(FileError::new(ErrorKind::Invalid, says));
                    };
                    let inside = dirs::names(&self.root, here.handle.as_fd())?;
                    let entries = inside.iter().filter(|name| !is_own(name.as_encoded_bytes())).count();
                    // Even to say that it is empty tells of the names in it.
                    self.labels.join_of(RowId::names(here.stat.id), seen);
                    if entries > 0 && !options.recursive {
                        let says = format!(
                            "`{path}` is a directory with {entries} entries; set `recursive` to delete them too"
                        );
                        return Err(FileError::new(ErrorKind::NotEmpty, says));
                    }
                    let real = found.path();
                    let may = |names: &[String]| (access.may)(&beneath(&real, names));
                    Survey::run(self, path, (here.handle.as_fd(), &here.stat), &may, seen)?;
                    (above, here.name(), here.stat)
                }
            };
            if let Some(wanted) = options.if_version {
                check_version(path, &stat, wanted)?;
            }
            self.labels.raise(RowId::names(parent.stat.id), access.label)?;
            let directory = parent.handle.as_fd();
            // Gone in one step; what follows only frees the disk.
            let own = self.own_name();
            renameat_with(directory, name, directory, &own, RenameFlags::NOREPLACE).map_err(
                |error| match error {
                    Errno::NOENT => FileError::not_found(path),
                    error => FileError::broken("it could not be deleted", error),
                },
            )?;
            if options.if_version.is_some() {
                self.check_still(directory, (&own, name), &stat, path)?;
            }
            self.sync(directory)?;
            let mut removed = Removed::default();
            let done = self.remove(directory, OsStr::new(&own), &mut removed);
            self.usage.release(removed.used);
            self.forget(&removed.ids);
            done?;
            Ok(Deleted {
                entries: removed.used.files,
            })
        })
    }

    /// What was taken away is what was looked at; if not, it gets its name back.
    fn check_still(
        &self,
        directory: std::os::fd::BorrowedFd<'_>,
        (own, name): (&str, &str),
        stat: &Stat,
        path: &VolumePath,
    ) -> Result<(), FileError> {
        let now = self.root.look(directory, OsStr::new(own))?;
        if now
            .as_ref()
            .is_some_and(|(_, now)| now.has_content_of(stat))
        {
            return Ok(());
        }
        renameat_with(directory, own, directory, name, RenameFlags::NOREPLACE)
            .map_err(|error| FileError::broken("a deletion could not be taken back", error))?;
        Err(changed(path, now.as_ref().map(|(_, now)| now)))
    }

    /// Gives a file or directory another place in the volume. Its label goes with it.
    pub fn rename(
        &self,
        access: Access<'_>,
        from: &VolumePath,
        to: &VolumePath,
        options: MoveOptions,
    ) -> Labelled<Version> {
        self.labelled(|seen| {
            self.check_writable()?;
            self.check_ceiling(access.label)?;
            if from.covers(to) {
                let says =
                    format!("`{from}` cannot be moved to `{to}`, which is itself or inside it");
                return Err(FileError::new(ErrorKind::Invalid, says));
            }
            let source = self.find(access, from, false, seen)?;
            let (parent, name, stat) = match &source.last {
                Last::Missing(_) => return Err(FileError::not_found(from)),
                Last::Entry { name, stat } => (source.parent(), name.clone(), *stat),
                Last::Directory => {
                    let above = source.above().ok_or_else(|| FileError::not_found(from))?;
                    (
                        above,
                        source.parent().name().to_owned(),
                        source.parent().stat,
                    )
                }
            };
            if let Some(wanted) = options.if_version {
                check_version(from, &stat, wanted)?;
            }
            // That it was there is what the way to it told; its new place tells so now.
            let label = seen.clone().join(access.label);
            let writer = Access {
                label: &label,
                ..access
            };
            let target = self.find(access, to, false, seen)?;
            if let Last::Directory = &source.last {
                let (out, into) = (source.path(), target.path());
                let may = |names: &[String]| {
                    (access.may)(&beneath(&out, names)) && (access.may)(&beneath(&into, names))
                };
                let moved = source.parent();
                let moved = (moved.handle.as_fd(), &moved.stat);
                let deepest = Survey::run(self, from, moved, &may, seen)?;
                check_depth(into.names().len() + deepest)?;
            }
            let target = self.with_parents(writer, to, target)?;
            let (new_name, old) = match &target.last {
                Last::Missing(names) => (names.last().cloned().unwrap_or_default(), None),
                Last::Entry { name, stat } if options.overwrite => (name.clone(), Some(*stat)),
                Last::Entry { .. } | Last::Directory => {
                    let says =
                        format!("`{to}` is there already; set `overwrite` to replace a file");
                    return Err(FileError::new(ErrorKind::AlreadyExists, says));
                }
            };
            let (out, into) = (parent.handle.as_fd(), target.parent().handle.as_fd());
            self.labels
                .raise(RowId::names(parent.stat.id), access.label)?;
            self.labels
                .raise(RowId::names(target.parent().stat.id), &label)?;
            self.labels.raise(RowId::own(stat.id), &label)?;
            let flags = if old.is_some() {
                RenameFlags::empty()
            } else {
                RenameFlags::NOREPLACE
            };
            let before = match old {
                Some(_) => self.root.look(into, OsStr::new(&new_name))?,
                None => None,
            };
            renameat_with(out, &name, into, &new_name, flags).map_err(|error| match error {
                Errno::NOENT => FileError::not_found(from),
                Errno::EXIST | Errno::NOTEMPTY => is_there(to),
                error => FileError::broken("it could not be moved", error),
            })?;
            self.sync(into)?;
            self.sync(out)?;
            if let Some((handle, old)) = before {
                self.usage.release(Used::of(&old));
                self.forget(Stat::gone(&handle).as_slice());
            }
            let now = self.root.look(into, OsStr::new(&new_name))?;
            Ok(now.map_or(stat, |(_, now)| now).version())
        })
    }

    /// Copies a file. The copy has the label of the content and of who copied it.
    pub fn copy(
        &self,
        access: Access<'_>,
        from: &VolumePath,
        to: &VolumePath,
        overwrite: bool,
    ) -> Labelled<Written> {
        let (content, label) = match self.content(access, from) {
            Labelled {
                result: Ok(content),
                label,
            } => (content, label),
            Labelled {
                result: Err(error),
                label,
            } => {
                return Labelled {
                    result: Err(error),
                    label,
                };
            }
        };
        let writer = label.clone().join(access.label);
        let access = Access {
            label: &writer,
            ..access
        };
        let options = WriteOptions {
            create_only: !overwrite,
            ..WriteOptions::default()
        };
        let mut written = self.write(access, to, &content, options);
        written.label.join_in(&label);
        written
    }

    /// Raises the label of a file or directory, and gives back what it is then.
    pub fn raise(&self, access: Access<'_>, path: &VolumePath, label: &Label) -> Labelled<Label> {
        self.labelled(|seen| {
            self.check_ceiling(label)?;
            let found = self.find(access, path, true, seen)?;
            let id = match &found.last {
                Last::Missing(_) => return Err(FileError::not_found(path)),
                Last::Entry { stat, .. } => stat.id,
                Last::Directory => found.parent().stat.id,
            };
            self.labels.raise(RowId::own(id), label)?;
            Ok(self.labels.of(id))
        })
    }

    /// The whole of a file, as long as it can be held.
    pub fn content(&self, access: Access<'_>, path: &VolumePath) -> Labelled<Vec<u8>> {
        self.labelled(|seen| self.read_whole(access, path, seen))
    }

    fn read_whole(
        &self,
        access: Access<'_>,
        path: &VolumePath,
        seen: &mut Label,
    ) -> Result<Vec<u8>, FileError> {
        let opened = self.open(access, path, seen)?;
        check_length(usize::try_from(opened.stat.size).unwrap_or(usize::MAX))?;
        let mut content = Vec::new();
        opened
            .file
            .take(MAX_HELD + 1)
            .read_to_end(&mut content)
            .map_err(io)?;
        check_length(content.len())?;
        Ok(content)
    }

    /// The same way, with all directories there but for the last name.
    fn with_parents(
        &self,
        access: Access<'_>,
        path: &VolumePath,
        found: Found,
    ) -> Result<Found, FileError> {
        let Last::Missing(names) = &found.last else {
            return Ok(found);
        };
        let Some((_, parents)) = names
            .split_last()
            .filter(|(_, parents)| !parents.is_empty())
        else {
            return Ok(found);
        };
        let (parents, real) = (parents.to_vec(), found.path());
        self.make_dirs(access, path, found, &parents)?;
        self.root.find(&real, false, &mut |_| ())
    }

    /// Makes directories one in the other. What others made meanwhile is as good.
    fn make_dirs(
        &self,
        access: Access<'_>,
        path: &VolumePath,
        found: Found,
        names: &[String],
    ) -> Result<(), FileError> {
        self.check_ceiling(access.label)?;
        let mut at = found.path().names().to_vec();
        // A link may have led deeper than the path is.
        check_depth(at.len())?;
        let missing = match &found.last {
            Last::Missing(missing) => missing.len(),
            _ => 0,
        };
        at.truncate(at.len().saturating_sub(missing));
        let mut here = found;
        let failed = |error| FileError::broken("a directory could not be made", error);
        for name in names {
            let parent = here.parent();
            let reserved = self.usage.reserve(Used::expected(0), Used::default())?;
            self.labels
                .raise(RowId::names(parent.stat.id), access.label)?;
            // Made beside its place, so that its label is kept before it can be seen.
            let own = self.own_name();
            mkdirat(&parent.handle, &own, Mode::from_raw_mode(0o777)).map_err(failed)?;
            let directory = parent.handle.as_fd();
            let new = self.root.look(directory, OsStr::new(&own))?;
            let (handle, new) = new.ok_or_else(|| failed(Errno::NOENT))?;
            self.labels.give(RowId::own(new.id), access.label)?;
            match renameat_with(directory, &own, directory, name, RenameFlags::NOREPLACE) {
                Ok(()) => reserved.settle(Used::of(&new)),
                Err(error) => {
                    let _swept_at_the_next_attach = unlinkat(directory, &own, AtFlags::REMOVEDIR);
                    self.forget(Stat::gone(&handle).as_slice());
                    if error != Errno::EXIST {
                        return Err(failed(error));
                    }
                }
            }
            self.sync(directory)?;
            at.push(name.clone());
            here = self
                .root
                .find(&VolumePath::of_found(at.clone()), false, &mut |_| ())?;
            here.directory(path)?;
        }
        Ok(())
    }
}

pub(crate) fn check_version(
    path: &VolumePath,
    now: &Stat,
    wanted: Version,
) -> Result<(), FileError> {
    if now.version() == wanted {
        return Ok(());
    }
    Err(changed(path, Some(now)))
}

fn check_length(length: usize) -> Result<(), FileError> {
    if u64::try_from(length).is_ok_and(|length| length <= MAX_HELD) {
        return Ok(());
    }
    let says = format!("{length} bytes are more than the {MAX_HELD} that one operation takes");
    Err(FileError::new(ErrorKind::TooLarge, says))
}

fn is_there(path: &VolumePath) -> FileError {
    FileError::new(
        ErrorKind::AlreadyExists,
        format!("`{path}` is there already; write it with fs.write, or change it with fs.edit"),
    )
}
