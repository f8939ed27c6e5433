//! The way from the root of a volume to a file in it: one name at a time, by handles of directories.
//!
//! After the root is opened no path is ever given to the system, only a handle and one name. Links are read and followed here, on the
//! stack of handles that were passed, so `..` in a link goes back along the way that was come and never above the root.
//!
//! **Invariant: nothing outside the root is opened, whoever renames, links or mounts meanwhile.** Tests
//! `no_payload_reaches_a_file_outside`, `a_foreign_hand_cannot_race_a_path_out_of_its_volume`.

use std::{
    collections::VecDeque,
    ffi::OsStr,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::{
    fs::{Mode, OFlags, ResolveFlags, openat, openat2, readlinkat},
    io::Errno,
};

use crate::{ErrorKind, FileError, Kind, RowId, Stat, VolumePath, dirs};

/// How many links one path may lead over.
const MAX_LINKS: usize = 40;
/// How often a file is looked for again that is another one each time.
const PATIENCE: usize = 16;

/// The directory that a volume is.
#[derive(Debug)]
pub(crate) struct Root {
    handle: OwnedFd,
    pub(crate) stat: Stat,
    allows_mounts: bool,
    allows_hardlinks: bool,
    /// The kernel is too old for `openat2`, or a filter forbids it.
    is_plain: AtomicBool,
    /// Plays a disk that folds case.
    #[cfg(test)]
    folds: AtomicBool,
}

/// A directory that was passed on the way.
#[derive(Debug)]
pub(crate) struct Passed {
    pub(crate) handle: OwnedFd,
    pub(crate) stat: Stat,
    name: String,
}

/// Where a path led.
#[derive(Debug)]
pub(crate) struct Found {
    root: Passed,
    /// The directories that were passed beneath the root.
    dirs: Vec<Passed>,
    pub(crate) last: Last,
}

#[derive(Debug)]
pub(crate) enum Last {
    /// The last directory that was passed.
    Directory,
    Entry {
        name: String,
        stat: Stat,
    },
    /// Names that are not there, beneath the last directory.
    Missing(Vec<String>),
}

impl Root {
    pub(crate) fn open(
        path: &Path,
        allows_mounts: bool,
        allows_hardlinks: bool,
    ) -> Result<Self, FileError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = openat(rustix::fs::CWD, path, flags, Mode::empty())
            .map_err(|error| FileError::broken("the volume's directory cannot be opened", error))?;
        let stat = Stat::of(&handle)?;
        Ok(Self {
            handle,
            stat,
            allows_mounts,
            allows_hardlinks,
            is_plain: AtomicBool::new(false),
            #[cfg(test)]
            folds: AtomicBool::new(false),
        })
    }

    #[cfg(test)]
    pub(crate) fn be_plain(&self) {
        self.is_plain.store(true, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn fold(&self) {
        self.folds.store(true, Ordering::Relaxed);
    }

    /// What a disk that folds case would open for a name.
    #[cfg(test)]
    fn folded(&self, directory: BorrowedFd<'_>, name: &OsStr) -> std::ffi::OsString {
        use std::os::fd::AsRawFd as _;
        let spelt = || {
            let entries = std::fs::read_dir(format!("/proc/self/fd/{}", directory.as_raw_fd()));
            let mut names = entries.ok()?.flatten().map(|entry| entry.file_name());
            names.find(|own| own.eq_ignore_ascii_case(name))
        };
        let folds = self.folds.load(Ordering::Relaxed);
        folds.then(spelt).flatten().unwrap_or_else(|| name.into())
    }

    /// Opens one name in a directory. A link is not followed, whatever the flags.
    pub(crate) fn open_name(
        &self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        flags: OFlags,
        mode: Mode,
    ) -> Result<OwnedFd, Errno> {
        #[cfg(test)]
        let folded = self.folded(directory, name);
        #[cfg(test)]
        let name = folded.as_os_str();
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if !self.is_plain.load(Ordering::Relaxed) {
            let mut resolve =
                ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
            if !self.allows_mounts {
                resolve |= ResolveFlags::NO_XDEV;
            }
            match openat2(directory, name, flags, mode, resolve) {
                Err(Errno::NOSYS) => self.is_plain.store(true, Ordering::Relaxed),
                // The kernel asks to try again where a rename was under way.
                Err(Errno::AGAIN) => return openat2(directory, name, flags, mode, resolve),
                opened => return opened,
            }
        }
        // One name that is no link and no `..` cannot lead out; another disk is seen by its number.
        let opened = openat(directory, name, flags, mode)?;
        let is_elsewhere = Stat::of(&opened).is_ok_and(|stat| stat.device != self.stat.device);
        if is_elsewhere && !self.allows_mounts {
            return Err(Errno::XDEV);
        }
        Ok(opened)
    }

    /// A handle and what it is, without opening the file itself: nothing waits, not even at a pipe.
    pub(crate) fn look(
        &self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
    ) -> Result<Option<(OwnedFd, Stat)>, FileError> {
        match self.open_name(directory, name, OFlags::PATH, Mode::empty()) {
            Ok(handle) => {
                let stat = Stat::of(&handle)?;
                Ok(Some((handle, stat)))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::XDEV) => Err(FileError::new(
                ErrorKind::Traversal,
                "another disk is mounted there, and the volume does not reach onto it",
            )),
            Err(error) => Err(FileError::broken("a name could not be opened", error)),
        }
    }

    /// Disks that fold case open a file under other spellings of its name too. Lists of paths know one spelling, so only the disk's own
    /// counts.
    fn is_spelt_so(
        &self,
        directory: BorrowedFd<'_>,
        name: &str,
        stat: &Stat,
    ) -> Result<bool, FileError> {
        let other = in_other_case(name);
        if other == name {
            return Ok(true);
        }
        match self.look(directory, OsStr::new(&other)) {
            Ok(Some((_, found))) if found.id == stat.id => {
                let names = dirs::names(self, directory)?;
                Ok(names.iter().any(|own| own == name))
            }
            _ => Ok(true),
        }
    }

    fn begin(&self) -> Result<Passed, FileError> {
        let handle = self
            .handle
            .try_clone()
            .map_err(|error| FileError::new(ErrorKind::Broken, error.to_string()))?;
        Ok(Passed {
            stat: Stat::of(&handle)?,
            handle,
            name: String::new(),
        })
    }

    /// Follows a path. Links on the way are followed beneath the root; the last one only if `follows_last`. Everything that was passed is
    /// noted, also where the path leads nowhere: that tells of names too.
    pub(crate) fn find(
        &self,
        path: &VolumePath,
        follows_last: bool,
        note: &mut dyn FnMut(RowId),
    ) -> Result<Found, FileError> {
        let root = self.begin()?;
        note(RowId::own(root.stat.id));
        let mut dirs: Vec<Passed> = Vec::new();
        let mut ahead: VecDeque<String> = path.names().iter().cloned().collect();
        let mut links = 0;
        while let Some(name) = ahead.pop_front() {
            if name == ".." {
                if dirs.pop().is_none() {
                    return Err(leads_out(path));
                }
                continue;
            }
            let here = dirs.last().unwrap_or(&root);
            let Some((handle, stat)) = self.look(here.handle.as_fd(), OsStr::new(&name))? else {
                note(RowId::names(here.stat.id));
                let missing = std::iter::once(name).chain(ahead).collect();
                return Found::missing(root, dirs, missing, path);
            };
            if !self.is_spelt_so(here.handle.as_fd(), &name, &stat)? {
                note(RowId::names(here.stat.id));
                let says = format!("there is no `{path}`: the disk spells `{name}` another way");
                return Err(FileError::new(ErrorKind::NotFound, says));
            }
            match stat.kind {
                Kind::Directory => {
                    note(RowId::own(stat.id));
                    dirs.push(Passed { handle, stat, name });
                }
                Kind::Link if follows_last || !ahead.is_empty() => {
                    note(RowId::own(stat.id));
                    links += 1;
                    if links > MAX_LINKS {
                        let says = format!("`{path}` leads in a circle of links");
                        return Err(FileError::new(ErrorKind::Traversal, says));
                    }
                    for next in target(&handle, path)?.into_iter().rev() {
                        ahead.push_front(next);
                    }
                }
                _ if ahead.is_empty() => {
                    note(RowId::own(stat.id));
                    let last = Last::Entry { name, stat };
                    return Ok(Found { root, dirs, last });
                }
                _ => {
                    note(RowId::own(stat.id));
                    let says = format!(
                        "`{name}` in `{path}` is a {}, not a directory",
                        stat.kind.as_str()
                    );
                    return Err(FileError::new(ErrorKind::WrongType, says));
                }
            }
        }
        let last = Last::Directory;
        Ok(Found { root, dirs, last })
    }

    /// Follows a path to a regular file and opens it. What is opened is what was looked at.
    pub(crate) fn open_file(
        &self,
        path: &VolumePath,
        note: &mut dyn FnMut(RowId),
    ) -> Result<(Found, Opened), FileError> {
        for _ in 0..PATIENCE {
            let found = self.find(path, true, note)?;
            let (name, stat) = found.file(path)?;
            if let Some(opened) =
                self.reopen(found.parent().handle.as_fd(), OsStr::new(name), stat)?
            {
                note(RowId::own(opened.stat.id));
                return Ok((found, opened));
            }
        }
        Err(restless(path))
    }

    /// Opens a file that was looked at; `None` if another one has its name now.
    pub(crate) fn reopen(
        &self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        stat: &Stat,
    ) -> Result<Option<Opened>, FileError> {
        if stat.names > 1 && !self.allows_hardlinks {
            let says = format!(
                "`{}` has {} names, and one of them may be outside the volume; an operator can allow such files with `hardlinks: true`",
                name.display(),
                stat.names
            );
            return Err(FileError::new(ErrorKind::NotAllowed, says));
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let handle = match self.open_name(directory, name, flags, Mode::empty()) {
            Ok(handle) => handle,
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(None),
            Err(error) => return Err(FileError::broken("a file could not be opened", error)),
        };
        let now = Stat::of(&handle)?;
        let is_same = now.id == stat.id && now.kind == Kind::File;
        Ok(is_same.then(|| Opened {
            file: handle.into(),
            stat: now,
        }))
    }
}

/// A regular file, open for reading.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) file: std::fs::File,
    pub(crate) stat: Stat,
}

impl Found {
    fn missing(
        root: Passed,
        dirs: Vec<Passed>,
        missing: Vec<String>,
        path: &VolumePath,
    ) -> Result<Self, FileError> {
        // Names that a link brought along were checked by nobody.
        VolumePath::from_names(missing.clone()).map_err(|_| leads_out(path))?;
        let last = Last::Missing(missing);
        Ok(Self { root, dirs, last })
    }

    /// The directory that the last name is in; for a directory, itself.
    pub(crate) fn parent(&self) -> &Passed {
        self.dirs.last().unwrap_or(&self.root)
    }

    /// The directory that a found directory is in; `None` for the root.
    pub(crate) fn above(&self) -> Option<&Passed> {
        let mut upwards = self.dirs.iter().rev();
        upwards.next()?;
        Some(upwards.next().unwrap_or(&self.root))
    }

    /// Where it really is, without links.
    pub(crate) fn path(&self) -> VolumePath {
        let names = self.dirs.iter().map(|dir| dir.name.clone());
        let last = match &self.last {
            Last::Directory => Vec::new(),
            Last::Entry { name, .. } => vec![name.clone()],
            Last::Missing(names) => names.clone(),
        };
        VolumePath::of_found(names.chain(last).collect())
    }

    /// The name and state of a regular file.
    pub(crate) fn file(&self, path: &VolumePath) -> Result<(&str, &Stat), FileError> {
        match &self.last {
            Last::Entry { name, stat } if stat.kind == Kind::File => Ok((name, stat)),
            Last::Missing(_) => Err(FileError::not_found(path)),
            Last::Directory => Err(FileError::new(
                ErrorKind::WrongType,
                format!("`{path}` is a directory; list it with fs.list"),
            )),
            Last::Entry { stat, .. } => Err(FileError::new(
                ErrorKind::WrongType,
                format!("`{path}` is a {}, not a file", stat.kind.as_str()),
            )),
        }
    }

    pub(crate) fn directory(&self, path: &VolumePath) -> Result<&Passed, FileError> {
        match &self.last {
            Last::Directory => Ok(self.parent()),
            Last::Missing(_) => Err(FileError::not_found(path)),
            Last::Entry { stat, .. } => Err(FileError::new(
                ErrorKind::WrongType,
                format!("`{path}` is a {}, not a directory", stat.kind.as_str()),
            )),
        }
    }
}

impl Passed {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// The same name with small letters large and large ones small.
fn in_other_case(name: &str) -> String {
    name.chars()
        .flat_map(|letter| {
            let is_small = letter.is_lowercase();
            let large = is_small.then(|| letter.to_uppercase());
            let small = (!is_small).then(|| letter.to_lowercase());
            large
                .into_iter()
                .flatten()
                .chain(small.into_iter().flatten())
        })
        .collect()
}

/// The names that a link leads over.
fn target(link: &OwnedFd, path: &VolumePath) -> Result<Vec<String>, FileError> {
    let target = readlinkat(link, "", Vec::new())
        .map_err(|error| FileError::broken("a link could not be read", error))?;
    let target = OsStr::from_bytes(target.as_bytes()).to_str();
    let Some(target) = target.filter(|target| !target.starts_with('/')) else {
        return Err(leads_out(path));
    };
    let names = target
        .split('/')
        .filter(|name| !name.is_empty() && *name != ".");
    Ok(names.map(str::to_owned).collect())
}

fn leads_out(path: &VolumePath) -> FileError {
    let says = format!("`{path}` leads out of the volume over a link");
    FileError::new(ErrorKind::Traversal, says)
}

pub(crate) fn restless(path: &VolumePath) -> FileError {
    let says = format!("`{path}` is being replaced all the time; try again");
    FileError::new(ErrorKind::Conflict, says)
}
