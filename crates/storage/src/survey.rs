//! A look at everything beneath a directory before it is moved or deleted as a whole.
//!
//! **Invariant: a directory goes nowhere with a place in it that the caller may not use.** Test
//! `a_directory_with_a_denied_place_in_it_is_neither_moved_nor_deleted`.

use std::os::fd::{AsFd, BorrowedFd};

use vocab::Label;

use crate::{
    ErrorKind, FileError, RowId, Stat, Volume, VolumePath,
    dirs::{self, MAX_DEPTH},
    path::is_own,
};

/// The most that is looked at. Whoever has more takes it in parts.
const MOST: u64 = 1_000_000;

pub(crate) struct Survey<'a> {
    volume: &'a Volume,
    path: &'a VolumePath,
    /// Whether a place, as names from the directory on, is one that the caller may use.
    may: &'a dyn Fn(&[String]) -> bool,
    /// What a reason tells of: the names in every directory.
    told: Label,
    at: Vec<String>,
    entries: u64,
    deepest: usize,
}

impl<'a> Survey<'a> {
    /// How many names deep it goes. A reason brings the labels of the names it rests on.
    pub(crate) fn run(
        volume: &'a Volume,
        path: &'a VolumePath,
        (directory, stat): (BorrowedFd<'_>, &Stat),
        may: &'a dyn Fn(&[String]) -> bool,
        seen: &mut Label,
    ) -> Result<usize, FileError> {
        let mut survey = Self {
            volume,
            path,
            may,
            told: Label::default(),
            at: Vec::new(),
            entries: 0,
            deepest: 0,
        };
        let done = survey.enter(directory, stat);
        if done.is_err() {
            seen.join_in(&survey.told);
        }
        done.map(|()| survey.deepest)
    }

    fn enter(&mut self, directory: BorrowedFd<'_>, stat: &Stat) -> Result<(), FileError> {
        let volume = self.volume;
        volume.labels.join_of(RowId::names(stat.id), &mut self.told);
        for name in dirs::names(&volume.root, directory)? {
            if is_own(name.as_encoded_bytes()) {
                continue;
            }
            self.entries += 1;
            if self.entries > MOST {
                let says = format!("there is more in `{}` than goes at once", self.path);
                return Err(FileError::new(ErrorKind::TooLarge, says));
            }
            self.at.push(name.to_string_lossy().into_owned());
            self.deepest = self.deepest.max(self.at.len());
            if !(self.may)(&self.at) {
                let says = format!("a place in `{}` is not allowed", self.path);
                return Err(FileError::new(ErrorKind::NotAllowed, says));
            }
            // No path leads deeper than this, so nobody has a rule for what is there.
            if self.at.len() < MAX_DEPTH
                && let Ok(Some((handle, stat))) = volume.root.look(directory, &name)
                && stat.is_directory()
            {
                self.enter(handle.as_fd(), &stat)?;
            }
            self.at.pop();
        }
        Ok(())
    }
}

/// A place beneath another.
pub(crate) fn beneath(base: &VolumePath, names: &[String]) -> VolumePath {
    VolumePath::of_found(base.names().iter().chain(names).cloned().collect())
}
