//! Putting a file in its place: whole or not at all, and never over a change that nobody looked at.
//!
//! The new content is written beside its place, synced and given its label. Then it takes the name in one step. Where it is based on what
//! was there, it is exchanged for that, and what came out is looked at: if it is not what the change was based on, both go back.
//!
//! **Invariant: a file is the old one or the new one, and its label is never below its content.** Tests
//! `a_kill_at_any_moment_leaves_no_file_below_its_label`, `of_edits_beside_a_foreign_hand_none_is_lost`.

use std::{
    ffi::OsStr,
    fs::File,
    io::{Read, Write},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    os::unix::fs::FileExt,
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, RenameFlags, fchmod, fsync, renameat, renameat_with, unlinkat},
    io::Errno,
};
use vocab::Label;

use crate::{
    ErrorKind, FileError, RowId, Stat, Volume, VolumePath,
    beneath::{Found, Last},
    dirs,
    usage::Used,
    volume::Durability,
};

/// How often a name is tried that another file of a killed gate has.
const TRIES: usize = 64;

/// What a change rests on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Base<'a> {
    /// Whatever is there.
    Anything,
    /// That nothing is there.
    Nothing,
    /// This state.
    State(&'a Stat),
    /// This state, with exactly this content.
    Content(&'a Stat, &'a [u8]),
}

/// What is to be put where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change<'a> {
    pub(crate) content: &'a [u8],
    pub(crate) label: &'a Label,
    pub(crate) base: Base<'a>,
    /// For a new file; one that takes another's place keeps its mode.
    pub(crate) executable: bool,
}

/// What came of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replaced {
    pub(crate) stat: Stat,
    pub(crate) created: bool,
}

/// A file beside its place, which is gone again unless it takes its place.
struct Beside<'a> {
    directory: BorrowedFd<'a>,
    name: String,
    file: File,
    stat: Stat,
    is_ours: bool,
}

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        self.discard();
    }
}

impl Beside<'_> {
    fn discard(&mut self) {
        if std::mem::take(&mut self.is_ours) {
            let _swept_at_the_next_attach = unlinkat(self.directory, &self.name, AtFlags::empty());
        }
    }
}

impl Volume {
    /// Puts a file where a path led, in a directory that is there.
    pub(crate) fn put(
        &self,
        asked: &VolumePath,
        found: &Found,
        change: Change<'_>,
    ) -> Result<Replaced, FileError> {
        let (name, old) = match &found.last {
            Last::Missing(names) => match names.as_slice() {
                [name] => (name, None),
                _ => return Err(FileError::not_found(asked)),
            },
            Last::Entry { name, .. } => (name, Some(found.file(asked)?.1)),
            Last::Directory => {
                let says = format!("`{asked}` is a directory");
                return Err(FileError::new(ErrorKind::WrongType, says));
            }
        };
        self.check_ceiling(change.label)?;
        let length = u64::try_from(change.content.len()).unwrap_or(u64::MAX);
        let instead = old.map_or_else(Used::default, Used::of);
        let expected = Used::expected(length);
        let reserved = self.usage.reserve(expected, instead).or_else(|_| {
            // Others may have deleted something since it was counted.
            self.recount()?;
            self.usage.reserve(expected, instead)
        })?;
        let parent = found.parent();
        if old.is_none() {
            // A name is data too.
            self.labels
                .raise(RowId::names(parent.stat.id), change.label)?;
        }
        let directory = parent.handle.as_fd();
        let mut beside = self.write_beside(directory, change, old)?;
        self.labels.give(RowId::own(beside.stat.id), change.label)?;
        let gone = match self.take_place(&mut beside, name, asked, change.base) {
            Ok(gone) => gone,
            Err(error) => {
                // It may be in place all the same, or where another hand moved it.
                beside.discard();
                self.forget(Stat::gone(&beside.file).as_slice());
                return Err(error);
            }
        };
        self.sync(directory)?;
        let stat = Stat::of(&beside.file)?;
        if let Some((handle, gone)) = &gone {
            self.usage.release(Used::of(gone));
            self.forget(Stat::gone(handle).as_slice());
        }
        reserved.settle(Used::of(&stat));
        Ok(Replaced {
            stat,
            created: gone.is_none(),
        })
    }

    fn write_beside<'d>(
        &self,
        directory: BorrowedFd<'d>,
        change: Change<'_>,
        old: Option<&Stat>,
    ) -> Result<Beside<'d>, FileError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let mode = Mode::from_raw_mode(if change.executable { 0o777 } else { 0o666 });
        let mut tries = 0;
        let (name, handle) = loop {
            let name = self.own_name();
            match self
                .root
                .open_name(directory, OsStr::new(&name), flags, mode)
            {
                Err(Errno::EXIST) if tries < TRIES => tries += 1,
                Err(error) => return Err(FileError::broken("a file could not be made", error)),
                Ok(handle) => break (name, handle),
            }
        };
        let stat = Stat::of(&handle)?;
        let mut beside = Beside {
            directory,
            name,
            file: handle.into(),
            stat,
            is_ours: true,
        };
        beside.file.write_all(change.content).map_err(io)?;
        if let Some(old) = old {
            fchmod(&beside.file, Mode::from_raw_mode((old.mode & 0o777).into()))
                .map_err(|error| FileError::broken("a file's mode could not be kept", error))?;
        }
        if self.spec.durability == Durability::Full {
            beside.file.sync_all().map_err(io)?;
        }
        beside.stat = Stat::of(&beside.file)?;
        Ok(beside)
    }

    /// Gives the file its name. What had the name before, if anything.
    fn take_place(
        &self,
        beside: &mut Beside<'_>,
        name: &str,
        asked: &VolumePath,
        base: Base<'_>,
    ) -> Result<Option<(OwnedFd, Stat)>, FileError> {
        let directory = beside.directory;
        let failed = |error| FileError::broken("a file could not take its place", error);
        let (expected, content) = match base {
            Base::Nothing => {
                return match renameat_with(
                    directory,
                    &beside.name,
                    directory,
                    name,
                    RenameFlags::NOREPLACE,
                ) {
                    Ok(()) => {
                        beside.is_ours = false;
                        Ok(None)
                    }
                    Err(Errno::EXIST) => Err(exists(asked)),
                    Err(error) => Err(failed(error)),
                };
            }
            Base::Anything => {
                let before = self.root.look(directory, OsStr::new(name))?;
                renameat(directory, &beside.name, directory, name).map_err(
                    |error| match error {
                        Errno::ISDIR | Errno::NOTEMPTY => changed(asked, None),
                        error => failed(error),
                    },
                )?;
                beside.is_ours = false;
                return Ok(before);
            }
            Base::State(stat) => (stat, None),
            Base::Content(stat, content) => (stat, Some(content)),
        };
        if !self.abilities().sees_conflicts {
            let now = self.root.look(directory, OsStr::new(name))?;
            let Some(now) = now.filter(|(_, now)| now.has_content_of(expected)) else {
                return Err(changed(asked, None));
            };
            renameat(directory, &beside.name, directory, name).map_err(failed)?;
            beside.is_ours = false;
            return Ok(Some(now));
        }
        self.exchange(beside, name).map_err(|error| match error {
            Errno::NOENT => changed(asked, None),
            error => failed(error),
        })?;
        // From here on the name beside is that of somebody else's file.
        beside.is_ours = false;
        let out = self.root.look(directory, OsStr::new(&beside.name))?;
        if let Some((_, stat)) = &out
            && stat.has_content_of(expected)
            && self.still_holds(beside, stat, content)?
        {
            unlinkat(directory, &beside.name, AtFlags::empty()).map_err(failed)?;
            return Ok(out);
        }
        let now = out.map(|(_, stat)| stat);
        if let Some(now) = now {
            self.put_back(beside, name, now)?;
        }
        Err(changed(asked, now.as_ref()))
    }

    fn exchange(&self, beside: &Beside<'_>, name: &str) -> Result<(), Errno> {
        let directory = beside.directory;
        renameat_with(
            directory,
            &beside.name,
            directory,
            name,
            RenameFlags::EXCHANGE,
        )
    }

    /// Whether what came out has the content that the change was based on: clocks of files are coarse.
    fn still_holds(
        &self,
        beside: &Beside<'_>,
        out: &Stat,
        content: Option<&[u8]>,
    ) -> Result<bool, FileError> {
        let Some(content) = content else {
            return Ok(true);
        };
        let opened = self
            .root
            .open_name(
                beside.directory,
                OsStr::new(&beside.name),
                OFlags::RDONLY,
                Mode::empty(),
            )
            .map_err(|error| FileError::broken("a file could not be opened", error))?;
        let mut now = Vec::with_capacity(content.len());
        let limit = out.size.saturating_add(1);
        File::from(opened)
            .take(limit)
            .read_to_end(&mut now)
            .map_err(io)?;
        Ok(now == content)
    }

    /// Both where they were. If a foreign hand put yet another file in place meanwhile, the newest stays: it is the one that came out
    /// although something else had been put in.
    fn put_back(&self, beside: &mut Beside<'_>, name: &str, out: Stat) -> Result<(), FileError> {
        /// A hand that replaces a file this often in a row means no content in particular.
        const TURNS: usize = 10_000;
        let failed = |error| FileError::broken("a change could not be taken back", error);
        let (mut put_in, mut held) = (beside.stat, out);
        for _ in 0..TURNS {
            match self.exchange(beside, name) {
                Ok(()) => {}
                // It was deleted meanwhile: that is newer than all of them.
                Err(Errno::NOENT) => break,
                Err(error) => return Err(failed(error)),
            }
            let back = self.root.look(beside.directory, OsStr::new(&beside.name))?;
            let Some((_, back)) = back.filter(|(_, back)| !back.has_content_of(&put_in)) else {
                break;
            };
            (put_in, held) = (held, back);
        }
        beside.is_ours = true;
        Ok(())
    }

    pub(crate) fn sync(&self, directory: BorrowedFd<'_>) -> Result<(), FileError> {
        if self.spec.durability == Durability::Relaxed {
            return Ok(());
        }
        let failed = |error| FileError::broken("a directory could not be synced", error);
        let open = dirs::readable(&self.root, directory).map_err(failed)?;
        fsync(open).map_err(failed)
    }
}

/// Reads at a place, as much as there is.
pub(crate) fn read_at(file: &File, offset: u64, length: usize) -> Result<Vec<u8>, FileError> {
    let mut out = vec![0; length];
    let mut filled = 0;
    while let Some(rest) = out.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let at = offset.saturating_add(u64::try_from(filled).unwrap_or(u64::MAX));
        match file.read_at(rest, at) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(io(error)),
        }
    }
    out.truncate(filled);
    Ok(out)
}

pub(crate) fn io(error: std::io::Error) -> FileError {
    match error.raw_os_error() {
        Some(code) => FileError::broken(
            "a file could not be read or written",
            Errno::from_raw_os_error(code),
        ),
        None => FileError::new(ErrorKind::Broken, error.to_string()),
    }
}

fn exists(path: &VolumePath) -> FileError {
    FileError::new(
        ErrorKind::AlreadyExists,
        format!("`{path}` is there already; write it with fs.write, or change it with fs.edit"),
    )
}

pub(crate) fn changed(path: &VolumePath, now: Option<&Stat>) -> FileError {
    let says = match now {
        Some(stat) => format!(
            "`{path}` was changed by somebody else and is version {} now; read it again",
            stat.version()
        ),
        None => format!("`{path}` was changed by somebody else meanwhile; read it again"),
    };
    FileError::new(ErrorKind::Conflict, says)
}
