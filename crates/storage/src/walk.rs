//! Going through everything beneath a directory, by handles, within a budget.
//!
//! Files that a `.gitignore` in the volume names are left out and counted; what such a file outside the volume says does not matter here.
//! Links are not followed.

use std::{
    ffi::{OsStr, OsString},
    os::fd::{AsFd, BorrowedFd},
    time::Instant,
};

use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};
use vocab::Label;

use crate::{
    Access, FileError, FileId, Kind, RowId, Stat, Volume, VolumePath,
    beneath::Opened,
    dirs::{self, MAX_DEPTH},
    path::is_own,
    replace::read_at,
    search::is_tame,
};

/// The most that one walk looks at.
const MAX_FILES: u64 = 50_000;
/// The longest list of ignored names that is read.
const MAX_IGNORE: usize = 256 << 10;
/// Never walked into, whatever is asked.
const NEVER: &str = ".git";

/// What bounds a walk.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    pub until: Instant,
    pub files: u64,
}

impl Budget {
    #[must_use]
    pub const fn until(until: Instant) -> Self {
        Self {
            until,
            files: MAX_FILES,
        }
    }
}

/// What was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Skipped {
    pub binary: u64,
    pub ignored: u64,
    pub large: u64,
    /// Above the label of the session, which wanted not to rise.
    pub label: u64,
    /// In places that the caller may not use, or not openable.
    pub denied: u64,
}

/// How a walk is to go.
#[derive(Debug, Clone, Copy)]
pub struct WalkOptions {
    pub no_ignore: bool,
    /// Leave out what would raise the label of the session.
    pub no_rise: bool,
    pub budget: Budget,
}

/// How a walk went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Walked {
    pub files: u64,
    pub skipped: Skipped,
    /// Why it ended before everything was seen.
    pub why: Option<&'static str>,
}

/// A file or directory on the way.
pub(crate) struct Visit<'a> {
    pub(crate) volume: &'a Volume,
    pub(crate) directory: BorrowedFd<'a>,
    pub(crate) name: &'a OsStr,
    /// From where the walk began.
    pub(crate) path: &'a str,
    pub(crate) stat: Stat,
}

impl Visit<'_> {
    pub(crate) fn open(&self) -> Result<Option<Opened>, FileError> {
        self.volume
            .root
            .reopen(self.directory, self.name, &self.stat)
    }
}

/// Whether to go on, and if not, why.
pub(crate) enum Go {
    On,
    Stop(&'static str),
}

pub(crate) struct Walk<'a, F> {
    pub(crate) volume: &'a Volume,
    pub(crate) access: Access<'a>,
    pub(crate) options: WalkOptions,
    pub(crate) seen: &'a mut Label,
    pub(crate) walked: Walked,
    pub(crate) visit: F,
    /// Where it began, in the volume.
    base: Vec<String>,
    /// Everything that was come by, whatever it is: time passes there too.
    entries: u64,
    ignores: Vec<Gitignore>,
}

impl<'a, F> Walk<'a, F>
where
    F: FnMut(&Visit<'_>, &mut Skipped, &mut Label) -> Result<Go, FileError>,
{
    /// Visits everything beneath a directory, or the one file that the path leads to.
    pub(crate) fn run(
        volume: &'a Volume,
        access: Access<'a>,
        path: &VolumePath,
        options: WalkOptions,
        seen: &'a mut Label,
        visit: F,
    ) -> Result<Walked, FileError> {
        let found = volume.find(access, path, true, seen)?;
        let base = found.path().names().to_vec();
        let mut walk = Self {
            volume,
            access,
            options,
            seen,
            walked: Walked::default(),
            visit,
            base,
            entries: 0,
            ignores: Vec::new(),
        };
        if let Ok((name, stat)) = found.file(path) {
            walk.base.pop();
            walk.one(found.parent().handle.as_fd(), OsStr::new(name), name, *stat)?;
            return Ok(walk.walked);
        }
        let directory = found.directory(path)?;
        if !walk.may_rise(&directory.stat) {
            return Ok(walk.walked);
        }
        walk.enter((directory.handle.as_fd(), directory.stat.id), "", 0)?;
        Ok(walk.walked)
    }

    /// `false`: enough.
    fn enter(
        &mut self,
        (directory, id): (BorrowedFd<'_>, FileId),
        above: &str,
        depth: usize,
    ) -> Result<bool, FileError> {
        self.volume.labels.join_of(RowId::names(id), self.seen);
        let before = self.ignores.len();
        if !self.options.no_ignore {
            self.read_ignores(directory, above);
        }
        let mut names: Vec<OsString> = dirs::names(&self.volume.root, directory)?;
        names.sort_unstable();
        for name in &names {
            if !self.entry(directory, name, above, depth)? {
                return Ok(false);
            }
        }
        self.ignores.truncate(before);
        Ok(true)
    }

    fn entry(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        above: &str,
        depth: usize,
    ) -> Result<bool, FileError> {
        if self.walked.files >= self.options.budget.files {
            self.walked.why = Some("it looked at as many files as it may");
            return Ok(false);
        }
        self.entries += 1;
        if self.entries % 16 == 1 && Instant::now() >= self.options.budget.until {
            self.walked.why = Some("its time was over");
            return Ok(false);
        }
        let Some(text) = name.to_str().filter(|_| !is_own(name.as_encoded_bytes())) else {
            return Ok(true);
        };
        let Ok(Some((handle, stat))) = self.volume.root.look(directory, name) else {
            return Ok(true);
        };
        let path = format!("{above}{text}");
        let is_directory = stat.is_directory();
        if is_directory && text == NEVER {
            return Ok(true);
        }
        if self.is_ignored(&path, is_directory) {
            self.walked.skipped.ignored += 1;
            return Ok(true);
        }
        match stat.kind {
            Kind::Directory => {
                if !self.may_rise(&stat) {
                    return Ok(true);
                }
                self.volume.labels.join_of(RowId::own(stat.id), self.seen);
                // What is in it is asked for by itself.
                if self.may(&path) && !self.call(directory, name, &path, stat)? {
                    return Ok(false);
                }
                if depth >= MAX_DEPTH {
                    self.walked.why = Some("it went as deep as it may");
                    return Ok(true);
                }
                self.enter((handle.as_fd(), stat.id), &format!("{path}/"), depth + 1)
            }
            Kind::File => self.one(directory, name, &path, stat),
            Kind::Link | Kind::Special(_) => Ok(true),
        }
    }

    fn one(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        path: &str,
        stat: Stat,
    ) -> Result<bool, FileError> {
        if !self.may(path) {
            return Ok(true);
        }
        if !self.may_rise(&stat) {
            return Ok(true);
        }
        self.walked.files += 1;
        self.call(directory, name, path, stat)
    }

    fn call(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        path: &str,
        stat: Stat,
    ) -> Result<bool, FileError> {
        let visit = Visit {
            volume: self.volume,
            directory,
            name,
            path,
            stat,
        };
        Ok(
            match (self.visit)(&visit, &mut self.walked.skipped, self.seen)? {
                Go::On => true,
                Go::Stop(why) => {
                    self.walked.why = Some(why);
                    false
                }
            },
        )
    }

    /// Whether the caller may use a place; one that it may not is counted.
    fn may(&mut self, path: &str) -> bool {
        let names = self
            .base
            .iter()
            .cloned()
            .chain(path.split('/').map(str::to_owned));
        let may = (self.access.may)(&VolumePath::of_found(names.collect()));
        self.walked.skipped.denied += u64::from(!may);
        may
    }

    fn may_rise(&mut self, stat: &Stat) -> bool {
        let labels = &self.volume.labels;
        let mut label = labels.of(stat.id);
        if stat.is_directory() {
            labels.join_of(RowId::names(stat.id), &mut label);
        }
        let would = self.options.no_rise && !self.access.label.includes(&label);
        self.walked.skipped.label += u64::from(would);
        !would
    }

    fn read_ignores(&mut self, directory: BorrowedFd<'_>, above: &str) {
        let root = &self.volume.root;
        let name = OsStr::new(".gitignore");
        let Ok(Some((_, stat))) = root.look(directory, name) else {
            return;
        };
        if stat.kind != Kind::File || !self.may_rise(&stat) {
            return;
        }
        // Before it is read too: whoever replaces it meanwhile may end its label.
        let label = self.volume.labels.of(stat.id);
        let Ok(Some(opened)) = root.reopen(directory, name, &stat) else {
            return;
        };
        let Ok(content) = read_at(&opened.file, 0, MAX_IGNORE) else {
            return;
        };
        // What it says decides what is shown.
        self.seen.join_in(&label);
        self.volume
            .labels
            .join_of(RowId::own(opened.stat.id), self.seen);
        let mut builder = GitignoreBuilder::new(above.trim_end_matches('/'));
        let content = String::from_utf8_lossy(&content);
        for line in content.lines().filter(|line| is_tame(line)) {
            let _what_is_no_pattern_matches_nothing = builder.add_line(None, line);
        }
        if let Ok(built) = builder.build() {
            self.ignores.push(built);
        }
    }

    /// The nearest list that says anything decides.
    fn is_ignored(&self, path: &str, is_directory: bool) -> bool {
        let said = self.ignores.iter().rev().find_map(|ignores| {
            match ignores.matched(path, is_directory) {
                Match::None => None,
                Match::Ignore(_) => Some(true),
                Match::Whitelist(_) => Some(false),
            }
        });
        said.unwrap_or(false)
    }
}
