//! What a mounted volume needs: places looked at one by one, and parts of files read and written where they are.
//!
//! Tools replace files; who mounted a volume writes into them, at an offset, so a file keeps its identity. Whoever reads it through a tool
//! meanwhile may see half of what is written: that is what a mount is. A place is a path and which file is meant there; if another one
//! has the name by now, nothing happens.
//!
//! **Invariant: the label of a file covers what is written into it before the first byte is.** Test
//! `a_part_is_written_only_under_a_label_that_covers_it`.

use std::{
    ffi::OsStr,
    fs::File,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::{ffi::OsStrExt, fs::FileExt},
    },
};

use rustix::{
    fs::{
        AtFlags, Mode, OFlags, RenameFlags, Timespec, Timestamps, UTIME_OMIT, fchmod, futimens,
        readlinkat, renameat_with, symlinkat, unlinkat,
    },
    io::Errno,
};
use vocab::Label;

use crate::{
    Access, ErrorKind, FileError, FileId, Kind, Labelled, RowId, Stat, Volume, VolumePath,
    beneath::Last,
    dirs::{self, MAX_DEPTH},
    path::is_own,
    replace::{io, read_at},
    usage::Used,
};

/// The most entries whose places are found out at once.
const MOST: usize = 1_000_000;
/// The longest file, which may have holes: what every disk can address.
pub const LONGEST: u64 = 1 << 43;
/// The longest text of a link.
pub const LONGEST_LINK: usize = 4096;
const BLOCK: u64 = 4096;

/// Which file at which place.
#[derive(Debug, Clone, Copy)]
pub struct Spot<'a> {
    pub path: &'a VolumePath,
    pub id: FileId,
}

/// One name of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    pub stat: Stat,
    /// Whether whoever asked has seen as much already, so that the state tells nothing new.
    pub is_within: bool,
}

/// What is to become of a file besides its content.
#[derive(Debug, Clone, Copy, Default)]
pub struct Adjustment {
    pub size: Option<u64>,
    pub executable: Option<bool>,
    /// Nanoseconds since 1970.
    pub modified_ns: Option<u64>,
}

/// What lies where: itself, the directory that it is in, its name there.
pub type Lies = (FileId, FileId, String);

impl Volume {
    /// The root as everything else is known.
    #[must_use]
    pub const fn root_id(&self) -> FileId {
        self.root.stat.id
    }

    /// What is at a place. A link is not followed.
    pub fn node(&self, access: Access<'_>, path: &VolumePath) -> Labelled<Stat> {
        self.labelled(|seen| {
            let found = self.find(access, path, false, seen)?;
            match &found.last {
                Last::Missing(_) => Err(FileError::not_found(path)),
                Last::Entry { stat, .. } => Ok(*stat),
                Last::Directory => Ok(found.parent().stat),
            }
        })
    }

    /// Everything in a directory that a path can name and the caller may use, in no order.
    pub fn nodes(&self, access: Access<'_>, path: &VolumePath) -> Labelled<Vec<Node>> {
        self.labelled(|seen| {
            let found = self.find(access, path, false, seen)?;
            let directory = found.directory(path)?;
            self.labels.join_of(RowId::names(directory.stat.id), seen);
            let handle = directory.handle.as_fd();
            let mut nodes = Vec::new();
            for name in dirs::names(&self.root, handle)? {
                let Some(text) = name.to_str() else { continue };
                let mut names = path.names().to_vec();
                names.push(text.to_owned());
                let Ok(inner) = VolumePath::from_names(names) else {
                    continue;
                };
                if !(access.may)(&inner) {
                    continue;
                }
                if let Ok(Some((_, stat))) = self.root.look(handle, &name) {
                    let is_within = access.label.includes(&self.labels.of(stat.id));
                    let name = text.to_owned();
                    nodes.push(Node {
                        name,
                        stat,
                        is_within,
                    });
                }
            }
            Ok(nodes)
        })
    }

    /// A part of a file, and the state it was read in.
    pub fn read_part(
        &self,
        access: Access<'_>,
        spot: Spot<'_>,
        offset: u64,
        most: usize,
    ) -> Labelled<(Vec<u8>, Stat)> {
        self.labelled(|seen| {
            let opened = self.open(access, spot.path, seen)?;
            same(&opened.stat, spot)?;
            let left = opened.stat.size.saturating_sub(offset);
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(most);
            Ok((read_at(&opened.file, offset, most)?, opened.stat))
        })
    }

    /// Shows that whoever has this label may write there, and gives the file that label. What is not there may be made.
    pub fn claim(&self, access: Access<'_>, path: &VolumePath) -> Labelled<()> {
        self.labelled(|seen| {
            let found = self.find(access, path, false, seen)?;
            if let Last::Missing(_) = &found.last {
                self.check_writable()?;
                return self.check_ceiling(access.label);
            }
            let stat = *found.file(path)?.1;
            let spot = Spot { path, id: stat.id };
            self.open_for_change(access, spot, seen).map(drop)
        })
    }

    /// Writes into a file. What is beyond its end becomes part of it.
    pub fn write_part(
        &self,
        access: Access<'_>,
        spot: Spot<'_>,
        offset: u64,
        content: &[u8],
        syncs: bool,
    ) -> Labelled<Stat> {
        self.labelled(|seen| {
            let _lock = self.lock(spot.path);
            let length = u64::try_from(content.len()).unwrap_or(u64::MAX);
            let end = offset.saturating_add(length);
            if end > LONGEST {
                return Err(too_long(spot.path));
            }
            let (file, before) = self.open_for_change(access, spot, seen)?;
            let grows = match before.allocated >= before.size {
                // Without holes only what is beyond the end takes room.
                true => end
                    .div_ceil(BLOCK)
                    .saturating_mul(BLOCK)
                    .saturating_sub(before.allocated),
                false => length
                    .div_ceil(BLOCK)
                    .saturating_add(1)
                    .saturating_mul(BLOCK),
            };
            let wanted = Used {
                bytes: grows,
                files: 0,
            };
            let reserved = self.usage.reserve(wanted, Used::default()).or_else(|_| {
                self.recount()?;
                self.usage.reserve(wanted, Used::default())
            })?;
            file.write_all_at(content, offset).map_err(io)?;
            if syncs {
                file.sync_data().map_err(io)?;
            }
            let after = Stat::of(&file)?;
            reserved.settle(Used {
                bytes: after.allocated.saturating_sub(before.allocated),
                files: 0,
            });
            Ok(after)
        })
    }

    /// Changes what a file is besides its content, and cuts or lengthens it.
    pub fn adjust(
        &self,
        access: Access<'_>,
        spot: Spot<'_>,
        adjustment: Adjustment,
    ) -> Labelled<Stat> {
        self.labelled(|seen| {
            let _lock = self.lock(spot.path);
            let (file, before) = self.open_for_change(access, spot, seen)?;
            if let Some(size) = adjustment.size {
                self.check_size(spot.path, size)?;
                file.set_len(size).map_err(io)?;
            }
            let failed = |error| FileError::broken("a file could not be changed", error);
            if let Some(executable) = adjustment.executable {
                let bits = if executable { 0o111 } else { 0 };
                let mode = u32::from(before.mode) & 0o666 | bits;
                fchmod(&file, Mode::from_raw_mode(mode)).map_err(failed)?;
            }
            if let Some(modified) = adjustment.modified_ns {
                futimens(&file, &times(modified)).map_err(failed)?;
            }
            let after = Stat::of(&file)?;
            let freed = before.allocated.saturating_sub(after.allocated);
            self.usage.release(Used {
                bytes: freed,
                files: 0,
            });
            Ok(after)
        })
    }

    /// What was written into a file survives a power cut when this returns.
    pub fn sync_part(&self, access: Access<'_>, spot: Spot<'_>) -> Labelled<Stat> {
        self.labelled(|seen| {
            let opened = self.open(access, spot.path, seen)?;
            same(&opened.stat, spot)?;
            opened.file.sync_data().map_err(io)?;
            Ok(opened.stat)
        })
    }

    /// The text of a link, which is data and leads the gate nowhere.
    pub fn link_text(&self, access: Access<'_>, spot: Spot<'_>) -> Labelled<Vec<u8>> {
        self.labelled(|seen| {
            let found = self.find(access, spot.path, false, seen)?;
            let Last::Entry { name, stat } = &found.last else {
                return Err(FileError::not_found(spot.path));
            };
            same(stat, spot)?;
            if stat.kind != Kind::Link {
                let says = format!("`{}` is no link", spot.path);
                return Err(FileError::new(ErrorKind::WrongType, says));
            }
            let text = readlinkat(found.parent().handle.as_fd(), name, Vec::new());
            let failed = |error| FileError::broken("a link could not be read", error);
            Ok(text.map_err(failed)?.into_bytes())
        })
    }

    /// Makes a link with any text. The gate follows it only as far as it stays inside.
    pub fn make_link(&self, access: Access<'_>, path: &VolumePath, text: &[u8]) -> Labelled<Stat> {
        self.labelled(|seen| {
            self.check_writable()?;
            self.check_ceiling(access.label)?;
            if text.is_empty() || text.len() > LONGEST_LINK || text.contains(&0) {
                let says = "a link holds 1 to 4096 bytes, none of them zero";
                return Err(FileError::new(ErrorKind::Invalid, says));
            }
            let found = self.find(access, path, false, seen)?;
            let name = match &found.last {
                Last::Missing(names) => match names.as_slice() {
                    [name] => name,
                    _ => return Err(FileError::not_found(path)),
                },
                _ => return Err(is_there(path)),
            };
            let one = Used { bytes: 0, files: 1 };
            let reserved = self.usage.reserve(one, Used::default())?;
            let parent = found.parent();
            self.labels
                .raise(RowId::names(parent.stat.id), access.label)?;
            let directory = parent.handle.as_fd();
            let own = self.own_name();
            let failed = |error| FileError::broken("a link could not be made", error);
            symlinkat(OsStr::from_bytes(text), directory, &own).map_err(failed)?;
            let placed = self.place_link(access, directory, (&own, name), path);
            match placed {
                Ok(stat) => {
                    reserved.settle(Used::of(&stat));
                    self.sync(directory)?;
                    Ok(stat)
                }
                Err(error) => {
                    let _swept_at_the_next_attach = unlinkat(directory, &own, AtFlags::empty());
                    Err(error)
                }
            }
        })
    }

    fn place_link(
        &self,
        access: Access<'_>,
        directory: BorrowedFd<'_>,
        (own, name): (&str, &str),
        path: &VolumePath,
    ) -> Result<Stat, FileError> {
        let made = self.root.look(directory, OsStr::new(own))?;
        let (_, stat) = made.ok_or_else(|| FileError::not_found(path))?;
        self.labels.give(RowId::own(stat.id), access.label)?;
        renameat_with(directory, own, directory, name, RenameFlags::NOREPLACE).map_err(
            |error| match error {
                Errno::EXIST => is_there(path),
                error => FileError::broken("a link could not be made", error),
            },
        )?;
        Ok(stat)
    }

    /// Where everything lies. Tells nothing to anybody by itself: it finds again what was known before the gate began anew.
    pub fn index(&self) -> Result<Vec<Lies>, FileError> {
        let root = self.find_root()?;
        let mut lies = Vec::new();
        let here = root.parent();
        self.index_in(here.handle.as_fd(), here.stat.id, 0, &mut lies)?;
        Ok(lies)
    }

    fn index_in(
        &self,
        directory: BorrowedFd<'_>,
        id: FileId,
        depth: usize,
        lies: &mut Vec<Lies>,
    ) -> Result<(), FileError> {
        for name in dirs::names(&self.root, directory)? {
            let Some(text) = name.to_str().filter(|name| !is_own(name.as_bytes())) else {
                continue;
            };
            if lies.len() >= MOST {
                return Ok(());
            }
            let Ok(Some((handle, stat))) = self.root.look(directory, &name) else {
                continue;
            };
            lies.push((stat.id, id, text.to_owned()));
            if stat.is_directory() && depth < MAX_DEPTH {
                // Whoever removes directories meanwhile hides nothing.
                let _gone = self.index_in(handle.as_fd(), stat.id, depth + 1, lies);
            }
        }
        Ok(())
    }

    /// Opens a file to change it where it is, and gives it the label of whoever does first.
    fn open_for_change(
        &self,
        access: Access<'_>,
        spot: Spot<'_>,
        seen: &mut Label,
    ) -> Result<(File, Stat), FileError> {
        self.check_writable()?;
        self.check_ceiling(access.label)?;
        let found = self.find(access, spot.path, false, seen)?;
        let (name, stat) = found.file(spot.path)?;
        same(stat, spot)?;
        if stat.names > 1 && !self.spec.allows_hardlinks {
            let says = format!(
                "`{}` has {} names, and one of them may be outside the volume",
                spot.path, stat.names
            );
            return Err(FileError::new(ErrorKind::NotAllowed, says));
        }
        self.labels.raise(RowId::own(stat.id), access.label)?;
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY;
        let directory = found.parent().handle.as_fd();
        let opened = self
            .root
            .open_name(directory, OsStr::new(name), flags, Mode::empty())
            .map_err(|error| FileError::broken("a file could not be opened", error))?;
        let now = Stat::of(&opened)?;
        same(&now, spot)?;
        Ok((opened.into(), now))
    }

    fn check_size(&self, path: &VolumePath, size: u64) -> Result<(), FileError> {
        if size > LONGEST {
            return Err(too_long(path));
        }
        let most = self.spec.max_bytes.unwrap_or(u64::MAX);
        if size > most {
            let kind = ErrorKind::QuotaExceeded {
                requested_bytes: size,
                available_bytes: most,
            };
            return Err(FileError::new(
                kind,
                "that is more than the volume may hold",
            ));
        }
        Ok(())
    }
}

/// It is the file that was meant, and not another that has its name by now.
fn same(stat: &Stat, spot: Spot<'_>) -> Result<(), FileError> {
    if stat.id == spot.id {
        return Ok(());
    }
    let says = format!("`{}` is another file by now", spot.path);
    Err(FileError::new(ErrorKind::Conflict, says))
}

fn times(modified_ns: u64) -> Timestamps {
    const SECOND: u64 = 1_000_000_000;
    let modified = Timespec {
        tv_sec: (modified_ns / SECOND).try_into().unwrap_or(0),
        tv_nsec: (modified_ns % SECOND).try_into().unwrap_or(0),
    };
    let untouched = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_OMIT,
    };
    Timestamps {
        last_access: untouched,
        last_modification: modified,
    }
}

fn too_long(path: &VolumePath) -> FileError {
    let says = format!("`{path}` would be longer than a file may be");
    FileError::new(ErrorKind::TooLarge, says)
}

fn is_there(path: &VolumePath) -> FileError {
    FileError::new(
        ErrorKind::AlreadyExists,
        format!("`{path}` is there already"),
    )
}
